"""The rollouts of a remote engine: states, slots, credits and counts. No I/O, no threads, no clock.

The states and their order are the native runtime's (`TRANSITIONS`). The owner calls it under one
lock.

Invariants:
  - submitted == completed + failed + in flight;
  - each slot is free, or belongs to one rollout; a credit taken is returned exactly once;
  - a rollout that left DECODING accepts no more tokens, even if some still arrive for it.
"""

from __future__ import annotations

import array
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.rollout.errors import EngineSaturated, Limit, RolloutGone
from assay.rollout.interface.rollouts import Completed, Group, Progress, RolloutRef, ScoreRequest
from assay.rollout.layout import TRANSITIONS, RolloutOutcome, State, Stop

if TYPE_CHECKING:
    from assay.rollout.interface.receipts import Receipt


@dataclass(slots=True, eq=False)
class Row:
    """What is known of a rollout on the server."""

    ref: RolloutRef
    group: Group
    seed: int
    user_id: int
    reward_id: int
    state: State = State.PREFILL_READY
    tokens: array.array[int] = field(default_factory=lambda: array.array("i"))
    logps: array.array[float] = field(default_factory=lambda: array.array("f"))
    versions: array.array[int] = field(default_factory=lambda: array.array("I"))
    requests: int = 0
    """Requests sent for it; after the first, tokens of an earlier one were part of the prompt."""
    stop: Stop = Stop.NONE
    outcome: RolloutOutcome = RolloutOutcome.NONE
    reward: float | None = None
    receipt: Receipt | None = None
    decoded_ns: int = 0
    """CLOCK_MONOTONIC when its last token had come; 0: it decodes."""

    @property
    def decoding(self) -> bool:
        """Whether more tokens are needed."""
        return self.state is State.DECODING and self.stop is Stop.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStats:
    """A snapshot; counts since the engine was made."""

    submitted: int
    completed: int
    failed: int
    in_flight: int
    slots_free: int
    policy_version: int
    requests: int
    """Requests sent to the server for rollouts."""
    lost: int
    """Of these, requests ended by the server or the network before the rollout ended."""
    retracted: int
    """Requests ended by a pause, to be sent again."""
    last_error: str
    """Why the last lost request was lost; empty: none was lost."""
    away: str
    """Why the server does not serve now; empty: it does."""
    decode_available: int
    """Free credits: responses that the server may decode in addition."""
    reward_available: int
    trajectory_available: int
    queue_prefill: int
    """Rollouts that wait for a decode credit."""
    queue_reward: int
    """Responses not yet taken by `poll_rewards`."""
    queue_done: int
    """Ended rollouts not yet polled."""


class Credits:
    """A counter that is taken from and returned to."""

    def __init__(self, limit: int) -> None:
        self.free = self._limit = limit

    def take(self) -> bool:
        """Take one, if there is one."""
        if self.free == 0:
            return False
        self.free -= 1
        return True

    def give(self) -> None:
        """Give back one credit that was taken."""
        assert self.free < self._limit, "a credit came back twice"  # noqa: S101 - an invariant
        self.free += 1


class RemoteLedger:
    """All rollouts of one engine."""

    def __init__(self, slots: int, decode: int, reward: int, trajectory: int) -> None:
        self._free = deque(RolloutRef(slot, 1) for slot in range(slots))
        self._rows: dict[RolloutRef, Row] = {}
        self._waiting: deque[Row] = deque()
        self._held_back: deque[Row] = deque()
        """Finished decoding, without a reward credit yet."""
        self._to_score: dict[RolloutRef, Row] = {}
        self._ended: dict[RolloutRef, Row] = {}
        self._decode, self._reward = Credits(decode), Credits(reward)
        self._trajectory = Credits(trajectory)
        self.policy_version = 0
        self.versions: tuple[int, int] | None = None
        """Least and greatest that was active."""
        self.submitted = self.completed = self.failed = 0
        self.requests = self.lost = self.retracted = 0
        self.last_error = ""
        self.away = ""

    def activated(self, version: int) -> None:
        """This version makes the tokens from now on."""
        least, most = self.versions or (version, version)
        self.policy_version = version
        self.versions = (min(least, version), max(most, version))

    # ---- in

    def submit(self, group: Group) -> list[RolloutRef]:
        """Accept a whole group.

        Raises:
            EngineSaturated: too few slots; nothing was accepted.
        """
        if len(group.seeds) > len(self._free):
            raise EngineSaturated(self.limit())
        rows = [
            Row(self._free.popleft(), group, seed, user_id, reward_id)
            for seed, user_id, reward_id in group.members()
        ]
        self._rows.update((row.ref, row) for row in rows)
        self._waiting.extend(rows)
        self.submitted += len(rows)
        return [row.ref for row in rows]

    def limit(self) -> Limit:
        """The exhausted limit, deepest stage first."""
        full = (
            (Limit.TRAJECTORY, self._trajectory.free == 0),
            (Limit.REWARD, self._reward.free == 0),
            (Limit.DECODE, self._decode.free == 0),
        )
        return next((limit for limit, is_full in full if is_full), Limit.SLOTS)

    def start(self) -> Row | None:
        """The next rollout to decode, with its credit; None: nothing waits, or no credit left."""
        if not self._waiting or not self._decode.take():
            return None
        row = self._waiting.popleft()
        self._move(row, State.DECODING)
        return row

    def retract(self, row: Row) -> None:
        """Its request was ended by a pause: it decodes again before all others. Tokens are kept."""
        if row.decoding:
            self._decode.give()
            row.state = State.PREFILL_READY  # the only transition back; see `PauseMode.RETRACT`
            self._waiting.appendleft(row)
            self.retracted += 1

    # ---- decoding

    def append(self, row: Row, part: Progress, stop: Stop = Stop.NONE, *, now_ns: int = 0) -> None:
        """Add tokens, and the stop reason if they were the last; `now_ns` of CLOCK_MONOTONIC."""
        if not row.decoding:
            return
        room = row.group.max_tokens - len(row.tokens)
        row.tokens.extend(part.tokens[:room])
        row.logps.extend(part.logps[:room])
        row.versions.extend(part.policy_versions[:room])
        row.stop = stop
        if len(row.tokens) == row.group.max_tokens and stop is Stop.NONE:
            # The reason comes in an event of its own, which the last possible token does not await.
            row.stop = Stop.ID if row.tokens[-1] in row.group.stop_ids else Stop.LENGTH
        if row.stop is not Stop.NONE:
            row.decoded_ns = now_ns
            self._stopped(row)

    def _stopped(self, row: Row) -> None:
        if not row.group.want_reward:
            self._end(row, RolloutOutcome.COMPLETED)
        elif self._reward.take():
            self._decode.give()
            self._move(row, State.REWARD_PENDING)
            self._to_score[row.ref] = row
        else:
            self._held_back.append(row)

    def crash(self, row: Row, why: str) -> None:
        """Its server did not answer after all attempts."""
        self.last_error = why
        if row.decoding:
            self._end(row, RolloutOutcome.CRASHED)

    def cancel(self, ref: RolloutRef) -> Row:
        """End it now; later tokens for it are dropped.

        Raises:
            RolloutGone: it ended before.
        """
        row = self._rows.get(ref)
        if row is None or row.state is State.DONE:
            raise RolloutGone(f"{ref} is not in flight")
        self._end(row, RolloutOutcome.CANCELLED)
        return row

    # ---- rewards

    def rewards(self, n: int) -> list[ScoreRequest]:
        """Up to n responses to score; each is returned once."""
        rows = [self._to_score[ref] for ref in list(self._to_score)[:n]]
        for row in rows:
            del self._to_score[row.ref]
        return [
            ScoreRequest(
                ref=row.ref,
                reward_id=row.reward_id,
                tokens=array.array("i", row.group.prompt) + row.tokens,
                decoded_ns=row.decoded_ns,
            )
            for row in rows
        ]

    def score(self, ref: RolloutRef, reward: float) -> None:
        """Attach a reward.

        Raises:
            RolloutGone: it does not wait for a reward.
            EngineSaturated: scored rollouts are not polled.
        """
        row = self._rows.get(ref)
        if row is None or row.state is not State.REWARD_PENDING:
            raise RolloutGone(f"{ref} does not wait for a reward")
        if not self._trajectory.take():
            raise EngineSaturated(Limit.TRAJECTORY)
        row.reward = reward
        self._to_score.pop(ref, None)
        self._move(row, State.TRAJECTORY_READY)
        self._reward.give()
        self._end(row, RolloutOutcome.COMPLETED)

    def _admit_held_back(self) -> None:
        while self._held_back and self._reward.free:
            row = self._held_back.popleft()
            if row.state is State.DECODING:
                self._stopped(row)

    # ---- out

    def ended(self, n: int) -> list[Row]:
        """Up to n ended rollouts; they stay until `release`."""
        return [self._ended[ref] for ref in list(self._ended)[:n]]

    def release(self, row: Row) -> None:
        """Free its slot."""
        if self._ended.pop(row.ref, None) is None:
            return
        if row.reward is not None:
            self._trajectory.give()
        del self._rows[row.ref]
        self._free.append(RolloutRef(row.ref.slot, row.ref.generation % 0xFFFFFFFF + 1))

    def stats(self) -> RemoteStats:
        """The counters at this moment; they belong together."""
        return RemoteStats(
            submitted=self.submitted,
            completed=self.completed,
            failed=self.failed,
            in_flight=self.submitted - self.completed - self.failed,
            slots_free=len(self._free),
            policy_version=self.policy_version,
            requests=self.requests,
            lost=self.lost,
            retracted=self.retracted,
            last_error=self.last_error,
            away=self.away,
            decode_available=self._decode.free,
            reward_available=self._reward.free,
            trajectory_available=self._trajectory.free,
            queue_prefill=len(self._waiting),
            queue_reward=len(self._to_score),
            queue_done=len(self._ended),
        )

    def peek(self, ref: RolloutRef, start: int, n: int) -> Progress:
        """Up to n of its tokens so far, from index `start` on.

        Raises:
            RolloutGone: it ended and was polled.
        """
        row = self._rows.get(ref)
        if row is None:
            raise RolloutGone(f"{ref} ended and was polled")
        part = slice(start, start + n)
        return Progress(
            tokens=row.tokens[part], logps=row.logps[part], policy_versions=row.versions[part]
        )

    @property
    def news(self) -> bool:
        """Whether there is something to poll or to score."""
        return bool(self._ended or self._to_score)

    # ---- states

    def _end(self, row: Row, outcome: RolloutOutcome) -> None:
        if row.state is State.PREFILL_READY:
            self._waiting.remove(row)
        elif row.state is State.DECODING:
            self._decode.give()
        elif row.state is State.REWARD_PENDING:
            self._reward.give()
        self._to_score.pop(row.ref, None)
        self._move(row, State.DONE)
        row.outcome = outcome
        self.completed += outcome is RolloutOutcome.COMPLETED
        self.failed += outcome is not RolloutOutcome.COMPLETED
        self._ended[row.ref] = row
        self._admit_held_back()

    @staticmethod
    def _move(row: Row, state: State) -> None:
        assert state in TRANSITIONS[row.state], f"{row.state} to {state}"  # noqa: S101 - an invariant
        row.state = state


def completed(row: Row) -> Completed:
    """The result of `poll` for it."""
    return Completed(
        ref=row.ref,
        user_id=row.user_id,
        reward_id=row.reward_id,
        outcome=row.outcome,
        stop=row.stop,
        reward=row.reward,
        prompt=array.array("i", row.group.prompt),
        tokens=row.tokens,
        logps=row.logps,
        policy_versions=row.versions,
        receipt=row.receipt,
    )
