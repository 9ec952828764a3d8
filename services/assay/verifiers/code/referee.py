"""The harness of function tests: pid 1 of a box, beside a candidate that it does not trust.

Two processes that share nothing but a socket. The *candidate* is forked first, confined, and runs
the program; it never holds a test or an expected value. The *referee* then unseals the tests and
runs them; names that the tests do not define are proxies, whose calls are messages to the
candidate.
Always true:

* what comes back is data of exact builtin types, rebuilt by the referee, or an opaque handle; no
  code of the candidate runs in the referee and no comparison is ever delegated to the candidate;
* messages are bounded and checked; a malformed one is the candidate's failure;
* a test counts as passed only by a record on the box's channel, which the referee alone holds and
  which carries the nonce that came with the sealed tests;
* arguments that a call changed are changed in the tests too, with their identities.

Loaded by the zygote as a file of its own: standard library only.
"""

from __future__ import annotations

import builtins
import datetime
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from types import CodeType

    from assay.sandbox.port import Box

FRAME_BYTES_MAX: Final = 32 * 1024 * 1024
NESTING_MAX: Final = 100
HANDLES_MAX: Final = 200_000
CALLS_NESTED_MAX: Final = 100
"""Calls between the two that wait for each other."""
TEXT_CHARS_MAX: Final = 2_000
Form = Any
"""JSON as it came or as it will go; perhaps hostile."""
Value = Any
"""Any value of a program or a test."""
_SMALL_INT: Final = 1 << 62
_LENGTH: Final = struct.Struct(">I")
_MODULE: Final = "solution"
_TICK_S: Final = 0.05
_HANG_UP_S: Final = 1.0

type_of: Final = type


class Malformed(Exception):
    """A message that follows no rule; or a value that cannot be one."""


# --- values on the wire ------------------------------------------------------------------------


class Encoder:
    """Turns values into JSON: exact builtin types by value, anything else through `foreign`.

    Mutable containers are numbered in the order in which they are met, so that one that is met
    again is a reference: identity and cycles survive.
    """

    def __init__(self, foreign: Callable[[object], Any], known: Sequence[object] = ()) -> None:
        self._foreign = foreign
        self.numbered: list[object] = list(known)
        """Keeps the objects alive, so that an `id` means one object."""
        self._number_of = {id(value): number for number, value in enumerate(known)}

    def encode(self, value: Value, depth: int = 0) -> Form:
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
        return self._other(value, kind, depth)

    def contents(self, value: Value, depth: int = 0) -> Form:
        """Return the JSON form of what a numbered container holds."""
        base = next(
            base for base in (list, dict, set, bytearray) if issubclass(type_of(value), base)
        )
        if base is bytearray:
            return bytes(value).decode("latin-1")
        if base is dict:
            pairs = dict.items(value)
            return [[self.encode(k, depth), self.encode(v, depth)] for k, v in pairs]
        items: Iterable[Value] = base.__iter__(value)
        return self.many(items, depth)

    def mutable(self, tag: str, value: object, depth: int) -> Form:
        """Number a container, or refer to it."""
        known = self._number_of.get(id(value))
        if known is not None:
            return ["@", known]
        number = len(self.numbered)
        self.numbered.append(value)
        self._number_of[id(value)] = number
        return [tag, number, self.contents(value, depth)]

    def many(self, values: Iterable[Value], depth: int) -> list[Form]:
        """Encode each of `values`."""
        return [self.encode(value, depth) for value in values]

    def _other(self, value: Value, kind: type, depth: int) -> Form:
        """A subclass of a builtin counts as the builtin, read by the builtin's own methods."""
        if issubclass(kind, int):
            return _int_out(int.__add__(value, 0))
        if issubclass(kind, float):
            return float.__neg__(float.__neg__(value))
        if issubclass(kind, str):
            return str.__str__(value)
        if issubclass(kind, tuple):
            return self._named_tuple(value, kind, depth + 1)
        for base in (list, dict, set, bytearray, frozenset, bytes, complex):
            if issubclass(kind, base):
                return _WRITERS[base](self, value, depth + 1)
        return self._foreign(value)

    def _named_tuple(self, value: Value, kind: type, depth: int) -> Form:
        items = self.many(tuple.__iter__(value), depth)
        fields: Value = kind.__dict__.get("_fields")
        if type_of(fields) is tuple and all(type_of(name) is str for name in fields):
            return ["n", str(kind.__name__), list(fields), items]
        return ["t", items]


def _int_out(value: int) -> Form:
    return value if -_SMALL_INT < value < _SMALL_INT else ["i", hex(value)]


_WRITERS: Final[dict[type, Callable[[Encoder, Any, int], Any]]] = {
    list: lambda to, value, depth: to.mutable("l", value, depth),
    dict: lambda to, value, depth: to.mutable("d", value, depth),
    set: lambda to, value, depth: to.mutable("s", value, depth),
    bytearray: lambda to, value, depth: to.mutable("a", value, depth),
    tuple: lambda to, value, depth: ["t", to.many(value, depth)],
    frozenset: lambda to, value, depth: ["z", to.many(frozenset.__iter__(value), depth)],
    bytes: lambda _to, value, _depth: ["b", bytes.decode(value, "latin-1")],
    complex: lambda _to, value, _depth: ["c", value.real, value.imag],
    range: lambda to, value, depth: ["r", *to.many((value.start, value.stop, value.step), depth)],
    slice: lambda to, value, depth: ["/", *to.many((value.start, value.stop, value.step), depth)],
    type(...): lambda _to, _value, _depth: ["."],
    Fraction: lambda to, value, depth: ["q", *to.many((value.numerator, value.denominator), depth)],
    Decimal: lambda _to, value, _depth: ["D", Decimal.__str__(value)],
    datetime.date: lambda _to, value, _depth: ["Td", value.isoformat()],
    datetime.time: lambda _to, value, _depth: ["Tt", value.isoformat()],
    datetime.datetime: lambda _to, value, _depth: ["Tm", value.isoformat()],
    datetime.timedelta: lambda _to, value, _depth: [
        "Ts",
        value.days,
        value.seconds,
        value.microseconds,
    ],
}


class Decoder:
    """Rebuilds values from JSON that may be hostile; raises `Malformed` for whatever is not one."""

    def __init__(
        self, foreign: Callable[[list[Any]], object], known: Sequence[object] = ()
    ) -> None:
        self._foreign = foreign
        self.numbered: list[Any] = list(known)

    def decode(self, form: Form) -> Value:
        """Return the value.

        Raises:
            Malformed: no value has this form.
        """
        try:
            return self._value(form, 0)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            message = f"no value: {error}"
            raise Malformed(message) from None
        except RecursionError:
            raise Malformed("no value: nested too deeply") from None

    def refill(self, number: Form, contents: Form) -> None:
        """Give the known container `number` new contents."""
        try:
            value = self.numbered[_index(number, len(self.numbered))]
            if type_of(value) is bytearray:
                value[:] = contents.encode("latin-1")
                return
            self._fill(value, contents, 1)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            message = f"no contents: {error}"
            raise Malformed(message) from None

    def _value(self, form: Form, depth: int) -> Value:
        if type_of(form) is not list:
            if type_of(form) is dict:
                raise ValueError("an object")
            return form
        if depth > NESTING_MAX + 2:
            raise ValueError("nested too deeply")
        tag = form[0]
        if tag == "@":
            return self.numbered[_index(form[1], len(self.numbered))]
        if tag in _MUTABLE:
            return self._mutable(_MUTABLE[tag], form[1], form[2], depth + 1)
        if tag == "i":
            return int(form[1], 16)
        read = _READERS.get(tag)
        if read is None:
            return self._foreign(form)
        return read(self, form, depth + 1)

    def many(self, forms: Form, depth: int) -> list[Value]:
        """Decode each of `forms`."""
        if type_of(forms) is not list:
            raise ValueError("not a list")
        return [self._value(form, depth) for form in forms]

    def _mutable(self, kind: type, number: Form, contents: Form, depth: int) -> Value:
        if number != len(self.numbered):
            raise ValueError("a wrong number")
        if kind is bytearray:
            value: Any = bytearray(contents.encode("latin-1"))
            self.numbered.append(value)
            return value
        value = kind()
        self.numbered.append(value)
        self._fill(value, contents, depth)
        return value

    def _fill(self, value: Value, contents: Form, depth: int) -> None:
        if type_of(value) is dict:
            pairs = [(self._value(k, depth), self._value(v, depth)) for k, v in contents]
            value.clear()
            value.update(pairs)
            return
        items = self.many(contents, depth)
        if type_of(value) is list:
            value[:] = items
        elif type_of(value) is set:
            fresh = set(items)
            value.clear()
            value.update(fresh)
        else:
            raise ValueError("not a container")


def _index(number: Form, count: int) -> int:
    if type_of(number) is not int or not 0 <= number < count:
        raise ValueError("a wrong reference")
    return int(number)


def _named_tuple(name: Form, fields: Form, items: list[Value]) -> Value:
    """A tuple whose items have names; equal to any tuple with the same items, like a namedtuple."""
    words = [str(word) for word in fields[: len(items)] if str(word).isidentifier()]
    names = {word: _item_property(at) for at, word in enumerate(words)}
    made = type_of(str(name)[:80], (tuple,), {**names, "__slots__": (), "_fields": tuple(words)})
    return tuple.__new__(made, items)


def _item_property(at: int) -> property:
    def item(self: tuple[Value, ...]) -> Value:
        return tuple.__getitem__(self, at)

    return property(item)


_MUTABLE: Final[dict[str, type]] = {"l": list, "d": dict, "s": set, "a": bytearray}
_READERS: Final[dict[str, Callable[[Decoder, Any, int], Any]]] = {
    "t": lambda of, form, depth: tuple(of.many(form[1], depth)),
    "z": lambda of, form, depth: frozenset(of.many(form[1], depth)),
    "n": lambda of, form, depth: _named_tuple(form[1], form[2], of.many(form[3], depth)),
    "b": lambda _of, form, _depth: form[1].encode("latin-1"),
    "c": lambda _of, form, _depth: complex(form[1], form[2]),
    "r": lambda of, form, depth: range(*of.many(form[1:4], depth)),
    "/": lambda of, form, depth: slice(*of.many(form[1:4], depth)),
    ".": lambda _of, _form, _depth: ...,
    "q": lambda of, form, depth: Fraction(*of.many(form[1:3], depth)),
    "D": lambda _of, form, _depth: Decimal(form[1]),
    "Td": lambda _of, form, _depth: datetime.date.fromisoformat(form[1]),
    "Tt": lambda _of, form, _depth: datetime.time.fromisoformat(form[1]),
    "Tm": lambda _of, form, _depth: datetime.datetime.fromisoformat(form[1]),
    "Ts": lambda _of, form, _depth: datetime.timedelta(form[1], form[2], form[3]),
    "g": lambda of, form, depth: iter(of.many(form[1], depth)),
}


def _opaque(value: object) -> Form:
    """What stands for a value that the channel cannot carry."""
    return ["?", type_of(value).__name__[:80]]


class Opaque:
    """Some object of the candidate's; equal to nothing."""

    def __init__(self, name: object) -> None:
        self.name = str(name)[:80]


def decode_result(form: Form) -> Value:
    """Rebuild a result that stands in a record of the channel; for use outside the box."""
    return Decoder(lambda other: Opaque(other[1] if len(other) > 1 else "")).decode(form)


# --- frames ------------------------------------------------------------------------------------


class Frames:
    """JSON messages with a length before each, over one socket."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Form) -> None:
        """Write a message.

        Raises:
            Malformed: it is too large.
            OSError: the other side is gone.
        """
        body = json.dumps(message, check_circular=False, separators=(",", ":")).encode("ascii")
        if len(body) > FRAME_BYTES_MAX:
            message = f"a message of {len(body)} bytes"
            raise Malformed(message)
        view = memoryview(_LENGTH.pack(len(body)) + body)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def receive(self, wait: Callable[[], None]) -> Form:
        """Read a message, calling `wait` before each read.

        Raises:
            EOFError: the other side is gone.
            Malformed: it is none.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, wait))
        if length > FRAME_BYTES_MAX:
            message = f"a message of {length} bytes"
            raise Malformed(message)
        try:
            return json.loads(self._exactly(length, wait))
        except (ValueError, RecursionError):
            raise Malformed("a message that is not JSON") from None

    def _exactly(self, count: int, wait: Callable[[], None]) -> bytes:
        parts = []
        while count:
            wait()
            part = os.read(self._descriptor, min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _at_once() -> None:
    """The candidate waits for as long as it takes."""


# --- the candidate's process -------------------------------------------------------------------


class Candidate:
    """Serves the referee's requests on the program's module."""

    def __init__(self, descriptor: int) -> None:
        self._frames = Frames(descriptor)
        self._objects: list[object] = []
        self._number_of: dict[int, int] = {}
        self._module = ModuleType(_MODULE)

    def serve(self, source: str) -> None:
        """Run the program, then answer until the referee hangs up."""
        self._module.__file__ = f"/box/{_MODULE}.py"
        sys.modules[_MODULE] = self._module
        try:
            _leave_source(self._module.__file__, source)
            code = compile(source, self._module.__file__, "exec", dont_inherit=True)
            exec(code, self._module.__dict__)  # noqa: S102 - what the box is for
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            traceback.print_exc()
            self._frames.send(self._raised(error))
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
        except StopIteration:
            reply = ["end"]
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            reply = self._raised(error)
        try:
            self._frames.send(reply)
        except Malformed as error:
            self._frames.send(self._raised(error))

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
        name = getattr(value, "__name__", None) or type_of(value).__name__
        return ["h", number, _kind(value), str(name)[:80], self._ancestry(value)]

    def _brief(self, value: Value) -> Form:
        """The form in which the referee sent it."""
        if type_of(value) is Callback:
            return ["k", value.number]
        name: Value = getattr(value, "__name__", None)
        if type_of(name) is str and getattr(builtins, name, None) is value:
            return ["y", name]
        return ["h", self._number_of.get(id(value), -1)]

    def _ancestry(self, value: object) -> str:
        return _builtin_base(value) if _kind(value) == "exception" else ""

    def _resolve(self, form: list[Any]) -> object:
        if form[0] == "h":
            return self._objects[form[1]]
        if form[0] == "k":
            return Callback(self, form[1])
        if form[0] == "y":
            return getattr(builtins, form[1])
        raise Malformed("an unknown form")

    def _raised(self, error: BaseException) -> Form:
        """Say what was raised: its builtin class, its own class where it has one, its arguments."""
        kind = type_of(error)
        own = None if getattr(builtins, kind.__name__, None) is kind else self._handle(kind)
        try:
            arguments = Encoder(self._handle).encode(list(error.args))
            text = str(error)[:TEXT_CHARS_MAX]
        except BaseException:  # noqa: BLE001 - the program's own exception classes may do anything
            arguments, text = ["l", 0, []], ""
        return ["raise", _builtin_base(kind), own, arguments, text, self._handle(error)]

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


def _kind(value: object) -> str:
    if isinstance(value, type):
        return "exception" if issubclass(value, BaseException) else "callable"
    if callable(value):
        return "callable"
    return "iterator" if hasattr(type_of(value), "__next__") else "object"


def _builtin_base(kind: object) -> str:
    mro: tuple[Value, ...] = getattr(kind, "__mro__", ())
    for base in mro:
        name: Value = base.__name__
        if getattr(builtins, name, None) is base:
            return str(name)
    return "Exception"


def _run_coroutine(awaitable: Value) -> object:
    import asyncio  # few programs need it, and it is slow to load

    async def main() -> object:
        return await awaitable

    return asyncio.run(main())


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
    "await": lambda _self, target: _run_coroutine(target),
}


# --- the referee's process ---------------------------------------------------------------------


DIED: Final = "the program died of signal {signal}"
KILLED: Final = DIED.format(signal=int(signal.SIGKILL))


class CandidateGone(BaseException):
    """The candidate's process ended, broke the protocol or ran out of time. Not an `Exception`, so
    that no test takes it for what it expects."""

    def __init__(self, verdict: str, error: str) -> None:
        super().__init__(error)
        self.verdict = verdict
        self.error = error


class InvalidTests(BaseException):
    """The tests themselves cannot be run. Not an `Exception`, for the same reason."""


class Link:
    """The referee's end: requests to the candidate, within the time of the running test."""

    def __init__(self, descriptor: int, pid: int, cpu_s: float, wall_s: float) -> None:
        self._descriptor = descriptor
        self._frames = Frames(descriptor)
        self._pid = pid
        self._limits_s = (cpu_s, wall_s)
        self._clock = (~pid << 3) | 2
        """The kernel's name for the CPU clock of another process."""
        self._ends_s = (0.0, 0.0)
        self._status: int | None = None
        self._depth = 0
        self._proxies: dict[int, object] = {}
        self._callbacks: list[Callable[..., Any]] = []
        self.asked = 0
        """Requests so far."""
        self.gone: CandidateGone | None = None

    def start_test(self) -> None:
        """Give the test that begins its full time."""
        cpu_s, wall_s = self._limits_s
        self._ends_s = (self._cpu_s() + cpu_s, time.monotonic() + wall_s)  # noqa: TID251 - no clock to be passed in here

    def load(self) -> None:
        """Wait until the program has run.

        Raises:
            CandidateGone: it ended first, or raised.
        """
        try:
            self._result(self._receive())
        except CandidateGone:
            raise
        except BaseException as error:  # noqa: BLE001 - rebuilt from what the program raised
            verdict = "memory_limit" if isinstance(error, MemoryError) else "runtime_error"
            raise self._lost(verdict, f"{type(error).__name__}: {error}") from None

    def ask(self, operation: str, *operands: object) -> Value:
        """Have the candidate do something; returns or raises what came of it.

        Raises:
            CandidateGone: nothing came of it.
        """
        if self.gone is not None:
            raise self.gone
        if self._depth >= CALLS_NESTED_MAX:
            message = "tests and program call each other without end"
            raise RecursionError(message)
        encoder = Encoder(self._out)
        form = encoder.encode(list(operands))
        self.asked += 1
        self._depth += 1
        try:
            self._send([operation, form])
            message = self._receive()
            while type_of(message) is list and message[:1] == ["callback"]:
                self._send(self._called_back(message))
                message = self._receive()
            return self._result(message, encoder.numbered)
        finally:
            self._depth -= 1

    def _send(self, message: Form) -> None:
        try:
            self._frames.send(message)
        except OSError:
            raise self._ended() from None
        except Malformed as error:
            raise InvalidTests(str(error)) from None

    def _receive(self) -> Form:
        self._check_time()
        try:
            return self._frames.receive(self._wait)
        except (EOFError, ConnectionError):
            raise self._ended() from None
        except Malformed as error:
            raise self._lost("protocol_error", f"the program sent {error}") from None

    def _wait(self) -> None:
        """Wait for input, looking at the candidate now and then."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not poll.poll(_TICK_S * 1_000):
            self._check_time()
            if self._reap():
                raise EOFError

    def _check_time(self) -> None:
        if self._cpu_s() > self._ends_s[0]:
            raise self._lost("cpu_limit", "CPU time")
        if time.monotonic() > self._ends_s[1]:  # noqa: TID251 - no clock to be passed in here
            raise self._lost("wall_limit", "wall time")

    def _cpu_s(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0

    def _reap(self) -> bool:
        """Tell whether the candidate's first process has ended, whoever still holds its socket."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def _ended(self) -> CandidateGone:
        """Say how it ended; one that only hung up is given a moment, then killed."""
        deadline_s = time.monotonic() + _HANG_UP_S  # noqa: TID251 - no clock to be passed in here
        while not self._reap():
            if time.monotonic() > deadline_s:  # noqa: TID251 - no clock to be passed in here
                return self._lost("protocol_error", "the program closed its socket")
            select.select([], [], [], _TICK_S / 10)
        code = os.waitstatus_to_exitcode(self._status or 0)
        if code == -signal.SIGXCPU:
            self.gone = CandidateGone("cpu_limit", "CPU time")
        elif code < 0:
            self.gone = CandidateGone("crashed", DIED.format(signal=-code))
        else:
            self.gone = CandidateGone("exited", f"the program exited with code {code}")
        return self.gone

    def _lost(self, verdict: str, error: str) -> CandidateGone:
        self.gone = CandidateGone(verdict, error[:TEXT_CHARS_MAX])
        if not self._reap():
            os.kill(self._pid, signal.SIGKILL)
        return self.gone

    def _result(self, message: Form, known: Sequence[object] = ()) -> Value:
        try:
            return self._understood(message, known)
        except Malformed as error:
            raise self._lost("protocol_error", f"the program sent {error}") from None

    def _understood(self, message: Form, known: Sequence[object]) -> Value:
        if type_of(message) is not list or not message:
            raise Malformed("no message")
        if message[0] == "end":
            raise StopIteration
        if message[0] == "raise" and len(message) == 6:
            raise self._rebuilt(message)
        if message[0] != "ok" or len(message) != 3:
            raise Malformed("an unknown message")
        decoder = Decoder(self._in, known)
        result = decoder.decode(message[1])
        for change in message[2] or ():
            if type_of(change) is not list or len(change) != 2:
                raise Malformed("an unknown change")
            decoder.refill(*change)
        return result

    def _rebuilt(self, message: list[Any]) -> BaseException:
        """The exception with its builtin class; a class of the program's own derives from it."""
        _, base_name, own, arguments, text, handle = message
        kind = _exception_named(base_name)
        decoder = Decoder(self._in)
        given = decoder.decode(arguments)
        if own is not None:
            found = Decoder(self._in).decode(own)
            if isinstance(found, type) and issubclass(found, BaseException):
                kind = found
        try:
            made = kind(*given) if type_of(given) is list else kind(str(text))
        except Exception:  # noqa: BLE001 - some builtin exceptions want other arguments
            made = _plain_exception(kind, str(text))
        if own is not None:
            made.__dict__["_assay_proxy"] = Decoder(self._in).decode(handle)
            made.__dict__["_assay_text"] = str(text)
        return made

    def _called_back(self, message: list[Form]) -> Form:
        try:
            _, number, form = message
            function = self._callbacks[_index(number, len(self._callbacks))]
            arguments, keywords = Decoder(self._in).decode(form)
            keywords = {str(word): value for word, value in keywords.items()}
        except (Malformed, ValueError, TypeError, AttributeError):
            raise self._lost("protocol_error", "the program sent no call") from None
        try:
            return ["result", Encoder(self._out).encode(function(*arguments, **keywords))]
        except Exception as error:  # noqa: BLE001 - the program sees it as it would have
            kind = _builtin_base(type(error))
            return ["error", kind, str(error)[:TEXT_CHARS_MAX]]

    def _in(self, form: list[Any]) -> object:
        """A handle of the candidate's, or a function of ours that comes back."""
        if form[0] == "k":
            return self._callbacks[_index(form[1], len(self._callbacks))]
        if form[0] != "h" or len(form) != 5:
            raise Malformed("an unknown form")
        number = form[1]
        if type_of(number) is not int or not 0 <= number < HANDLES_MAX:
            raise Malformed("an unknown handle")
        known = self._proxies.get(number)
        if known is None:
            known = self._proxies[number] = _proxy(self, form)
        return known

    def _out(self, value: Value) -> Form:
        """What is not data goes as what it is to the other side."""
        if isinstance(value, Proxy):
            return ["h", value._assay_number]  # noqa: SLF001 - a proxy's own link
        own = getattr(value, "__dict__", {}).get("_assay_number")
        if isinstance(value, type) and type_of(own) is int:
            return ["h", own]
        name: Value = getattr(value, "__name__", None)
        if type_of(name) is str and getattr(builtins, name, None) is value:
            return ["y", name]
        if callable(value):
            self._callbacks.append(value)
            return ["k", len(self._callbacks) - 1]
        if hasattr(type_of(value), "__next__") or isinstance(value, _VIEWS):
            return ["g", Encoder(self._out).encode(list(value))[2]]
        message = f"tests pass the program a {type_of(value).__name__}, which cannot be sent"
        raise InvalidTests(message)


_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))


class Proxy:
    """An object of the candidate's.

    What it does is asked for; what it is equal to is not: equality is identity, and it takes part
    in no arithmetic and no ordering.
    """

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
        return found

    def __len__(self) -> int:
        return int(self._assay_link.ask("len", self))

    def __bool__(self) -> bool:
        return self._assay_link.ask("bool", self) is True

    def __str__(self) -> str:
        return str(self._assay_link.ask("str", self))

    def __repr__(self) -> str:
        return str(self._assay_link.ask("repr", self))

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


class CallableProxy(Proxy):
    """A function or class."""

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        """Call it in the candidate's process."""
        return self._assay_link.ask("call", self, arguments, keywords)

    def __bool__(self) -> bool:
        return True


class IteratorProxy(Proxy):
    """A generator or iterator; it runs only as far as the tests ask."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Value:
        return self._assay_link.ask("next", self)


def _proxy(link: Link, form: list[Any]) -> object:
    _, number, kind, name, base = form
    name = str(name)[:80]
    if kind == "exception":
        return _exception_class(number, name, _exception_named(base))
    made = {"callable": CallableProxy, "iterator": IteratorProxy}.get(str(kind), Proxy)
    return made(link, number, name)


def _exception_named(name: object) -> type[BaseException]:
    found = getattr(builtins, name, None) if type_of(name) is str else None  # type: ignore[call-overload]
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    return Exception


def _exception_class(number: int, name: str, base: type[BaseException]) -> type[BaseException]:
    """Stands in the tests for an exception class of the program's own."""

    def attribute(self: Value, wanted: str) -> Value:
        proxy = self.__dict__.get("_assay_proxy")
        if proxy is None or wanted.startswith("__"):
            raise AttributeError(wanted)
        return getattr(proxy, wanted)

    members = {
        "_assay_number": number,
        "__getattr__": attribute,
        "__init__": lambda self, *given: BaseException.__init__(self, *given),
        "__new__": lambda kind, *given: base.__new__(kind, *given),
        "__str__": lambda self: self.__dict__.get("_assay_text") or base.__str__(self),
    }
    return type_of(name, (base,), members)


def _plain_exception(kind: type[BaseException], text: str) -> BaseException:
    made = BaseException.__new__(kind)
    made.args = (text,)
    return made


class _Builtins(dict[str, Any]):
    """What tests find under a name that they do not define: a builtin, else the candidate's."""

    def __init__(self, link: Link, first: Sequence[str]) -> None:
        super().__init__(builtins.__dict__)
        self._link = link
        for name in first:
            self.pop(name, None)

    def __missing__(self, name: str) -> Value:
        if name.startswith("__"):
            raise KeyError(name)
        return self._link.ask("lookup", name)


class _Module(ModuleType):
    """The program as a module, for tests that import it."""

    def __init__(self, link: Link, namespace: dict[str, Any], functions: Sequence[str]) -> None:
        super().__init__(_MODULE)
        self.__dict__["_assay_link"] = link
        self.__dict__["_assay_taken"] = (namespace, functions)

    def __getattr__(self, name: str) -> Value:
        if name == "__all__":
            return self._offered()
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.__dict__["_assay_link"].ask("lookup", name)
        except NameError as error:
            raise AttributeError(str(error)) from None

    def _offered(self) -> list[str]:
        """What `import *` brings: nothing that would replace a builtin or a name of the tests."""
        namespace, functions = self.__dict__["_assay_taken"]
        return [
            name
            for name in self.__dict__["_assay_link"].ask("names")
            if type_of(name) is str
            and (name in functions or not (name in namespace or hasattr(builtins, name)))
        ]


class Records:
    """What the worker will believe."""

    def __init__(self, box: Box, nonce: str) -> None:
        self._box = box
        self._nonce = nonce

    def write(self, **fields: object) -> None:
        """Append one record."""
        line = json.dumps({"nonce": self._nonce, **fields}, check_circular=False)
        self._box.channel_write(line.encode("ascii") + b"\n")


def _run_asserts(link: Link, tests: dict[str, Any], records: Records) -> None:
    """Run the tests' code in one namespace; each entry of `tests` is a test."""
    functions = tests["functions"]
    codes = [_compiled(text, f"tests[{at}]") for at, text in enumerate(tests["tests"])]
    namespace: dict[str, Any] = {"__name__": "tests"}
    namespace["__builtins__"] = _Builtins(link, functions)
    sys.modules[_MODULE] = _Module(link, namespace, functions)
    failed = _setup_verdict(_compiled(tests["setup"], "setup"), namespace, link)
    if failed is not None:
        records.write(test=0, verdict=failed[0], error=failed[1])
        return
    for name in functions:
        namespace.pop(name, None)
    for index, code in enumerate(codes):
        link.start_test()
        verdict, error = _verdict_of(code, namespace, link)
        records.write(test=index, verdict=verdict, error=error)
        if verdict != "pass" and (link.gone is not None or not tests["run_all"]):
            return


def _verdict_of(code: CodeType, namespace: dict[str, Any], link: Link) -> tuple[str, str]:
    try:
        exec(code, namespace)  # noqa: S102 - the trainer's own tests
    except CandidateGone as gone:
        return gone.verdict, gone.error
    except InvalidTests:
        raise
    except AssertionError as error:
        return "wrong_answer", _place(error)
    except MemoryError as error:
        return "memory_limit", _place(error)
    except BaseException as error:  # noqa: BLE001 - whatever the program raised came back here
        return "runtime_error", _place(error)
    if link.gone is not None:
        return link.gone.verdict, link.gone.error
    return "pass", ""


def _place(error: BaseException) -> str:
    """Name the line of the tests that failed."""
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(("tests[", "setup"))
    ]
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - asking the program may fail
        said = ""
    return f"{lines[-1] if lines else 'tests'}: {type_of(error).__name__}: {said}"[:TEXT_CHARS_MAX]


def _compiled(text: str, name: str) -> CodeType:
    try:
        return compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = f"{name} does not compile: {error}"
        raise InvalidTests(message) from None


def _setup_verdict(code: CodeType, namespace: dict[str, Any], link: Link) -> tuple[str, str] | None:
    """Run the setup; `None` where it raises nothing.

    Raises:
        InvalidTests: it fails without having asked the program for anything.
    """
    verdict, error = _verdict_of(code, namespace, link)
    if verdict == "pass":
        return None
    if link.asked == 0:
        message = f"setup fails: {error}"
        raise InvalidTests(message)
    return verdict, error


def _run_calls(link: Link, tests: dict[str, Any], records: Records) -> None:
    """Call one function with each case's arguments; results go out, expected values never came."""
    link.start_test()
    try:
        function = _function_named(link, tests["function"])
    except (NameError, AttributeError) as error:
        records.write(test=0, verdict="missing_name", error=str(error)[:TEXT_CHARS_MAX])
        return
    for index, case in enumerate(tests["cases"]):
        link.start_test()
        records.write(test=index, **_outcome_of(function, case))
        if link.gone is not None:
            return


def _outcome_of(function: Value, case: dict[str, Any]) -> dict[str, Any]:
    try:
        result = function(*case["args"], **case["kwargs"])
        if isinstance(result, IteratorProxy):
            result = list(result)
        return {"verdict": "returned", "result": Encoder(_opaque).encode(result)}
    except CandidateGone as gone:
        return {"verdict": gone.verdict, "error": gone.error}
    except MemoryError:
        return {"verdict": "memory_limit", "error": "MemoryError"}
    except BaseException as error:  # noqa: BLE001 - whatever the program raised came back here
        said = f"{type_of(error).__name__}: {_Text(error)}"
        return {"verdict": "runtime_error", "error": said[:TEXT_CHARS_MAX]}


class _Text:
    """`str` of an exception that may have to ask a program that is gone."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __str__(self) -> str:
        return " ".join(repr(given)[:200] for given in self._error.args if type_of(given) in _PLAIN)


_PLAIN: Final = {str, int, float, bool}


def _function_named(link: Link, path: str) -> Value:
    """A function of the program; or a method of its class `Solution`, as some data sets write."""
    first, *rest = path.split(".")
    try:
        found = link.ask("lookup", first)
    except NameError:
        found = getattr(link.ask("lookup", "Solution")(), first)
    for name in rest:
        holder = found() if isinstance(found, CallableProxy) and name == rest[-1] else found
        found = getattr(holder, name)
    return found


_MODES: Final = {"asserts": _run_asserts, "calls": _run_calls}


def main(payload: bytes, box: Box) -> None:
    """Fork the candidate, then unseal and run the tests."""
    ours, theirs = socket.socketpair()

    def candidate() -> NoReturn:
        Candidate(theirs.fileno()).serve(payload.decode("utf-8", "surrogatepass"))
        os._exit(0)

    pid = box.spawn_confined(candidate, keep_fds=[theirs.fileno()])
    theirs.close()
    tests = json.loads(box.unseal())
    box.confine_self()
    records = Records(box, tests["nonce"])
    link = Link(ours.fileno(), pid, tests["cpu_s"], tests["wall_s"])
    link.start_test()
    try:
        link.load()
        _MODES[tests["mode"]](link, tests, records)
    except CandidateGone as gone:
        records.write(test=0, verdict=gone.verdict, error=gone.error)
    except InvalidTests as error:
        records.write(invalid=str(error)[:TEXT_CHARS_MAX])
    records.write(done=True)
    ours.close()
