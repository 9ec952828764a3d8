"""Schedules no one wrote down: a state machine makes calls on a `Runtime` in random order, some
from other threads, and one model of counts says what must hold after each.

Calls: submit, cancel, score, poll, pause in each mode, resume, stage, activate, a signal in the
middle of a call, a fork, a drop, close.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.rollout.test_weight_slots import MODELS, SETTINGS, stage

from assay.rollout import (
    EngineSaturated,
    PauseMode,
    RolloutGone,
    RolloutOutcome,
    Runtime,
    RuntimeClosed,
    RuntimeOptions,
    Sampling,
    WeightsNotReady,
    WorkerStalled,
)
from assay.rollout.local import native_runtime, runtime
from assay.rollout.models import Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from assay.rollout import RolloutRef
    from assay.rollout.local.runtime import Pause

SLOTS = 6
PAUSE_S = 0.05


class Interrupted(Exception):
    """What the signal raises, as Ctrl-C would."""


def interrupt(_: int, frame: FrameType | None) -> None:
    """Raises inside a call alone: what a call has returned is the caller's to lose."""
    while frame is not None:
        if frame.f_code.co_filename in {runtime.__file__, native_runtime.__file__}:
            raise Interrupted
        frame = frame.f_back


class Schedule(RuleBasedStateMachine):
    """What was submitted, what came back, and the pauses that hold."""

    def __init__(self) -> None:
        super().__init__()
        self.engine: Engine | None = None

    @initialize()
    def begin(self) -> None:
        self.engine = Engine.create(MODELS[0], SETTINGS)
        self.runtime = Runtime(self.engine, SLOTS, RuntimeOptions(seq_len_max=64))
        self.users, self.came = 0, Counter[int]()
        self.refs: list[RolloutRef] = []
        self.pauses: list[Pause] = []
        self.known = {0}

    # ---- in and out

    @rule(
        n=st.integers(1, 3),
        tokens=st.integers(1, 40),
        prompt=st.lists(st.integers(0, 330), min_size=1, max_size=20),
        reward=st.booleans(),
    )
    def submit(self, n: int, tokens: int, prompt: list[int], *, reward: bool) -> None:
        users = list(range(self.users, self.users + n))
        how = Sampling(temperature=0.8, top_k=40)
        try:
            self.refs += self.runtime.submit(
                prompt,
                max_tokens=tokens,
                seeds=users,
                user_ids=users,
                sampling=how,
                want_reward=reward,
            )
        except EngineSaturated:
            return
        self.users += n

    @rule(n=st.integers(1, 8))
    def poll(self, n: int) -> None:
        self._count(self.runtime.poll(n))

    def _count(self, came: list) -> None:  # type: ignore[type-arg]  # completions
        for c in came:
            self.came[c.user_id] += 1
            assert len(c.tokens) == len(c.logps) == len(c.policy_versions)
            assert c.outcome in (RolloutOutcome.COMPLETED, RolloutOutcome.CANCELLED)
            assert set(c.policy_versions) <= self.known

    @rule()
    def score(self) -> None:
        for request in self.runtime.poll_rewards():
            try:
                self.runtime.score(request.ref, 1.0)
            except RolloutGone:
                continue

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        try:
            self.runtime.cancel(data.draw(st.sampled_from(self.refs)))
        except RolloutGone:
            return

    @rule()
    def wait(self) -> None:
        self.runtime.wait(0.01)

    # ---- pauses and weights

    @rule(mode=st.sampled_from(PauseMode))
    def pause(self, mode: PauseMode) -> None:
        if len(self.pauses) == 3:
            return
        try:
            self.pauses.append(self.runtime.pause(PAUSE_S, mode=mode))
        except WorkerStalled:
            return

    @precondition(lambda self: self.pauses)
    @rule(at=st.integers(0, 2))
    def resume(self, at: int) -> None:
        self.pauses.pop(at % len(self.pauses)).resume()

    @precondition(lambda self: self.pauses)
    @rule()
    def drop_a_pause(self) -> None:
        self.pauses.pop()
        gc.collect()

    @rule(version=st.integers(1, 3))
    def stage(self, version: int) -> None:
        assert self.engine is not None
        if version != self.engine.policy_version:
            stage(self.engine, version)

    @rule(version=st.integers(0, 3), mode=st.sampled_from(PauseMode))
    def activate(self, version: int, mode: PauseMode) -> None:
        try:
            self.runtime.activate(version, mode=mode, timeout_s=PAUSE_S)
        except (WeightsNotReady, WorkerStalled):
            return
        self.known.add(version)

    # ---- disturbances

    @rule(which=st.sampled_from(["poll", "drain", "wait", "score", "pause"]))
    def interrupted(self, which: str) -> None:
        calls: dict[str, Callable[[], object]] = {
            "poll": self.poll_all,
            "drain": lambda: self._count(self.runtime.drain(0.05)),
            "wait": lambda: self.runtime.wait(0.05),
            "score": self.score,
            "pause": lambda: self.runtime.pause(0.05).resume(),
        }
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            calls[which]()
            time.sleep(0.003)
        except (Interrupted, WorkerStalled):
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def poll_all(self) -> None:
        self._count(self.runtime.poll())

    @rule()
    def from_other_threads(self) -> None:
        calls = (self.runtime.stats, lambda: self.runtime.wait(0.01), self.score)
        threads = [threading.Thread(target=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()

    @rule()
    def forked(self) -> None:
        child = os.fork()
        if child == 0:
            try:
                self.runtime.stats()
            except RuntimeClosed:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    @rule(drop=st.booleans())
    def end_and_begin_again(self, *, drop: bool) -> None:
        """A runtime that is closed or dropped, busy and paused, gives its engine back."""
        assert self.engine is not None
        version = self.engine.policy_version
        runtime = self.runtime
        if drop:
            self.pauses.clear()
            del self.runtime, runtime
            gc.collect()
        else:
            runtime.close()
            for call in (runtime.poll, runtime.stats, runtime.pause):
                with pytest.raises(RuntimeClosed):
                    call()
            for pause in self.pauses:
                pause.resume()
            self.pauses.clear()
        self.runtime = Runtime(self.engine, SLOTS, RuntimeOptions(seq_len_max=64))
        assert self.runtime.stats().policy_version == version
        self.refs.clear()
        self.users, self.came = 0, Counter()

    # ---- what holds

    def teardown(self) -> None:
        if self.engine is None:
            return
        for pause in self.pauses:
            pause.resume()
        for _ in range(2000):
            self.score()
            self.poll_all()
            if not self.runtime.stats().in_flight and self.runtime.stats().slots_free == SLOTS:
                break
            self.runtime.wait(0.01)
        stats = self.runtime.stats()
        assert stats.submitted == self.users == stats.completed + stats.failed
        assert stats.slots_free == SLOTS
        lost = [user for user in range(self.users) if self.came[user] == 0]
        twice = [user for user, n in self.came.items() if n > 1]
        assert (lost, twice) == ([], [])
        assert self.runtime.audit() == 0
        self.runtime.close()
        self.engine.close()


Schedule.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
TestSchedule = Schedule.TestCase
