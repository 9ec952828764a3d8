"""Pauses of the engine that callers hold by name. An abandoned pause ends by itself."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import structlog

from assay.core.errors import FailedPrecondition, Saturated

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.rollout.layout import PauseMode
    from assay.rollout.rollout_engine import RolloutEngine

PAUSES_MAX: Final = 64
PAUSE_S_MAX: Final = 600.0
HOLD_S_MAX: Final = 60.0
"""Time-out for holding the engine."""

log = structlog.get_logger(__name__)


class Pauses:
    """See the module."""

    def __init__(self, engine: RolloutEngine, new_id: Callable[[], str]) -> None:
        self._engine = engine
        self._new_id = new_id
        self._held: dict[str, tuple[ExitStack, asyncio.TimerHandle]] = {}

    async def hold(self, mode: PauseMode) -> str:
        """Make no more tokens until `resume`, or for `PAUSE_S_MAX`; return the pause's id.

        Raises:
            Saturated: there are `PAUSES_MAX` pauses already.
            WorkerStalled: the engine was not held in time.
        """
        if len(self._held) >= PAUSES_MAX:
            raise Saturated(f"at most {PAUSES_MAX} pauses", retry_after_s=1.0)
        stack = ExitStack()
        await asyncio.to_thread(self._enter, stack, mode)
        pause_id = self._new_id()
        timer = asyncio.get_running_loop().call_later(PAUSE_S_MAX, self._forgotten, pause_id)
        self._held[pause_id] = (stack, timer)
        return pause_id

    def resume(self, pause_id: str) -> None:
        """End a pause.

        Raises:
            FailedPrecondition: it has ended.
        """
        if not self._let_go(pause_id):
            raise FailedPrecondition("no such pause, or it has ended", field="pause_id")

    def close(self) -> None:
        """End all pauses."""
        for pause_id in list(self._held):
            self._let_go(pause_id)

    def _enter(self, stack: ExitStack, mode: PauseMode) -> None:
        stack.enter_context(self._engine.pause(HOLD_S_MAX, mode=mode))

    def _forgotten(self, pause_id: str) -> None:
        log.warning("pause_forgotten", after_s=PAUSE_S_MAX)
        self._let_go(pause_id)

    def _let_go(self, pause_id: str) -> bool:
        stack, timer = self._held.pop(pause_id, (None, None))
        if stack is None or timer is None:
            return False
        timer.cancel()
        stack.close()
        return True
