"""The candidate's process: runs the program and serves the referee's requests on its module.

Nothing here is trusted by the referee: the program may change all of it.
"""

from __future__ import annotations

import builtins
import json
import operator
import sys
import traceback
from types import CoroutineType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee.frames import Frames
from assay.verifiers.code.referee.values import (
    TEXT_CHARS_MAX,
    Decoder,
    Encoder,
    Form,
    Malformed,
    Value,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE: Final = "solution"
HANDLES_MAX: Final = 200_000
_ARGUMENTS_CHARS_MAX: Final = 1024 * 1024
"""Of an exception's arguments; a larger one keeps the beginning of its text."""
_MRO: Final = type.__dict__["__mro__"]


def _at_once() -> None:
    """The candidate waits for as long as it takes."""


class Candidate:
    """Serves the referee's requests on the program's module."""

    def __init__(self, descriptor: int) -> None:
        self._frames = Frames(descriptor)
        self._objects: list[object] = []
        self._number_of: dict[int, int] = {}
        self._module = ModuleType(MODULE)

    def serve(self, payload: str) -> None:
        """Run the program, then answer until the referee hangs up.

        `payload` is a preamble, a NUL, which no Python text holds, and the program.
        """
        preamble, _, source = payload.partition("\0")
        self._module.__file__ = f"/box/{MODULE}.py"
        sys.modules[MODULE] = self._module
        try:
            _leave_source(self._module.__file__, source)
            exec(compile(preamble, "preamble", "exec", dont_inherit=True), {})  # noqa: S102 - likewise
            code = compile(source, self._module.__file__, "exec", dont_inherit=True)
            exec(code, self._module.__dict__)  # noqa: S102 - what the box is for
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            _show(error)
            self._send_raised(error)
        else:
            self._frames.send(["ok", None, None])
        try:
            while True:
                self._answer(self._frames.receive(_at_once))
        except EOFError:
            return

    def _answer(self, request: Form) -> None:
        operation, forms = request
        decoder = Decoder(self._resolve)
        operands = decoder.decode(forms)
        known = list(decoder.numbered)
        sent = json.dumps(forms)
        try:
            result = _OPERATIONS[operation](self, *operands)
            reply = self._reply(result, operands, known, sent)
            self._frames.send(reply)
        except StopIteration:
            self._frames.send(["end"])
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            self._send_raised(error)

    def _reply(self, result: object, operands: Value, known: list[object], sent: str) -> Form:
        encoder = Encoder(self._handle, known)
        form = encoder.encode(result)
        if json.dumps(Encoder(self._brief).encode(operands)) == sent:
            return ["ok", form, None]
        after = [[number, encoder.contents(value)] for number, value in enumerate(known)]
        return ["ok", form, after]

    def _handle(self, value: Value) -> Form:
        if type_of(value) is Callback:
            return ["k", value.number]
        number = self._number_of.get(id(value))
        if number is None:
            number = len(self._objects)
            if number >= HANDLES_MAX:
                raise Malformed("too many objects")
            self._objects.append(value)
            self._number_of[id(value)] = number
        return ["h", number, _kind(value), _name_of(value), self._ancestry(value)]

    def _brief(self, value: Value) -> Form:
        """The form in which the referee sent it."""
        if type_of(value) is Callback:
            return ["k", value.number]
        name: Value = getattr(value, "__name__", None)
        if type_of(name) is str and getattr(builtins, name, None) is value:
            return ["y", name]
        return ["h", self._number_of.get(id(value), -1)]

    def _ancestry(self, value: object) -> str:
        return builtin_base(value) if _kind(value) == "exception" else ""

    def _resolve(self, form: list[Any]) -> object:
        if form[0] == "h":
            return self._objects[form[1]]
        if form[0] == "k":
            return Callback(self, form[1])
        if form[0] == "y":
            return getattr(builtins, form[1])
        raise Malformed("an unknown form")

    def _send_raised(self, error: BaseException) -> None:
        """Say what was raised; where the program's own class makes that impossible, that it was."""
        try:
            self._frames.send(self._raised(error))
        except OSError:
            raise
        except BaseException:  # noqa: BLE001 - the program's own exception classes may do anything
            self._frames.send(["raise", "Exception", None, ["l", 0, []], "", None])

    def _raised(self, error: BaseException) -> Form:
        """Say what was raised: its builtin class, its own class where it has one, its arguments."""
        kind = type_of(error)
        base = builtin_base(kind)
        own = None if getattr(builtins, base) is kind else self._handle(kind)
        try:
            text = str.__str__(str(error))[:TEXT_CHARS_MAX]
        except BaseException:  # noqa: BLE001 - the same
            text = ""
        try:
            arguments = Encoder(self._handle).encode(list(_arguments(error)))
            if len(json.dumps(arguments)) > _ARGUMENTS_CHARS_MAX:
                arguments = ["l", 0, [text]]
        except BaseException:  # noqa: BLE001 - the same
            arguments = ["l", 0, []]
        return ["raise", base, own, arguments, text, self._handle(error)]

    def lookup(self, name: str) -> object:
        """A global of the program."""
        try:
            return self._module.__dict__[name]
        except KeyError:
            message = f"name {name!r} is not defined"
            raise NameError(message) from None

    def names(self) -> list[str]:
        """Public globals of the program, as `import *` takes them."""
        listed: Value = self._module.__dict__.get("__all__")
        if type_of(listed) is list:
            return [name for name in listed if type_of(name) is str]
        return [name for name in self._module.__dict__ if not name.startswith("_")]

    def call_back(
        self, number: int, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> object:
        """Call a function of the tests."""
        form = Encoder(self._handle).encode([arguments, keywords])
        self._frames.send(["callback", number, form])
        while True:
            message = self._frames.receive(_at_once)
            if message[0] == "result":
                return Decoder(self._resolve).decode(message[1])
            if message[0] == "error":
                raise getattr(builtins, message[1])(message[2])
            self._answer(message)


class Callback:
    """A function of the tests, as the program sees it."""

    def __init__(self, candidate: Candidate, number: int) -> None:
        self._candidate = candidate
        self.number = number

    def __call__(self, *arguments: Value, **keywords: Value) -> object:
        """Call it where it lives."""
        return self._candidate.call_back(self.number, arguments, keywords)


def _leave_source(path: str, source: str) -> None:
    """Let tracebacks and `inspect` find the program; a full scratch file system is no failure."""
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            file.write(source)
    except OSError:
        return


def _show(error: BaseException) -> None:
    """Leave a traceback on stderr, where its exceptions let themselves be printed."""
    try:
        traceback.print_exception(error)
    except BaseException:  # noqa: BLE001 - the program's own exception classes may do anything
        return


def _name_of(value: Value) -> str:
    try:
        name = getattr(value, "__name__", None)
    except BaseException:  # noqa: BLE001 - the program's own attributes may do anything
        name = None
    return str(name)[:80] if type_of(name) is str else "object"


def _arguments(error: BaseException) -> tuple[Value, ...]:
    found: tuple[Value, ...] = BaseException.__dict__["args"].__get__(error)
    return found


def _kind(value: object) -> str:
    if isinstance(value, type):
        return "exception" if issubclass(value, BaseException) else "callable"
    if callable(value):
        return "callable"
    if type_of(value) is CoroutineType:
        return "coroutine"
    return "iterator" if hasattr(type_of(value), "__next__") else "object"


def builtin_base(kind: object) -> str:
    """The name of the nearest builtin class."""
    mro: tuple[type, ...] = _MRO.__get__(kind) if issubclass(type_of(kind), type) else ()
    for base in mro:
        if base.__module__ == "builtins" and getattr(builtins, base.__name__, None) is base:
            return str(base.__name__)
    return "Exception"


def _run_coroutine(awaitable: Value) -> object:
    import asyncio  # few programs need it, and it is slow to load

    async def main() -> object:
        return await awaitable

    return asyncio.run(main())


def _equal(one: Value, other: Value) -> bool:
    """Equality as the program's classes define it; one that holds with anything is none."""
    if not bool(one == other):
        return False
    try:
        return not bool(one == object())
    except Exception:  # noqa: BLE001 - a comparison that expects its like may raise for others
        return True


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    name: getattr(operator, name)
    for name in (
        *("lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "matmul"),
        *("and_", "or_", "xor"),
    )
}
_OPERATIONS: Final[dict[str, Callable[..., object]]] = {
    "lookup": lambda self, name: self.lookup(name),
    "names": lambda self: self.names(),
    "call": lambda _self, function, arguments, keywords: function(*arguments, **keywords),
    "get": lambda _self, target, name: getattr(target, name),
    "set": lambda _self, target, name, value: setattr(target, name, value),
    "item": lambda _self, target, key: target[key],
    "set_item": lambda _self, target, key, value: target.__setitem__(key, value),
    "delete_item": lambda _self, target, key: target.__delitem__(key),
    "len": lambda _self, target: len(target),
    "bool": lambda _self, target: bool(target),
    "str": lambda _self, target: str(target),
    "repr": lambda _self, target: repr(target),
    "iter": lambda _self, target: iter(target),
    "next": lambda _self, target: next(target),
    "enter": lambda _self, target: target.__enter__(),
    "exit": lambda _self, target: target.__exit__(None, None, None),
    "is": lambda _self, target, kind: isinstance(target, kind),
    "is_subclass": lambda _self, target, kind: issubclass(target, kind),
    "equal": lambda _self, one, other: _equal(one, other),
    "operator": lambda _self, name, one, other: _OPERATORS[name](one, other),
    "hash": lambda _self, target: hash(target),
    "format": lambda _self, target, form: format(target, form),
    "int": lambda _self, target: int(target),
    "index": lambda _self, target: int(operator.index(target)),
    "float": lambda _self, target: float(target),
    "abs": lambda _self, target: abs(target),
    "neg": lambda _self, target: -target,
    "await": lambda _self, target: _run_coroutine(target),
}
