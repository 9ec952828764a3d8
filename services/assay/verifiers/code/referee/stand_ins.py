"""The tests' functions, iterators and objects as the program sees them.

Each holds a number. Every operation is a request to the referee, which decides whether to allow it.
They live in the candidate's process and nothing trusts them.
"""

from __future__ import annotations

import io
import os
import random
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

Value = Any


class StandIn:
    """An object of the tests, with the public attributes of its class."""

    def __init__(self, touch: Value, number: int, name: str) -> None:
        self.__dict__.update(_touch=touch, _number=number, __name__=name)

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._touch(self._number, "get", [name])

    def __setattr__(self, name: str, value: Value) -> None:
        self._touch(self._number, "set", [name, value])

    def __eq__(self, other: object) -> Value:
        return self is other or self._touch(self._number, "operator", ["eq", other])

    def __hash__(self) -> int:
        return hash(self._touch(self._number, "hash", []))

    def __enter__(self) -> Value:
        self._touch(self._number, "enter", [])
        return self

    def __exit__(self, *_error: object) -> None:
        self._touch(self._number, "exit", [])


class CallableStandIn(StandIn):
    """A function or a callable object of the tests."""

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        return self._touch(self._number, "call", [arguments, keywords])


class IteratorStandIn(StandIn):
    """An iterator of the tests; it advances only as far as the program asks."""

    def __iter__(self) -> Value:
        return self

    def __next__(self) -> Value:
        return self._touch(self._number, "next", [])


class Printed(io.TextIOBase):
    """Standard output of the program while the tests capture theirs."""

    def __init__(self, send: Callable[[str], None]) -> None:
        super().__init__()
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Pass the text on."""
        self._send(text)
        return len(text)


def _asking(operation: str) -> Callable[..., Value]:
    def method(self: StandIn, *operands: Value) -> Value:
        return self._touch(self._number, operation, list(operands))

    return method


def _operator(name: str) -> Callable[..., Value]:
    def method(self: StandIn, other: Value) -> Value:
        return self._touch(self._number, "operator", [name, other])

    return method


SPECIAL: Final[dict[str, Callable[..., Value]]] = {
    **{
        f"__{name}__": _asking(name)
        for name in ("len", "iter", "next", "getitem", "setitem", "delitem", "contains", "bool")
    },
    **{f"__{name}__": _asking(name) for name in ("str", "repr", "int", "float", "index")},
    **{
        f"__{name}__": _operator(name)
        for name in ("lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "mod")
    },
}
"""Methods that a stand-in has if the class of its object defines them."""


REPLACED: Final[dict[str, tuple[str, ...]]] = {
    "builtins": ("input", "print"),
    "time": ("sleep", "time"),
    "random": ("random", "randint", "choice", "uniform", "randrange", "shuffle", "sample"),
}
"""Functions of the library that the program uses as the tests have patched them."""


def follow(news: list[Any]) -> None:
    """Do in the program's process what the tests did in theirs (`lent.Surroundings`)."""
    for kind, *what in news:
        if kind == "env":
            name, value = what
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        elif kind == "argv":
            sys.argv[:] = what[0]
        elif kind == "cwd":
            os.chdir(what[0])
        else:
            version, numbers, gauss = what
            random.setstate((version, tuple(numbers), gauss))


def stand_in(touch: Value, form: list[Any]) -> StandIn:
    """Create one from `["k" | "o" | "I", number, name, names of special methods]`."""
    tag, number, name, special = form
    base: type[StandIn] = {"k": CallableStandIn, "I": IteratorStandIn}.get(tag, StandIn)
    methods = {method: SPECIAL[method] for method in special}
    made: StandIn = type(name, (base,), methods)(touch, number, name)
    return made
