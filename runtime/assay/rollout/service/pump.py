"""Carries the engine's output to the event loop; the only thread that polls.

Invariant: what `poll` and `poll_rewards` returned reaches the loop in that order, once, until
`stop`; whatever ends the thread before that reaches it too.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from assay.core.errors import AssayError, DependencyDown

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from assay.rollout.rollout_engine import RolloutEngine
    from assay.rollout.rollouts import Completed, ScoreRequest

WAIT_S: Final = 0.2
"""Longest wait in the engine; a stop is noticed within it."""
STOP_S_MAX: Final = 10.0

log = structlog.get_logger(__name__)


class Listener(Protocol):
    """Callbacks on the event loop."""

    def on_ready(self, responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        """Responses that need a reward, and ended rollouts."""
        ...

    def on_engine_failed(self, error: AssayError) -> None:
        """The engine makes no more tokens."""
        ...


class Pump:
    """See the module."""

    def __init__(
        self, engine: RolloutEngine, listener: Listener, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._engine = engine
        self._listener = listener
        self._loop = loop
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rollout-pump", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it has not carried over stays in the engine."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S_MAX)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._engine.wait(WAIT_S)
                responses, ended = self._engine.poll_rewards(), self._engine.poll()
                if responses or ended:
                    self._tell(self._listener.on_ready, responses, ended)
        except Exception as error:
            if not self._stopping.is_set():
                log.exception("engine_failed")
                self._tell(self._listener.on_engine_failed, _typed(error))

    def _tell(self, what: object, *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what, *arguments)  # type: ignore[arg-type]


def _typed(error: Exception) -> AssayError:
    if isinstance(error, AssayError):
        return error
    return DependencyDown(f"the engine failed: {type(error).__name__}: {error}")
