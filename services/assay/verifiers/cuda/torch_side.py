"""A side of `cuda.run` on a GPU: a model of KernelBench, with torch.

Loaded as text by `trial_harness.py`, in a process of its own. The reference's side also compares:
in float64, with the shape and type of its own outputs, and with what a do-nothing answer would be.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import torch


class Side:
    """The candidate (`ModelNew`) or the reference (`Model`)."""

    def __init__(self, name: str, order: dict[str, Any], files: list[int]) -> None:
        self.name = name
        self.order = order
        self.files = files
        self.runs = len(files) if name == "candidate" else len(files) // 2
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def load(self, seed: int) -> None:
        """Import the problem, and the candidate's program, which builds its extension."""
        os.environ.setdefault("TORCH_EXTENSIONS_DIR", "/tmp/extensions")
        self.problem = _module("problem", self.order["problem"])
        is_candidate = self.name == "candidate"
        program = _module("program", self.order["candidate"]) if is_candidate else self.problem
        made = program.ModelNew if is_candidate else self.problem.Model
        torch.set_default_device("cuda")
        torch.manual_seed(seed)
        initial = self.problem.get_init_inputs()
        torch.manual_seed(seed)
        self.model = made(*initial).cuda()

    def prepare(self, seed: int) -> None:
        """Make inputs, which nothing has seen before."""
        self.outputs = []
        torch.manual_seed(seed)
        self.inputs = [_on_device(one) for one in self.problem.get_inputs()]
        torch.cuda.synchronize()

    def call(self) -> None:
        """Compute; nothing is left on any stream."""
        with torch.no_grad():
            self.outputs = _listed(self.model(*self.inputs))
        torch.cuda.synchronize()

    def give(self, number: int) -> dict[str, Any]:
        """Write the outputs' bytes one behind the other; say their types and shapes."""
        described = []
        with os.fdopen(os.dup(self.files[number]), "wb") as file:
            for one in self.outputs:
                if type(one) is not torch.Tensor:
                    message = f"an output is {type(one).__name__}, no torch.Tensor"
                    raise TypeError(message)
                host = one.detach().contiguous().cpu()
                file.write(host.view(torch.uint8).numpy().data if host.numel() else b"")
                described.append([str(one.dtype), list(one.shape)])
        return {"outputs": described}

    def compare(
        self, number: int, outputs: object, absolute: float, relative: float
    ) -> dict[str, Any]:
        """Whether the candidate's outputs of a trial are those that this side has just given."""
        wanted = self.outputs
        said = [[str(one.dtype), list(one.shape)] for one in wanted]
        trivial = all(_close(torch.zeros_like(one), one, absolute, relative)[0] for one in wanted)
        if outputs != said:
            return {"equal": False, "error": f"outputs {outputs}, not {said}", "trivial": trivial}
        at, worst = 0, 0.0
        with open(f"/proc/self/fd/{self.files[self.runs + number]}", "rb") as file:
            for one in wanted:
                data = bytearray(file.read(one.numel() * one.element_size()))
                if len(data) != one.numel() * one.element_size():
                    return {"equal": False, "error": f"output {at} is cut off", "trivial": trivial}
                given = torch.frombuffer(data, dtype=torch.uint8, device="cpu") if data else None
                if given is not None:
                    tensor = given.view(one.dtype).reshape(one.shape).to(one.device)
                    close, error = _close(tensor, one, absolute, relative)
                    worst = max(worst, error)
                    if not close:
                        message = f"output {at} differs by {error:.3g}"
                        return {"equal": False, "error": message, "trivial": trivial}
                at += 1
        return {"equal": True, "error": f"{worst:.3g}", "trivial": trivial}


def _close(given: Any, wanted: Any, absolute: float, relative: float) -> tuple[bool, float]:
    a, b = given.to(torch.float64), wanted.to(torch.float64)
    close = bool(torch.isclose(a, b, rtol=relative, atol=absolute, equal_nan=True).all())
    error = float((a - b).abs().nan_to_num(nan=float("inf")).max()) if a.numel() else 0.0
    return close, error


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _on_device(value: Any) -> Any:
    return value.cuda() if isinstance(value, torch.Tensor) else value


def _module(name: str, text: str) -> Any:
    """A module of a text, from a file: Triton reads the sources of its kernels."""
    path = f"/tmp/{name}.py"
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(text, path, "exec"), module.__dict__)
    return module
