"""The platform's end of the warm process (`assay.cli.platform.warm`), and the parts it has forked.

A warm process that dies is started again for the next part; those that it has forked live on, and
how they end is then not known, only when.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from assay.core.codec import CodecError, unpack
from assay.core.errors import DependencyDown
from assay.worker.forking.roots import begin_early, leave_early, reap

WARM_LOG: Final = "warm.log"
WARM_S_MAX: Final = 60.0
"""How long the imports may take."""
FORK_S_MAX: Final = 20.0
MESSAGE_BYTES_MAX: Final = 4_096
PADDING: Final = "_" * 256
"""Room for what `ps` shows of a part."""
UNKNOWN: Final = 1
"""The exit code of a part whose end no one saw."""


class ForkedPart:
    """A part's warden: of `asyncio.subprocess.Process`, what a platform uses."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._ended = asyncio.Event()

    def ended(self, code: int) -> None:
        """It ended with this exit code, or -n by a signal n."""
        if self.returncode is None:
            self.returncode = code
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._ended.set()

    def watch(self) -> None:
        """No one will tell how it ends."""
        asyncio.get_running_loop().add_reader(self._pidfd, self.ended, UNKNOWN)

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        await self._ended.wait()
        return UNKNOWN if self.returncode is None else self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Kill it at once, by SIGKILL."""
        self.send_signal(signal.SIGKILL)


class PartForks:
    """Forks parts of one platform."""

    def __init__(self, log: Path) -> None:
        """`log`: of the warm process."""
        self._log = log
        self._pid: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        """Unless it was forked from this one."""
        self._root: int | None = None
        """The pidfd of a root server of slots, this process's child."""
        self._begun: socket.socket | None = None
        self._control: socket.socket | None = None
        self._warm: asyncio.Future[None] | None = None
        self._asked: deque[asyncio.Future[ForkedPart]] = deque()
        self._parts: dict[int, ForkedPart] = {}

    def begin_here(self) -> None:
        """Import what a worker host needs, and fork the warm process, so that both share it.

        A root server of slots begins beside the imports (`assay.worker.forking.roots`).

        Only where there is no other thread and no event loop yet: a command that does nothing else.
        """
        # heavy: of this command only
        from assay.cli.platform import warm

        if warm.has_threads():
            return
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._root = begin_early(self._log)  # beside the imports
        warm.import_shared()
        if warm.has_threads():  # an imported module's
            leave_early()
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        warm.settle()  # a collection writes to every object that it looks at
        pid = os.fork()
        if pid:
            leave_early()
            theirs.close()
            self._pid, self._begun = pid, ours
            return
        ours.close()
        os.setsid()
        with self._log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            for number, file in ((0, nothing), (1, log), (2, log)):
                os.dup2(file.fileno(), number)
        warm.run(theirs)
        sys.exit(0)

    def begin(self) -> None:
        """Have the warm process begin its imports, if it does not run."""
        if self._control is not None:
            return
        if self._begun is not None:
            self._control, self._begun = self._begun, None
        else:
            self._reap()
            self._control = self._spawned()
        self._control.settimeout(0)
        loop = asyncio.get_running_loop()
        if self._root is not None:
            loop.add_reader(self._root, self._reap_root)
        self._warm = loop.create_future()
        loop.add_reader(self._control, self._on_readable)

    def _spawned(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with theirs, self._log.open("ab") as log:
            module = ["-m", "assay.cli.platform.warm", str(theirs.fileno()), PADDING]
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, fixed arguments
                [sys.executable, "-P", *module],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._pid = self._process.pid
        return ours

    async def fork(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        lock: int,
        log: int,
        drain_s: float,
    ) -> ForkedPart:
        """Start `python -P *argv` under a warden.

        Args:
            argv: `-m`, a module, its arguments.
            environment: of the part.
            lock: a descriptor of its locked file.
            log: a descriptor, for what it prints.
            drain_s: see `warden.keep`.

        Raises:
            DependencyDown: the warm process does not serve.
        """
        self.begin()
        control, warm = self._control, self._warm
        if control is None or warm is None:
            raise DependencyDown("the warm process does not run")
        order = {"argv": list(argv), "environment": dict(environment), "drain_s": drain_s}
        answer: asyncio.Future[ForkedPart] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(WARM_S_MAX):
                if not warm.done():
                    await asyncio.wait((warm,))
            warm.result()
            with _memory_file(json.dumps(order).encode()) as wanted, _ourselves() as owner:
                socket.send_fds(control, [b"f"], [wanted, owner, lock, log])
            self._asked.append(answer)
            async with asyncio.timeout(FORK_S_MAX):
                return await answer  # of a caller that is gone, the part is ended
        except (OSError, TimeoutError) as error:
            self._lose()
            self._reap()  # it would carry out the order when it goes on
            raise DependencyDown(f"the warm process does not serve: {error!r}") from error
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled():  # it came as the caller left
                answer.result().kill()
            raise

    def _on_readable(self) -> None:
        if self._control is None:
            return
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES_MAX, 1)
            message = unpack(data) if data else None
        except BlockingIOError:
            return
        except (OSError, CodecError):
            descriptors, message = [], None
        match message:
            case ["warm", _] if self._warm is not None and not self._warm.done():
                self._warm.set_result(None)
            case ["forked", int() as pid] if descriptors and self._asked:
                part = self._parts[pid] = ForkedPart(pid, descriptors[0])
                answer = self._asked.popleft()
                if answer.done():
                    part.kill()
                else:
                    answer.set_result(part)
            case ["ended", int() as pid, int() as code]:
                if (ended := self._parts.pop(pid, None)) is not None:
                    ended.ended(code)
            case _:
                self._lose()

    def _lose(self) -> None:
        """The warm process is of no more use."""
        if self._control is None:
            return
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        self._control = None
        waiting: list[asyncio.Future[None] | asyncio.Future[ForkedPart]] = [*self._asked]
        self._asked.clear()
        if self._warm is not None:
            waiting.append(self._warm)
        for one in waiting:
            if not one.done():
                one.set_exception(BrokenPipeError(f"it ended; see {self._log}"))
                one.exception()  # its caller may have stopped waiting
        for part in self._parts.values():
            part.watch()
        self._parts.clear()

    def _reap(self) -> None:
        """End and reap the child, in whatever state it is."""
        if self._pid is None:
            return
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        else:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(
                    self._pid, signal.SIGKILL
                )  # not waited for yet, so the pid is still its own
                os.waitpid(self._pid, 0)
        self._pid = self._process = None

    def _reap_root(self) -> None:
        """The root server that was begun here has ended, or ends by itself, watched no longer."""
        if self._root is not None:
            asyncio.get_running_loop().remove_reader(self._root)
            reap(self._root)
            os.close(self._root)
            self._root = None

    async def close(self) -> None:
        """End the warm process, which has nothing to finish; parts live on."""
        self._lose()
        if self._begun is not None:
            self._begun.close()
            self._begun = None
        self._reap()
        self._reap_root()


@contextlib.contextmanager
def _ourselves() -> Iterator[int]:
    descriptor = os.pidfd_open(os.getpid())
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("assay-part", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW)
        yield descriptor
    finally:
        os.close(descriptor)
