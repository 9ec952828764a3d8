"""Errors are values: they cross processes whole, whatever their constructors take."""

import builtins
import copy
import importlib
import inspect
import pickle
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from assay.core.errors import AssayError

MODULES = ("assay.client", "assay.planner.kubernetes.api", "assay.rollout.errors.cuda",
           "assay.rollout.models.engine", "assay.store.valkey")  # fmt: skip


def _all_below(error: type[AssayError]) -> Iterator[type[AssayError]]:
    yield error
    for each in error.__subclasses__():
        yield from _all_below(each)


def _errors() -> list[type[AssayError]]:
    for name in MODULES:
        importlib.import_module(name)
    return sorted(set(_all_below(AssayError)), key=lambda each: (each.__module__, each.__name__))


def _value(error: type[AssayError], kind: Any, name: str) -> Any:
    if isinstance(kind, str):  # of a module with `from __future__ import annotations`
        owner = next(each for each in error.__mro__ if "__init__" in vars(each))
        kind = {**vars(builtins), **vars(importlib.import_module(owner.__module__))}.get(kind)
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return next(iter(kind))
    return {str: f"a {name}", int: 7, float: 0.5, None: (1, 2)}[kind]


def _made(error: type[AssayError]) -> AssayError:
    """Return an error with a value for each thing that its constructor takes."""
    parameters = inspect.signature(error).parameters.values()
    return error(**{each.name: _value(error, each.annotation, each.name) for each in parameters})


@pytest.mark.parametrize("error", _errors(), ids=lambda each: each.__name__)
def test_an_error_is_pickled_and_copied_whole(error: type[AssayError]) -> None:
    made = _made(error)
    made.add_note("seen in a worker")
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert type(again) is error
        assert (str(again), again.args, vars(again)) == (str(made), made.args, vars(made))


def test_the_errors_with_constructors_of_their_own_are_among_them() -> None:
    own = [each.__name__ for each in _errors() if "__init__" in vars(each)]
    assert {"WorkerCrashed", "EngineSaturated", "KernelRejected", "EngineError"} <= set(own)
