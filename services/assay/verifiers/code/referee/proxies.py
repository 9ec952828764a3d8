"""The candidate's objects as the tests see them.

An operand from the tests reaches the program only through a call, an attribute or an index that the
tests write out. An operator would reveal to the program what the tests expect
(`abs(f(2) - 4) < 1e-6`), also for later tests. So operators send operands only for objects of a
class that the tests use as a class (`entry_points.py`). Comparisons never send one. The program
compares two of its own. The types of lengths, texts, hashes and numbers from it are checked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee.library import signature_from
from assay.verifiers.code.referee.operations import counted, is_nothing, length_said, states
from assay.verifiers.code.referee.values import Malformed, Value, type_of

if TYPE_CHECKING:
    import inspect
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
    from types import TracebackType
    from typing import Protocol

    from assay.verifiers.code.referee.errors import Control
    from assay.verifiers.code.referee.operations import Lengths

    class Asked(Protocol):
        """The way to the program's process, as a proxy uses it."""

        control: Control
        lengths: Lengths

        def ask(self, operation: str, *operands: object) -> Value: ...
        def ask_for(self, kind: type, operation: str, *operands: object) -> Value: ...
        def unusable(self, why: str) -> BaseException: ...


_CLASSES_MAX: Final = 512
_SHOWN: Final = frozenset(
    f"__{name}__"
    for name in (
        *("name", "qualname", "defaults", "kwdefaults", "wrapped", "annotations"),
        *("slots", "members", "abstractmethods"),
    )
)
"""Special attributes that are requested from the program; others would make the standard library
treat a proxy as another kind of object."""


def _operator(operation: str, *, swapped: bool = False) -> Callable[[Proxy, object], Value]:
    """An operator; `swapped` if the object is the right operand."""

    def method(self: Proxy, other: object) -> Value:
        one, two = (other, self) if swapped else (self, other)
        if not _is_programs(other) and (operation in _ORDER or not self._assay_own):
            return NotImplemented
        result = self._assay_link.ask("operator", operation, one, two)
        return _kept(self, result, is_told=states(operation, other) or _is_told(other))

    return method


_ORDER: Final = frozenset({"lt", "le", "gt", "ge"})


def _kept(made_by: Proxy, result: Value, *, is_told: bool = False) -> Value:
    """The result of an operator of a class under test is an object of the same kind.

    Raises:
        AssertionError: the program got what the result is compared with (`abs(obj) - 5`), and
            says that there is no difference.
    """
    if not made_by._assay_own:  # noqa: SLF001 - as below
        return result
    if is_told or made_by._assay_told:  # noqa: SLF001 - as below
        if not _is_object(result):
            return _a_difference(result)
        if result is not made_by:
            mark(result, "_assay_told")
    return _owned(result)


def _a_difference(result: Value) -> Value:
    if is_nothing(result):
        raise AssertionError("an object, told a value, says that it does not differ from it")
    return result


def _is_told(value: object) -> bool:
    return isinstance(value, Proxy) and value._assay_told  # noqa: SLF001 - as below


def _owned(result: Value) -> Value:
    """The result; an object is marked as one of a class under test."""
    if _is_object(result):
        mark(result, "_assay_own")
    return result


def mark(held: Proxy, name: str) -> None:
    """Set a mark of a proxy's own: its attributes are the program's."""
    object.__setattr__(held, name, True)


def _unary(operation: str) -> Callable[[Proxy], Value]:
    def method(self: Proxy) -> Value:
        return _kept(self, self._assay_link.ask(operation, self))

    return method


def _is_object(value: object) -> bool:
    return isinstance(value, Proxy) and not isinstance(value, CallableProxy | IteratorProxy)


def _is_programs(value: object) -> bool:
    """Whether it is an object of the program, or data that stands for one."""
    return _is_object(value) or _proxy_in(value) is not None


class Proxy:
    """An object of the candidate; each operation on it is a request."""

    _assay_own = False
    """Whether it is an object of a class that the tests use as a class."""
    _assay_told = False
    """Whether it is what such an object said about its difference from a value of the tests."""
    _assay_class = False
    """Whether it is such a class."""
    _assay_method = False
    """Whether it was read from an object of the program."""

    def __init__(self, link: Asked, number: int, name: str) -> None:
        for key, value in (("_assay_link", link), ("_assay_number", number), ("__name__", name)):
            object.__setattr__(self, key, value)
        if TYPE_CHECKING:  # an annotation of the class would hide the program's `__annotations__`
            self._assay_link, self._assay_number = link, number

    def __getattr__(self, name: str) -> Value:
        special = name.startswith("__") and name.endswith("__")
        if special and name not in _SHOWN and not name.startswith("__dataclass_"):
            raise AttributeError(name)
        found = self._assay_link.ask("get", self, name)
        if isinstance(found, CallableProxy) and not isinstance(self, CallableProxy):
            mark(found, "_assay_method")
        return found

    @property
    def __dict__(self) -> Value:  # type: ignore[override]  # its attributes are the program's
        """The program's own, as data."""
        try:
            return self._assay_link.ask("vars", self)
        except TypeError:  # it has slots
            raise AttributeError("__dict__") from None

    def __delattr__(self, name: str) -> None:
        self._assay_link.ask("delete", self, name)

    def __dir__(self) -> list[str]:
        named = self._assay_link.ask("names_of", self)
        return [name for name in named if type_of(name) is str] if type_of(named) is list else []

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
        return counted(self, found, length_said(self))

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        raise self._assay_link.unusable("tests derive a class from a class of the program")

    def __len__(self) -> int:
        length = int(self._assay_link.ask_for(int, "len", self))
        self._assay_link.lengths.told(self._assay_number, length)
        return length

    def __contains__(self, item: object) -> bool:
        if self._assay_own:
            return self._assay_link.ask("operator", "contains", self, item) is True
        return any(found is item or found == item for found in self)

    def __reversed__(self) -> Value:
        return self._assay_link.ask("reversed", self)

    def __eq__(self, other: object) -> Value:
        if self is other:
            return True
        if not _is_object(self) or not _is_programs(other):
            return NotImplemented
        return self._assay_link.ask("equal", self, other) is True

    def __hash__(self) -> int:
        return int(self._assay_link.ask_for(int, "hash", self))

    def __bool__(self) -> bool:
        answer = bool(self._answered(self._assay_link.ask("bool", self) is True))
        if not answer and self._assay_link.lengths.left(self._assay_number):
            raise AssertionError("the object reports a length, and that it is false")
        return answer

    def __str__(self) -> str:
        return str(self._assay_link.ask_for(str, "str", self))

    def __repr__(self) -> str:
        return str(self._assay_link.ask_for(str, "repr", self))

    def __format__(self, form: str) -> str:
        return str(self._assay_link.ask_for(str, "format", self, str(form)))

    def __int__(self) -> int:
        return int(self._answered(self._assay_link.ask_for(int, "int", self)))

    def __index__(self) -> int:
        return int(self._answered(self._assay_link.ask_for(int, "index", self)))

    def __float__(self) -> float:
        return float(self._answered(self._assay_link.ask_for(float, "float", self)))

    def __complex__(self) -> complex:
        return complex(self._answered(self._assay_link.ask_for(complex, "complex", self)))

    def __bytes__(self) -> bytes:
        return bytes(self._assay_link.ask_for(bytes, "bytes", self))

    def _answered(self, answer: Value) -> Value:
        return _a_difference(answer) if self._assay_told else answer

    def __round__(self, digits: int | None = None) -> Value:
        return self._answered(self._assay_link.ask("round", self, digits))

    def __copy__(self) -> Value:
        return _kept(self, self._assay_link.ask("copy", self))

    def __deepcopy__(self, _memo: object) -> Value:
        return _kept(self, self._assay_link.ask("deepcopy", self))

    __abs__ = _unary("abs")
    __neg__ = _unary("neg")
    __pos__ = _unary("pos")
    __invert__ = _unary("invert")
    __floor__ = _unary("floor")
    __ceil__ = _unary("ceil")
    __trunc__ = _unary("trunc")
    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("gt")
    __ge__ = _operator("ge")
    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __truediv__ = _operator("truediv")
    __floordiv__ = _operator("floordiv")
    __mod__ = _operator("mod")
    __matmul__ = _operator("matmul")
    __and__ = _operator("and_")
    __or__ = _operator("or_")
    __xor__ = _operator("xor")
    __pow__ = _operator("pow")
    __lshift__ = _operator("lshift")
    __rshift__ = _operator("rshift")
    __divmod__ = _operator("divmod")
    __radd__ = _operator("add", swapped=True)
    __rsub__ = _operator("sub", swapped=True)
    __rmul__ = _operator("mul", swapped=True)
    __rtruediv__ = _operator("truediv", swapped=True)
    __rfloordiv__ = _operator("floordiv", swapped=True)
    __rmod__ = _operator("mod", swapped=True)
    __rmatmul__ = _operator("matmul", swapped=True)
    __rand__ = _operator("and_", swapped=True)
    __ror__ = _operator("or_", swapped=True)
    __rxor__ = _operator("xor", swapped=True)
    __rpow__ = _operator("pow", swapped=True)
    __rlshift__ = _operator("lshift", swapped=True)
    __rrshift__ = _operator("rshift", swapped=True)
    __rdivmod__ = _operator("divmod", swapped=True)
    __iadd__ = _operator("iadd")
    __isub__ = _operator("isub")
    __imul__ = _operator("imul")
    __itruediv__ = _operator("itruediv")
    __ior__ = _operator("ior")
    __iand__ = _operator("iand")

    def __enter__(self) -> Value:
        return self._assay_link.ask("enter", self)

    def __exit__(self, _kind: object, error: object, trace: TracebackType | None) -> bool:
        ended = self._assay_link.ask("exit", self, error) is True
        return ended and not self._assay_link.control.skips_assertions(trace)

    async def __aenter__(self) -> Value:
        return self._assay_link.ask("async_enter", self)

    async def __aexit__(self, _kind: object, error: object, trace: TracebackType | None) -> bool:
        ended = self._assay_link.ask("async_exit", self, error) is True
        return ended and not self._assay_link.control.skips_assertions(trace)

    def __aiter__(self) -> AsyncIterator[Any]:
        found: AsyncIterator[Any] = self._assay_link.ask("async_iter", self)
        return found

    async def __anext__(self) -> Value:
        try:
            return self._assay_link.ask("async_next", self)
        except StopIteration:
            raise StopAsyncIteration from None

    def __instancecheck__(self, instance: object) -> bool:
        held = instance if isinstance(instance, Proxy) else _proxy_in(instance)
        return held is not None and self._assay_link.ask("is", held, self) is True

    def __subclasscheck__(self, kind: type) -> bool:
        own = isinstance(kind, Proxy) or "_assay_number" in vars(kind)
        return own and self._assay_link.ask("is_subclass", kind, self) is True


def _proxy_in(value: object) -> Proxy | None:
    """The program's object that a value or an exception of the tests' process stands for."""
    found = getattr(value, "__dict__", {}).get("_assay_proxy")
    return found if isinstance(found, Proxy) else None


class CallerProxy(Proxy):
    """A callable object of a class of the program."""

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        """Call it in the candidate's process."""
        return self._assay_link.ask("call", self, arguments, keywords)


class CallableProxy(Proxy):
    """A function or class; equal only to itself."""

    __hash__ = object.__hash__

    @property
    def __signature__(self) -> inspect.Signature:
        """Its parameters, as the program describes them."""
        return signature_from(self._assay_link.ask("signature", self))

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        """Call it in the candidate's process."""
        if self._assay_class:
            return _owned(self._assay_link.ask("make", self, arguments, keywords))
        operation = "call_method" if self._assay_method else "call"
        return self._assay_link.ask(operation, self, arguments, keywords)

    def __bool__(self) -> bool:
        return True


class DataProxy(Proxy):
    """An object of a class that is derived from a type of data, such as `class Stack(list)`.

    Compared with data, it is what its base type holds. Everything else the program's class does.
    """

    __hash__ = Proxy.__hash__

    def __eq__(self, other: object) -> Value:
        if _is_object(other):
            return Proxy.__eq__(self, other)
        found = self._assay_link.ask("plain", self)
        return NotImplemented if isinstance(found, Proxy) else found == other


class AwaitableProxy(Proxy):
    """An object that can be awaited; a mock of any other is no asynchronous one."""

    def __await__(self) -> Generator[None, None, Value]:
        yield from ()
        return self._assay_link.ask("await", self)


class IteratorProxy(Proxy):
    """An iterator; advances only as far as the tests ask. Equal only to itself."""

    __hash__ = object.__hash__
    _assay_begun = False
    """Whether items were taken of it."""

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = self._assay_link.ask("iter", self)
        said = None if self._assay_begun else length_said(self)
        if said is None or not isinstance(found, IteratorProxy):
            return found
        return counted(self, found._assay_items(), said)  # noqa: SLF001 - another proxy's

    def _assay_items(self) -> Iterator[Any]:
        mark(self, "_assay_begun")
        while True:
            try:
                item = self._assay_link.ask("next", self)
            except StopIteration:
                return
            yield item

    def __next__(self) -> Value:
        mark(self, "_assay_begun")
        return self._assay_link.ask("next", self)


def proxy(link: Asked, form: list[Any]) -> object:
    """The proxy for an object: `["h", number, kind, name, _]`."""
    _, number, kind, name, _ = form
    name = name[:80] if type_of(name) is str and name.isidentifier() else "object"
    if type_of(kind) is not str:
        raise Malformed("an unknown kind of object")
    if kind in _NATIVE:
        return _NATIVE[kind](Proxy(link, number, name))
    return _named(kind, name)(link, number, name)


@lru_cache(maxsize=_CLASSES_MAX)
def _named(kind: str, name: str) -> type[Proxy]:
    """A class with the name of the program's class or function."""
    text = property(lambda self: self._assay_link.ask("get", self, "__doc__"))
    base = _KINDS.get(kind, Proxy)
    return type_of(name, (base,), {"__doc__": text, "__module__": "solution"})


async def _coroutine(held: Proxy) -> Value:
    """Wraps the program's coroutine in a real one, so that `asyncio` accepts it."""
    return held._assay_link.ask("await", held)  # noqa: SLF001 - a proxy's own link


def _generator(held: Proxy) -> Generator[Any, Any, Any]:
    """Wraps the program's generator in a real one, which supports `send` and `close`."""
    ask = held._assay_link.ask  # noqa: SLF001 - a proxy's own link
    request: tuple[Any, ...] = ("next", held)
    while True:
        try:
            value = ask(*request)
        except StopIteration as end:
            return end.value
        try:
            given = yield value
            request = ("next", held) if given is None else ("send", held, given)
        except GeneratorExit:
            ask("close", held)
            raise
        except Exception as error:  # noqa: BLE001 - whatever the tests throw in
            request = ("throw", held, error)


async def _async_generator(held: Proxy) -> AsyncGenerator[Any, Any]:
    """Wraps the program's asynchronous generator in a real one."""
    ask = held._assay_link.ask  # noqa: SLF001 - a proxy's own link
    request: tuple[Any, ...] = ("async_next", held)
    while True:
        try:
            value = ask(*request)
        except StopIteration:
            return
        try:
            given = yield value
            request = ("async_next", held) if given is None else ("async_send", held, given)
        except GeneratorExit:
            ask("async_close", held)
            raise
        except Exception as error:  # noqa: BLE001 - whatever the tests throw in
            request = ("async_throw", held, error)


_NATIVE: Final[dict[str, Callable[[Proxy], object]]] = {
    "coroutine": _coroutine,
    "generator": _generator,
    "async_generator": _async_generator,
}
_KINDS: Final[dict[str, type[Proxy]]] = {
    "callable": CallableProxy,
    "caller": CallerProxy,
    "iterator": IteratorProxy,
    "data": DataProxy,
    "awaitable": AwaitableProxy,
}
