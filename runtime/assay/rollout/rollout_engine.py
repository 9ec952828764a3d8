"""What generates rollouts, whatever it runs on: the face above `Runtime`.

`Runtime` on the CPU is one. A CUDA engine keeps keys and values to itself and steps asynchronously,
a remote server has neither blocks nor a step that could be seen: nothing here names a step, a block
or an address. Completions, reward requests and errors are the runtime's own.

Always true of an engine (`tests/rollout/conformance` holds every one of them to it):
  - `submit` takes a whole group, or raises and has taken nothing;
  - each rollout taken comes back from `poll` once; submitted == completed + failed + in flight;
  - a response that wants a reward is handed out once by `poll_rewards`, and waits for `score`;
  - tokens, log-probs and policy versions have one length; a version is that of the weights that
    made its token; what a rollout gives depends on prompt, seed, sampling and weights alone;
  - pauses count; while one holds, no token is made, and submitting goes on;
  - after `close`, every call but `close` raises `RuntimeClosed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from assay.rollout.layout import PauseMode
    from assay.rollout.rollouts import Activation, Completed, GroupOptions, RolloutRef, ScoreRequest


class Held(Protocol):
    """A pause; see `Pause`."""

    def resume(self) -> None:
        """Give this one up; a second time does nothing."""
        ...


class EngineStats(Protocol):
    """Counts since the engine was made, and two gauges."""

    @property
    def submitted(self) -> int:
        """Rollouts taken."""
        ...

    @property
    def completed(self) -> int:
        """Rollouts that ended as they should; polled or not."""
        ...

    @property
    def failed(self) -> int:
        """Rollouts that ended otherwise, the cancelled ones among them."""
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
        """Of the active weights."""
        ...


class RolloutEngine(Protocol):
    """Every call may be made from any thread, and returns or raises in bounded time."""

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[RolloutRef]:
        """One group: a rollout for each seed.

        Raises:
            InvalidRollout: can never succeed; `field` says what to change.
            EngineSaturated: no room for all of it now.
        """
        ...

    def cancel(self, ref: RolloutRef) -> None:
        """Ask for its end. It comes back as CANCELLED, or as what it became meanwhile.

        Raises:
            RolloutGone: it ended before.
        """
        ...

    def poll(self, n: int = 1024) -> list[Completed]:
        """Up to n rollouts that ended; their room is free again."""
        ...

    def poll_rewards(self, n: int = 1024) -> list[ScoreRequest]:
        """Up to n responses to score."""
        ...

    def score(self, ref: RolloutRef, reward: float) -> None:
        """Attach a reward.

        Raises:
            RolloutGone: it does not wait for one.
            EngineSaturated: poll first, then score again.
        """
        ...

    def wait(self, timeout_s: float) -> float:
        """Until there may be something to poll or to score; seconds it took."""
        ...

    def pause(
        self, timeout_s: float = 10.0, *, mode: PauseMode = ...
    ) -> AbstractContextManager[Held]:
        """Make no more tokens until the pause is resumed, by itself or at the end of its block.

        Raises:
            WorkerStalled: not held in time; nothing is paused.
        """
        ...

    def activate(
        self, version: int, *, mode: PauseMode = ..., timeout_s: float = 10.0
    ) -> Activation:
        """Go on with weights that were made ready before, the engine's own way.

        Raises:
            WeightsNotReady: there are none of this version; nothing changed.
            WorkerStalled: as `pause`.
        """
        ...

    def stats(self) -> EngineStats:
        """A snapshot."""
        ...

    def close(self, timeout_s: float = ...) -> None:
        """End and free everything; rollouts in flight are lost. Twice is fine."""
        ...
