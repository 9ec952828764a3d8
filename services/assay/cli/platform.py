"""The platform on one machine: an embedded store, the reward API, a worker host, a planner.

Each is a process of its own and logs to a file of its own, so that one can die without the others.
One that dies is started again; only a crash loop (`assay.core.restarts`) ends that, and with it the
platform, unless the platform can do without the one that died.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from assay.core.errors import DependencyDown
from assay.core.restarts import RestartPolicy
from assay.edge.clock import Clock

LOG_BYTES_MAX = 64 * 1024**2
LOG_TAIL_BYTES = 2_000
POLL_S = 0.2
STOP_MARGIN_S = 5.0
"""What a child is given beyond its own drain time before it is killed."""


@dataclass(slots=True, kw_only=True)
class Child:
    """One process of the platform and how to start it again."""

    name: str
    argv: Sequence[str]
    sign: Path
    """The file that it writes when it is ready."""
    log: Path
    drain_s: float
    environment: dict[str, str]
    needed: bool = True
    """The platform ends when it keeps dying."""
    given_up: bool = False
    process: asyncio.subprocess.Process | None = None
    started_ns: int = 0
    was_ready: bool = False
    short_lives: int = 0
    """In a row, up to its last death."""
    restart_ns: int | None = None
    """When it is to be started again, once its death was noticed."""

    def log_tail(self) -> str:
        """The last that it said."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")


class Platform:
    """Starts, watches and stops children. Owns nothing else."""

    def __init__(
        self, *, clock: Clock, log_dir: Path, restarts: RestartPolicy | None = None
    ) -> None:
        self._clock = clock
        self._log_dir = log_dir
        self._restarts = restarts or RestartPolicy()
        self._children: list[Child] = []
        self._stopping = False

    async def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        sign: Path,
        drain_s: float,
        environment: Mapping[str, str] = MappingProxyType({}),
        needed: bool = True,
    ) -> Child:
        """Start a child under our Python; later children are stopped first."""
        self._log_dir.mkdir(parents=True, exist_ok=True)
        log = self._log_dir / f"{name}.log"
        if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_suffix(".log.1"))
        child = Child(
            name=name,
            argv=argv,
            sign=sign,
            log=log,
            drain_s=drain_s,
            environment={**os.environ, **environment},
            needed=needed,
        )
        self._children.append(child)
        await self._spawn(child)
        return child

    async def _spawn(self, child: Child) -> None:
        child.sign.unlink(missing_ok=True)  # one that was killed leaves it behind
        child.was_ready = False
        child.restart_ns = None
        child.started_ns = self._clock.monotonic_ns()
        with child.log.open("ab") as log:
            child.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *child.argv,
                env=child.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C at the terminal is ours to pass on, in order.
                start_new_session=True,
            )

    async def wait_for(self, child: Child, *, timeout_s: float) -> str:
        """Wait until `child` is ready; return what stands in its sign (its addresses).

        Raises:
            DependencyDown: it died or did not come up in time; says what it logged last.
        """
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        while self._clock.monotonic_ns() < deadline_ns:
            if _dead(child):
                break
            if text := _read(child.sign):
                return text
            await self._clock.sleep(POLL_S / 4)
        message = f"{child.name} did not start; the end of {child.log}:\n{child.log_tail()}"
        raise DependencyDown(message)

    async def watch(self) -> None:
        """Start dead children again until stopped.

        Raises:
            DependencyDown: a child that is needed is in a crash loop; says what it logged last.
        """
        while not self._stopping:
            for child in self._children:
                await self._look_after(child)
            await self._clock.sleep(POLL_S)

    async def _look_after(self, child: Child) -> None:
        if not _dead(child):
            child.was_ready = child.was_ready or child.sign.exists()
            return
        if child.given_up:
            return
        now_ns = self._clock.monotonic_ns()
        if child.restart_ns is None:
            child.restart_ns = self._restart_ns(child, now_ns)
        if child.restart_ns is None:
            child.given_up = True
        elif now_ns >= child.restart_ns and not self._stopping:
            await self._spawn(child)

    def _restart_ns(self, child: Child, now_ns: int) -> int | None:
        """When the child is to be started again; `None` = never, which the platform can bear.

        Raises:
            DependencyDown: never, and it is needed.
        """
        lived_s = (now_ns - child.started_ns) / 1e9
        child.short_lives = self._restarts.short_lives(
            child.short_lives, lived_s=lived_s, ready=child.was_ready
        )
        pause_s = self._restarts.pause_s(child.short_lives)
        if pause_s is not None:
            return now_ns + int(pause_s * 1e9)
        if not child.needed:
            return None
        message = f"{child.name} keeps dying; the end of {child.log}:\n{child.log_tail()}"
        raise DependencyDown(message)

    async def stop(self) -> None:
        """Drain in reverse order of starting: each is asked, waited for, and killed at last."""
        self._stopping = True
        for child in reversed(self._children):
            await _stop(child)


def _dead(child: Child) -> bool:
    return child.process is None or child.process.returncode is not None


def _read(sign: Path) -> str:
    try:
        return sign.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


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
        process.kill()
        await process.wait()
