"""The wire format between candidate and referee: inert data of a closed list of types.

Invariants:

* decoded values consist of exact builtin types, those of `library`, and `Record`; nothing that the
  sender names (a type, a field, a key) is ever looked up, called, or stored where Python looks for
  a method;
* an instance of a subclass is sent as the nearest base in the list, read by that base's methods; an
  one of a class of the program with its handle beside it (`["=", value, handle]`; a container
  `["=m", handle, *form]`);
* decoding is total: anything that is not a value raises `Malformed`;
* any other object is encoded by `foreign`.
"""

from __future__ import annotations

import datetime
import keyword
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NESTING_MAX: Final = 100
TEXT_CHARS_MAX: Final = 2_000
WireForm = Any
"""JSON as received or as it will be sent; may be hostile."""
Value = Any
"""Any value of a program or a test."""
_SMALL_INT: Final = 1 << 62
_NAME_MAX: Final = 80

type_of: Final = type


class Malformed(Exception):
    """A malformed message, or a value that cannot be sent."""


LINKED: Final = ("ListNode", "TreeNode")


class Linked:
    """Linked nodes as LeetCode writes them: the values of a list, or of a tree in level order.

    It stands for them in the referee; the program's process makes and reads the nodes.
    """

    def __init__(self, kind: str, items: Sequence[Value]) -> None:
        """Keep the items; `kind` is one of `LINKED`."""
        self.kind = kind
        self.items = list(items)
        while kind == "TreeNode" and self.items and self.items[-1] is None:
            self.items.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linked) and (self.kind, self.items) == (other.kind, other.items)

    def __hash__(self) -> int:
        return hash(self.kind)


class Encoder:
    """Turns values into JSON: exact builtin types by value, anything else through `foreign`.

    Mutable containers are numbered in the order of their first occurrence. A repeated one is
    encoded as a reference, so identity and cycles are preserved.
    """

    def __init__(
        self,
        foreign: Callable[[object], Any],
        known: Sequence[object] = (),
        *,
        is_program: bool = False,
        own: Callable[[object], Any] = lambda _value: None,
    ) -> None:
        """Start.

        Args:
            foreign: the form of an object.
            known: containers that were sent before.
            is_program: its values go to the tests.
            own: the handle of an instance of a subclass; `None` if only its value is sent.
        """
        self._foreign = foreign
        self._own = own
        self._is_program = is_program
        self.numbered: list[object] = list(known)
        """Keeps the objects alive, so that each `id` stays unique."""
        self._number_of = {id(value): number for number, value in enumerate(known)}
        self.held: list[object] = []
        """Containers of a class of the program, sent with their handles."""

    def encode(self, value: Value, depth: int = 0) -> WireForm:
        """Return the JSON form.

        Raises:
            Malformed: nested too deeply.
        """
        kind = type_of(value)
        if value is None or kind is bool or kind is str or kind is float:
            return value
        if kind is int:
            return _int_out(value)
        if depth > NESTING_MAX:
            message = f"a value nests deeper than {NESTING_MAX}"
            raise Malformed(message)
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, value, depth + 1)
        write = library.writer_of(kind)
        if write is not None and (form := write(self, value, depth + 1)) is not None:
            return form
        return self._other(value, kind, depth)

    def contents(self, value: Value, depth: int = 0) -> WireForm:
        """Return the JSON form of the contents of a numbered container."""
        kind = type_of(value)
        if issubclass(kind, bytearray):
            return bytearray.decode(value, "latin-1")
        if issubclass(kind, (dict, SimpleNamespace)):
            named: Value = value if issubclass(kind, dict) else vars(value)
            pairs = dict.items(named)
            return [[self.encode(k, depth), self.encode(v, depth)] for k, v in pairs]
        base: Any = next(base for base in _FILLED if issubclass(kind, base))
        items: Iterable[Value] = base.__iter__(value)
        return self.many(items, depth)

    def mutable(self, tag: str, value: object, depth: int, *extra: WireForm) -> WireForm:
        """Number a container, or refer to it."""
        known = self._number_of.get(id(value))
        if known is not None:
            return ["@", known]
        number = len(self.numbered)
        self.numbered.append(value)
        self._number_of[id(value)] = number
        return [tag, number, self.contents(value, depth), *extra]

    def many(self, values: Iterable[Value], depth: int) -> list[WireForm]:
        """Encode each of `values`."""
        return [self.encode(value, depth) for value in values]

    def _other(self, value: Value, kind: type, depth: int) -> WireForm:
        """A subclass is treated as its nearest base in the list, read by that base's methods."""
        for base in type.__dict__["__mro__"].__get__(kind)[1:-1]:
            if base in _PLAIN_BASES or base is tuple:
                return self._immutable(value, kind, base, depth)
            write = _WRITERS.get(base)
            if write is not None:
                return self._written(value, base, write, depth + 1)
            if base.__name__ == "generic" and base.__module__ == "numpy":
                return self.encode(value.item(), depth + 1)
        return self._namespace(value, depth) or self._foreign(value)

    def _written(
        self, value: Value, base: type, write: Callable[[Encoder, Any, int], Any], depth: int
    ) -> WireForm:
        handle = self._own(value) if base in _CONTAINERS else None
        if handle is not None and not self._is_program:
            return handle
        form = write(self, value, depth)
        if handle is None or form[0] == "@":
            return form
        self.held.append(value)
        return ["=m", handle, *form]

    def _immutable(self, value: Value, kind: type, base: type, depth: int) -> WireForm:
        handle = self._own(value)
        if handle is not None and not self._is_program:
            return handle
        if base is tuple:
            form = self._record(value, kind, depth + 1)
        else:
            form = self.encode(_PLAIN_BASES[base](value), depth)
        return form if handle is None else ["=", form, handle]

    def _namespace(self, value: Value, depth: int) -> WireForm | None:
        return library.namespace_form(self, value, depth + 1) if self._is_program else None

    def _record(self, value: Value, kind: type, depth: int) -> WireForm:
        items = self.many(tuple.__iter__(value), depth)
        if kind is Record:
            return ["n", vars(value)["_named"][0], list(value._fields), items]
        fields: Value = next(
            (vars(base)["_fields"] for base in kind.__mro__ if "_fields" in vars(base)),
            vars(kind).get("__match_args__"),  # `os.terminal_size` and the like
        )
        if type_of(fields) is tuple and all(type_of(name) is str for name in fields):
            return ["n", str(kind.__name__), list(fields), items]
        return ["t", items]


def _int_out(value: int) -> WireForm:
    return value if -_SMALL_INT < value < _SMALL_INT else ["i", hex(value)]


def _factory_name(value: Value) -> WireForm:
    factory: Value = value.default_factory
    return next((name for name, kind in _FACTORIES.items() if kind is factory), None)


_FACTORIES: Final[dict[str, type]] = {
    kind.__name__: kind for kind in (int, float, complex, bool, str, bytes, list, tuple, dict, set)
}
_PLAIN_BASES: Final[dict[type, Callable[[Any], Any]]] = {
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__neg__(float.__neg__(value)),
    str: str.__str__,
}
_WRITERS: Final[dict[type, Callable[[Encoder, Any, int], Any]]] = {
    list: lambda to, value, depth: to.mutable("l", value, depth),
    dict: lambda to, value, depth: to.mutable("d", value, depth),
    set: lambda to, value, depth: to.mutable("s", value, depth),
    bytearray: lambda to, value, depth: to.mutable("a", value, depth),
    deque: lambda to, value, depth: to.mutable("e", value, depth, value.maxlen),
    Counter: lambda to, value, depth: to.mutable("C", value, depth),
    OrderedDict: lambda to, value, depth: to.mutable("O", value, depth),
    defaultdict: lambda to, value, depth: to.mutable("f", value, depth, _factory_name(value)),
    tuple: lambda to, value, depth: ["t", to.many(value, depth)],
    frozenset: lambda to, value, depth: ["z", to.many(frozenset.__iter__(value), depth)],
    bytes: lambda _to, value, _depth: ["b", bytes.decode(value, "latin-1")],
    complex: lambda _to, value, _depth: ["c", value.real, value.imag],
    range: lambda to, value, depth: ["r", *to.many((value.start, value.stop, value.step), depth)],
    slice: lambda to, value, depth: ["/", *to.many((value.start, value.stop, value.step), depth)],
    type(...): lambda _to, _value, _depth: ["."],
    Fraction: lambda to, value, depth: ["q", *to.many((value.numerator, value.denominator), depth)],
    Decimal: lambda _to, value, _depth: ["D", Decimal.__str__(value)],
    datetime.date: lambda _to, value, _depth: ["Td", datetime.date.isoformat(value)],
    datetime.time: lambda _to, value, _depth: ["Tt", datetime.time.isoformat(value), value.fold],
    datetime.datetime: lambda _to, value, _depth: [
        "Tm",
        datetime.datetime.isoformat(value),
        value.fold,
    ],
    datetime.timedelta: lambda _to, value, _depth: [
        "Ts",
        value.days,
        value.seconds,
        value.microseconds,
    ],
    Linked: lambda to, value, depth: ["N", value.kind, to.many(value.items, depth)],
    type({}.keys()): lambda to, value, depth: ["vk", *to.many((list(value),), depth)],
    type({}.values()): lambda to, value, depth: ["vv", *to.many((list(value),), depth)],
    type({}.items()): lambda to, value, depth: ["vi", *to.many((list(value),), depth)],
}


_CONTAINERS: Final = frozenset({list, dict, set, deque, Counter, OrderedDict, defaultdict})
"""Types of data that classes of programs are derived from and that change."""
_FILLED: Final = (list, dict, set, bytearray, deque, array, SimpleNamespace)


class Decoder:
    """Rebuilds values from JSON that may be hostile; raises `Malformed` for anything else."""

    def __init__(
        self, foreign: Callable[[list[Any]], object], known: Sequence[object] = ()
    ) -> None:
        self._foreign = foreign
        self.numbered: list[Any] = list(known)
        self.held: list[Any] = []
        """Containers of a class of the program."""

    def decode(self, form: WireForm) -> Value:
        """Return the value.

        Raises:
            Malformed: the form is not that of a value.
        """
        try:
            return self._value(form, 0)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - any exception means that it was not a value
            raise Malformed(f"no value: {type_of(error).__name__}") from None

    def refill(self, number: WireForm, contents: WireForm) -> None:
        """Give the known container `number` new contents."""
        try:
            self._fill(self.numbered[index_of(number, len(self.numbered))], contents, 1)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - any exception means that it was not contents
            raise Malformed(f"no contents: {type_of(error).__name__}") from None

    def _value(self, form: WireForm, depth: int) -> Value:
        if type_of(form) is not list:
            if type_of(form) is dict:
                raise ValueError("an object")
            return form
        if depth > NESTING_MAX + 2:
            raise ValueError("nested too deeply")
        tag = form[0]
        if tag == "@":
            return self.numbered[index_of(form[1], len(self.numbered))]
        if tag in _MUTABLE:
            return self._mutable(_MUTABLE[tag](*form[3:]), form[1], form[2], depth + 1)
        if tag == "i":
            return int(form[1], 16)
        if tag == "=m":
            return self._container(form, depth)
        if tag == "=":
            return self._foreign(["=", self._value(form[1], depth + 1), form[2]])
        read = _READERS.get(tag)
        if read is None:
            return self._foreign(form)
        return read(self, form, depth + 1)

    def _container(self, form: WireForm, depth: int) -> Value:
        _, handle, tag, number, contents, *more = form
        made = self._foreign(["=m", handle, _MUTABLE[tag](*more)])
        self.held.append(made)
        return self._mutable(made, number, contents, depth + 1)

    def many(self, forms: WireForm, depth: int) -> list[Value]:
        """Decode each of `forms`."""
        if type_of(forms) is not list:
            raise ValueError("not a list")
        return [self._value(form, depth) for form in forms]

    def _mutable(self, value: Value, number: WireForm, contents: WireForm, depth: int) -> Value:
        if number != len(self.numbered):
            raise ValueError("a wrong number")
        self.numbered.append(value)
        self._fill(value, contents, depth)
        return value

    def _fill(self, value: Value, contents: WireForm, depth: int) -> None:
        base: Any = next(base for base in _FILLED if issubclass(type_of(value), base))
        if base is bytearray:
            value[:] = contents.encode("latin-1")
        elif base is dict:
            pairs = [(self._value(k, depth), self._value(v, depth)) for k, v in contents]
            value.clear()
            for key, item in pairs:
                value[key] = item
        elif base is SimpleNamespace:
            self._fill_namespace(value, contents, depth)
        elif base is array:
            items = self.many(contents, depth)
            del value[:]
            value.extend(items)
        else:
            items = self.many(contents, depth)
            items = items if base is not set else list(set(items))
            base.clear(value)
            (base.update if base is set else base.extend)(value, items)

    def _fill_namespace(self, value: SimpleNamespace, contents: WireForm, depth: int) -> None:
        for name, item in contents:
            if not library.is_name(name):
                raise ValueError("no name")
            vars(value)[name] = self._value(item, depth)


def index_of(number: WireForm, count: int) -> int:
    if type_of(number) is not int or not 0 <= number < count:
        raise ValueError("a wrong reference")
    return int(number)


class Record(tuple[Value, ...]):
    """A tuple with named items; equal to any tuple with the same items, like a namedtuple.

    The names are data: Python finds every method of this class before it calls `__getattr__`, so no
    name can shadow a method.
    """

    def __new__(cls, name: str, fields: Sequence[str], items: Sequence[Value]) -> Record:
        """Create one; `fields` are as `field_names` returns them."""
        made = tuple.__new__(cls, items)
        made.__dict__["_named"] = (name, dict(zip(fields, items, strict=True)))
        return made

    def __getattr__(self, name: str) -> Value:
        try:
            return self.__dict__["_named"][1][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(name)

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(self.__dict__["_named"][1])

    def _asdict(self) -> dict[str, Value]:
        return dict(self.__dict__["_named"][1])

    def _replace(self, **changed: Value) -> Record:
        name, named = self.__dict__["_named"]
        if not changed.keys() <= named.keys():
            raise ValueError("no such field")
        return Record(name, self._fields, list({**named, **changed}.values()))

    def __reduce__(self) -> tuple[Value, ...]:
        return (Record, (self.__dict__["_named"][0], self._fields, tuple(self)))

    def __repr__(self) -> str:
        name, named = self.__dict__["_named"]
        return f"{name}({', '.join(f'{field}={value!r}' for field, value in named.items())})"


def _record(name: WireForm, fields: WireForm, items: list[Value]) -> Value:
    """Return a `Record`, or a plain tuple if the names are not valid."""
    word = name if type_of(name) is str and name.isidentifier() and len(name) <= _NAME_MAX else "T"
    if type_of(fields) is not list or not all(_is_field(field) for field in fields):
        return tuple(items)
    if len(set(fields)) != len(fields) or len(fields) != len(items):
        return tuple(items)
    return Record(word, fields, items)


def _is_field(name: WireForm) -> bool:
    return (
        type_of(name) is str
        and len(name) <= _NAME_MAX
        and name.isidentifier()
        and not name.startswith("_")
        and not keyword.iskeyword(name)
        and not hasattr(tuple, name)
    )


def _integers(forms: list[Value]) -> list[int]:
    if not all(type_of(form) is int for form in forms):
        raise TypeError("not an integer")
    return forms


def _text(form: WireForm) -> str:
    if type_of(form) is not str:
        raise TypeError("not text")
    return str(form)


def _view(which: str, items: list[Value]) -> Value:
    """A view of a dict that has no other reference."""
    if which == "vi":
        return dict(items).items()
    return dict.fromkeys(items).keys() if which == "vk" else dict(enumerate(items)).values()


_MUTABLE: Final[dict[str, Callable[..., Any]]] = {
    "l": list,
    "d": dict,
    "s": set,
    "a": bytearray,
    "e": lambda maxlen: deque(maxlen=maxlen),
    "C": Counter,
    "O": OrderedDict,
    "f": lambda name: defaultdict(_FACTORIES.get(name)),
    "A": lambda code: array(code),
    "N=": lambda: SimpleNamespace(),
}
_READERS: Final[dict[str, Callable[[Decoder, Any, int], Any]]] = {
    **library.READERS,
    "t": lambda of, form, depth: tuple(of.many(form[1], depth)),
    "z": lambda of, form, depth: frozenset(of.many(form[1], depth)),
    "n": lambda of, form, depth: _record(form[1], form[2], of.many(form[3], depth)),
    "b": lambda _of, form, _depth: _text(form[1]).encode("latin-1"),
    "c": lambda _of, form, _depth: complex(form[1], form[2]),
    "r": lambda of, form, depth: range(*_integers(of.many(form[1:4], depth))),
    "/": lambda of, form, depth: slice(*of.many(form[1:4], depth)),
    ".": lambda _of, _form, _depth: ...,
    "q": lambda of, form, depth: Fraction(*_integers(of.many(form[1:3], depth))),
    "D": lambda _of, form, _depth: Decimal(_text(form[1])),
    "Td": lambda _of, form, _depth: datetime.date.fromisoformat(form[1]),
    "Tt": lambda _of, form, _depth: datetime.time.fromisoformat(form[1]).replace(fold=form[2]),
    "Tm": lambda _of, form, _depth: datetime.datetime.fromisoformat(form[1]).replace(fold=form[2]),
    "Ts": lambda _of, form, _depth: datetime.timedelta(*_integers(form[1:4])),
    "g": lambda of, form, depth: iter(of.many(form[1], depth)),
    "vk": lambda of, form, depth: _view("vk", of.many(form[1:2], depth)[0]),
    "vv": lambda of, form, depth: _view("vv", of.many(form[1:2], depth)[0]),
    "vi": lambda of, form, depth: _view("vi", of.many(form[1:2], depth)[0]),
}
