"""Objects of the candidate's, as the tests see them.

Always true: an operand of the tests' own reaches the program by a call, an attribute or an index
that the tests write out, never by an operator. So no object of the program's is equal to, less
than, or added to a value that the tests hold; two objects of the program's are compared by it.
Length, text, hash and numbers that it gives are checked for their exact type before use.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee.values import TEXT_CHARS_MAX, Value, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from assay.verifiers.code.referee.link import Link


_SHOWN_MAX: Final = 10**100


def _with_its_like(operation: str) -> Callable[[Proxy, object], Value]:
    """An operator between two objects of the program's."""

    def method(self: Proxy, other: object) -> Value:
        if not _is_object(self) or not _is_object(other):
            return NotImplemented
        return self._assay_link.ask("operator", operation, self, other)

    return method


def _is_object(value: object) -> bool:
    return type_of(value) is Proxy


class Proxy:
    """An object of the candidate's: what it does is asked for."""

    def __init__(self, link: Link, number: int, name: str) -> None:
        self.__dict__.update(_assay_link=link, _assay_number=number, __name__=name)

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._assay_link.ask("get", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._assay_link.ask("set", self, name, value)

    def __getitem__(self, key: object) -> Value:
        return self._assay_link.ask("item", self, key)

    def __setitem__(self, key: object, value: object) -> None:
        self._assay_link.ask("set_item", self, key, value)

    def __delitem__(self, key: object) -> None:
        self._assay_link.ask("delete_item", self, key)

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = self._assay_link.ask("iter", self)
        return _counted(self, found, _length_said(self))

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        raise self._assay_link.unusable("tests derive a class from one of the program's")

    def __len__(self) -> int:
        return int(self._assay_link.ask_for(int, "len", self))

    def __eq__(self, other: object) -> Value:
        if self is other:
            return True
        if not _is_object(self) or not _is_object(other):
            return NotImplemented
        return self._assay_link.ask("equal", self, other) is True

    def __hash__(self) -> int:
        return int(self._assay_link.ask_for(int, "hash", self))

    def __bool__(self) -> bool:
        return self._assay_link.ask("bool", self) is True

    def __str__(self) -> str:
        return str(self._assay_link.ask_for(str, "str", self))

    def __repr__(self) -> str:
        return str(self._assay_link.ask_for(str, "repr", self))

    def __format__(self, form: str) -> str:
        return str(self._assay_link.ask_for(str, "format", self, str(form)))

    def __int__(self) -> int:
        return int(self._assay_link.ask_for(int, "int", self))

    def __index__(self) -> int:
        return int(self._assay_link.ask_for(int, "index", self))

    def __float__(self) -> float:
        return float(self._assay_link.ask_for(float, "float", self))

    def __abs__(self) -> Value:
        return self._assay_link.ask("abs", self)

    def __neg__(self) -> Value:
        return self._assay_link.ask("neg", self)

    __lt__ = _with_its_like("lt")
    __le__ = _with_its_like("le")
    __gt__ = _with_its_like("gt")
    __ge__ = _with_its_like("ge")
    __add__ = _with_its_like("add")
    __sub__ = _with_its_like("sub")
    __mul__ = _with_its_like("mul")
    __truediv__ = _with_its_like("truediv")
    __floordiv__ = _with_its_like("floordiv")
    __mod__ = _with_its_like("mod")
    __matmul__ = _with_its_like("matmul")
    __and__ = _with_its_like("and_")
    __or__ = _with_its_like("or_")
    __xor__ = _with_its_like("xor")

    def __enter__(self) -> Value:
        return self._assay_link.ask("enter", self)

    def __exit__(self, *_error: object) -> None:
        self._assay_link.ask("exit", self)

    def __await__(self) -> Generator[None, None, Value]:
        yield from ()
        return self._assay_link.ask("await", self)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Proxy) and self._assay_link.ask("is", instance, self) is True

    def __subclasscheck__(self, kind: type) -> bool:
        return isinstance(kind, Proxy) and self._assay_link.ask("is_subclass", kind, self) is True


def _counted(container: Proxy, found: Iterator[Any], said: int | None) -> Iterator[Any]:
    """What a container holds. Where it says how much that is, it holds as much.

    Raises:
        AssertionError: as many items as it says neither before nor after.
    """
    count = 0
    for item in found:
        count += 1
        yield item
    if said is not None and count not in (said, _length_said(container)):
        message = f"the object says that it holds {said} items, and gave {count}"
        raise AssertionError(message)


def _length_said(container: Proxy) -> int | None:
    """`None`: the object has no length, or its class fails to say it."""
    try:
        return len(container)
    except Exception:  # noqa: BLE001 - whatever its class raises
        return None


class CallableProxy(Proxy):
    """A function or class; equal to itself alone."""

    __hash__ = object.__hash__

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        """Call it in the candidate's process."""
        return self._assay_link.ask("call", self, arguments, keywords)

    def __bool__(self) -> bool:
        return True


class IteratorProxy(Proxy):
    """A generator or iterator; it runs only as far as the tests ask. Equal to itself alone."""

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Value:
        return self._assay_link.ask("next", self)


def proxy(link: Link, form: list[Any]) -> object:
    _, number, kind, name, base = form
    name = name[:80] if type_of(name) is str and name.isidentifier() else "object"
    if kind == "exception":
        return _exception_class(number, name, exception_named(base))
    if kind == "coroutine":
        return _coroutine(Proxy(link, number, name))
    made: type[Proxy] = Proxy
    if kind in ("callable", "iterator"):
        made = CallableProxy if kind == "callable" else IteratorProxy
    return made(link, number, name)


async def _coroutine(held: Proxy) -> Value:
    """A coroutine of the program's as one of the tests' own, so that `asyncio` takes it."""
    return held._assay_link.ask("await", held)  # noqa: SLF001 - a proxy's own link


def exception_named(name: object) -> type[BaseException]:
    found = getattr(builtins, name, None) if type_of(name) is str else None  # type: ignore[call-overload]
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    return Exception


def _exception_class(number: int, name: str, base: type[BaseException]) -> type[BaseException]:
    """Stands in the tests for an exception class of the program's own."""

    def attribute(self: Value, wanted: str) -> Value:
        proxied = self.__dict__.get("_assay_proxy")
        if proxied is None or wanted.startswith("__"):
            raise AttributeError(wanted)
        return getattr(proxied, wanted)

    members = {
        "_assay_number": number,
        "__getattr__": attribute,
        "__init__": lambda self, *given: BaseException.__init__(self, *given),
        "__new__": lambda kind, *given: base.__new__(kind, *given),
        "__str__": lambda self: self.__dict__.get("_assay_text") or base.__str__(self),
    }
    return type_of(name, (base,), members)


def said_by(error: BaseException) -> str:
    """Describe an exception without asking the program for anything; never raises."""
    text = error.__dict__.get("_assay_text")
    if type_of(text) is not str:
        text = " ".join(_shown(given) for given in error.args[:5])
    return f"{type_of(error).__name__}: {text}"[:TEXT_CHARS_MAX]


def _shown(value: object) -> str:
    kind = type_of(value)
    if kind is str:
        return str(value)[:TEXT_CHARS_MAX]
    if kind is int:
        return str(value) if abs(int(value)) < _SHOWN_MAX else "(a large integer)"  # type: ignore[call-overload]
    return repr(value) if kind in (bool, float, type(None)) else f"({kind.__name__})"


def plain_exception(kind: type[BaseException], text: str) -> BaseException:
    made = BaseException.__new__(kind)
    made.args = (text,)
    return made
