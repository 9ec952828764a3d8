"""The processes of a platform: started, watched, started again, drained.

Each is a process under a warden (`assay.store.warden`), so that it does not outlive this one,
and logs to a file of its own, so that one can die without the others. One that dies, is killed or
does not answer is started again, never before its predecessor is gone (both hold one lock file);
only a crash loop (`assay.core.tools.restarts`) or a wrong configuration ends that, and with it the
platform, unless the platform can do without the one that died.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from assay.cli.platform.forks import ForkedPart, PartForks
from assay.config.ready_files import REPLACES
from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.tools.restarts import RestartPolicy
from assay.edge.clock import Clock
from assay.edge.lifecycle import EXIT_CONFIGURATION
from assay.store import warden

LOG_BYTES_MAX: Final = 64 * 1024**2
LOG_TAIL_BYTES: Final = 4_000
REASON_CHARS_MAX: Final = 500
POLL_S: Final = 0.2
"""How often a child that starts, or is to start, is looked at; in others an event is waited for."""
STOP_MARGIN_S: Final = 5.0
"""What a child is given beyond its own drain time before it is killed."""
START_S_MAX: Final = 60.0
"""A child that is not ready by then is killed and started again."""
GONE_S_MAX: Final = 10.0
"""How long a child that was killed may hold its lock."""


Process = asyncio.subprocess.Process | ForkedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """When a child that lives is taken for hung: `/healthz` is asked, any answer will do."""

    every_s: float = 5.0
    again_s: float = 1.0
    """In place of `every_s` after an answer that was missed."""
    answer_s_max: float = 5.0
    missed_max: int = 6
    """In a row. Counted, not timed: a machine that slept, or we who were stopped, cost one."""

    def pause_s(self, missed: int) -> float:
        """How long after one question the next is asked: questions cost an idle platform CPU time,
        so they are rare while all is well."""
        return min(self.again_s, self.every_s) if missed else self.every_s


@dataclass(slots=True, kw_only=True)
class Child:
    """One process of the platform and how to start it again."""

    name: str
    argv: Sequence[str]
    ready_file: Path
    """The file that it writes when it is ready."""
    log: Path
    drain_s: float
    environment: dict[str, str]
    needed: bool = True
    """The platform ends when it keeps dying."""
    given_up: bool = False
    start_s_max: float = START_S_MAX
    process: Process | None = None
    """Its warden."""
    started_ns: int = 0
    log_offset: int = 0
    """Where this life's part of the log begins."""
    was_ready: bool = False
    was_ever_ready: bool = False
    short_lives: int = 0
    """In a row, up to its last death."""
    restart_ns: int | None = None
    """When it is to be started again, once its death was noticed."""
    replaces: str = ""
    """Why its last life ended, if this process ended it."""
    asked_ns: int = 0
    missed: int = 0
    asking: asyncio.Task[bool] | None = field(default=None, repr=False)
    life: asyncio.Task[int] | None = field(default=None, repr=False)
    """Ends with the process."""

    @property
    def pid(self) -> int | None:
        """Of the process itself, while it runs."""
        return None if _dead(self) else warden.wards_pid(self.process.pid)  # type: ignore[union-attr]

    def reason(self) -> str:
        """Return the last line that it logged since its start, without its name."""
        with self.log.open("rb") as file:
            file.seek(max(self.log_offset, self.log.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it logged nothing")
        return last.removeprefix(f"{self.name}: ")[:REASON_CHARS_MAX]


class Platform:
    """Starts, watches and stops children."""

    def __init__(
        self,
        *,
        clock: Clock,
        log_dir: Path,
        restarts: RestartPolicy | None = None,
        liveness: Liveness | None = None,
        forks: PartForks | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            clock: for times.
            log_dir: one file per child.
            restarts: when one that died is started again.
            liveness: when one is taken for hung.
            forks: where children that are modules come from; without it each is a new interpreter.
        """
        self._forks = forks
        self._clock = clock
        self._log_dir = log_dir
        self._restarts = restarts or RestartPolicy()
        self._liveness = liveness or Liveness()
        self._children: list[Child] = []
        self._stopping = False

    async def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        ready_file: Path,
        drain_s: float,
        environment: Mapping[str, str] = MappingProxyType({}),
        needed: bool = True,
    ) -> Child:
        """`add` a child and `begin` it.

        Raises:
            DependencyDown: one of an earlier platform does not go.
        """
        child = self.add(
            name,
            argv,
            ready_file=ready_file,
            drain_s=drain_s,
            environment=environment,
            needed=needed,
        )
        await self.begin(child)
        return child

    def add(
        self,
        name: str,
        argv: Sequence[str],
        *,
        ready_file: Path,
        drain_s: float,
        environment: Mapping[str, str] = MappingProxyType({}),
        needed: bool = True,
    ) -> Child:
        """A child that `begin` starts under our Python; what is added later is stopped first."""
        self._log_dir.mkdir(parents=True, exist_ok=True)
        ready_file.parent.mkdir(parents=True, exist_ok=True)
        log = self._log_dir / f"{name}.log"
        if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_suffix(".log.1"))
        child = Child(
            name=name,
            argv=argv,
            ready_file=ready_file,
            log=log,
            drain_s=drain_s,
            environment={**os.environ, **environment},
            needed=needed,
        )
        self._children.append(child)
        return child

    async def begin(self, child: Child) -> None:
        """Start it.

        Raises:
            DependencyDown: one of an earlier platform does not go.
        """
        lock = await self._take_place(child)
        try:
            child.ready_file.unlink(missing_ok=True)  # one that was killed leaves it behind
            child.was_ready = False
            child.restart_ns = None
            child.missed = 0
            if child.process is not None:  # counted by the new process: this one has no metrics
                child.environment[REPLACES] = f"{child.name}:{child.replaces or 'died'}"
            child.replaces = ""
            child.started_ns = child.asked_ns = self._clock.monotonic_ns()
            with child.log.open("ab") as log:
                child.log_offset = log.tell()
                child.process = await self._begin(child, lock, log.fileno())
                child.life = asyncio.create_task(child.process.wait(), name=f"life of {child.name}")
        finally:
            os.close(lock)

    async def _begin(self, child: Child, lock: int, log: int) -> Process:
        drain_s = child.drain_s + STOP_MARGIN_S
        if self._forks is not None:
            with contextlib.suppress(DependencyDown):  # then it is started by itself
                return await self._forks.fork(
                    child.argv, environment=child.environment, lock=lock, log=log, drain_s=drain_s
                )
        return await asyncio.create_subprocess_exec(
            *warden.command(
                [sys.executable, "-P", *child.argv],
                owner_pid=os.getpid(),
                lock=lock,
                drain_s=drain_s,
            ),
            env=child.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            # Ctrl-C at the terminal is ours to pass on, in order.
            start_new_session=True,
        )

    async def _take_place(self, child: Child) -> int:
        """Lock the child's file once nothing of its predecessor is left: the port is free then."""
        path = child.ready_file.with_suffix(".lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for patience_s in (child.drain_s + STOP_MARGIN_S, GONE_S_MAX):
            deadline_ns = self._clock.monotonic_ns() + int(patience_s * 1e9)
            while self._clock.monotonic_ns() < deadline_ns:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return lock
                await self._clock.sleep(POLL_S / 10)
            for pid in warden.pids_in(path):  # they hold the lock, so the pids are still theirs
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        os.close(lock)
        message = f"{child.name}: its predecessor holds {path} and does not go"
        raise DependencyDown(message)

    async def wait_for(self, child: Child, *, timeout_s: float = START_S_MAX) -> str:
        """Wait until `child` is ready; return what its ready file says (its addresses).

        One that dies meanwhile, or is not ready after `timeout_s`, is started again.

        Raises:
            FailedPrecondition: its configuration is wrong.
            DependencyDown: it does not start; the message has its last log line.
        """
        child.start_s_max = timeout_s
        while True:
            if not _dead(child) and (text := _read(child.ready_file)):
                return text
            await self._look_after(child)
            await self._clock.sleep(POLL_S / 4)

    async def watch(self) -> None:
        """Start dead and hung children again until stopped.

        Raises:
            FailedPrecondition: the configuration of a child is wrong.
            DependencyDown: a child that is needed is in a crash loop; says what it logged last.
        """
        try:
            while not self._stopping:
                for child in self._children:
                    await self._look_after(child)
                await self._until_due()
        finally:
            tasks: list[asyncio.Task[Any]] = []
            for child in self._children:
                tasks += [task for task in (child.asking, child.life) if task is not None]
                child.asking = child.life = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_due(self) -> None:
        """Sleep until a child may need something."""
        lasting = [child for child in self._children if not child.given_up]
        tasks = [task for child in lasting for task in (child.life, child.asking)]
        events: list[asyncio.Task[Any]] = [task for task in tasks if task is not None]
        if not events or not all(child.was_ready and not _dead(child) for child in lasting):
            await self._clock.sleep(POLL_S)
            return
        due_ns = [self._due_ns(child) for child in lasting if child.asking is None]
        pause_s = (min(due_ns) - self._clock.monotonic_ns()) / 1e9 if due_ns else None
        if pause_s is None or pause_s > 0:
            await asyncio.wait(events, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)

    async def _look_after(self, child: Child) -> None:
        now_ns = self._clock.monotonic_ns()
        if not _dead(child):
            if child.was_ready or child.ready_file.exists():
                child.was_ready = child.was_ever_ready = True
                self._probe(child, now_ns)
            elif now_ns - child.started_ns > child.start_s_max * 1e9:
                child.replaces = "not_ready"
                self._kill(child, f"was not ready after {child.start_s_max:g} s")
            return
        if child.given_up:
            return
        if child.restart_ns is None:
            child.restart_ns = self._restart_ns(child, now_ns)
        if child.restart_ns is None:
            child.given_up = True
        elif now_ns >= child.restart_ns and not self._stopping:
            await self.begin(child)

    # -- liveness ------------------------------------------------------------------------------
    def _probe(self, child: Child, now_ns: int) -> None:
        """Ask whether it is alive, without waiting for the answer; kill it when it hangs."""
        if child.asking is not None:
            if not child.asking.done():
                return
            child.missed = 0 if child.asking.result() else child.missed + 1
            child.asking = None
            if child.missed >= self._liveness.missed_max:
                child.replaces = "hung"
                self._kill(child, f"did not answer {child.missed} times in a row")
        elif now_ns >= self._due_ns(child):
            child.asked_ns = now_ns
            child.asking = asyncio.create_task(
                _answers(child.ready_file, self._liveness.answer_s_max)
            )

    def _due_ns(self, child: Child) -> int:
        return child.asked_ns + int(self._liveness.pause_s(child.missed) * 1e9)

    def _kill(self, child: Child, why: str) -> None:
        """Send SIGKILL; the watcher notices the death and starts it again."""
        with child.log.open("a", encoding="utf-8") as log:
            log.write(f"{child.name}: {why}: killed, to be started again\n")
        child.missed = 0
        pid = child.pid
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            elif child.process is not None:
                child.process.kill()

    def _restart_ns(self, child: Child, now_ns: int) -> int | None:
        """When the child is to be started again; `None` = never, which the platform can bear.

        Raises:
            FailedPrecondition: never: its configuration is wrong.
            DependencyDown: never, and it is needed.
        """
        code = child.process.returncode if child.process is not None else None
        if code == EXIT_CONFIGURATION and not child.was_ever_ready:
            why = child.reason().removeprefix(f"{FailedPrecondition.reason}: ")
            raise FailedPrecondition(f"{child.name}: {why}")
        lived_s = (now_ns - child.started_ns) / 1e9
        child.short_lives = self._restarts.short_lives(
            child.short_lives, lived_s=lived_s, ready=child.was_ready
        )
        pause_s = self._restarts.pause_s(child.short_lives)
        if pause_s is not None:
            return now_ns + int(pause_s * 1e9)
        if not child.needed:
            return None
        what = "keeps dying" if child.was_ever_ready else "did not start"
        raise DependencyDown(f"{child.name} {what}: {child.reason()}; see {child.log}")

    async def stop(self) -> None:
        """Drain in reverse order of starting: each is asked, waited for, and killed at last."""
        self._stopping = True
        for child in reversed(self._children):
            await _stop(child)
        if self._forks is not None:
            await self._forks.close()


def _dead(child: Child) -> bool:
    return child.process is None or child.process.returncode is not None


def _read(ready_file: Path) -> str:
    try:
        return ready_file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


async def _answers(ready_file: Path, timeout_s: float) -> bool:
    """Whether `/healthz` at the address in the ready file answers, whatever; true without one.

    A connection that is accepted and then closed is an answer too: a process that refuses one more
    connection of this address (`reward.connections_per_peer_max`) is alive, and to kill it would
    let anyone on this machine, or behind a proxy on it, end the API by holding connections.
    """
    try:
        address = json.loads(_read(ready_file))["http"]
    except (ValueError, KeyError, TypeError):
        return True
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                parts.hostname,
                parts.port,
                ssl=_any_certificate() if parts.scheme == "https" else None,
            )
            try:
                writer.write(
                    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                return (await reader.readline())[:5] in {b"HTTP/", b""}
            finally:
                writer.close()
    except (ConnectionRefusedError, TimeoutError):
        return False
    except OSError as error:
        return isinstance(error, (ConnectionError, ssl.SSLError))


def _any_certificate() -> ssl.SSLContext:
    """For asking our own child whether it lives; nothing secret is sent."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _stop(child: Child) -> None:
    process = child.process
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        # Not `wait_for`: on Python 3.11 it can lose a cancellation.
        async with asyncio.timeout(child.drain_s + STOP_MARGIN_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            if (pid := child.pid) is not None:
                os.kill(pid, signal.SIGKILL)
            process.kill()
        await process.wait()
