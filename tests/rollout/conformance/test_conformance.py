"""What every `RolloutEngine` does: the CPU runtime without and with a model, and a plain reference.

Method: each test knows an engine by the protocol alone. `alone` says what a prompt, a seed and a
version give; it is computed apart from the engine under test.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")
pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from tests.rollout import sglang_server
from tests.rollout.conformance.elsewhere import elsewhere
from tests.rollout.conformance.reference import ReferenceEngine
from tests.rollout.cuda.building import NEEDS_A_GPU, gpu_engine, host_engine, odd, tiny
from tests.rollout.cuda.building import ended as cuda_ended
from tests.rollout.probe import probe_tokens
from tests.rollout.serving import serving
from tests.rollout.test_weight_slots import MODELS, SETTINGS, stage
from tests.rollout.test_weight_slots import alone as model_alone
from tests.seeds import drawn_seed

from assay.rollout import (
    Completed,
    EngineSaturated,
    InvalidRollout,
    PauseMode,
    ProbeEngine,
    RolloutGone,
    RolloutOutcome,
    Runtime,
    RuntimeClosed,
    RuntimeOptions,
    Sampling,
    Stop,
    WeightsNotReady,
)
from assay.rollout.cuda.sizes import EMULATED, Tuning
from assay.rollout.models import Engine, tensors_of
from assay.rollout.remote import AssayServer, RemoteEngine, RemoteOptions, SGLang
from assay.rollout.server.app import Served, build_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.interface.rollout_engine import RolloutEngine
    from assay.rollout.models import Model

VOCAB, SLOTS, SEQ_MAX = 331, 8, 64
SAMPLING = Sampling(temperature=0.8, top_k=40)


@dataclass(frozen=True)
class Subject:
    """An engine, and what is known of it otherwise."""

    engine: RolloutEngine
    make_ready: Callable[[int], None]
    alone: Callable[[list[int], int, int, int], list[int]]
    """(prompt, tokens, seed, version) to tokens."""
    knows_its_versions: bool = True


def probe_alone(prompt: list[int], n: int, seed: int, version: int) -> list[int]:
    return probe_tokens(prompt, n, seed=seed, vocab_size=VOCAB, read_all=True, version=version)


def reference() -> Iterator[Subject]:
    engine = ReferenceEngine(SLOTS, vocab_size=VOCAB, seq_len_max=SEQ_MAX)
    yield Subject(engine, engine.ready.add, probe_alone)
    engine.close()


def probe() -> Iterator[Subject]:
    native = ProbeEngine(vocab_size=VOCAB, block_tokens=4, batch_max=8, read_all=True)
    with Runtime(native, SLOTS, RuntimeOptions(seq_len_max=SEQ_MAX)) as runtime:
        yield Subject(runtime, lambda _: None, probe_alone, knows_its_versions=False)


def model() -> Iterator[Subject]:
    with Engine.create(MODELS[0], SETTINGS) as native, Engine.create(MODELS[1], SETTINGS) as other:
        fresh = {1: other}
        with Engine.create(MODELS[0], SETTINGS) as first:
            fresh[0] = first

            def alone(prompt: list[int], n: int, seed: int, version: int) -> list[int]:
                return model_alone(fresh[version], prompt, n, seed)[0]

            with Runtime(native, SLOTS, RuntimeOptions(seq_len_max=SEQ_MAX)) as runtime:
                yield Subject(runtime, lambda version: stage(native, version), alone)


@contextmanager
def over_http(
    native: Engine | ProbeEngine, stage_at: Callable[[int, str], None]
) -> Iterator[RemoteEngine]:
    options = RuntimeOptions(seq_len_max=SEQ_MAX)
    with Runtime(native, 4 * SLOTS, options) as runtime:
        served = Served(name="m", vocab_size=VOCAB, seq_len_max=SEQ_MAX, stage=stage_at)
        has_logps = not isinstance(native, ProbeEngine)
        bounds = RemoteOptions(seq_len_max=SEQ_MAX, decode_credits=SLOTS, check_logps=has_logps)
        with (
            serving(build_app(runtime, served)) as url,
            RemoteEngine(url, AssayServer(), SLOTS, VOCAB, bounds) as engine,
        ):
            yield engine


def remote_probe() -> Iterator[Subject]:
    native = ProbeEngine(vocab_size=VOCAB, block_tokens=4, batch_max=8, read_all=True)
    with over_http(native, lambda _version, _path: None) as engine:
        yield Subject(engine, lambda _: None, probe_alone, knows_its_versions=False)


def remote_model() -> Iterator[Subject]:
    with ExitStack() as stack:
        native, *fresh = [
            stack.enter_context(Engine.create(MODELS[version], SETTINGS)) for version in (0, 0, 1)
        ]

        def alone(prompt: list[int], n: int, seed: int, version: int) -> list[int]:
            return model_alone(fresh[version], prompt, n, seed)[0]

        http = over_http(native, lambda version, _path: stage(native, version))
        engine = stack.enter_context(http)
        yield Subject(engine, lambda version: engine.stage(version, "here"), alone)


def over_sglang(*, incremental: bool) -> Iterator[Subject]:
    with ExitStack() as stack:
        native, *fresh = [
            stack.enter_context(Engine.create(MODELS[version], SETTINGS)) for version in (0, 0, 1)
        ]

        def alone(prompt: list[int], n: int, seed: int, version: int) -> list[int]:
            return model_alone(fresh[version], prompt, n, seed)[0]

        bounds = RuntimeOptions(seq_len_max=SEQ_MAX)
        runtime = stack.enter_context(Runtime(native, 4 * SLOTS, bounds))
        app = sglang_server.build(
            runtime, lambda version: stage(native, version), incremental=incremental
        )
        url = stack.enter_context(serving(app))
        options = RemoteOptions(seq_len_max=SEQ_MAX, decode_credits=SLOTS)
        engine = stack.enter_context(RemoteEngine(url, SGLang(), SLOTS, VOCAB, options))
        yield Subject(engine, lambda version: engine.stage(version, str(version)), alone)


def remote_sglang() -> Iterator[Subject]:
    yield from over_sglang(incremental=False)


def remote_sglang_incremental() -> Iterator[Subject]:
    yield from over_sglang(incremental=True)


def cuda_host_build() -> Iterator[Subject]:
    """The persistent CUDA kernel, built for the host: its rings, control and layers as they are."""
    yield from cuda(host_engine, tiny)


def cuda_host_build_general() -> Iterator[Subject]:
    """The one for other devices, with a model of a shape that is padded."""
    make = functools.partial(host_engine, tuning=replace(EMULATED, general=True))
    yield from cuda(make, odd_model)


def cuda_gpu() -> Iterator[Subject]:
    yield from cuda_beside_others(gpu_engine, tiny)


GENERAL_ON_GPU = functools.partial(gpu_engine, tuning=Tuning(general=True))


def cuda_gpu_general() -> Iterator[Subject]:
    yield from cuda_beside_others(GENERAL_ON_GPU, odd_model)


def cuda_beside_others(
    make: Callable[..., CudaEngine], of: Callable[[int], Model]
) -> Iterator[Subject]:
    """What is alone runs in other processes: this one has one engine on the device."""
    options = {"slots": SLOTS, "seq_len_max": SEQ_MAX}

    def alone(prompt: list[int], n: int, seed: int, version: int) -> list[int]:
        fresh = elsewhere(make, of, version, **options)
        return fresh.tokens(prompt, n, seed, SAMPLING) if n else []

    with make(of(0), **options) as engine:

        def make_ready(version: int) -> None:
            engine.stage(version, tensors_of(of(version)))

        yield Subject(engine, make_ready, alone)


def odd_model(version: int) -> Model:
    shape = {"dim": 50, "n_heads": 6, "n_kv_heads": 2, "head_dim": 14, "hidden_dim": 45}
    return odd(version, out_bias=True, mlp_bias=True, **shape)


def cuda(make: Callable[..., CudaEngine], of: Callable[[int], Model]) -> Iterator[Subject]:
    models = {version: of(version) for version in (0, 1)}
    with (
        make(models[0], slots=SLOTS, seq_len_max=SEQ_MAX) as engine,
        make(models[0], slots=SLOTS, seq_len_max=SEQ_MAX) as first,
        make(models[1], slots=SLOTS, seq_len_max=SEQ_MAX) as second,
    ):
        fresh = {0: first, 1: second}

        def alone(prompt: list[int], n: int, seed: int, version: int) -> list[int]:
            if n == 0:
                return []
            fresh[version].submit(
                prompt, max_tokens=n, seeds=[seed], sampling=SAMPLING, want_reward=False
            )
            return list(cuda_ended(fresh[version], 1)[0].tokens)

        def make_ready(version: int) -> None:
            engine.stage(version, tensors_of(models[version]))

        yield Subject(engine, make_ready, alone)


ON_GPU = [
    pytest.param(make, marks=[pytest.mark.gpu, NEEDS_A_GPU], id=make.__name__)
    for make in (cuda_gpu, cuda_gpu_general)
]
REMOTE = [remote_probe, remote_model, remote_sglang, remote_sglang_incremental]


@pytest.fixture(
    params=[reference, probe, model, cuda_host_build, cuda_host_build_general, *ON_GPU, *REMOTE],
    ids=lambda make: make.__name__,
)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    yield from request.param()


def ended(engine: RolloutEngine, n: int) -> list[Completed]:
    """The next n completions; rewards are scored with the number of their tokens."""
    came: list[Completed] = []
    for _ in range(4000):
        for request in engine.poll_rewards():
            engine.score(request.ref, len(request.tokens))
        came += engine.poll()
        if len(came) >= n:
            return came
        engine.wait(0.05)
    raise AssertionError(f"only {len(came)} of {n} came back")


def until_decoding(engine: RolloutEngine) -> None:
    for _ in range(3):
        engine.wait(0.01)


def test_a_group_comes_back_whole_and_each_rollout_is_what_it_is_alone(subject: Subject) -> None:
    prompts = [[5], list(range(40)), list(range(38))]
    for at, prompt in enumerate(prompts):
        refs = subject.engine.submit(
            prompt,
            max_tokens=9,
            seeds=[7, 8],
            sampling=SAMPLING,
            user_ids=[2 * at, 2 * at + 1],
            reward_ids=[50 + 2 * at, 51 + 2 * at],
        )
        assert len(set(refs)) == 2
    done = ended(subject.engine, 6)
    assert sorted(c.user_id for c in done) == list(range(6))
    for c in done:
        prompt = prompts[c.user_id // 2]
        assert list(c.prompt) == prompt
        assert list(c.tokens) == subject.alone(prompt, 9, 7 + c.user_id % 2, 0)
        assert len(c.logps) == len(c.policy_versions) == 9
        assert all(logp <= 0 for logp in c.logps)
        assert set(c.policy_versions) == {0}
        assert (c.outcome, c.stop) == (RolloutOutcome.COMPLETED, Stop.LENGTH)
        assert (c.reward, c.reward_id) == (len(prompt) + 9, 50 + c.user_id)
    assert subject.engine.poll() == []
    assert subject.engine.stats().slots_free == SLOTS


def test_a_group_without_room_is_refused_whole_and_taken_later(subject: Subject) -> None:
    engine = subject.engine
    engine.submit([1], max_tokens=4, seeds=range(SLOTS - 1), want_reward=False)
    before = engine.stats().submitted
    with pytest.raises(EngineSaturated) as full:
        engine.submit([1], max_tokens=4, seeds=[1, 2], want_reward=False)
    assert full.value.retry_after_s > 0
    assert engine.stats().submitted == before
    ended(engine, SLOTS - 1)
    engine.submit([1], max_tokens=4, seeds=range(SLOTS), want_reward=False)
    assert len(ended(engine, SLOTS)) == SLOTS


def test_a_response_is_handed_out_once_and_scored_once(subject: Subject) -> None:
    engine = subject.engine
    (ref,) = engine.submit([1, 2], max_tokens=3, seeds=[4], sampling=SAMPLING)
    with pytest.raises(RolloutGone):
        engine.score(ref._replace(generation=ref.generation + 1), 1.0)
    requests = []
    for _ in range(400):
        if requests := engine.poll_rewards():
            break
        engine.wait(0.05)
    assert [list(r.tokens) for r in requests] == [[1, 2, *subject.alone([1, 2], 3, 4, 0)]]
    assert engine.poll_rewards() == []
    assert engine.poll() == []
    engine.score(ref, -2.5)
    with pytest.raises(RolloutGone):
        engine.score(ref, 1.0)
    assert [c.reward for c in ended(engine, 1)] == [-2.5]


def test_a_cancelled_rollout_comes_back_and_can_not_be_cancelled_again(subject: Subject) -> None:
    engine = subject.engine
    with engine.pause():
        (ref,) = engine.submit([1], max_tokens=60, seeds=[1], want_reward=False)
        engine.cancel(ref)
    (c,) = ended(engine, 1)
    assert (c.ref, c.outcome, c.reward) == (ref, RolloutOutcome.CANCELLED, None)
    with pytest.raises(RolloutGone):
        engine.cancel(ref)


def test_a_stop_id_is_the_last_token(subject: Subject) -> None:
    whole = subject.alone([9, 9], 20, 3, 0)
    stop = whole[5]
    subject.engine.submit(
        [9, 9], max_tokens=20, seeds=[3], sampling=SAMPLING, stop_ids=[stop], want_reward=False
    )
    (c,) = ended(subject.engine, 1)
    assert c.stop is Stop.ID
    assert list(c.tokens) == whole[: whole.index(stop) + 1]


def test_no_token_is_made_while_any_pause_holds(subject: Subject) -> None:
    engine = subject.engine
    first, second = engine.pause(), engine.pause()
    with first:
        engine.submit([1], max_tokens=2, seeds=[1], want_reward=False)
        with second:
            engine.wait(0.01)
    third = engine.pause()
    with third as held:
        held.resume()
        held.resume()
        with engine.pause():
            before = engine.stats().completed
            engine.wait(0.01)
            assert engine.stats().completed == before
    assert len(ended(engine, 1)) == 1


@pytest.mark.parametrize("mode", [PauseMode.FINISH, PauseMode.RETRACT])
def test_every_token_is_what_its_version_makes_of_the_tokens_before_it(
    subject: Subject, mode: PauseMode
) -> None:
    engine = subject.engine
    subject.make_ready(1)
    for version in (1, 0, 1):
        engine.submit([3, 4, 5], max_tokens=40, seeds=[6, 7], sampling=SAMPLING, want_reward=False)
        until_decoding(engine)
        change = engine.activate(version, mode=mode, timeout_s=60.0)
        assert (change.version, change.previous) == (version, 1 - version)
        assert engine.stats().policy_version == version
        for c in ended(engine, 2):
            kept = list(c.policy_versions).count(1 - version)
            assert list(c.policy_versions) == [1 - version] * kept + [version] * (40 - kept)
            assert mode is PauseMode.RETRACT or kept in (0, 40)
            seed, head = 6 + c.user_id, list(c.tokens[:kept])
            assert head == subject.alone([3, 4, 5], kept, seed, 1 - version)
            tail = subject.alone([3, 4, 5, *head], 40 - kept, seed, version)
            assert list(c.tokens[kept:]) == tail


def test_a_version_that_nobody_made_ready_changes_nothing(subject: Subject) -> None:
    if not subject.knows_its_versions:
        pytest.skip("the probe's weights are their number")
    with pytest.raises(WeightsNotReady):
        subject.engine.activate(9)
    assert subject.engine.stats().policy_version == 0
    subject.engine.submit([1], max_tokens=2, seeds=[1], want_reward=False)
    assert [set(c.policy_versions) for c in ended(subject.engine, 1)] == [{0}]


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "no prompt": ({"prompt": []}, "prompt"),
    "a token outside": ({"prompt": [VOCAB]}, "prompt"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "too long": ({"max_tokens": SEQ_MAX}, "max_tokens"),
    "no rollout": ({"seeds": []}, "seeds"),
    "too many": ({"seeds": range(SLOTS + 1)}, "seeds"),
    "names for others": ({"user_ids": [1, 2]}, "user_ids"),
    "an invalid temperature": (
        {"sampling": Sampling(temperature=-1.0)},
        "sampling.temperature",
    ),
    "a stop id outside": ({"stop_ids": [VOCAB]}, "stop_ids"),
    "bytes without a vocabulary": ({"stop_strings": [b"x"]}, "stop_strings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_can_never_succeed_is_refused_by_name(subject: Subject, case: str) -> None:
    changes, field = WRONG[case]
    order: dict[str, object] = {"prompt": [1, 2], "max_tokens": 4, "seeds": [1], **changes}
    with pytest.raises(InvalidRollout) as refused:
        subject.engine.submit(order.pop("prompt"), **order)  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.field == field
    assert subject.engine.stats().submitted == 0


def test_over_a_random_schedule_each_rollout_comes_back_once_and_the_counts_agree(
    subject: Subject,
) -> None:
    seed = drawn_seed()
    rng, engine = random.Random(seed), subject.engine
    taken, came = 0, Counter[int]()
    for _ in range(120):
        seeds = [rng.randrange(1 << 64) for _ in range(rng.randint(1, 4))]
        users = list(range(taken, taken + len(seeds)))
        reward = rng.random() < 0.5
        try:
            refs = engine.submit(
                [rng.randrange(VOCAB)] * rng.randint(1, 9),
                max_tokens=rng.randint(1, 9),
                seeds=seeds,
                user_ids=users,
                want_reward=reward,
            )
        except EngineSaturated:
            refs = []
        taken += len(refs)
        for ref in refs:
            if rng.random() < 0.2:
                try:
                    engine.cancel(ref)
                except RolloutGone:
                    continue
        if rng.random() < 0.1:
            engine.pause(mode=rng.choice(tuple(PauseMode)[::2])).__enter__().resume()
        engine.wait(0.005)
        for request in engine.poll_rewards():
            try:
                engine.score(request.ref, 1.0)
            except RolloutGone:
                continue
        came.update(c.user_id for c in engine.poll())
        stats = engine.stats()
        assert stats.submitted == stats.completed + stats.failed + stats.in_flight == taken
    came.update(c.user_id for c in ended(engine, taken - came.total()))
    assert came == Counter(range(taken))
    assert engine.stats().slots_free == SLOTS


def test_a_pause_that_waits_for_the_end_follows_one_in_place(subject: Subject) -> None:
    """Even where releasing the first takes a message that the second overtakes."""
    engine = subject.engine
    for seed in range(30):
        engine.submit([seed % VOCAB], max_tokens=9, seeds=[seed])
        with engine.pause(mode=PauseMode.IN_PLACE):
            pass
        with engine.pause(mode=PauseMode.FINISH):
            pass
        ended(engine, 1)


def test_a_closed_engine_refuses_every_call_but_close(subject: Subject) -> None:
    engine = subject.engine
    (ref,) = engine.submit([1], max_tokens=9, seeds=[1])
    engine.close()
    engine.close()
    calls: list[Callable[[], object]] = [
        lambda: engine.submit([1], max_tokens=1, seeds=[1]),
        lambda: engine.cancel(ref),
        engine.poll,
        engine.poll_rewards,
        lambda: engine.score(ref, 1.0),
        lambda: engine.wait(0.01),
        engine.pause,
        lambda: engine.activate(0),
        engine.stats,
    ]
    for call in calls:
        with pytest.raises(RuntimeClosed):
            call()
