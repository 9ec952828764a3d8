"""The platform on one machine: an embedded store, the reward API, a worker host, a planner.

Each is a process of its own and logs to a file of its own, so that one can die without the others;
one that dies is started again, a bounded number of times in a row. After that the platform ends,
unless it can do without the one that died.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from assay.core.errors import DependencyDown
from assay.edge.clock import Clock

RESTARTS_MAX = 5
RESTART_WINDOW_S = 60.0
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
    log: Path
    drain_s: float
    environment: dict[str, str]
    needed: bool = True
    """The platform ends when it keeps dying."""
    given_up: bool = False
    process: asyncio.subprocess.Process | None = None
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_MAX))

    def may_restart(self, now_s: float) -> bool:
        """False once it died `RESTARTS_MAX` times within the window."""
        self.deaths.append(now_s)
        return len(self.deaths) < RESTARTS_MAX or now_s - self.deaths[0] > RESTART_WINDOW_S

    def log_tail(self) -> str:
        """The last that it said."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")


class Platform:
    """Starts, watches and stops children. Owns nothing else."""

    def __init__(self, *, clock: Clock, log_dir: Path) -> None:
        self._clock = clock
        self._log_dir = log_dir
        self._children: list[Child] = []
        self._stopping = False

    async def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
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
            log=log,
            drain_s=drain_s,
            environment={**os.environ, **environment},
            needed=needed,
        )
        self._children.append(child)
        await self._spawn(child)
        return child

    async def _spawn(self, child: Child) -> None:
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

    async def wait_for(self, child: Child, sign: Path, *, timeout_s: float) -> str:
        """Wait until `child` has written `sign` (its addresses); return what stands there.

        Raises:
            DependencyDown: it died or did not come up in time; says what it logged last.
        """
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        while self._clock.monotonic_ns() < deadline_ns:
            if child.process is None or child.process.returncode is not None:
                break
            if text := _read(sign):
                return text
            await self._clock.sleep(POLL_S / 4)
        message = f"{child.name} did not start; the end of {child.log}:\n{child.log_tail()}"
        raise DependencyDown(message)

    async def watch(self) -> None:
        """Start dead children again until stopped.

        Raises:
            DependencyDown: a child that is needed dies again and again.
        """
        while not self._stopping:
            for child in self._children:
                await self._revive(child)
            await self._clock.sleep(POLL_S)

    async def _revive(self, child: Child) -> None:
        if self._stopping or child.process is None or child.process.returncode is None:
            return
        if child.given_up:
            return
        if not child.may_restart(self._clock.monotonic_ns() / 1e9):
            if not child.needed:
                child.given_up = True
                return
            message = f"{child.name} keeps dying; the end of {child.log}:\n{child.log_tail()}"
            raise DependencyDown(message)
        await self._spawn(child)

    async def stop(self) -> None:
        """Drain in reverse order of starting: each is asked, waited for, and killed at last."""
        self._stopping = True
        for child in reversed(self._children):
            await _stop(child)


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
        await asyncio.wait_for(process.wait(), child.drain_s + STOP_MARGIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
