"""The runtime end to end, on the probe engine: what comes out is what the rollout alone would give.

The probe's next token depends on every KV position it reads back, so a block that is shared
wrongly, copied too little, evicted too early or written by a neighbour changes tokens, and the
right tokens are computed in Python without a runtime (`probe_tokens`).

Tests that step the worker by hand (`start=False`) are deterministic; the others run its thread.
"""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rollout.probe import probe_tokens
from tests.seeds import drawn_seed

from assay.rollout import (
    AdmissionPolicy,
    Completed,
    CrashCause,
    EngineSaturated,
    InvalidRollout,
    Limit,
    ProbeEngine,
    RolloutGone,
    RolloutOutcome,
    RolloutRef,
    Runtime,
    RuntimeOptions,
    Stop,
    WorkerCrashed,
    WorkerStalled,
)

VOCAB = 61


def probe(**changes: int) -> ProbeEngine:
    return ProbeEngine(vocab_size=VOCAB, block_tokens=4, read_all=True, batch_max=8, **changes)


def expected(prompt: list[int], n: int, seed: int, version: int = 0) -> list[int]:
    return probe_tokens(prompt, n, seed=seed, vocab_size=VOCAB, read_all=True, version=version)


def step(runtime: Runtime, n: int = 1) -> None:
    for _ in range(n):
        runtime.step()


def settle(runtime: Runtime) -> None:
    """Step until an iteration finds nothing to do."""
    for _ in range(10_000):
        if not runtime.step():
            return
    raise AssertionError("the worker never came to rest")


def balanced(runtime: Runtime) -> None:
    """Nothing in flight, nothing held."""
    s, o = runtime.stats(), runtime.options
    assert s.submitted == s.completed + s.failed
    assert s.in_flight == 0
    assert s.slots_free == runtime.slots
    assert s.kv_in_use == 0
    assert s.reward_available == (o.reward_credits or runtime.slots)
    assert s.trajectory_available == (o.trajectory_credits or runtime.slots)
    assert s.illegal == s.corrupt == 0


prompts = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=23)


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[list[int], int, int]]:
    """Groups of (prompt, K, max_tokens); prompts share beginnings of every length."""
    stem = draw(prompts)
    cuts = draw(st.lists(st.tuples(st.integers(0, 23), prompts), min_size=1, max_size=6))
    return [
        ((stem[:cut] + tail)[:24], draw(st.integers(1, 4)), draw(st.integers(1, 9)))
        for cut, tail in cuts
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    groups=workloads(),
    policy=st.sampled_from(AdmissionPolicy),
    kv_blocks=st.integers(10, 40),
    decode=st.integers(1, 8),
    rows=st.integers(1, 8),
    chunk=st.integers(1, 30),
    cache=st.booleans(),
    cancels=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 23)), max_size=5),
)
def test_any_batch_composition_gives_each_rollout_its_own_tokens(
    groups: list[tuple[list[int], int, int]],
    policy: AdmissionPolicy,
    kv_blocks: int,
    decode: int,
    rows: int,
    chunk: int,
    cache: bool,
    cancels: list[tuple[int, int]],
) -> None:
    options = RuntimeOptions(
        seq_len_max=40,
        kv_blocks=kv_blocks,
        decode_credits=decode,
        rows_max=rows,
        prefill_chunk=chunk,
        policy=policy,
        aging_max=3,
        prefix_cache=cache,
        huge_pages=False,
        generation_first=0xFFFFFFFF,
        index_first=(1 << 64) - 5,
    )
    with Runtime(probe(), 24, options, start=False) as runtime:
        wanted: dict[int, list[int]] = {}
        refs: list[RolloutRef] = []
        for prompt, k, n in groups:
            first = len(wanted)
            for i in range(k):
                wanted[first + i] = expected(prompt, n, 500 + first + i)
            refs += runtime.submit(
                prompt,
                max_tokens=n,
                seeds=[500 + first + i for i in range(k)],
                user_ids=range(first, first + k),
                want_reward=False,
            )
        cancelled = set()
        for when, victim in cancels:
            step(runtime, when)
            if victim < len(refs):
                try:
                    runtime.cancel(refs[victim])
                    cancelled.add(victim)
                except RolloutGone:
                    ended = runtime.stats()
                    assert ended.completed + ended.failed > 0
            assert runtime.audit() == 0
        settle(runtime)
        assert runtime.audit() == 0
        done = {c.user_id: c for c in runtime.poll()}
        assert done.keys() == wanted.keys()
        for i, c in done.items():
            assert c.outcome is RolloutOutcome.COMPLETED or i in cancelled
            if c.outcome is RolloutOutcome.COMPLETED:
                assert list(c.tokens) == wanted[i]
            else:
                assert list(c.tokens) == wanted[i][: len(c.tokens)]
        balanced(runtime)


def test_a_group_computes_its_prompt_once_and_copies_only_what_it_writes() -> None:
    with Runtime(probe(), 8, RuntimeOptions(seq_len_max=64), start=False) as runtime:
        prompt = list(range(19))  # 18 shared positions: four full blocks, one of two positions
        runtime.submit(prompt, max_tokens=5, seeds=range(8), want_reward=False)
        settle(runtime)
        s = runtime.stats()
        assert s.prefill_tokens == 18
        assert (s.kv_copies, s.kv_copied_positions) == (8, 16)
        assert s.kv_in_use_peak <= 4 + 1 + 8 * 2
        assert s.shared_rows == 8 * 5


def test_the_prefix_cache_outlives_its_rollouts_and_leaves_when_cold() -> None:
    with Runtime(probe(), 8, RuntimeOptions(seq_len_max=64, kv_blocks=12), start=False) as runtime:
        warm, other = list(range(17)), list(range(20, 50))
        runtime.submit(warm, max_tokens=2, seeds=[1], want_reward=False)
        settle(runtime)
        runtime.submit(warm, max_tokens=2, seeds=[2], want_reward=False)
        settle(runtime)
        assert runtime.stats().prefix_matched_positions == 16
        runtime.submit(other, max_tokens=2, seeds=[3], want_reward=False)
        settle(runtime)
        assert runtime.stats().kv_evictions > 0
        runtime.submit(warm, max_tokens=2, seeds=[2], want_reward=False)
        settle(runtime)
        assert [list(c.tokens) for c in runtime.poll()][3] == expected(warm, 2, 2)


def test_new_weights_do_not_use_the_old_weights_prefixes() -> None:
    with Runtime(probe(), 8, RuntimeOptions(seq_len_max=64), start=False) as runtime:
        runtime.submit(list(range(17)), max_tokens=1, seeds=[1], want_reward=False)
        settle(runtime)
        runtime.set_policy_version(1)
        runtime.submit(list(range(17)), max_tokens=1, seeds=[1], want_reward=False)
        settle(runtime)
        assert runtime.stats().prefix_matched_positions == 0
        assert [list(c.policy_versions) for c in runtime.poll()] == [[0], [1]]


def test_a_prefill_that_new_weights_came_into_is_found_by_nobody() -> None:
    """Half of the prompt under version 1, half under 2, then back to 1: the mixture is no cache."""
    prompt = list(range(33))
    options = RuntimeOptions(seq_len_max=64, prefill_chunk=8)
    with Runtime(probe(), 8, options, start=False) as runtime:
        runtime.set_policy_version(1)
        runtime.submit(prompt, max_tokens=1, seeds=[1, 2], want_reward=False)
        step(runtime, 2)
        runtime.set_policy_version(2)
        step(runtime, 1)
        runtime.set_policy_version(1)
        settle(runtime)
        assert runtime.audit() == 0
        for version in (1, 2):
            runtime.set_policy_version(version)
            runtime.submit(prompt, max_tokens=2, seeds=[3], user_ids=[version], want_reward=False)
            settle(runtime)
        came = {c.user_id: list(c.tokens) for c in runtime.poll()[2:]}
        assert came == {v: expected(prompt, 2, 3, version=v) for v in (1, 2)}


def test_over_random_swaps_no_rollout_reads_what_other_weights_computed() -> None:
    """10,000 swaps. A rollout under whom no weights changed has that version's tokens to the last
    one, whatever was cached before it; old versions come back and find their caches."""
    seed = drawn_seed()
    rng = random.Random(seed)
    options = RuntimeOptions(seq_len_max=64, prefill_chunk=6, kv_blocks=160)
    stems = [[rng.randrange(VOCAB) for _ in range(24)] for _ in range(3)]
    version, swaps, pure = 0, 0, 0
    asked: dict[int, tuple[list[int], int, int]] = {}  # user: prompt, seed, swaps before it
    with Runtime(probe(), 16, options, start=False) as runtime:
        while swaps < 10_000:
            prompt = [*rng.choice(stems)[: rng.randint(1, 24)], rng.randrange(VOCAB)]
            seeds = [rng.randrange(99) for _ in range(rng.randint(1, 3))]
            users = list(range(1_000 * swaps, 1_000 * swaps + len(seeds)))
            asked |= {u: (prompt, s, swaps) for u, s in zip(users, seeds, strict=True)}
            with contextlib.suppress(EngineSaturated):
                n = rng.randint(1, 6)
                runtime.submit(prompt, max_tokens=n, seeds=seeds, user_ids=users, want_reward=False)
            step(runtime, rng.choice((1, 1, 2, 4, 20)))
            for c in runtime.poll():
                prompt, own, before = asked[c.user_id]
                if before == swaps:
                    pure += 1
                    wanted = expected(prompt, len(c.tokens), own, version)
                    assert list(c.tokens) == wanted
                    assert set(c.policy_versions) == {version}
            if swaps % 500 == 0:
                assert runtime.audit() == 0
            version = rng.choice((version + 1, max(0, version - 1), 0, 1))
            runtime.set_policy_version(version)
            swaps += 1
        assert pure > 1_000
        assert runtime.stats().prefix_matched_positions > 1_000


def test_each_token_carries_the_version_that_made_it() -> None:
    with Runtime(probe(), 4, RuntimeOptions(seq_len_max=64), start=False) as runtime:
        runtime.submit([1], max_tokens=6, seeds=[1], want_reward=False)
        step(runtime, 3)
        runtime.set_policy_version(9)
        settle(runtime)
        (c,) = runtime.poll()
        assert list(c.policy_versions) == [0, 0, 0, 9, 9, 9]
        assert len(c.logps) == 6


def test_a_full_runtime_says_which_stage_is_full_and_takes_nothing() -> None:
    options = RuntimeOptions(seq_len_max=32, reward_credits=1, decode_credits=2)
    with Runtime(probe(), 4, options, start=False) as runtime:
        runtime.submit([1], max_tokens=1, seeds=range(4))
        settle(runtime)
        with pytest.raises(EngineSaturated) as full:
            runtime.submit([1], max_tokens=1, seeds=[1])
        assert full.value.limit is Limit.REWARD
        s = runtime.stats()
        assert (s.submitted, s.queue_reward, s.blocked > 0) == (4, 1, True)


def test_decode_waits_for_rewards_and_rewards_for_trajectories() -> None:
    options = RuntimeOptions(
        seq_len_max=32, reward_credits=2, trajectory_credits=1, decode_credits=2
    )
    with Runtime(probe(), 8, options, start=False) as runtime:
        refs = runtime.submit([1, 2], max_tokens=2, seeds=range(8))
        settle(runtime)
        first, second = runtime.poll_rewards()
        assert runtime.poll_rewards() == []
        runtime.score(first.ref, 0.5)
        with pytest.raises(EngineSaturated, match="trajectory"):
            runtime.score(second.ref, 0.25)
        assert runtime.limit() is Limit.TRAJECTORY
        done: list[Completed] = []
        waiting = [second]
        for _ in range(40):
            settle(runtime)
            done += runtime.poll()
            waiting += runtime.poll_rewards()
            while waiting:
                try:
                    runtime.score(waiting[0].ref, 0.25)
                except EngineSaturated:
                    break
                waiting.pop(0)
        assert {c.ref for c in done} == set(refs)
        assert [c.reward for c in done] == [0.5] + [0.25] * 7
        balanced(runtime)


def test_the_scorer_sees_prompt_and_response() -> None:
    with Runtime(probe(), 4, RuntimeOptions(seq_len_max=32), start=False) as runtime:
        runtime.submit([3, 4, 5], max_tokens=4, seeds=[9], reward_ids=[77])
        settle(runtime)
        (request,) = runtime.poll_rewards()
        assert request.reward_id == 77
        assert list(request.tokens) == [3, 4, 5, *expected([3, 4, 5], 4, 9)]


def test_a_score_for_a_cancelled_rollout_is_refused() -> None:
    with Runtime(probe(), 4, RuntimeOptions(seq_len_max=32), start=False) as runtime:
        (ref,) = runtime.submit([3], max_tokens=1, seeds=[9])
        settle(runtime)
        (request,) = runtime.poll_rewards()
        runtime.cancel(ref)
        settle(runtime)
        with pytest.raises(RolloutGone):
            runtime.score(request.ref, 1.0)
        assert [c.outcome for c in runtime.poll()] == [RolloutOutcome.CANCELLED]
        with pytest.raises(RolloutGone):
            runtime.cancel(ref)
        balanced(runtime)


def test_a_recycled_slot_is_not_mistaken() -> None:
    with Runtime(probe(), 1, RuntimeOptions(seq_len_max=32), start=False) as runtime:
        (old,) = runtime.submit([3], max_tokens=1, seeds=[9], want_reward=False)
        settle(runtime)
        runtime.poll()
        (new,) = runtime.submit([3], max_tokens=1, seeds=[9])
        assert (new.slot, new.generation) == (old.slot, old.generation + 1)
        settle(runtime)
        for call in (runtime.cancel, lambda ref: runtime.score(ref, 1.0)):
            with pytest.raises(RolloutGone):
                call(old)


def test_decoding_stops_at_ids_strings_and_length() -> None:
    alphabet = [bytes([97 + i % 26]) * (1 + i % 2) for i in range(VOCAB)]
    with Runtime(
        probe(), 4, RuntimeOptions(seq_len_max=64), token_bytes=alphabet, start=False
    ) as rt:
        tokens = expected([1, 2], 20, 5)
        text = b"".join(alphabet[t] for t in tokens)
        rt.submit([1, 2], max_tokens=20, seeds=[5], stop_ids=[tokens[6]], want_reward=False)
        rt.submit(
            [1, 2], max_tokens=20, seeds=[5], stop_strings=[b"#", text[5:9]], want_reward=False
        )
        rt.submit([1, 2], max_tokens=20, seeds=[5], want_reward=False)
        settle(rt)
        by_id, by_string, by_length = sorted(rt.poll(), key=lambda c: (c.ref.slot, len(c.tokens)))
        assert (by_id.stop, by_string.stop, by_length.stop) == (Stop.ID, Stop.STRING, Stop.LENGTH)
        assert list(by_id.tokens) == tokens[: tokens.index(tokens[6]) + 1]
        made = b"".join(alphabet[t] for t in by_string.tokens)
        shorter = b"".join(alphabet[t] for t in list(by_string.tokens)[:-1])
        assert text[5:9] in made
        assert text[5:9] not in shorter
        assert list(by_length.tokens) == tokens


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("prompt", {"prompt": []}),
        ("prompt", {"prompt": [VOCAB]}),
        ("prompt", {"prompt": [-1]}),
        ("prompt", {"prompt": [1] * 64}),
        ("prompt", {"prompt": [1] * 65, "max_tokens": 0}),
        ("max_tokens", {"prompt": [1] * 63}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_tokens", {"max_tokens": 64}),
        ("max_tokens", {"prompt": [1] * 40}),
        ("seeds", {"seeds": []}),
        ("stop_ids", {"stop_ids": range(9)}),
        ("stop_strings", {"stop_strings": [b"x"]}),
        ("user_ids", {"user_ids": [1, 2]}),
    ],
)
def test_impossible_requests_name_the_field(field: str, changes: dict[str, object]) -> None:
    with Runtime(probe(), 2, RuntimeOptions(seq_len_max=64, kv_blocks=10), start=False) as runtime:
        arguments: dict[str, object] = {"prompt": [1], "max_tokens": 3, "seeds": [1], **changes}
        with pytest.raises(InvalidRollout) as wrong:
            runtime.submit(arguments.pop("prompt"), **arguments)  # type: ignore[arg-type]
        assert wrong.value.field == field
        assert runtime.stats().submitted == 0


@pytest.mark.parametrize(
    ("changes", "cause"),
    [({"fail_at_step": 3}, CrashCause.ENGINE), ({"fault_at_step": 3}, CrashCause.SIGNAL)],
)
def test_a_crash_names_the_rollouts_it_took_down_and_hangs_nobody(
    changes: dict[str, int], cause: CrashCause
) -> None:
    with Runtime(probe(**changes), 8, RuntimeOptions(seq_len_max=32)) as runtime:
        runtime.submit([1], max_tokens=1, seeds=[1], user_ids=[40], want_reward=False)
        finished = [c.user_id for c in runtime.drain(5.0)]
        runtime.submit([1, 2, 3], max_tokens=20, seeds=range(3), user_ids=[41, 42, 43])
        with pytest.raises(WorkerCrashed) as crash:
            runtime.drain(5.0)
        assert finished == [40]
        assert crash.value.cause is cause
        assert sorted(crash.value.rollouts) == [41, 42, 43]
        with pytest.raises(WorkerCrashed):
            runtime.submit([1], max_tokens=1, seeds=[1])
        s = runtime.stats()
        assert (s.in_flight, s.submitted, s.failed) == (0, 4, 3)


def finish_order(policy: AdmissionPolicy, aging_max: int = 10_000) -> list[int]:
    """One long rollout first, then ten short ones; one decodes at a time."""
    options = RuntimeOptions(seq_len_max=128, decode_credits=1, policy=policy, aging_max=aging_max)
    with Runtime(probe(), 16, options, start=False) as runtime:
        runtime.submit([1], max_tokens=100, seeds=[0], user_ids=[99], want_reward=False)
        runtime.submit([1], max_tokens=90, seeds=[0], user_ids=[98], want_reward=False)
        for i in range(10):
            runtime.submit([1], max_tokens=2, seeds=[0], user_ids=[i], want_reward=False)
        settle(runtime)
        return [c.user_id for c in runtime.poll()]


def test_fifo_keeps_the_order_of_arrival() -> None:
    assert finish_order(AdmissionPolicy.FIFO) == [99, 98, *range(10)]


def test_shortest_remaining_first_lets_the_short_ones_pass() -> None:
    assert finish_order(AdmissionPolicy.SHORTEST_REMAINING) == [*range(10), 98, 99]


def test_aging_bounds_how_often_a_rollout_is_passed() -> None:
    order = finish_order(AdmissionPolicy.SHORTEST_REMAINING, aging_max=4)
    assert order.index(99) == 4
    assert order.index(98) == 5
    assert sorted(order) == [*range(10), 98, 99]


def prefilled_positions(policy: AdmissionPolicy) -> int:
    """Two prompts in turn, an arena with room for one of them warm."""
    options = RuntimeOptions(seq_len_max=64, decode_credits=1, kv_blocks=14, policy=policy)
    with Runtime(probe(), 16, options, start=False) as runtime:
        for i in range(12):
            prompt = [i % 2] * 40
            runtime.submit(prompt, max_tokens=2, seeds=[i], want_reward=False)
        settle(runtime)
        assert len(runtime.poll()) == 12
        return runtime.stats().prefill_tokens


def test_prefix_sharing_computes_each_prompt_once_where_fifo_thrashes() -> None:
    assert prefilled_positions(AdmissionPolicy.PREFIX_SHARING) == 2 * 39
    assert prefilled_positions(AdmissionPolicy.FIFO) > 4 * 2 * 39


def steps_waited(policy: AdmissionPolicy, aging_max: int) -> dict[int, int]:
    """More active rollouts than rows: who waits how many steps for the end."""
    options = RuntimeOptions(
        seq_len_max=128, decode_credits=8, rows_max=2, policy=policy, aging_max=aging_max
    )
    with Runtime(probe(), 8, options, start=False) as runtime:
        for i in range(8):
            runtime.submit([1], max_tokens=4 * (8 - i), seeds=[i], user_ids=[i], want_reward=False)
        ended: dict[int, int] = {}
        for n in range(400):
            step(runtime)
            ended.update({c.user_id: n for c in runtime.poll()})
        return ended


def test_every_active_rollout_is_stepped_under_every_policy() -> None:
    for policy in AdmissionPolicy:
        assert steps_waited(policy, aging_max=6).keys() == set(range(8)), policy


def test_shortest_remaining_lowers_the_mean_wait_of_a_skewed_load() -> None:
    fifo = steps_waited(AdmissionPolicy.FIFO, aging_max=1000)
    shortest = steps_waited(AdmissionPolicy.SHORTEST_REMAINING, aging_max=1000)
    assert sum(shortest.values()) < 0.75 * sum(fifo.values())


def submit_some(runtime: Runtime, base: int) -> None:
    """Submit 60 rollouts in pairs; cancel one in ten pairs."""
    rng, sent = random.Random(base), 0
    while sent < 60:
        prompt = [base % VOCAB, 5, 6, *range(rng.randrange(9))]
        try:
            refs = runtime.submit(
                prompt, max_tokens=7, seeds=[1, 2], user_ids=[base + sent, base + sent + 1]
            )
        except EngineSaturated:
            runtime.wait(0.001)
            continue
        sent += 2
        if rng.random() < 0.1:
            with contextlib.suppress(RolloutGone):
                runtime.cancel(refs[0])


def score_until(stop: threading.Event, runtime: Runtime) -> None:
    """Score what is decoded, with the number of its tokens as reward."""
    while not stop.is_set():
        for request in runtime.poll_rewards(4):
            while not stop.is_set():
                try:
                    runtime.score(request.ref, float(len(request.tokens)))
                    break
                except EngineSaturated:
                    runtime.wait(0.001)
                except RolloutGone:
                    break
        runtime.wait(0.001)


def test_many_threads_submit_score_and_poll_and_nothing_is_lost() -> None:
    options = RuntimeOptions(
        seq_len_max=48, kv_blocks=64, reward_credits=5, trajectory_credits=5, prefill_chunk=16
    )
    seen: list[Completed] = []
    stop, all_seen = threading.Event(), threading.Event()
    with Runtime(probe(), 24, options) as runtime:

        def poll() -> None:
            while not stop.is_set():
                seen.extend(runtime.poll())
                if len(seen) == 180:
                    all_seen.set()
                runtime.wait(0.001)

        bases = [k * 1000 for k in range(3)]
        submitters = [threading.Thread(target=submit_some, args=(runtime, b)) for b in bases]
        others = [threading.Thread(target=score_until, args=(stop, runtime)) for _ in range(2)]
        others.append(threading.Thread(target=poll))
        for thread in submitters + others:
            thread.start()
        for thread in submitters:
            thread.join(60)
        all_seen.wait(60)
        stop.set()
        for thread in others:
            thread.join(10)
        seen.extend(runtime.poll())
        assert runtime.audit() == 0
        balanced(runtime)
    assert sorted(c.user_id for c in seen) == sorted(base + i for base in bases for i in range(60))
    for c in seen:
        if c.outcome is RolloutOutcome.COMPLETED:
            assert list(c.tokens) == expected(list(c.prompt), 7, 1 + c.user_id % 2)
            assert c.reward == len(c.prompt) + 7


def test_pause_holds_the_worker_between_steps() -> None:
    with Runtime(probe(), 4, RuntimeOptions(seq_len_max=512)) as runtime:
        runtime.submit([1], max_tokens=500, seeds=[1], want_reward=False)
        pause = runtime.pause()
        before = runtime.stats().steps
        runtime.wait(0.02)
        assert runtime.stats().steps == before
        pause.resume()
        assert len(runtime.drain(10.0)) == 1


def test_a_drain_that_nobody_scores_for_ends_with_an_error_and_no_sooner() -> None:
    with Runtime(probe(), 4, RuntimeOptions(seq_len_max=64)) as runtime:
        runtime.submit([1], max_tokens=5, seeds=[1])
        with pytest.raises(WorkerStalled, match="1 rollouts still in flight"):
            runtime.drain(0.2)
        (request,) = runtime.poll_rewards()
        runtime.score(request.ref, 1.0)
        assert [c.reward for c in runtime.drain(5.0)] == [1.0]


def test_the_arena_says_which_pages_it_got_and_whether_it_is_bound_to_the_node() -> None:
    for huge, node, kinds, bound in (
        (False, None, {"base"}, {0}),
        (True, None, {"huge", "advised_huge", "base"}, {0}),
        (True, 0, {"huge", "advised_huge", "base"}, {0, 1}),  # 0: a kernel that refuses
        (True, 63, {"huge", "advised_huge", "base"}, {0}),
    ):
        options = RuntimeOptions(seq_len_max=32, huge_pages=huge, numa_node=node)
        with Runtime(probe(), 2, options, start=False) as runtime:
            stats = runtime.stats()
            assert stats.kv_pages_kind in kinds
            assert stats.numa_bound in bound
            runtime.submit([1, 2], max_tokens=2, seeds=[1], want_reward=False)
            settle(runtime)
            assert [c.outcome for c in runtime.poll()] == [RolloutOutcome.COMPLETED]


def advised_kb() -> int:
    """Memory of this process that carries the huge-page advice (VmFlags hg)."""
    total = size = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1])
        elif line.startswith("VmFlags:") and "hg" in line.split():
            total += size
    return total


def test_an_arena_that_says_advised_carries_the_kernels_flag() -> None:
    before = advised_kb()
    options = RuntimeOptions(seq_len_max=32, kv_blocks=1 << 20)
    with Runtime(probe(), 2, options, start=False) as runtime:
        stats = runtime.stats()
        if stats.kv_pages_kind != "advised_huge":
            pytest.skip(f"pages are {stats.kv_pages_kind} here")
        assert advised_kb() - before >= stats.kv_bytes >> 10
