"""Carries the engine's output to the event loop; the only thread that polls.

Invariants:
  - what `poll` and `poll_rewards` returned reaches the loop in that order, once, until `stop`;
    whatever ends the thread before that reaches it too;
  - at most `AT_ONCE_MAX` of each wait for the loop, so that it is never busy with rollouts for long
    and its other calls are answered between two pieces.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from assay.core.errors import AssayError, DependencyDown

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from assay.rollout.interface.rollout_engine import RolloutEngine
    from assay.rollout.interface.rollouts import Completed, ScoreRequest

AT_ONCE_MAX: Final = 64
"""Responses, and ended rollouts, that are handed to the loop together: a few milliseconds."""
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
        self._taken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rollout-pump", daemon=True)

    def start(self) -> None:
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
                responses = self._engine.poll_rewards(AT_ONCE_MAX)
                ended = self._engine.poll(AT_ONCE_MAX)
                if responses or ended:
                    self._hand_over(responses, ended)
        except Exception as error:
            if not self._stopping.is_set():
                log.exception("engine_failed")
                self._tell(self._listener.on_engine_failed, _typed(error))

    def _hand_over(self, responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        """Wait until the loop has dealt with them."""
        self._taken.clear()
        self._tell(self._on_ready, responses, ended)
        while not self._taken.wait(WAIT_S) and not self._stopping.is_set():
            if self._loop.is_closed():
                return

    def _on_ready(self, responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        try:
            self._listener.on_ready(responses, ended)
        finally:
            self._taken.set()

    def _tell(self, what: object, *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what, *arguments)  # type: ignore[arg-type]


def _typed(error: Exception) -> AssayError:
    if isinstance(error, AssayError):
        return error
    return DependencyDown(f"the engine failed: {type(error).__name__}: {error}")
