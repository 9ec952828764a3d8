"""The host's end of the fork servers: starts the root server, keeps one server per stage.

Each level is started on first use and restarted after it died. A request in between raises
`ForkFailed` and may be repeated. A slot costs a fork of its stage's warm server: milliseconds.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from assay.core.codec import CodecError, unpack
from assay.core.ids import StageName
from assay.sandbox.accounting.blocked import BlockedTime, tree
from assay.worker.forking import processes
from assay.worker.forking.roots import RootProcess, start, take_early
from assay.worker.forking.server import MESSAGE_BYTES_MAX, packed_settings
from assay.worker.slots.main import SlotSettings
from assay.worker.slots.process import ForkedSlot

WARM_S_MAX: Final = 120.0
"""How long the import of a handler may take."""
FORK_S_MAX: Final = 20.0
log = structlog.get_logger(__name__)


class ForkFailed(Exception):
    """No process was forked; try again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A new process. The receiver closes `pidfd` and `channel`."""

    pid: int
    pidfd: int
    channel: socket.socket

    def watch(self, on_end: Callable[[], None]) -> None:
        """See `ForkedSlot.watch`."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self.pidfd)
            on_end()

        loop.add_reader(self.pidfd, ended)

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """See `ForkedSlot.connect`."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: protocol, sock=self.channel)

    def kill(self) -> None:
        """See `ForkedSlot.kill`."""
        processes.kill_tree(self.pid, self.pidfd)

    def close(self) -> None:
        """See `ForkedSlot.close`."""
        asyncio.get_running_loop().remove_reader(self.pidfd)
        with contextlib.suppress(OSError):
            os.close(self.pidfd)

    def cpu_ns(self) -> int:
        """See `ForkedSlot.cpu_ns`."""
        return processes.cpu_ns(self.pid)

    def blocked_time(self) -> BlockedTime:
        """See `ForkedSlot.blocked_time`."""
        return BlockedTime(lambda: tree(self.pid))

    def condition(self) -> processes.Condition:
        """See `ForkedSlot.condition`."""
        return processes.condition(self.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A child that a fork server was asked for."""

    name: str
    channel: socket.socket
    answer: asyncio.Future[tuple[int, int]]
    """Its pid and pidfd."""

    def give_up(self) -> None:
        """No one waits for it any more: end it, also if it is still to come."""
        self.channel.close()
        if not self.answer.done():
            self.answer.cancel()
        elif not self.answer.cancelled() and self.answer.exception() is None:
            _end(self.answer.result()[1])


class SlotForks(Protocol):
    """The source of a host's slots."""

    async def fork_slot(self, stage: StageName, number: int) -> ForkedSlot:
        """Start a slot of `stage`; `number` is unique for the life of the host.

        Raises:
            ForkFailed: no slot can be forked now; the message gives the reason.
        """

    async def close(self) -> None:
        """End all processes that were started."""


class ForkClient:
    """Sends requests to one fork server; replies arrive in the order of the requests."""

    def __init__(
        self, control: socket.socket, *, on_gone: Callable[[], None] = lambda: None
    ) -> None:
        self._control = control
        self._on_gone = on_gone
        self._control.settimeout(0)
        self._loop = asyncio.get_running_loop()
        self._warm: asyncio.Future[None] = self._loop.create_future()
        self._asked: deque[asyncio.Future[tuple[int, int]]] = deque()
        self.is_gone = False
        self._loop.add_reader(control.fileno(), self._on_readable)

    async def until_warm(self) -> None:
        """Wait until the server is ready.

        Raises:
            ForkFailed: it cannot serve; the message gives the reason.
        """
        try:
            async with asyncio.timeout(WARM_S_MAX):
                if not self._warm.done():
                    await asyncio.wait((self._warm,))
        except TimeoutError:
            raise ForkFailed(f"not warm after {WARM_S_MAX} s") from None
        self._warm.result()

    async def fork(self, name: str, kind: socket.SocketKind) -> Forked:
        """Request a child with a channel of this kind.

        Raises:
            ForkFailed: the server is gone, or does not answer.
        """
        return await self.born(self.ask(name, kind))

    def ask(self, name: str, kind: socket.SocketKind) -> "Asked":
        """Request a child; `born` waits for it. The server may still be starting.

        Raises:
            ForkFailed: the server is gone.
        """
        if self.is_gone:
            raise ForkFailed("the fork server is gone")
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        try:
            with theirs:
                socket.send_fds(self._control, [name.encode()], [theirs.fileno()])
        except OSError as error:
            ours.close()
            self.close()
            raise ForkFailed(f"{name} could not be forked: {error!r}") from error
        answer: asyncio.Future[tuple[int, int]] = self._loop.create_future()
        self._asked.append(answer)
        return Asked(name=name, channel=ours, answer=answer)

    async def born(self, asked: "Asked") -> Forked:
        """Wait for a child that was asked for.

        Raises:
            ForkFailed: the server does not answer.
        """
        answer = asked.answer
        try:
            async with asyncio.timeout(FORK_S_MAX):
                pid, pidfd = await answer
        except TimeoutError as error:
            asked.channel.close()
            self.close()
            raise ForkFailed(f"{asked.name} could not be forked: {error!r}") from error
        except BaseException:
            asked.give_up()
            raise
        return Forked(pid=pid, pidfd=pidfd, channel=asked.channel)

    def _on_readable(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES_MAX, 1)
            message = unpack(data) if data else None
        except BlockingIOError:
            return
        except (OSError, CodecError):
            descriptors, message = [], None
        match message:
            case ["warm", _]:
                self._warm.set_result(None)
            case ["forked", int() as pid] if descriptors and self._asked:
                self._answer(pid, descriptors[0])
            case ["broken", str() as why]:
                self._fail(ForkFailed(why))
            case _:
                self._fail(ForkFailed("the fork server is gone"))

    def _answer(self, pid: int, pidfd: int) -> None:
        answer = self._asked.popleft()
        if answer.cancelled():
            _end(pidfd)
        else:
            answer.set_result((pid, pidfd))

    def _fail(self, error: ForkFailed) -> None:
        self.close()
        if not self._warm.done():
            _fail_quietly(self._warm, error)
        for answer in self._asked:
            if not answer.done():
                _fail_quietly(answer, error)
        self._asked.clear()

    def close(self) -> None:
        """Close the connection to the server, which ends it and all processes below it."""
        if not self.is_gone:
            self.is_gone = True
            self._loop.remove_reader(self._control.fileno())
            with contextlib.suppress(OSError):  # it has gone
                self._control.shutdown(socket.SHUT_RDWR)  # this host's warden may have a copy
            self._control.close()
            self._fail(ForkFailed("the fork server was closed"))
            self._on_gone()


def _fail_quietly(future: asyncio.Future[Any], error: ForkFailed) -> None:
    future.set_exception(error)
    future.exception()  # the caller may have stopped waiting


class ForkServers:
    """All fork servers of a host: the root server, and one per stage below it."""

    def __init__(self, settings: SlotSettings, *, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._environment = environment
        self._lock = asyncio.Lock()
        self._locks: dict[StageName, asyncio.Lock] = {}
        self._root: ForkClient | None = None
        self._process: RootProcess | None = None
        self._stage_servers: dict[StageName, ForkClient] = {}
        self._ahead: dict[StageName, tuple[ForkClient, Asked]] = {}
        """Stage servers that were asked for before they are needed, and who forks them."""
        self._pidfds: dict[StageName, int] = {}

    async def fork_slot(self, stage: StageName, number: int) -> Forked:
        """Fork a slot of `stage`; `number` is unique for the life of the host.

        Raises:
            ForkFailed: no slot can be forked now; the message gives the reason.
        """
        server = await self._stage_server(stage)
        return await server.fork(str(number), socket.SOCK_STREAM)

    @contextlib.contextmanager
    def begun(self, stages: Iterable[StageName] = ()) -> Iterator[None]:
        """Start the root server beside what the caller does; it ends if that fails.

        One that cannot be started is started, or fails again, for the first slot.

        Args:
            stages: whose servers begin with it, because their slots will be wanted at once.
        """
        with contextlib.suppress(OSError, ForkFailed):
            root = self._begin_root()
            for stage in stages:
                self._ahead[stage] = root, root.ask(stage, socket.SOCK_SEQPACKET)
        try:
            yield
        except BaseException:
            if self._root is not None:
                self._root.close()
            raise

    def _begin_root(self) -> ForkClient:
        root = take_early(self._environment)
        if root is None or not self._told(root):
            root = start(self._environment)
            self._tell(root)
        self._process = root
        self._root = ForkClient(root.channel, on_gone=self._end_stage_servers)
        log.info("root_server_started", pid=root.pid)
        return self._root

    def _told(self, root: RootProcess) -> bool:
        """Whether it still lives, and knows its settings."""
        try:
            self._tell(root)
        except OSError:
            root.leave()
            return False
        return True

    def _tell(self, root: RootProcess) -> None:
        # What handlers print goes where this host's own output goes.
        socket.send_fds(root.channel, [packed_settings(self._settings)], [sys.stderr.fileno()])

    async def warm(self) -> None:
        """Wait for the root server ahead of the first slot; one that fails fails then again."""
        with contextlib.suppress(ForkFailed, OSError):
            await self._open_root()

    async def _stage_server(self, stage: StageName) -> ForkClient:
        async with self._locks.setdefault(stage, asyncio.Lock()):
            server = self._stage_servers.get(stage)
            if server is not None and not server.is_gone:
                return server
            root = await self._open_root()
            born = await self._born(stage, root)
            self._forget(stage)
            self._pidfds[stage] = born.pidfd
            server = self._stage_servers[stage] = ForkClient(born.channel)
            await server.until_warm()
            log.info("stage_server_warmed", stage=stage, pid=born.pid)
            return server

    async def _born(self, stage: StageName, root: ForkClient) -> Forked:
        """The server of a stage: the one that was asked for ahead, if this root server has it."""
        asked_of, asked = self._ahead.pop(stage, (root, None))
        if asked is None:
            return await root.fork(stage, socket.SOCK_SEQPACKET)
        if asked_of is root:
            return await root.born(asked)
        asked.give_up()
        return await root.fork(stage, socket.SOCK_SEQPACKET)

    def _forget(self, stage: StageName) -> None:
        """End the remains of an earlier server of the stage."""
        if (pidfd := self._pidfds.pop(stage, None)) is not None:
            _end(pidfd)

    async def _open_root(self) -> ForkClient:
        async with self._lock:
            root = self._root
            if root is None or root.is_gone:
                await self._end_root()
                root = self._begin_root()
            await root.until_warm()
            return root

    def _end_stage_servers(self) -> None:
        """Without the root server nothing would kill the processes of a dead stage server."""
        for server in self._stage_servers.values():
            server.close()

    async def _end_root(self) -> None:
        if self._root is not None:
            self._root.close()
        if self._process is not None:
            # It ends all processes below it, then itself.
            await asyncio.to_thread(self._process.wait)
            self._process = None

    async def close(self) -> None:
        """End all forked processes."""
        for _, asked in self._ahead.values():
            asked.give_up()
        self._ahead.clear()
        self._end_stage_servers()
        await self._end_root()
        for stage in list(self._pidfds):
            self._forget(stage)


def _end(pidfd: int) -> None:
    """End a forked process that no one needs."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)
