"""The interface of every engine that generates rollouts.

`Runtime` on the CPU is one. A CUDA engine keeps keys and values to itself and steps asynchronously;
a remote server has neither visible blocks nor steps: nothing here refers to a step, a block
or an address. Completions, reward requests and errors are the runtime's own.

Invariants of an engine (`tests/rollout/conformance` tests every engine against them):
  - `submit` accepts a whole group, or raises and has accepted nothing;
  - each accepted rollout is returned by `poll` once; submitted == completed + failed + in flight;
  - a response that needs a reward is returned once by `poll_rewards`, and waits for `score`;
  - tokens, log-probs and policy versions have one length; a version is that of the weights that
    made its token; a rollout's result depends on prompt, seed, sampling and weights alone;
  - pauses are counted; during one, no token is made, and submitting is allowed;
  - after `close`, every call but `close` raises `RuntimeClosed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from assay.rollout.interface.rollouts import (
        Activation,
        Completed,
        GroupOptions,
        RolloutRef,
        ScoreRequest,
    )
    from assay.rollout.layout import PauseMode


class Held(Protocol):
    """A pause; see `Pause`."""

    def resume(self) -> None:
        """End this pause; a second call does nothing."""
        ...


class EngineStats(Protocol):
    """Counts since the engine was made, and two gauges."""

    @property
    def submitted(self) -> int:
        """Rollouts that were accepted so far."""
        ...

    @property
    def completed(self) -> int:
        """Rollouts that ended normally; polled or not."""
        ...

    @property
    def failed(self) -> int:
        """Rollouts that ended otherwise, including cancelled ones."""
        ...

    @property
    def in_flight(self) -> int:
        """Rollouts that have not ended."""
        ...

    @property
    def slots_free(self) -> int:
        """Rollouts that `submit` has room for."""
        ...

    @property
    def policy_version(self) -> int:
        """Version of the active weights."""
        ...


class RolloutEngine(Protocol):
    """Every call may be made from any thread, and returns or raises in bounded time."""

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[RolloutRef]:
        """Submit one group: a rollout for each seed.

        Raises:
            InvalidRollout: the request can never succeed; `field` names what to change.
            EngineSaturated: no room for the whole group now.
        """
        ...

    def cancel(self, ref: RolloutRef) -> None:
        """Request its end. It ends as CANCELLED, or as what it became in the meantime.

        Raises:
            RolloutGone: it ended before.
        """
        ...

    def poll(self, n: int = 1024) -> list[Completed]:
        """Return up to n ended rollouts; their room is free again."""
        ...

    def poll_rewards(self, n: int = 1024) -> list[ScoreRequest]:
        """Return up to n responses to score."""
        ...

    def score(self, ref: RolloutRef, reward: float) -> None:
        """Attach a reward.

        Raises:
            RolloutGone: it does not wait for one.
            EngineSaturated: poll first, then score again.
        """
        ...

    def wait(self, timeout_s: float) -> float:
        """Wait until there may be something to poll or to score; return the seconds it took."""
        ...

    def pause(
        self, timeout_s: float = 10.0, *, mode: PauseMode = ...
    ) -> AbstractContextManager[Held]:
        """Make no more tokens until the pause is resumed, explicitly or at the end of its block.

        Raises:
            WorkerStalled: not held in time; nothing is paused.
        """
        ...

    def activate(
        self, version: int, *, mode: PauseMode = ..., timeout_s: float = 10.0
    ) -> Activation:
        """Continue with weights that were made ready before, by an engine-specific method.

        Raises:
            WeightsNotReady: there are none of this version; nothing changed.
            WorkerStalled: as `pause`.
        """
        ...

    def stats(self) -> EngineStats:
        """The counters at this moment."""
        ...

    def close(self, timeout_s: float = ...) -> None:
        """End and free everything; rollouts in flight are lost. Calling it twice is allowed."""
        ...
