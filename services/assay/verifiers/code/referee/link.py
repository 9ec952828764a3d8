"""The referee's end of the socket: requests to the candidate within the running test's time.

Messages are bounded and checked; a malformed one is the candidate's failure.
"""

from __future__ import annotations

import builtins
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from assay.sandbox.accounting.blocked import spacing_ns
from assay.verifiers.code.referee.candidate import builtin_base
from assay.verifiers.code.referee.errors import (
    Control,
    describe,
    exception_class,
    exception_named,
    library_exception,
    plain_exception,
    said_by,
    text_of,
)
from assay.verifiers.code.referee.frames import Frames
from assay.verifiers.code.referee.held import (
    CONTAINERS,
    KEEPS_ALL,
    KEEPS_HELD,
    KEEPS_NONE,
    Known,
    Shared,
    builtin_type,
    handle_number,
    handle_of,
    held,
    held_container,
    plain,
    program_path,
)
from assay.verifiers.code.referee.lent import Lent, Streams, Surroundings
from assay.verifiers.code.referee.library import PATH, path_form
from assay.verifiers.code.referee.operations import Lengths
from assay.verifiers.code.referee.proxies import Proxy, proxy
from assay.verifiers.code.referee.values import (
    TEXT_CHARS_MAX,
    Decoder,
    Encoder,
    Malformed,
    Value,
    WireForm,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.sandbox.port import BlockedMeter

CALLS_NESTED_MAX: Final = 100
"""Depth of nested calls between tests and program."""
_ON_THE_WAY: Final = (["touch"], ["printed"], ["complained"])
_KEEPS: Final = dict.fromkeys(("get", "vars", "item", "lookup", "call_method"), KEEPS_ALL)
"""Operations that read something of an object of the program; other results keep only containers
of the program's classes."""
_REAP_S: Final = 0.005
_HANG_UP_S: Final = 1.0


DIED: Final = "the program died of signal {signal}"
KILLED: Final = DIED.format(signal=int(signal.SIGKILL))


def _now_ns() -> int:
    return time.monotonic_ns()  # noqa: TID251 - no clock to be passed in here


class CandidateGone(BaseException):
    """The candidate's process ended, broke the protocol or ran out of time. Not an `Exception`, so
    that no test mistakes it for an expected exception."""

    def __init__(self, verdict: str, error: str) -> None:
        super().__init__(error)
        self.verdict = verdict
        self.error = error


class InvalidTests(BaseException):
    """The tests themselves cannot run. Not an `Exception`, for the same reason."""


class Link:
    """The referee's end: sends requests to the candidate within the running test's time."""

    def __init__(
        self,
        descriptor: int,
        pid: int,
        limits_s: tuple[float, float],
        meter: BlockedMeter,
        texts: str = "",
    ) -> None:
        """Start; `limits_s` are CPU time and blocked time of a test, `texts` the tests' code."""
        self._descriptor = descriptor
        self._frames = Frames(descriptor)
        self._pid = pid
        self._limits_s = limits_s
        self._meter = meter
        self._clock = (~pid << 3) | 2
        """The kernel's name for the CPU clock of another process."""
        self._ends_s = (0.0, 0.0)
        self._tick_ns = spacing_ns(limits_s[1])
        self._heard_ns = 0
        """Time spent waiting for answers; the clock of the meter, which stands still while the
        tests' own code runs."""
        self._meter.begin_new(self._heard_ns)
        self._status: int | None = None
        self._depth = 0
        self._proxies: dict[int, object] = {}
        self._errors: dict[int, BaseException] = {}
        self._handles: dict[int, int] = {}
        """`id` of an object that represents a program's object but is no `Proxy` -> its number."""
        self._held_values: dict[int, object] = {}
        self.only_data = False
        """Whether a value is nothing but data: with `calls`, which compare exact types."""
        self._path = program_path(self)
        self._lent = Lent()
        self._streams = Streams(self._lent, texts)
        self._surroundings = Surroundings(texts)
        self._shared = Shared()
        self._turn = threading.RLock()
        """Tests may have threads; requests are serialised."""
        self.asked = 0
        """Requests so far."""
        self.gone: CandidateGone | None = None
        self.invalid: InvalidTests | None = None
        self.lengths = Lengths()
        self.control = Control({})
        """What the program's exceptions may end; set with the tests' text."""

    def start_test(self) -> None:
        """Start the full time of the next test."""
        # Less than a tick may count for the next test: a sample would cost more than it tells.
        if self._meter.undecided_ns(self._heard_ns) > self._tick_ns:
            self._meter.look(self._heard_ns, due_ns=self._heard_ns, has_answered=self._pid)
        cpu_s, blocked_s = self._limits_s
        begun_ns = self._meter.blocked_ns + self._meter.undecided_ns(self._heard_ns)
        self._ends_s = (self._cpu_s() + cpu_s, begun_ns / 1e9 + blocked_s)

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
            raise self._lost(verdict, said_by(error)) from None

    def ask(self, operation: str, *operands: object) -> Value:
        """Send a request to the candidate; return its result or raise its exception.

        Raises:
            CandidateGone: there is no result.
        """
        if self.gone is not None:
            raise self.gone
        if self._depth >= CALLS_NESTED_MAX:
            message = "calls between tests and program are nested too deeply"
            raise RecursionError(message)
        with self._turn:
            return self._asked(operation, operands)

    def _asked(self, operation: str, operands: Sequence[object]) -> Value:
        keeps = KEEPS_NONE if self.only_data else _KEEPS.get(operation, KEEPS_HELD)
        dropped = self._shared.unused()
        self._shared.drop(dropped)
        shared = self._shared.containers
        encoder, refreshed = self._refreshed(shared)
        at = len(encoder.numbered)
        try:
            forms = encoder.encode(list(operands))
        except Malformed as error:
            raise self.unusable(str(error)) from None
        request = [
            operation,
            forms,
            self._streams.form(),
            self._surroundings.news(),
            keeps,
            [dropped, refreshed],
        ]
        known = Known(encoder.numbered, shared, at, keeps)
        self.asked += 1
        self.lengths.asked(operation)
        self._depth += 1
        try:
            self._send(request)
            return self._result(self._reply(), known)
        except BaseException as error:
            changed = self.control.changed(error, operation)
            if changed is None:
                raise
            raise changed from None
        finally:
            self._depth -= 1

    def _encoder(self, known: Sequence[object] = ()) -> Encoder:
        return Encoder(self._out, known, own=handle_of)

    def _refreshed(self, shared: list[object]) -> tuple[Encoder, list[WireForm]]:
        """The new contents of shared containers that the tests changed; the encoder that made them.

        What cannot be sent stays the tests' own.
        """
        encoder, invalid = self._encoder(shared), self.invalid
        try:
            changed = self._shared.changed(shared)
            forms = [[at, encoder.contents(shared[at])] for at in changed]
        except (Malformed, InvalidTests):
            self.invalid = invalid
            return self._encoder(shared), []
        for at in changed:
            self._shared.told(shared[at])
        return encoder, forms

    def _reply(self) -> WireForm:
        """The answer; output and requests that the program sends before it are handled first."""
        message = self._receive()
        while type_of(message) is list and message[:1] in _ON_THE_WAY:
            if message[0] == "touch":
                self._send(self._touched(message))
            elif len(message) == 2 and type_of(message[1]) is str:
                (sys.stdout if message[0] == "printed" else sys.stderr).write(message[1])
            message = self._receive()
        return message

    def ask_for(self, kind: type, operation: str, *operands: object) -> Value:
        """Send a request and accept only a value of exactly this type.

        Raises:
            CandidateGone: as for `ask`, or the answer has another type.
        """
        answer = plain(self.ask(operation, *operands))
        if type_of(answer) is not kind:
            raise self._lost("protocol_error", f"the program sent no {kind.__name__}")
        return answer

    def _send(self, message: WireForm) -> None:
        try:
            self._frames.send(message)
        except OSError:
            raise self._ended() from None
        except Malformed as error:
            raise self.unusable(str(error)) from None

    def _receive(self) -> WireForm:
        self._check_time()
        began_ns = _now_ns()
        try:
            message = self._frames.receive(lambda: self._wait(began_ns))
        except (EOFError, ConnectionError):
            raise self._ended() from None
        except Malformed as error:
            raise self._lost("protocol_error", f"the program sent {error}") from None
        self._heard_ns += _now_ns() - began_ns
        self._check_answered()
        return message

    def _wait(self, began_ns: int) -> None:
        """Wait for input and check the candidate periodically.

        Args:
            began_ns: when the wait for this message began.
        """
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        due_ns = _now_ns() + self._tick_ns
        while not poll.poll(self._tick_ns / 1e6):
            now_ns = _now_ns()
            heard_ns = self._heard_ns + now_ns - began_ns
            self._meter.look(heard_ns, due_ns=heard_ns - max(0, now_ns - due_ns))
            due_ns = now_ns + self._tick_ns
            self._check_time()
            if self._reap():
                raise EOFError

    def _check_answered(self) -> None:
        """Count the time up to an answer, if that can break the limit.

        Raises:
            CandidateGone: it does.
        """
        undecided_ns = self._meter.undecided_ns(self._heard_ns)
        if (self._meter.blocked_ns + undecided_ns) / 1e9 > self._ends_s[1]:
            self._meter.look(self._heard_ns, due_ns=self._heard_ns, has_answered=self._pid)
            self._check_time()

    def _check_time(self) -> None:
        if self._cpu_s() > self._ends_s[0]:
            raise self._lost("cpu_limit", "CPU time")
        if self._meter.blocked_ns / 1e9 > self._ends_s[1]:
            raise self._lost("blocked_limit", "blocked time")

    def _cpu_s(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0

    def _reap(self) -> bool:
        """Tell whether the candidate's first process has ended, even if others hold its socket."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def _ended(self) -> CandidateGone:
        """Describe how it ended; if it only closed the socket, kill it after a short wait."""
        deadline_s = time.monotonic() + _HANG_UP_S  # noqa: TID251 - no clock to be passed in here
        while not self._reap():
            if time.monotonic() > deadline_s:  # noqa: TID251 - no clock to be passed in here
                return self._lost("protocol_error", "the program closed its socket")
            select.select([], [], [], _REAP_S)
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

    def _result(self, message: WireForm, known: Known | None = None) -> Value:
        try:
            return self._understood(message, known or Known([], [], 0, KEEPS_NONE))
        except Malformed as error:
            raise self._lost("protocol_error", f"the program sent {error}") from None

    def _understood(self, message: WireForm, known: Known) -> Value:
        if type_of(message) is not list or not message:
            raise Malformed("no message")
        if message[0] == "end" and len(message) == 2:
            raise StopIteration(Decoder(self._in).decode(message[1]))
        if message[0] == "raise" and len(message) == 7:
            raise self._rebuilt(message)
        if message[0] == "again" and len(message) == 2:
            raise self._own_error(message[1])
        if message[0] != "ok" or len(message) != 4:
            raise Malformed("an unknown message")
        return known.answered(Decoder(self._in, known.containers), self._shared, message)

    def _rebuilt(self, message: list[Any]) -> BaseException:
        """The exception with its builtin class, or a class of the program derived from it."""
        _, base_name, own, arguments, text, handle, details = message
        kind = exception_named(base_name)
        number = handle_number(handle)
        if number in self._errors:
            return self._errors[number]
        given = Decoder(self._in).decode(arguments)
        found = None if own is None else Decoder(self._in).decode(own)
        if isinstance(found, type) and issubclass(found, BaseException):
            kind = found
        try:
            made = kind(*given) if type_of(given) is list else kind(str(text))
        except Exception:  # noqa: BLE001 - some builtin exceptions need other arguments
            made = plain_exception(kind, str(text))
        if own is not None:
            made.__dict__["_assay_text"] = str(text)
        made.__dict__["_assay_proxy"] = Proxy(self, number, kind.__name__)
        self._errors[number] = made
        if details is not None:
            describe(made, Decoder(self._in).decode(details))
        return made

    def _own_error(self, number: WireForm) -> BaseException:
        """An exception of the tests that passed through the program."""
        found = self._lent.resolve(number)
        if not isinstance(found, BaseException):
            raise Malformed("an unknown exception of the tests")
        return found

    def _touched(self, message: list[WireForm]) -> WireForm:
        try:
            _, number, operation, form = message
            operands = Decoder(self._in).decode(form)
            return ["result", self._encoder().encode(self._touch(number, operation, operands))]
        except StopIteration as error:
            return ["end", self._encoder().encode(error.value)]
        except (Malformed, TypeError, ValueError) as error:
            if self.invalid is not None or not isinstance(error, Malformed):
                return ["error", self._sent_error(error)]
            raise self._lost("protocol_error", f"the program asked for {error}") from None
        except Exception as error:  # noqa: BLE001 - it is passed on to the program
            return ["error", self._sent_error(error)]

    def _touch(self, number: WireForm, operation: WireForm, operands: Value) -> Value:
        if type_of(operands) is not list:
            raise Malformed("no operands")
        return self._lent.touch(number, operation, operands)

    def _sent_error(self, error: BaseException) -> WireForm:
        """An exception of the tests: `["x", number, builtin class, arguments]`."""
        proxied = error.__dict__.get("_assay_proxy")
        if isinstance(proxied, Proxy):
            return ["h", proxied._assay_number]  # noqa: SLF001 - a proxy's own link
        try:
            arguments = self._encoder().encode(list(error.args))
        except (Malformed, InvalidTests):
            arguments = ["l", 0, [text_of(error)]]
        return ["x", self._lent.number(error), builtin_base(type_of(error)), arguments]

    def _in(self, form: list[Any]) -> object:
        """A handle of the candidate, or an object of the tests that the candidate returns."""
        tag = form[0]
        if tag == "=" and len(form) == 3:
            return form[1] if self.only_data else self._held(form[1], form[2])
        if tag == "=m" and len(form) == 3:
            return form[2] if self.only_data else self._held(form[2], form[1])
        if tag in ("k", "o", "I") and len(form) == 2:
            return self._lent.resolve(form[1])
        if tag == "x" and len(form) == 2:
            return self._own_error(form[1])
        if tag == "x" and len(form) == 7:
            return self._rebuilt(form)
        if tag == PATH and len(form) == 2 and type_of(form[1]) is str:
            return self._path(form[1])
        if tag == "y" and len(form) == 2:
            return builtin_type(form[1])
        if tag == "xs" and len(form) == 3:
            return library_exception(form)
        if tag != "h":
            raise Malformed("an unknown form")
        number = handle_number(form)
        if number not in self._proxies:
            if form[2] == "exception":
                made: object = exception_class(self.ask, form, self._in)
            else:
                made = proxy(self, form)
            self._proxies[number] = made
            self._handles[id(made)] = number
        return self._proxies[number]

    def _held(self, value: Value, handle: WireForm) -> Value:
        """A value of a class of the program's own that is derived from a type of data; a container
        is still to be filled."""
        number = handle_number(handle)
        known = self._held_values.get(number)
        if type_of(value) in CONTAINERS:
            if known is None or not issubclass(type_of(known), type_of(value)):
                known = held_container(Proxy(self, number, "object"), value, handle[3])
        elif known is None or issubclass(type_of(known), tuple):  # what a tuple holds may change
            known = held(Proxy(self, number, "object"), value, handle[3])
        self._held_values[number] = known
        return known

    def _out(self, value: Value) -> WireForm:
        """Values that are not data are sent as references that the peer can resolve."""
        if isinstance(value, Proxy):
            return ["h", value._assay_number]  # noqa: SLF001 - a proxy's own link
        if id(value) in self._handles:
            return ["h", self._handles[id(value)]]
        if type_of(value) is self._path:
            return [PATH, str(value)]
        if (path := path_form(value)) is not None:
            return path
        if isinstance(value, BaseException):
            return self._sent_error(value)
        name: Value = getattr(value, "__name__", None)
        if type_of(name) is str and getattr(builtins, name, None) is value:
            return ["y", name]
        form = self._lent.form(value)
        if form is None:
            name = type_of(value).__name__
            raise self.unusable(f"tests pass the program a {name}, which cannot be sent")
        return form

    def unusable(self, why: str) -> InvalidTests:
        """Create the error for tests that cannot judge any program.

        It is also stored here, because the tests may catch any exception.
        """
        self.invalid = InvalidTests(why)
        return self.invalid
