"""The planning process as the controller sees it: one question at a time, killed when it hangs.

It is started by the first question and stopped after some time without any. Invariants: it never
blocks the controller's event loop; a question is answered within `planning_s_max` or the process is
killed; after it died, the next question starts it again, after a pause that grows with each
failure; a question without an answer raises `PlanningDown`.
"""

import asyncio
import contextlib
import os
import sys
from enum import StrEnum
from typing import Final

import structlog

from assay.config.settings import PlannerSettings
from assay.core.tools.backoff import pause_s
from assay.core.tools.framing import HEAD, FramingError
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.process import code_cache, frames
from assay.planner.session.messages import (
    READY,
    Alternatives,
    Change,
    Decision,
    Failed,
    Snapshot,
)

START_S_MAX: Final = 180.0
"""Time to start; the first start on a machine compiles."""
PAUSE_FIRST_S: Final = 0.5
PAUSE_LONGEST_S: Final = 30.0
STOP_S_MAX: Final = 5.0

log = structlog.get_logger(__name__)


class PlanningDown(Exception):
    """No answer: the process died, hung, is starting, or waits to be started again."""


class ProcessState(StrEnum):
    """DOWN: there is nothing to plan, or it died."""

    DOWN = "down"
    STARTING = "starting"
    UP = "up"


class PlanningProcess:
    """Owns the child process. Questions may come from several tasks; they take turns."""

    def __init__(self, settings: PlannerSettings, *, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._state = ProcessState.DOWN
        self._failures = 0
        self._not_before_ns = 0
        self._asked_ns = 0
        self.restarts = 0
        """Starts after it died or was killed."""
        self.generation = 0
        """Grows with each start: a new process has nothing that was sent to an earlier one."""

    @property
    def state(self) -> ProcessState:
        """As `GetPlan` reports it."""
        return self._state

    @property
    def pid(self) -> int | None:
        """Process id of the child, while it runs."""
        return self._process.pid if self._process is not None else None

    async def up(self) -> None:
        """Start it unless it runs.

        Raises:
            PlanningDown: it does not start.
        """
        async with self._turn:
            await self._be_up()

    async def _be_up(self) -> None:
        if self._process is not None and self._process.returncode is not None:
            await self._failed("died", f"exit code {self._process.returncode}")
        if self._process is None:
            await self._start()

    async def decide(self, snapshot: Snapshot) -> Decision:
        """Ask what to do after a snapshot.

        Raises:
            PlanningDown: no answer.
        """
        found = await self._ask(snapshot)
        if not isinstance(found, Decision):
            raise PlanningDown(repr(found))
        return found

    async def what_if(self, change: Change) -> Alternatives:
        """Ask what would be planned under other conditions, and under the present ones.

        Raises:
            InvalidRequest: the change is invalid.
            FailedPrecondition: there was no snapshot yet.
            PlanningDown: no answer.
        """
        found = await self._ask(change)
        if not isinstance(found, Alternatives):
            raise PlanningDown(repr(found))
        return found

    async def _ask(self, question: object) -> object:
        async with self._turn:
            await self._be_up()
            self._asked_ns = self._clock.monotonic_ns()
            try:
                async with asyncio.timeout(self._settings.planning_s_max):
                    found = await self._exchange(question)
            except TimeoutError as error:
                message = f"no answer within {self._settings.planning_s_max:g} s"
                await self._failed("hung", message)
                raise PlanningDown(message) from error
            except (FramingError, OSError, EOFError) as error:
                await self._failed("died", repr(error))
                raise PlanningDown("the planning process died") from error
            except BaseException:
                # Otherwise the late answer would be taken for the answer to the next question.
                await self._failed("left", "the caller was cancelled")
                raise
        self._failures = 0
        if isinstance(found, Failed):
            if found.error is not None:
                raise found.error
            log.error("planning_failed", traceback=found.traceback)
            raise PlanningDown(found.traceback.strip().rsplit("\n", 1)[-1])
        return found

    async def _exchange(self, question: object | None) -> object:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise FramingError("the process does not run")
        if question is not None:
            process.stdin.write(await asyncio.to_thread(frames.encode, question))
            await process.stdin.drain()
        length = frames.length_of(await process.stdout.readexactly(HEAD.size))
        return await asyncio.to_thread(frames.decode, await process.stdout.readexactly(length))

    # -- life ----------------------------------------------------------------------------------
    async def _start(self) -> None:
        if self._clock.monotonic_ns() < self._not_before_ns:
            raise PlanningDown(
                "the planning process ends repeatedly; it will be started again after a pause"
            )
        self._state = ProcessState.STARTING
        self.restarts += self._failures > 0
        self.generation += 1
        try:
            async with asyncio.timeout(START_S_MAX):
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "assay.planner.process.child"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    env=code_cache.environment(os.environ),
                )
                ready = await self._exchange(self._settings)
        except (TimeoutError, FramingError, OSError, EOFError) as error:
            await self._failed("start", repr(error))
            raise PlanningDown("the planning process does not start") from error
        except BaseException:
            await self._failed("left", "the start was cancelled")
            raise
        if ready != READY:
            await self._failed("start", f"it sent {ready!r}")
            raise PlanningDown("the planning process does not start")
        self._state = ProcessState.UP
        log.info("planning_process_up", pid=self._process.pid)

    async def _failed(self, reason: str, why: str) -> None:
        self._metrics.planning_lost(reason=reason)
        self._failures += 1
        wait_s = pause_s(self._failures, first_s=PAUSE_FIRST_S, longest_s=PAUSE_LONGEST_S)
        self._not_before_ns = self._clock.monotonic_ns() + int(wait_s * 1e9)
        log.warning("planning_process_lost", reason=reason, why=why, pause_s=wait_s)
        await self._kill()

    async def _kill(self) -> None:
        process, self._process = self._process, None
        self._state = ProcessState.DOWN
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def rest(self) -> None:
        """Stop it if there was no question for `planning_idle_s`."""
        idle_ns = self._clock.monotonic_ns() - self._asked_ns
        if self._process is not None and idle_ns > self._settings.planning_idle_s * 1e9:
            log.info("planning_process_rests")
            await self.stop()

    async def stop(self) -> None:
        """Stop it. The next question starts it again."""
        async with self._turn:
            process = self._process
            if process is not None and process.stdin is not None:
                process.stdin.close()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STOP_S_MAX):
                        await process.wait()
            await self._kill()
