"""A rollout engine in plain Python, without threads, rings or compiled code, to compare with.

A step happens in `wait`, one token per rollout. Weights are their version's number, as the probe's.
"""

from __future__ import annotations

import array
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Unpack

from tests.rollout.probe import probe_tokens

from assay.rollout import (
    Activation,
    Completed,
    EngineSaturated,
    Limit,
    PauseMode,
    RolloutGone,
    RolloutOutcome,
    RolloutRef,
    RuntimeClosed,
    ScoreRequest,
    Stop,
    WeightsNotReady,
    WorkerStalled,
)
from assay.rollout.interface.checks import check_number
from assay.rollout.interface.rollouts import Bounds, Group, GroupOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from assay.rollout.interface.rollout_engine import Held


@dataclass(slots=True)
class Row:
    ref: RolloutRef
    user_id: int
    reward_id: int
    seed: int
    prompt: list[int]
    max_tokens: int
    stop_ids: frozenset[int]
    want_reward: bool
    tokens: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    stop: Stop = Stop.NONE
    outcome: RolloutOutcome | None = None
    reward: float | None = None
    asked: bool = False
    """Handed out by `poll_rewards`."""

    @property
    def running(self) -> bool:
        return self.outcome is None and self.stop is Stop.NONE


@dataclass(frozen=True, slots=True)
class Counts:
    submitted: int
    completed: int
    failed: int
    in_flight: int
    slots_free: int
    policy_version: int


class Pause:
    def __init__(self, engine: ReferenceEngine) -> None:
        self._engine: ReferenceEngine | None = engine
        engine.pauses += 1

    def resume(self) -> None:
        if self._engine is not None:
            self._engine.pauses -= 1
        self._engine = None


class ReferenceEngine:
    """The simplest engine that satisfies `RolloutEngine`."""

    def __init__(self, slots: int, *, vocab_size: int, seq_len_max: int) -> None:
        self.vocab_size = vocab_size
        self.bounds = Bounds(
            slots=slots, vocab_size=vocab_size, seq_len_max=seq_len_max, stop_strings=False
        )
        self.pauses = 0
        self.ready: set[int] = {0}
        self._free = deque(RolloutRef(slot, 1) for slot in range(slots))
        self._rows: dict[RolloutRef, Row] = {}
        self._version, self._submitted, self._completed, self._failed = 0, 0, 0, 0
        self._closed = False

    def _open(self) -> None:
        if self._closed:
            raise RuntimeClosed("closed")

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[RolloutRef]:
        self._open()
        group = Group.of(prompt, options)
        group.check(self.bounds)
        if len(group.seeds) > len(self._free):
            raise EngineSaturated(Limit.SLOTS)
        rows = [
            Row(
                ref=self._free.popleft(),
                user_id=user,
                reward_id=reward,
                seed=seed,
                prompt=list(prompt),
                max_tokens=group.max_tokens,
                stop_ids=frozenset(group.stop_ids),
                want_reward=group.want_reward,
            )
            for seed, user, reward in group.members()
        ]
        self._rows |= {row.ref: row for row in rows}
        self._submitted += len(rows)
        return [row.ref for row in rows]

    def cancel(self, ref: RolloutRef) -> None:
        self._open()
        row = self._rows.get(ref)
        if row is None or row.outcome is not None:
            raise RolloutGone("ended")
        self._end(row, RolloutOutcome.CANCELLED)

    def _end(self, row: Row, outcome: RolloutOutcome) -> None:
        row.outcome = outcome
        self._completed += outcome is RolloutOutcome.COMPLETED
        self._failed += outcome is not RolloutOutcome.COMPLETED

    def poll(self, n: int = 1024) -> list[Completed]:
        self._open()
        ended = [row for row in self._rows.values() if row.outcome is not None][:n]
        for row in ended:
            del self._rows[row.ref]
            self._free.append(RolloutRef(row.ref.slot, row.ref.generation + 1))
        return [self._completion(row) for row in ended]

    @staticmethod
    def _completion(row: Row) -> Completed:
        return Completed(
            ref=row.ref,
            user_id=row.user_id,
            reward_id=row.reward_id,
            outcome=row.outcome or RolloutOutcome.CANCELLED,
            stop=row.stop,
            reward=row.reward,
            prompt=array.array("i", row.prompt),
            tokens=array.array("i", row.tokens),
            logps=array.array("f", [0.0] * len(row.tokens)),
            policy_versions=array.array("I", row.versions),
        )

    def poll_rewards(self, n: int = 1024) -> list[ScoreRequest]:
        self._open()
        waiting = [r for r in self._rows.values() if self._waits(r) and not r.asked][:n]
        for row in waiting:
            row.asked = True
        return [
            ScoreRequest(
                ref=row.ref,
                reward_id=row.reward_id,
                tokens=array.array("i", [*row.prompt, *row.tokens]),
                decoded_ns=time.monotonic_ns(),
            )
            for row in waiting
        ]

    @staticmethod
    def _waits(row: Row) -> bool:
        return row.want_reward and row.outcome is None and row.stop is not Stop.NONE

    def score(self, ref: RolloutRef, reward: float) -> None:
        self._open()
        check_number("reward", reward, -1.7e308, 1.7e308)
        row = self._rows.get(ref)
        if row is None or not self._waits(row):
            raise RolloutGone("does not wait for a reward")
        row.reward = reward
        self._end(row, RolloutOutcome.COMPLETED)

    def wait(self, timeout_s: float) -> float:
        self._open()
        del timeout_s
        if not self.pauses:
            self._step()
        return 0.0

    def _step(self) -> None:
        for row in self._rows.values():
            if row.running:
                self._decode(row)

    def _decode(self, row: Row) -> None:
        context = [*row.prompt, *row.tokens]
        how = {"seed": row.seed, "vocab_size": self.vocab_size, "version": self._version}
        (token,) = probe_tokens(context, 1, read_all=True, **how)
        row.tokens.append(token)
        row.versions.append(self._version)
        if token in row.stop_ids:
            row.stop = Stop.ID
        elif len(row.tokens) == row.max_tokens:
            row.stop = Stop.LENGTH
        if row.stop is not Stop.NONE and not row.want_reward:
            self._end(row, RolloutOutcome.COMPLETED)

    @contextmanager
    def _paused(self, pause: Pause) -> Iterator[Held]:
        try:
            yield pause
        finally:
            pause.resume()

    def pause(
        self, timeout_s: float = 10.0, *, mode: PauseMode = PauseMode.IN_PLACE
    ) -> AbstractContextManager[Held]:
        self._open()
        if mode is PauseMode.FINISH:
            self._finish(timeout_s)
        return self._paused(Pause(self))

    def _finish(self, timeout_s: float) -> None:
        while any(row.running for row in self._rows.values()):
            if self.pauses or timeout_s <= 0:
                raise WorkerStalled("held before the end")
            self._step()

    def activate(
        self, version: int, *, mode: PauseMode = PauseMode.IN_PLACE, timeout_s: float = 10.0
    ) -> Activation:
        with self.pause(timeout_s, mode=mode):
            if version not in self.ready:
                raise WeightsNotReady(f"no version {version}")
            previous, self._version = self._version, version
        return Activation(version=version, previous=previous, wait_s=0.0, pause_s=0.0)

    def stats(self) -> Counts:
        self._open()
        ended = self._completed + self._failed
        return Counts(
            submitted=self._submitted,
            completed=self._completed,
            failed=self._failed,
            in_flight=self._submitted - ended,
            slots_free=len(self._free),
            policy_version=self._version,
        )

    def close(self, timeout_s: float = 30.0) -> None:
        del timeout_s
        self._closed = True
