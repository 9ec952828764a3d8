"""The runtime's life under its callers: closing, dropping, forking, interrupting, pausing.

Method: what used to take the process down runs in this very process, from many threads and at
random moments (the seed is printed); interrupts are raised before every bytecode of the calls in
turn. The sanitizers run the same handle from C (`tests/native/lives.c`).
"""

from __future__ import annotations

import contextlib
import dis
import gc
import os
import random
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from tests.seeds import drawn_seed

from assay.core.errors import AssayError
from assay.rollout import (
    Completed,
    EngineSaturated,
    InvalidRollout,
    ProbeEngine,
    RolloutGone,
    RolloutOutcome,
    RolloutRef,
    Runtime,
    RuntimeClosed,
    RuntimeOptions,
    Sampling,
    WorkerStalled,
)
from assay.rollout.errors import EngineLent
from assay.rollout.local import native_runtime, runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

VOCAB = 61
SLOTS = 16
HOUR_NS = 3_600_000_000_000


def probe(**changes: Any) -> ProbeEngine:
    return ProbeEngine(vocab_size=VOCAB, block_tokens=4, batch_max=8, **changes)


def opened(**changes: Any) -> Runtime:
    return Runtime(probe(), SLOTS, RuntimeOptions(seq_len_max=32, **changes))


def score_all(runtime: Runtime) -> None:
    for waiting in runtime.poll_rewards():
        runtime.score(waiting.ref, 0.5)


def busy(runtime: Runtime, rng: random.Random) -> None:
    """One call of any kind; what a caller may be told is fine."""
    call: Callable[[], object] = rng.choice(
        (
            lambda: runtime.submit([1, 2], max_tokens=4, seeds=[rng.randint(0, 99)]),
            lambda: runtime.submit([1], max_tokens=2, seeds=[1, 2], want_reward=False),
            runtime.poll,
            lambda: runtime.wait(0.01),
            runtime.stats,
            lambda: score_all(runtime),
            lambda: runtime.cancel(runtime.submit([3], max_tokens=4, seeds=[5])[0]),
            lambda: runtime.pause(1.0).resume(),
            runtime.audit,
            runtime.nudge,
            runtime.limit,
            lambda: runtime.read_trace(),
        )
    )
    with contextlib.suppress(RuntimeClosed, EngineSaturated, RolloutGone, WorkerStalled):
        call()


def test_closing_beside_calls_of_other_threads_ends_them_and_nothing_else() -> None:
    rng = random.Random(drawn_seed())
    for _ in range(40):
        runtime = opened(trace_events_max=64)
        errors: list[BaseException] = []

        def call(runtime: Runtime, own: random.Random, errors: list[BaseException]) -> None:
            try:
                while True:
                    busy(runtime, own)
                    runtime.stats()
            except RuntimeClosed:
                pass
            except BaseException as error:  # noqa: BLE001 - told to the test
                errors.append(error)

        threads = [
            threading.Thread(target=call, args=(runtime, random.Random(rng.random()), errors))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        time.sleep(rng.random() * 0.02)
        runtime.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert errors == []
        assert not runtime.engine.lent  # type: ignore[union-attr]
        runtime.close()


def test_a_closed_runtime_refuses_every_call() -> None:
    runtime = opened()
    [ref] = runtime.submit([1], max_tokens=1, seeds=[1])
    runtime.close()
    calls: list[Callable[[], object]] = [
        lambda: runtime.submit([1], max_tokens=1, seeds=[1]),
        lambda: runtime.cancel(ref),
        lambda: runtime.score(ref, 1.0),
        runtime.poll,
        runtime.poll_rewards,
        lambda: runtime.wait(1.0),
        lambda: runtime.drain(1.0),
        runtime.stats,
        runtime.limit,
        runtime.pause,
        runtime.audit,
        runtime.nudge,
        runtime.step,
        runtime.start,
        runtime.read_trace,
        lambda: runtime.set_policy_version(1),
    ]
    for call in calls:
        with pytest.raises(RuntimeClosed):
            call()


def test_close_wakes_who_waits() -> None:
    runtime = opened()
    woken: list[bool] = []

    def wait() -> None:
        with contextlib.suppress(RuntimeClosed):
            while True:
                runtime.wait(300.0)
        woken.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    runtime.close()
    thread.join(60)
    assert woken


def test_close_refuses_while_a_step_runs_on_and_may_be_called_again() -> None:
    engine = probe(spin_ns=HOUR_NS)  # its step ends when the test says so
    runtime = Runtime(engine, 4, RuntimeOptions(seq_len_max=32))
    runtime.submit([1], max_tokens=30, seeds=[1])
    while engine.probe.steps == 0:
        time.sleep(0.001)
    try:
        with pytest.raises(WorkerStalled):
            runtime.close(timeout_s=0.001)
        with pytest.raises(RuntimeClosed):
            runtime.stats()
    finally:
        engine.probe.spin_ns = 0
    runtime.close(timeout_s=120)
    assert not engine.lent


def threads_of_this_process() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_dropped_runtime_leaves_no_thread_and_its_engine_free() -> None:
    before = threads_of_this_process()
    engine = probe()
    for _ in range(5):
        runtime = Runtime(engine, SLOTS, RuntimeOptions(seq_len_max=32, native_scorer=True))
        runtime.submit([1, 2, 3], max_tokens=20, seeds=range(8))
        gone = weakref.ref(runtime)
        del runtime
        gc.collect()
        assert gone() is None
        assert not engine.lent
    assert threads_of_this_process() <= before


def test_one_engine_serves_one_runtime() -> None:
    engine = probe()
    with Runtime(engine, 4), pytest.raises(EngineLent):
        Runtime(engine, 4)
    with Runtime(engine, 4):
        pass


def test_a_runtime_that_cannot_be_made_gives_its_engine_back() -> None:
    engine = probe()
    with pytest.raises(InvalidRollout):
        Runtime(engine, 4, RuntimeOptions(rows_max=10_000))
    assert not engine.lent


def test_a_forked_child_finds_the_runtime_closed_and_ends_at_once() -> None:
    gc.collect()  # what other tests left would be collected in the child, without its threads
    with opened() as runtime:
        runtime.submit([1, 2], max_tokens=20, seeds=range(4))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                runtime.stats()
            except RuntimeClosed:
                with opened() as own:
                    own.submit([1], max_tokens=2, seeds=[7], want_reward=False)
                    code = 0 if len(own.drain(30.0)) == 1 else 2
                del runtime
                gc.collect()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert runtime.stats().submitted == 4


# ---- pauses


def steps_within(runtime: Runtime, seconds: float) -> int:
    before = runtime.stats().steps
    time.sleep(seconds)
    return int(runtime.stats().steps - before)


def generating(runtime: Runtime) -> None:
    while True:
        try:
            runtime.submit([1, 2], max_tokens=24, seeds=range(4), want_reward=False)
        except EngineSaturated:
            return


def test_pauses_count_and_an_audit_inside_one_does_not_end_it() -> None:
    with Runtime(probe(spin_ns=1_000_000), 64, RuntimeOptions(seq_len_max=32)) as runtime:
        generating(runtime)
        first, second = runtime.pause(), runtime.pause()
        assert runtime.audit() == 0
        assert steps_within(runtime, 0.05) == 0
        second.resume()
        second.resume()
        assert steps_within(runtime, 0.05) == 0
        first.resume()
        before = runtime.stats().steps
        while runtime.stats().steps == before:
            time.sleep(0.001)


def test_a_pause_of_the_moment_after_a_resume_holds_as_well() -> None:
    with Runtime(probe(), 64, RuntimeOptions(seq_len_max=32)) as runtime:
        for _ in range(300):
            runtime.poll()
            generating(runtime)
            runtime.pause().resume()
            with runtime.pause():
                before = runtime.stats().iterations
                for _ in range(20):
                    runtime.stats()
                assert runtime.stats().iterations == before


def test_a_pause_that_is_dropped_lets_the_worker_go_on() -> None:
    with opened() as runtime:
        runtime.pause()
        gc.collect()
        runtime.submit([1], max_tokens=2, seeds=[1], want_reward=False)
        assert len(runtime.drain(60.0)) == 1


# ---- interrupts


class Interrupter:
    """Raises KeyboardInterrupt before bytecode number `at` of the traced module's frames."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.raised = False

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        if frame.f_code.co_filename not in {runtime.__file__, native_runtime.__file__}:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not self.raised and not handing_over(frame):
            self.left -= 1
            if self.left < 0:
                self.raised = True
                raise KeyboardInterrupt
        return self


def handing_over(frame: FrameType) -> bool:
    """The last bytecode of a call: an interrupt there is one of the caller's own. (The interpreter
    itself raises none there: it looks for signals after calls and at jumps.)"""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return name in {"RETURN_VALUE", "RETURN_CONST"} and frame.f_code.co_name in PUBLIC


PUBLIC = {"poll", "poll_rewards", "drain", "submit", "score"}


def interrupted(call: Callable[[], Any], at: int) -> tuple[bool, Any]:
    tracer = Interrupter(at)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        result = call()
    except KeyboardInterrupt:
        result = None
    finally:
        sys.settrace(before)
    return tracer.raised, result


def free_slots_settled(runtime: Runtime) -> int:
    while runtime.step():
        pass
    return int(runtime.stats().slots_free)


def test_an_interrupt_at_any_bytecode_of_poll_loses_no_rollout_and_no_slot() -> None:
    at, raised = 0, True
    while raised:
        with Runtime(probe(), 4, RuntimeOptions(seq_len_max=32), start=False) as runtime:
            runtime.submit([1, 2], max_tokens=3, seeds=range(4), want_reward=False)
            while runtime.step():
                pass
            raised, first = interrupted(runtime.poll, at)
            came = [*(first or ()), *runtime.poll()]
            assert sorted(c.user_id for c in came) == [0, 1, 2, 3], at
            whole = [len(c.tokens) == 3 and c.outcome is RolloutOutcome.COMPLETED for c in came]
            assert all(whole), at
            assert free_slots_settled(runtime) == 4, at
        at += 1
    assert at > 60


def test_an_interrupt_at_any_bytecode_of_drain_loses_no_rollout() -> None:
    at, raised = 0, True
    while raised:
        with Runtime(probe(), 4, RuntimeOptions(seq_len_max=32), start=False) as runtime:
            runtime.submit([1, 2], max_tokens=3, seeds=range(4), want_reward=False)
            while runtime.step():
                pass
            raised, first = interrupted(lambda: runtime.drain(5.0), at)
            came = [*(first or ()), *runtime.poll()]
            assert sorted(c.user_id for c in came) == [0, 1, 2, 3], at
        at += 7


def score_again(runtime: Runtime, ref: RolloutRef, came: list[Completed]) -> None:
    """What a caller does that does not know whether its score arrived."""
    try:
        runtime.score(ref, 0.25)
    except EngineSaturated:
        while runtime.step():
            pass
        came += runtime.poll()
        score_again(runtime, ref, came)
    except RolloutGone:
        pass


def test_an_interrupt_at_any_bytecode_of_poll_rewards_or_score_leaks_no_slot() -> None:
    at, raised_somewhere = 0, True
    while raised_somewhere:
        with Runtime(probe(), 4, RuntimeOptions(seq_len_max=32), start=False) as runtime:
            runtime.submit([1, 2], max_tokens=3, seeds=range(4), reward_ids=[5, 6, 7, 8])
            while runtime.step():
                pass
            raised, first = interrupted(runtime.poll_rewards, at)
            waiting = [*(first or ()), *runtime.poll_rewards()]
            assert sorted(w.reward_id for w in waiting) == [5, 6, 7, 8], at
            again, came = False, list[Completed]()
            for one in waiting:
                stopped, _ = interrupted(lambda: runtime.score(one.ref, 0.25), at)  # noqa: B023
                again |= stopped
                score_again(runtime, one.ref, came)
            while runtime.step():
                pass
            came += runtime.poll()
            assert sorted(c.user_id for c in came) == [0, 1, 2, 3], at
            assert free_slots_settled(runtime) == 4, at
            raised_somewhere = raised or again
        at += 1
    assert at > 60


def test_an_interrupt_at_any_bytecode_of_submit_leaves_a_whole_group_or_none() -> None:
    at, raised = 0, True
    while raised:
        with Runtime(probe(), 4, RuntimeOptions(seq_len_max=32), start=False) as runtime:
            raised, _ = interrupted(
                lambda: runtime.submit([1, 2], max_tokens=2, seeds=range(3), want_reward=False),
                at,
            )
            while runtime.step():
                pass
            assert sorted(c.user_id for c in runtime.poll()) in ([], [0, 1, 2]), at
            assert free_slots_settled(runtime) == 4, at
        at += 1
    assert at > 100


# ---- arguments


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("sampling.temperature", {"sampling": Sampling(temperature=float("nan"))}),
        ("sampling.temperature", {"sampling": Sampling(temperature=-0.5)}),
        ("sampling.temperature", {"sampling": Sampling(temperature=float("inf"))}),
        ("sampling.top_p", {"sampling": Sampling(top_p=-1)}),
        ("sampling.top_p", {"sampling": Sampling(top_p=0.0)}),
        ("sampling.top_p", {"sampling": Sampling(top_p=float("nan"))}),
        ("sampling.min_p", {"sampling": Sampling(min_p=1.5)}),
        ("sampling.top_k", {"sampling": Sampling(top_k=-1)}),
        ("sampling.top_k", {"sampling": Sampling(top_k=1 << 32)}),
        ("stop_ids", {"stop_ids": [1 << 40]}),
        ("stop_ids", {"stop_ids": [-1]}),
        ("stop_ids", {"stop_ids": [VOCAB]}),
        ("seeds", {"seeds": [1 << 70]}),
        ("seeds", {"seeds": [-1]}),
        ("seeds", {"seeds": []}),
        ("seeds", {"seeds": range(SLOTS + 1)}),
        ("user_ids", {"user_ids": [1 << 64]}),
        ("user_ids", {"user_ids": [1, 2]}),
        ("reward_ids", {"reward_ids": [-3]}),
        ("reward_ids", {"reward_ids": []}),
        ("group", {"group": 1 << 64}),
        ("prompt", {"prompt": [0.5]}),
        ("prompt", {"prompt": []}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_tokens", {"max_tokens": 1.5}),
        ("max_tokens", {"max_tokens": 1 << 40}),
    ],
)
def test_what_c_would_wrap_is_refused_by_name(field: str, changes: dict[str, Any]) -> None:
    with opened() as runtime:
        asked = {"prompt": [1], "max_tokens": 1, "seeds": [1], **changes}
        with pytest.raises(InvalidRollout) as refused:
            runtime.submit(asked.pop("prompt"), **asked)
        assert refused.value.field == field
        assert isinstance(refused.value, AssayError)
        assert runtime.stats().submitted == 0


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf")])
def test_a_score_is_a_finite_number(reward: float) -> None:
    with opened(native_scorer=False) as runtime:
        [ref] = runtime.submit([1], max_tokens=1, seeds=[1])
        with pytest.raises(InvalidRollout) as refused:
            runtime.score(ref, reward)
        assert refused.value.field == "reward"


@pytest.mark.parametrize("version", [-1, 1 << 32, 1.5])
def test_a_version_has_32_bits(version: Any) -> None:
    with opened() as runtime, pytest.raises(InvalidRollout):
        runtime.set_policy_version(version)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("cpu", {"cpu": 100_000}),
        ("scorer_cpu", {"scorer_cpu": -7}),
        ("spin_s", {"spin_s": float("nan")}),
        ("kv_blocks", {"kv_blocks": 0}),
        ("decode_credits", {"decode_credits": -1}),
        ("trace_events_max", {"trace_events_max": 1 << 40}),
        ("generation_first", {"generation_first": 0}),
    ],
)
def test_options_are_refused_by_name(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRollout) as refused:
        opened(**options)
    assert refused.value.field == field
