"""The control of a build: a response that builds a small extension, and its reference.

A candidate that fails while it is loaded may have a wrong kernel, or be on a host whose compilers
do not work. Where this one fails too, it is the host: that is never a reward.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Control:
    """A program that every sound host loads and finds right."""

    program: str
    problem: str


_PROBLEM: Final = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(256, 256)]
def get_init_inputs():
    return []
"""
_PROGRAM: Final = """
import torch
from torch.utils.cpp_extension import load_inline
cuda = '''
#include <torch/extension.h>
__global__ void add_one(const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] + 1;
}
torch::Tensor host(torch::Tensor x) {
    auto out = torch::empty_like(x);
    add_one<<<x.numel() / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>());
    return out;
}
'''
built = load_inline("control", "torch::Tensor host(torch::Tensor x);", cuda, functions=["host"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.host(x)
"""
EXTENSION: Final = Control(program=_PROGRAM, problem=_PROBLEM)
