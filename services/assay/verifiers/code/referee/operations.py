"""Operations on the candidate's objects that the referee can request; it trusts none of them."""

from __future__ import annotations

import copy
import datetime
import inspect
import math
import operator
from collections import UserDict, UserList, UserString, deque
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee.values import Value, type_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

CONTAINERS: Final = (list, dict, set, deque)
_WRAPPERS: Final = (UserList, UserDict, UserString)
"""They hold data of a builtin type in `data`."""
DATACLASS_FUNCTIONS: Final = ("asdict", "astuple", "replace")
"""What `dataclasses` does with an object of the program is done in the program's process."""
_LOOPS: Final[list[asyncio.AbstractEventLoop]] = []
"""The one event loop, once created: tasks left by one coroutine continue with the next."""
_BY_TYPE: Final = {
    CoroutineType: "coroutine",
    GeneratorType: "generator",
    AsyncGeneratorType: "async_generator",
}


def kind_of(value: Value) -> str:
    """Operations that the tests can perform on an object of the program."""
    if isinstance(value, type):
        return "exception" if issubclass(value, BaseException) else "callable"
    if type_of(value).__module__ == "solution" and issubclass(
        type_of(value), CONTAINERS + _WRAPPERS
    ):
        return "data"
    if inspect.isroutine(value):
        return "callable"
    if type_of(value) in _BY_TYPE:
        return _BY_TYPE[type_of(value)]
    if callable(value):
        return "caller" if type_of(value).__module__ == "solution" else "callable"
    if hasattr(type_of(value), "__next__"):
        return "iterator"
    return "awaitable" if hasattr(type_of(value), "__await__") else "object"


def _run(awaitable: Value) -> object:
    import asyncio  # few programs need it, and it loads slowly

    if not _LOOPS:
        _LOOPS.append(asyncio.new_event_loop())

    async def main() -> object:
        return await awaitable

    try:
        return _LOOPS[0].run_until_complete(main())
    except StopAsyncIteration:
        raise
    except RuntimeError as error:
        if isinstance(error.__cause__, StopAsyncIteration):
            raise error.__cause__ from None  # a coroutine may not propagate it
        raise


def _equal(one: Value, other: Value) -> bool:
    """Equality as the program's classes define it, except that matching everything is False, and so
    is matching every object of the same class."""
    if not bool(one == other):
        return False
    strangers = (_anything, _Stranger, _of_other_contents)
    return not any(_matches(one, stranger) for stranger in strangers)


def _matches(one: Value, stranger: Callable[[Value], Value]) -> bool:
    try:
        return bool(one == stranger(one))
    except Exception:  # noqa: BLE001 - a comparison may raise for operands of another type
        return False


def _anything(_one: Value) -> Value:
    return object()


class _Stranger:
    """An object of a class that no program knows."""

    def __init__(self, _one: Value) -> None:
        """It has nothing of the other."""


def _of_other_contents(one: Value) -> Value:
    """An object of the same class, each attribute of which equals nothing else.

    Raises:
        TypeError: it has no attributes, or its class makes objects in a way of its own.
    """
    made = object.__new__(type_of(one))
    slots = getattr(type_of(one), "__slots__", ())
    names = [*getattr(one, "__dict__", ()), *([slots] if isinstance(slots, str) else slots)]
    if not names:
        raise TypeError("no attributes")
    for name in names:
        object.__setattr__(made, name, object())
    return made


NODES_MAX: Final = 100_000


def linked(kind: type, items: list[Value], *, is_tree: bool) -> Value:
    """Make linked nodes of the class `kind`; see `values.Linked`."""
    nodes: list[Value] = [None if item is None and is_tree else kind(item) for item in items]
    if not is_tree:
        for node, following in pairwise(nodes):
            node.next = following
        return nodes[0] if nodes else None
    children = iter(nodes[1:])
    for node in nodes:
        if node is not None:
            node.left, node.right = next(children, None), next(children, None)
    return nodes[0] if nodes else None


def _listed(target: Value, kind: str) -> list[Value]:
    """The values of linked nodes; raises `ValueError` for a circle."""
    found: list[Value] = []
    waiting = [target]
    for node in waiting:
        if len(found) > NODES_MAX:
            message = f"more than {NODES_MAX} linked nodes"
            raise ValueError(message)
        if node is None and kind == "ListNode":
            break
        found.append(None if node is None else node.val)
        if node is not None:
            waiting += [node.next] if kind == "ListNode" else [node.left, node.right]
    return found


def _plain(target: Value) -> Value:
    """What an object of a class that is derived from a type of data holds."""
    if isinstance(target, _WRAPPERS):
        return target.data
    base: Any = next(base for base in CONTAINERS if issubclass(type_of(target), base))
    return dict(dict.items(target)) if base is dict else base(base.__iter__(target))


def _vars(target: Value) -> Value:
    """The attributes of an object, a function or a class of the program; a module has too many."""
    kind = target if isinstance(target, type) else type_of(target)
    if kind.__module__ != "solution" and not inspect.isfunction(target):
        raise AttributeError("__dict__")
    return vars(target)


def _signature(target: Value) -> Value:
    """Return annotation, and name, kind, default and annotation of each parameter; optional parts
    are lists of at most one. `None` if it has no signature."""
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    parameters = [
        (
            one.name,
            int(one.kind),
            [] if one.default is empty else [one.default],
            [] if one.annotation is empty else [one.annotation],
        )
        for one in found.parameters.values()
    ]
    return [] if found.return_annotation is empty else [found.return_annotation], parameters


def _in_dataclasses(name: str) -> Callable[..., object]:
    import dataclasses  # few programs need it

    found: Callable[..., object] = getattr(dataclasses, name)
    return found


def _exit(target: Value, error: BaseException | None) -> bool:
    kind = None if error is None else type_of(error)
    trace = None if error is None else error.__traceback__
    return bool(target.__exit__(kind, error, trace))


def _async_exit(target: Value, error: BaseException | None) -> bool:
    kind = None if error is None else type_of(error)
    return bool(_run(target.__aexit__(kind, error, None)))


def _throw(target: Value, error: BaseException) -> Value:
    return target.throw(error)


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **{
        name: getattr(operator, name)
        for name in (
            *("lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "matmul"),
            *("and_", "or_", "xor", "pow", "lshift", "rshift", "contains"),
            *("iadd", "isub", "imul", "itruediv", "ior", "iand"),
        )
    },
    "divmod": divmod,
}
_UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: getattr(operator, name) for name in ("neg", "pos", "invert", "truth")},
    **{kind.__name__: kind for kind in (len, str, repr, iter, next, hash, abs, bytes, complex)},
    **{function.__name__: function for function in (reversed, math.floor, math.ceil, math.trunc)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "bool": bool,
    "int": int,
    "float": float,
    "index": lambda target: int(operator.index(target)),
    "enter": lambda target: target.__enter__(),
    "async_enter": lambda target: _run(target.__aenter__()),
    "async_iter": lambda target: target.__aiter__(),
    "async_next": lambda target: _run(target.__anext__()),
    "async_close": lambda target: _run(target.aclose()),
    "close": lambda target: target.close(),
    "await": _run,
}
OPERATIONS: Final[dict[str, Callable[..., object]]] = {
    **{name: (lambda _self, target, do=function: do(target)) for name, function in _UNARY.items()},
    "lookup": lambda self, name: self.lookup(name),
    "names": lambda self: self.names(),
    "assign": lambda self, name, value: self.assign(name, value),
    "unassign": lambda self, name: self.unassign(name),
    "vars": lambda _self, target: _vars(target),
    "plain": lambda _self, target: _plain(target),
    "signature": lambda _self, target: _signature(target),
    **{
        name: lambda _self, target, keywords, do=name: _in_dataclasses(do)(target, **keywords)
        for name in DATACLASS_FUNCTIONS
    },
    "call": lambda _self, function, arguments, keywords: function(*arguments, **keywords),
    "call_method": lambda _self, function, arguments, keywords: function(*arguments, **keywords),
    "make": lambda _self, function, arguments, keywords: function(*arguments, **keywords),
    "get": lambda _self, target, name: getattr(target, name),
    "set": lambda _self, target, name, value: setattr(target, name, value),
    "delete": lambda _self, target, name: delattr(target, name),
    "names_of": lambda _self, target: sorted(map(str, dir(target))),
    "item": lambda _self, target, key: target[key],
    "set_item": lambda _self, target, key, value: target.__setitem__(key, value),
    "delete_item": lambda _self, target, key: target.__delitem__(key),
    "exit": lambda _self, target, error: _exit(target, error),
    "async_exit": lambda _self, target, error: _async_exit(target, error),
    "send": lambda _self, target, value: target.send(value),
    "throw": lambda _self, target, error: _throw(target, error),
    "async_send": lambda _self, target, value: _run(target.asend(value)),
    "async_throw": lambda _self, target, error: _run(target.athrow(error)),
    "is": lambda _self, target, kind: isinstance(target, kind),
    "is_subclass": lambda _self, target, kind: issubclass(target, kind),
    "listed": lambda _self, target, kind: _listed(target, kind),
    "equal": lambda _self, one, other: _equal(one, other),
    "operator": lambda _self, name, one, other: _OPERATORS[name](one, other),
    "format": lambda _self, target, form: format(target, form),
    "round": lambda _self, target, digits: round(target, digits),
}

_LOOKS: Final = frozenset(
    {"len", "iter", "next", "get", "bool", "str", "repr", "hash", "is", "equal", "lookup", "vars"}
)
"""Requests that change nothing, as honest classes go."""


class Lengths:
    """What the program's objects say about their lengths, in the tests' process.

    The program answers each question about an object by itself, so an object could be three items
    long for one assertion and empty for the next. Invariant: as long as the tests only look, an
    object has one length, and yields that many items. One that loses what it yields, as a queue
    does, may say what is left.
    """

    def __init__(self) -> None:
        """None told yet."""
        self._told: dict[int, int | None] = {}
        self._yielded: dict[int, int] = {}

    def asked(self, operation: str) -> None:
        """The tests make a request."""
        if operation not in _LOOKS:
            self._told.clear()
            self._yielded.clear()

    def yielded(self, number: int) -> None:
        """An iterator of the object has returned one more item."""
        self._yielded[number] = self._yielded.get(number, 0) + 1

    def told(self, number: int, length: int | None) -> None:
        """The object says this; `None`: it has no length.

        Raises:
            AssertionError: it said something else.
        """
        known = self._told.setdefault(number, length)
        if length not in (known, self.left(number)):
            message = f"the object reports a length of {known}, then of {length}"
            raise AssertionError(message)

    def known(self, number: int) -> int | None:
        """The length that it has told."""
        return self._told.get(number)

    def left(self, number: int) -> int | None:
        """That length without what it has yielded."""
        known = self._told.get(number)
        return None if known is None else known - self._yielded.get(number, 0)


def counted(container: Value, found: Iterator[Any], said: int | None) -> Iterator[Any]:
    """The items of a container. If it reports a length, it must yield that many items.

    Raises:
        AssertionError: the number of items is not its reported length; if something changed
            meanwhile, neither that before nor that after.
    """
    lengths = container._assay_link.lengths  # noqa: SLF001 - a proxy's own link
    count = 0
    number = container._assay_number  # noqa: SLF001 - as above
    for item in found:
        count += 1
        lengths.yielded(number)
        yield item
    is_known = lengths.known(number) is not None
    allowed = (said,) if is_known else (said, length_said(container))
    if said is not None and count not in allowed:
        message = f"the object has the length {said}, but yielded {count} items"
        raise AssertionError(message)


def length_said(container: Value) -> int | None:
    """The length; `None` if the object has none, or its class fails to return it.

    Raises:
        AssertionError: it said something else.
    """
    link = container._assay_link  # noqa: SLF001 - a proxy's own link
    try:
        length: int | None = int(link.ask_for(int, "len", container))
    except Exception:  # noqa: BLE001 - whatever its class raises
        length = None
    link.lengths.told(container._assay_number, length)  # noqa: SLF001 - as above
    return length


_DIFFERENCES: Final = frozenset({"sub", "isub", "xor", "ixor"})
_AMOUNTS: Final = (int, float, complex, Fraction, Decimal, datetime.date, datetime.timedelta)
_NOTHING_MAX: Final = 0.5
"""Tests for near equality allow less; a right class hardly ever has a difference of its own so
small from a value of the tests."""


def states(operation: str, operand: object) -> bool:
    """Whether an operator with this operand tells an object what it is to be.

    `assertAlmostEqual(abs(obj), 5)` computes `abs(obj) - 5`; any other operator with a value of the
    tests is a part of what they compute.
    """
    return operation in _DIFFERENCES and isinstance(operand, _AMOUNTS)


def is_nothing(difference: Value) -> bool:
    """Whether a difference is about zero."""
    if isinstance(difference, datetime.timedelta):
        return abs(difference.total_seconds()) < _NOTHING_MAX
    if not isinstance(difference, (int, float, complex, Fraction, Decimal)):
        return False
    size: Value = abs(difference)
    return bool(size < _NOTHING_MAX)
