"""The launcher's side of the zygote: its process, and the box that is ready.

A box is forked ahead of the run that will use it. The run that finds the zygote dead restarts it.
"""

import contextlib
import fcntl
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.core.errors import IsolationUnavailable
from assay.sandbox.port import SandboxError

_SCRIPT: Final = Path(__file__).parent.parent / "box" / "zygote.py"
_START_S: Final = 20.0
_BOX_S: Final = 20.0
_MESSAGE_BYTES: Final = 64 * 1024
_CLOSED_ON_EXEC: Final = int(socket.MSG_CMSG_CLOEXEC)
_SEALED: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@dataclass(slots=True)
class ForkedBox:
    """A box that waits for its request."""

    pid: int
    pidfd: int
    channel: socket.socket

    def last_words(self) -> str:
        """The box's messages before it closed the socket; may be empty."""
        with contextlib.suppress(OSError):
            return self.channel.recv(_MESSAGE_BYTES).decode(errors="replace").strip()
        return ""

    def kill(self) -> None:
        """Let nothing of it go on, whatever step it is at."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        os.close(self.pidfd)
        self.channel.close()


class Zygote:
    """The zygote process and the box that is ready."""

    def __init__(self, setup: Mapping[str, object]) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._asked = 0
        self._start()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_START_S)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, fixed arguments
                [*_interpreter(), str(theirs.fileno())],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._greet()

    @property
    def pid(self) -> int:
        """The pid of the current process."""
        return self._process.pid

    def _greet(self) -> None:
        try:
            with memory_file(marshal.dumps(dict(self._setup))) as wanted:
                socket.send_fds(self._control, [b"s"], [wanted])
            answer = self._control.recv(4_096)
        except TimeoutError:
            answer = b"failed: no answer"
        except ConnectionError:
            answer = b""
        self.is_native = answer == b"ready native"
        if answer not in {b"ready", b"ready native"}:
            self.close()
            raise IsolationUnavailable(f"zygote: {answer.decode(errors='replace') or 'died'}")

    def take(self) -> ForkedBox:
        """Return the box that is ready, and request the next one."""
        with self._lock:
            if self._process.poll() is not None:
                self._restart()
            with contextlib.ExitStack() as undo:
                try:
                    self._ask(until=1)
                    taken = self._receive()
                    undo.callback(taken.close)
                    self._ask(until=1)
                except OSError as error:
                    raise SandboxError(f"the zygote does not answer: {error}") from error
                undo.pop_all()
            return taken

    def _restart(self) -> None:
        self.close()
        self._asked = 0
        try:
            self._start()
        except IsolationUnavailable as error:
            raise SandboxError(f"the zygote died and cannot be restarted: {error}") from error

    def _ask(self, *, until: int) -> None:
        while self._asked < until:
            self._control.send(b"n")
            self._asked += 1

    def _receive(self) -> ForkedBox:
        pid, descriptors, _, _ = socket.recv_fds(self._control, 16, 2, _CLOSED_ON_EXEC)
        if len(descriptors) != 2:
            for descriptor in descriptors:
                os.close(descriptor)
            raise SandboxError("the zygote died")
        self._asked -= 1
        # Given its kind, the socket need not ask for it.
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptors[1])
        channel.settimeout(_BOX_S)
        return ForkedBox(int(pid), descriptors[0], channel)

    def close(self) -> None:
        """End the zygote and the box that is ready."""
        self._control.close()
        try:
            self._process.wait(_START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _interpreter() -> list[str]:
    """The interpreter without its virtual environment, for a fast start."""
    return [os.path.realpath(sys.executable), "-I", "-S", str(_SCRIPT)]


@contextlib.contextmanager
def memory_file(content: bytes) -> Iterator[int]:
    """Put `content` into an anonymous file, sealed and positioned at its beginning."""
    descriptor = os.memfd_create("assay", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        written = 0
        while written < len(content):
            written += os.pwrite(descriptor, memoryview(content)[written:], written)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)
        yield descriptor
    finally:
        os.close(descriptor)
