"""Values of the program's own classes and containers of its own, as the tests hold them.

A value of a class that is derived from a type of data is the data, with the names of its class. A
container that the tests read from an object of the program is one that both sides may change:
what one side changed is sent with the next message (`Shared`).
"""

from __future__ import annotations

import builtins
import copy
import json
import pathlib
from collections import Counter, OrderedDict, defaultdict, deque
from functools import lru_cache
from operator import is_
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay.verifiers.code.referee.proxies import Proxy
from assay.verifiers.code.referee.values import (
    Decoder,
    Encoder,
    Malformed,
    Record,
    Value,
    WireForm,
    index_of,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.verifiers.code.referee.proxies import Asked

_CLASSES_MAX: Final = 512
HANDLES_MAX: Final = 200_000
SHARED_MAX: Final = 64
SHARED_CHARS_MAX: Final = 64 * 1024
"""Bounds on shared containers: each message costs a look at all of them. The oldest go first."""
KEPT_CHARS_MAX: Final = 16 * 1024
"""A larger result is no shared container."""
_ALONE: Final = 2
"""References to an object of which there is one, and the one that asks."""
_FIXED: Final = frozenset({type(None), bool, int, float, str, bytes})
KEEPS_NONE, KEEPS_HELD, KEEPS_ALL = range(3)
"""Which containers of an answer become shared: none, those of the program's classes, or all."""


class Shared:
    """Containers that the program and the tests hold, in the order in which they came.

    Both sides add and drop the same ones, so that a position means the same on both.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[object, int]] = []
        self._told: dict[int, str | tuple[object, ...]] = {}
        """`id` -> the contents that both sides know: those of a list of atoms, or a text."""

    def unused(self) -> list[int]:
        """Positions of containers to which nothing else in this process refers, and which both
        sides know as they are: `s.items.append(1)` leaves one that only the program has."""
        return [
            at
            for at in range(len(self._entries))
            if getrefcount(self._entries[at][0]) <= _ALONE and self._is_told(self._entries[at][0])
        ]

    def drop(self, positions: Sequence[int]) -> None:
        """The tests hold these no longer."""
        for at in sorted(set(positions), reverse=True):
            value, _ = self._entries.pop(at)
            del self._told[id(value)]

    @property
    def containers(self) -> list[object]:
        """A copy of the list."""
        return [value for value, _ in self._entries]

    def add(self, found: Sequence[object], chars: int) -> None:
        """Add what an answer of this length contained."""
        for value in found:
            if id(value) not in self._told:
                self._entries.append((value, chars // len(found) + 1))
                self._told[id(value)] = ""
        for value in found:  # what one holds is written down as a reference to another
            self._told[id(value)] = self._contents(value)
        while self._is_full():
            value, _ = self._entries.pop(0)
            del self._told[id(value)]

    def changed(self, containers: Sequence[object]) -> list[int]:
        """Positions in this list of shared containers with other contents than both sides know."""
        return [
            at
            for at, value in enumerate(containers)
            if id(value) in self._told and not self._is_told(value)
        ]

    def _is_told(self, value: object) -> bool:
        told = self._told[id(value)]
        if type_of(told) is tuple and type_of(value) is list:
            known: Value = told
            items: Value = value
            return len(items) == len(known) and all(map(is_, items, known))
        return told == self._text(value)

    def told(self, value: object) -> None:
        """Both sides know its contents now."""
        if id(value) in self._told:
            self._told[id(value)] = self._contents(value)

    def _contents(self, value: Value) -> str | tuple[object, ...]:
        """To be compared with `_is_told`; atoms never change, so their identity is enough."""
        if type_of(value) is list and _FIXED.issuperset(map(type_of, value)):
            return tuple(value)
        return self._text(value)

    def _is_full(self) -> bool:
        chars = sum(size for _, size in self._entries)
        return len(self._entries) > SHARED_MAX or chars > SHARED_CHARS_MAX

    def _text(self, value: object) -> str:
        """What is in it; an object is its identity."""
        try:
            return json.dumps(
                Encoder(_identity, self.containers, own=_identity_of_own).contents(value)
            )
        except (Malformed, RecursionError):
            return "?"


def kept_of(side: Encoder | Decoder, known: int, keeps: int) -> list[object]:
    """The containers of an answer that become shared: of those behind the first `known`."""
    if keeps == KEEPS_ALL:
        return side.numbered[known:]
    return list(side.held) if keeps == KEEPS_HELD else []


class Known(NamedTuple):
    """The containers that an answer can name, in the tests' process."""

    containers: list[Any]
    shared: list[object]
    """Those in front."""
    at: int
    """Where those of the operands begin."""
    keeps: int

    def answered(self, decoder: Decoder, shared: Shared, message: list[WireForm]) -> Value:
        """Read an answer: `["ok", result, changes, length]`.

        Raises:
            Malformed: it is not such an answer.
        """
        _, form, changes, chars = message
        result = decoder.decode(form)
        found = kept_of(decoder, len(self.containers), self.keeps)
        for change in changes or ():
            if type_of(change) is not list or len(change) != 2:
                raise Malformed("an unknown change")
            at = index_of(change[0], len(self.containers))
            if len(self.shared) <= at < self.at:
                raise Malformed("a change of what was not given")
            decoder.refill(*change)
            shared.told(self.containers[at])
        if type_of(chars) is not int or not 0 <= chars <= KEPT_CHARS_MAX:
            raise Malformed("an unknown length")
        if chars:
            shared.add(found, int(chars))
        return result


def _identity(value: object) -> WireForm:
    return ["h", id(value)]


def _identity_of_own(value: Value) -> WireForm:
    return None if type_of(value).__module__ in _LIBRARY else _identity(value)


_LIBRARY: Final = ("builtins", "collections")


class _Held:
    """A value of a type of data whose class is the program's: a member of an `IntEnum`, a
    `NamedTuple` with methods, a `str` with one more.

    For Python it is the value: every method of `int`, `float`, `str` or `tuple` is found before
    `__getattr__` is called, and no special one is looked up there. Other names are the program's.
    Sent back, it is the program's own object.
    """

    def __getattr__(self, name: str) -> Value:
        return Proxy.__getattr__(self.__dict__["_assay_proxy"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.__dict__["_assay_proxy"], name, value)

    def __copy__(self) -> Value:
        value = plain(self)
        return value if type_of(value) in CONTAINERS else self

    def __deepcopy__(self, memo: dict[int, Any]) -> Value:
        value = plain(self)
        return self if type_of(value) in _ATOMS else copy.deepcopy(value, memo)

    def __reduce__(self) -> tuple[Value, ...]:
        return (_as_it_is, (plain(self),))


class _HeldRecord(_Held, Record):
    def __getattr__(self, name: str) -> Value:
        try:
            return Record.__getattr__(self, name)
        except AttributeError:
            return _Held.__getattr__(self, name)


_ATOMS: Final = (int, float, str)
CONTAINERS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    list: lambda kind, _empty: kind(),
    set: lambda kind, _empty: kind(),
    deque: lambda kind, empty: kind(maxlen=empty.maxlen),
    Counter: lambda kind, _empty: kind(),
    OrderedDict: lambda kind, _empty: kind(),
    defaultdict: lambda kind, empty: kind(empty.default_factory),
    dict: lambda kind, _empty: kind(),
}
"""Type of data -> makes an empty object of a class derived from it, like an empty one of the type.
Those that are derived from others come first."""
_PLAIN: Final[dict[type, Callable[[Any], Any]]] = {
    list: lambda value: list(list.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    deque: lambda value: deque(deque.__iter__(value), value.maxlen),
    Counter: lambda value: Counter(dict(dict.items(value))),
    OrderedDict: lambda value: OrderedDict(OrderedDict.items(value)),
    defaultdict: lambda value: defaultdict(value.default_factory, dict.items(value)),
    dict: lambda value: dict(dict.items(value)),
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__neg__(float.__neg__(value)),
    str: str.__str__,
    tuple: lambda value: tuple(tuple.__iter__(value)),
}


def held(own: Proxy, value: Value, name: WireForm) -> Value:
    """The value with the names of the program's object; `name` is that of its class."""
    base: Any = type_of(value)
    if base not in (*_ATOMS, tuple, Record):
        raise Malformed("an object of no type of data")
    kind: Value = _held_class(base, _word(name))
    if base is Record:
        label, fields = value.__dict__["_named"]
        made: Value = Record.__new__(kind, label, tuple(fields), tuple(value))
    else:
        made = base.__new__(kind, value)
    made.__dict__["_assay_proxy"] = own
    return made


def held_container(own: Proxy, empty: Value, name: WireForm) -> Value:
    """A container like `empty`, still to be filled, with the names of the program's object."""
    base: Any = type_of(empty)
    if base not in CONTAINERS:
        raise Malformed("an object of no type of containers")
    made = CONTAINERS[base](_held_class(base, _word(name)), empty)
    made.__dict__["_assay_proxy"] = own
    return made


def _word(name: WireForm) -> str:
    return name[:80] if type_of(name) is str and name.isidentifier() else "object"


@lru_cache(maxsize=_CLASSES_MAX)
def _held_class(base: type, name: str) -> type:
    bases = (_HeldRecord,) if base is Record else (_Held, base)
    return type_of(name, bases, {"__module__": "solution"})


def plain(value: Value) -> Value:
    """The value alone."""
    if not issubclass(type_of(value), _Held):
        return value
    if issubclass(type_of(value), Record):
        label, fields = value.__dict__["_named"]
        return Record(label, tuple(fields), tuple(value))
    return next(read for base, read in _PLAIN.items() if issubclass(type_of(value), base))(value)


def handle_of(value: object) -> WireForm:
    """The form by which the program finds its object; `None` if it is not of the program."""
    if not issubclass(type_of(value), _Held):
        return None
    return ["h", value.__dict__["_assay_proxy"]._assay_number]  # noqa: SLF001 - as in `proxies`


def _as_it_is(value: Value) -> Value:
    return value


class ProgramPath(pathlib.PurePosixPath):
    """A concrete path of the program: its text is data, and its files are the program's.

    It equals a `Path` of the tests with the same text. What a pure path does not have (`exists`,
    `read_text`) the program's own `Path` of that text does, in the program's process.
    """

    __slots__ = ()
    _assay_link: Asked

    @property  # type: ignore[misc]  # isinstance reads it as it is
    def __class__(self) -> type:
        """Tests may ask whether it is a `Path`."""
        return pathlib.PosixPath

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_") or not hasattr(pathlib.Path, name):
            raise AttributeError(name)
        return self._assay_link.ask("get", self, name)

    def __reduce__(self) -> tuple[Value, ...]:
        return (type_of(self), (str(self),))


def program_path(link: Asked) -> type[ProgramPath]:
    """The class of the paths that come over this link, and of those that are made from them."""
    return type("PosixPath", (ProgramPath,), {"__slots__": (), "_assay_link": link})


_TYPES: Final = (
    *(int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset),
    *(object, range, slice),
)
"""Builtins that the program may name; none of them looks up, compiles or opens anything."""


def handle_number(form: WireForm) -> int:
    """The number in a handle of the program.

    Raises:
        Malformed: it is not such a handle.
    """
    if type_of(form) is not list or len(form) != 5:
        raise Malformed("an unknown handle")
    number: Value = form[1]
    if type_of(number) is not int or not 0 <= number < HANDLES_MAX:
        raise Malformed("an unknown handle")
    return int(number)


def builtin_type(name: WireForm) -> type:
    """The builtin type of this name.

    Raises:
        Malformed: the program may not name it.
    """
    found = getattr(builtins, name, None) if type_of(name) is str else None
    if found not in _TYPES:
        raise Malformed("no type")
    return found  # type: ignore[no-any-return]
