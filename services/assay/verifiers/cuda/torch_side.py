"""A side of `cuda.run`: a model of KernelBench, with torch, on the device of the order.

Loaded as text by `trial_harness.py`, in a process of its own. The reference's side also compares:
in float64, with the shape and type of its own outputs, and with what a do-nothing answer would be.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import numpy
import torch


class Side:
    """The candidate (`ModelNew`) or the reference (`Model`)."""

    def __init__(self, name: str, order: dict[str, Any], files: list[int]) -> None:
        self.name = name
        self.order = order
        self.files = files
        self.device = order["device"]
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
        torch.set_default_device(self.device)
        torch.manual_seed(seed)
        initial = self.problem.get_init_inputs()
        torch.manual_seed(seed)
        self.model = made(*initial).to(self.device)

    def prepare(self, seed: int) -> None:
        """Make inputs, which nothing has seen before."""
        self.outputs = []
        torch.manual_seed(seed)
        self.inputs = [self._on_device(one) for one in self.problem.get_inputs()]
        self._synchronize()

    def call(self) -> None:
        """Compute; nothing is left on any stream."""
        with torch.no_grad():
            self.outputs = _listed(self.model(*self.inputs))
        self._synchronize()

    def _synchronize(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def _on_device(self, value: Any) -> Any:
        return value.to(self.device) if isinstance(value, torch.Tensor) else value

    def give(self, number: int) -> dict[str, Any]:
        """Write the outputs' bytes one behind the other; say their types and shapes."""
        described = []
        with os.fdopen(os.dup(self.files[number]), "wb") as file:
            for one in self.outputs:
                if type(one) is not torch.Tensor:
                    message = f"an output is {type(one).__name__}, no torch.Tensor"
                    raise TypeError(message)
                # Flat: a number alone has no dimension that could be one of bytes.
                host = one.detach().resolve_conj().resolve_neg().cpu().reshape(-1).contiguous()
                file.write(host.view(torch.uint8).numpy().data if host.numel() else b"")
                described.append([str(one.dtype), list(one.shape)])
        return {"outputs": described}

    def compare(
        self, number: int, outputs: object, absolute: float, relative: float
    ) -> dict[str, Any]:
        """Whether the candidate's outputs of a trial are those that this side has just given."""
        wanted = self.outputs
        os.close(self.files[number])
        said = [[str(one.dtype), list(one.shape)] for one in wanted]
        trivial = all(_is_trivial(one, absolute, relative) for one in wanted)
        if outputs != said:
            return {"equal": False, "error": f"outputs {outputs}, not {said}", "trivial": trivial}
        at, worst = 0, 0.0
        with open(f"/proc/self/fd/{self.files[self.runs + number]}", "rb") as file:
            for one in wanted:
                data = bytearray(file.read(one.numel() * one.element_size()))
                if len(data) != one.numel() * one.element_size():
                    return {"equal": False, "error": f"output {at} is cut off", "trivial": trivial}
                # Not torch.frombuffer, which fails under a default device.
                given = torch.from_numpy(numpy.frombuffer(data, dtype=numpy.uint8))
                tensor = given.view(one.dtype).reshape(one.shape).to(one.device)
                close, error = _close(tensor, one, absolute, relative)
                worst = max(worst, error)
                if not close:
                    message = f"output {at} differs by {error:.3g}"
                    return {"equal": False, "error": message, "trivial": trivial}
                at += 1
        return {"equal": True, "error": f"{worst:.3g}", "trivial": trivial}


def _close(given: Any, wanted: Any, absolute: float, relative: float) -> tuple[bool, float]:
    """Whether all values are close, and the largest difference; of integers, whether they are
    equal: 50,000 is not nearly the index 50,001."""
    if wanted.numel() == 0:
        return True, 0.0
    if not (wanted.is_floating_point() or wanted.is_complex()):
        differ = given != wanted
        return not bool(differ.any()), float(differ.any())
    wide = torch.complex128 if wanted.is_complex() else torch.float64
    a, b = given.to(wide), wanted.to(wide)
    close = torch.isclose(a, b, rtol=relative, atol=absolute, equal_nan=True)
    same = (a == b) | (a.isnan() & b.isnan())
    error = torch.where(same, 0.0, (a - b).abs()).nan_to_num(nan=float("inf"))
    return bool(close.all()), float(error.max())


def _is_trivial(wanted: Any, absolute: float, relative: float) -> bool:
    """Zeros would pass, or there is no finite value that could be wrong."""
    if _close(torch.zeros_like(wanted), wanted, absolute, relative)[0]:
        return True
    return not bool(wanted.isfinite().any())


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


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
