"""The harness of `code.interactive`: connects the program and the interactor in one box.

Each is a child in a pid and mount namespace of its own, forked before the sealed data (the
interactor, the test) was read. This process, pid 1 of the box, carries every byte between them: so
both are bounded, and the end of one is the end of the other's input. A deadlock is a tree in which
nothing runs, which the box's own limit of blocked time ends.

The zygote loads it as a single file: standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.sandbox.port import Box

_CHUNK: Final = 1 << 16
_PENDING_MAX: Final = 1 << 20
"""Bytes that wait for a side; above it the other side is not read."""
_TAIL: Final = 2_000
_SIGNALED: Final = 128
"""A shell's exit code for signal 0; a program's own code above it reads as a signal too."""
_LETS_FINISH: Final = (0, 7)
"""Exit codes of an interactor that has accepted, or given points: the program may end by itself."""
_LAST_WORD_MS: Final = 200
"""How long the end of an interactor's output may come before its own end, which says more."""


class _Side:
    """One of the two programs, as this process sees it."""

    def __init__(self) -> None:
        self.pid = 0
        self.stdin = -1
        """Writes to its standard input; -1 once closed."""
        self.stdout = -1
        self.pending = bytearray()
        """What the other side has written and this one not yet taken."""
        self.written = 0
        """Bytes of its standard output."""
        self.code: int | None = None
        """Minus the signal's number if one ended it."""
        self.cpu_s = 0.0
        self.is_killed = False
        """By this process."""
        self.is_silent = False
        """Its standard output has ended."""

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1
        self.pending.clear()

    def kill(self) -> None:
        if self.code is None:
            self.is_killed = True
            os.kill(self.pid, signal.SIGKILL)


def main(payload: bytes, box: Box) -> None:
    """Start both, carry their bytes, report how they ended."""
    order = json.loads(payload)
    errors, errors_in = os.pipe()
    program, interactor = _Side(), _Side()
    told, hears = socket.socketpair()
    _start(box, program, order["program"], 2, None)
    _start(box, interactor, None, errors_in, hears)
    hears.close()
    os.close(errors_in)
    sealed = box.unseal()
    box.confine_self()
    told.sendall(len(sealed).to_bytes(8, "big") + sealed)
    told.close()
    tail = _relay(program, interactor, errors, order["output_bytes"])
    report = {
        "program": _ending(program),
        "interactor": _ending(interactor),
        "flood": program.written > order["output_bytes"],
        "tail": tail.decode("utf-8", "replace"),
        "tail_cut": len(tail) == _TAIL,
    }
    box.channel_write(json.dumps(report).encode("ascii"))


def _ending(side: _Side) -> dict[str, Any]:
    return {"code": side.code, "cpu_s": side.cpu_s, "killed": side.is_killed}


def _start(
    box: Box, side: _Side, order: dict[str, Any] | None, errors: int, hears: socket.socket | None
) -> None:
    """Fork a side; without an order it waits for one on `hears`."""
    inner_in, side.stdin = os.pipe()
    side.stdout, inner_out = os.pipe()
    keep = [inner_in, inner_out, errors, *([hears.fileno()] if hears else [])]

    def run() -> None:
        wanted = order if hears is None else json.loads(_received(hears))
        os.dup2(inner_in, 0)
        os.dup2(inner_out, 1)
        os.dup2(errors, 2)
        os.closerange(3, 256)
        _run(wanted)

    side.pid = box.spawn_confined(run, keep_fds=keep)
    os.close(inner_in)
    os.close(inner_out)
    os.set_blocking(side.stdin, False)


def _received(hears: socket.socket) -> bytes:
    with hears.makefile("rb") as file:
        return file.read(int.from_bytes(file.read(8), "big"))


def _run(order: dict[str, Any] | None) -> None:
    """Write the files and run the program as a child: signals mean nothing to a pid 1."""
    assert order is not None  # noqa: S101 - the caller's
    for name, text in order["files"].items():
        mode = 0o755 if name in order["executables"] else 0o644
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b64decode(text))
    pid = os.fork()
    if pid == 0:
        _execute(order)
    for descriptor in (0, 1):
        os.close(descriptor)
    while (ended := os.wait())[0] != pid:
        pass
    code = os.waitstatus_to_exitcode(ended[1])
    os._exit(code if code >= 0 else _SIGNALED - code)


def _execute(order: dict[str, Any]) -> None:
    """Become the program."""
    cpu_s = order["cpu_s"]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    argv = order["argv"]
    try:
        os.execvpe(argv[0], argv, order["env"])  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _relay(program: _Side, interactor: _Side, errors: int, output_bytes: int) -> bytes:
    """Carry bytes until both have ended; returns the end of the interactor's messages."""
    ends = {}
    for side in (program, interactor):
        ends[os.pidfd_open(side.pid)] = side
    tail, speaks = b"", True
    while any(side.code is None for side in (program, interactor)):
        ready = _ready(program, interactor, [errors, *ends] if speaks else list(ends))
        if not ready:
            program.close_stdin()
        for descriptor in ready:
            if descriptor in ends:
                side = ends.pop(descriptor)
                os.close(descriptor)
                _reap(side)
                _ended(side, program, interactor)
            elif descriptor == errors:
                said = os.read(errors, _CHUNK)
                speaks = bool(said)  # an end would be ready forever, and keep this process busy
                tail = (tail + said)[-_TAIL:]
            else:
                _carry(descriptor, program, interactor, output_bytes)
    os.set_blocking(errors, False)
    with contextlib.suppress(BlockingIOError):
        tail = (tail + os.read(errors, _CHUNK))[-_TAIL:]
    return tail


def _ready(program: _Side, interactor: _Side, others: Sequence[int]) -> list[int]:
    """Wait; nothing is ready when an interactor has closed its output and goes on, or has ended and
    left its output to another process."""
    poll = select.poll()
    for one in others:
        poll.register(one, select.POLLIN)
    for side, other in ((program, interactor), (interactor, program)):
        if side.stdout >= 0 and len(other.pending) < _PENDING_MAX:
            poll.register(side.stdout, select.POLLIN)
        if side.stdin >= 0 and side.pending:
            poll.register(side.stdin, select.POLLOUT)
    is_over = interactor.is_silent or interactor.code is not None
    lingers = is_over and program.stdin >= 0 and not program.pending
    return [descriptor for descriptor, _ in poll.poll(_LAST_WORD_MS if lingers else None)]


def _carry(descriptor: int, program: _Side, interactor: _Side, output_bytes: int) -> None:
    for side, other in ((program, interactor), (interactor, program)):
        if descriptor == side.stdout:
            data = os.read(descriptor, _CHUNK)
            side.written += len(data)
            if not data:
                os.close(descriptor)
                side.stdout, side.is_silent = -1, True
                _end_input(program, interactor)
            elif side is program and side.written > output_bytes:
                program.kill()
            elif other.stdin >= 0:
                other.pending += data
        elif descriptor == side.stdin:
            try:
                taken = os.write(descriptor, side.pending)
            except OSError:  # it reads no more
                side.close_stdin()
                continue
            del side.pending[:taken]
            _end_input(program, interactor)


def _reap(side: _Side) -> None:
    _, status, usage = os.wait4(side.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    side.code = code if code <= _SIGNALED else _SIGNALED - code
    side.cpu_s = usage.ru_utime + usage.ru_stime


def _ended(side: _Side, program: _Side, interactor: _Side) -> None:
    """An interactor that refuses ends the program; otherwise the program may finish by itself."""
    if side is interactor and interactor.code not in _LETS_FINISH:
        program.kill()
    _end_input(program, interactor)


def _end_input(program: _Side, interactor: _Side) -> None:
    """The end of one is the end of the other's input, behind all that it has said: a machine that
    is busy may show the end first. An interactor may close its output and go on."""
    if program.is_silent and not interactor.pending:
        interactor.close_stdin()
    if interactor.is_silent and interactor.code is not None and not program.pending:
        program.close_stdin()
