"""A side of `cuda.run` without a GPU: models of arrays of floats, in the real box and protocol.

Loaded as text, as `torch_side.py` is. Standard library only, so that a box costs little.
"""

import array
import math
import mmap
import os
import random
import types
from collections.abc import Iterable
from typing import Any


class Side:
    """The candidate (`ModelNew`) or the reference (`Model`)."""

    def __init__(self, name: str, order: dict[str, Any], files: list[int]) -> None:
        self.name, self.order, self.files = name, order, files
        self.runs = len(files) if name == "candidate" else len(files) // 2
        self.outputs: list[array.array[float]] = []

    def load(self, seed: int) -> None:
        del seed
        self.problem = module("problem", self.order["problem"], self)
        made = self.problem.Model
        if self.name == "candidate":
            made = module("program", self.order["candidate"], self).ModelNew
        self.model = made(*self.problem.get_init_inputs())

    def prepare(self, seed: int) -> None:
        self.inputs = self.problem.get_inputs(random.Random(seed))
        if hasattr(self.model, "on_prepare"):
            self.model.on_prepare(*self.inputs)

    def call(self) -> None:
        self.outputs = [self.model.forward(*self.inputs)]

    def give(self, number: int) -> dict[str, Any]:
        if hasattr(self.model, "on_give"):
            self.model.on_give(self, number)
        with os.fdopen(os.dup(self.files[number]), "wb") as file:
            for one in self.outputs:
                file.write(one.tobytes())
        return {"outputs": [[one.typecode, [len(one)]] for one in self.outputs]}

    def compare(
        self, number: int, outputs: object, absolute: float, relative: float
    ) -> dict[str, Any]:
        def close(given: Iterable[float], wanted: Iterable[float]) -> bool:
            return all(
                math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
                for a, b in zip(given, wanted, strict=True)
            )

        os.close(self.files[number])
        said = [[one.typecode, [len(one)]] for one in self.outputs]
        trivial = all(close([0.0] * len(one), one) for one in self.outputs)
        if outputs != said:
            return {"equal": False, "error": f"outputs {outputs}, not {said}", "trivial": trivial}
        with open(f"/proc/self/fd/{self.files[self.runs + number]}", "rb") as file:
            for one in self.outputs:
                given = array.array(one.typecode, file.read(len(one) * one.itemsize))
                if len(given) != len(one) or not close(given, one):
                    return {"equal": False, "error": "an output differs", "trivial": trivial}
        return {"equal": True, "error": "", "trivial": trivial}


def module(name: str, text: str, side: Side) -> Any:
    made = types.ModuleType(name)
    made.__dict__.update(array=array.array, mmap=mmap.mmap, os=os, SIDE=side)
    exec(compile(text, name, "exec"), made.__dict__)
    return made
