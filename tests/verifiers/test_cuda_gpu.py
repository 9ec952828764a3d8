"""`cuda` on a GPU (`pytest -m gpu tests/verifiers/test_cuda_gpu.py`), with torch and nvcc."""

import ctypes
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.verifiers.cuda_kernels import solution

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.outcome import Outcome
from assay.core.verdict import Ended, HandedOver
from assay.verifiers.cuda.compile_stage import CompileHandler
from assay.verifiers.cuda.definition import CudaReference, CudaSettings
from assay.verifiers.cuda.gpus import find_gpus
from assay.verifiers.cuda.run_stage import RunHandler
from assay.verifiers.port import HandlerContext, Work

DATA = Path("../shared/data/kernelbench").resolve()
SETTINGS = CudaSettings(own_kernel=False, trials=5)


def missing() -> str:
    """What keeps these tests from running here; empty: nothing."""
    try:
        ctypes.CDLL("libcuda.so.1")
        find_gpus()
    except Exception as error:  # noqa: BLE001 - whatever it is, there is no GPU
        return f"no GPU: {error}"
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if shutil.which("nvcc") is None or shutil.which("ninja") is None:
        return "nvcc or ninja is not installed"
    return "" if DATA.is_dir() else "the data of KernelBench is not here"


WHY = missing()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(WHY), reason=WHY)]
ADD = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(2048, 2048)]
def get_init_inputs():
    return []
"""
HOST = """#include <torch/extension.h>
torch::Tensor host(torch::Tensor x) {
    auto out = torch::empty_like(x);
    kernel<<<x.numel() / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>());
    return out;
}
"""


@pytest.fixture(scope="module")
def handlers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[CompileHandler | RunHandler]]:
    context = HandlerContext(
        artifacts=None,  # type: ignore[arg-type]
        sandbox=SandboxSettings(),
        verifiers=VerifierSettings(),
        scratch=tmp_path_factory.mktemp("scratch"),
    )
    made: list[CompileHandler | RunHandler] = [CompileHandler(context), RunHandler(context)]
    yield made
    for one in made:
        one.close()


def judged(handlers: list[CompileHandler | RunHandler], response: str, problem: str) -> Ended:
    work = Work(response=response, reference=CudaReference(problem=problem), settings=SETTINGS)
    for handler in handlers:
        (verdict,) = handler.run([work])
        if isinstance(verdict, Ended):
            return verdict
        assert isinstance(verdict, HandedOver)
    raise AssertionError("the last stage ends a request")


def kernel(body: str) -> str:
    text = f"__global__ void kernel(const float* x, float* y) {{ {body} }}\n"
    return solution(text + HOST)


def test_a_right_kernel_earns_its_speed_up(handlers: list[CompileHandler | RunHandler]) -> None:
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] + 1;"
    ended = judged(handlers, kernel(body), ADD)
    assert ended.evidence.verdict == "pass", ended.evidence
    assert ended.reward is not None
    print(f"a right kernel: speed-up {ended.reward:.2f}")
    assert 0.2 < ended.reward < 5


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("y[blockIdx.x * blockDim.x + threadIdx.x] = 0;", "wrong_answer"),
        ("if (threadIdx.x == 99999) y[0] = 0;", "wrong_answer"),
        ("y[(1ll << 40) + threadIdx.x] = x[0];", "runtime_error"),
        ("volatile int go = 1; while (go) {} y[0] = x[0];", "gpu_time_limit"),
    ],
)
def test_a_wrong_kernel_earns_nothing_and_leaves_the_gpu_free(
    handlers: list[CompileHandler | RunHandler], body: str, verdict: str
) -> None:
    ended = judged(handlers, kernel(body), ADD)
    assert (ended.reward, ended.evidence.verdict) == (0.0, verdict), ended.evidence
    test_a_right_kernel_earns_its_speed_up(handlers)


@pytest.mark.parametrize("name", ["result_reuse", "zero_out"])
def test_adversarial_kernels_of_kernelbench_are_wrong(
    handlers: list[CompileHandler | RunHandler], name: str
) -> None:
    response = (DATA / "adversarial_kernels" / f"{name}_kernel.py").read_text("utf-8")
    ended = judged(handlers, response, _product())
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "wrong_answer"


def test_work_on_another_stream_is_timed(handlers: list[CompileHandler | RunHandler]) -> None:
    response = (DATA / "adversarial_kernels" / "non_default_stream_kernel.py").read_text("utf-8")
    ended = judged(handlers, response, _product())
    assert ended.evidence.verdict == "pass", ended.evidence
    assert ended.reward is not None
    print(f"all work on another stream: speed-up {ended.reward:.2f}")
    assert ended.reward < 2.0, "cuBLAS is as fast on one stream as on another"


def _product() -> str:
    return (DATA / "problems/level1/1_Square_matrix_multiplication_.py").read_text("utf-8")
