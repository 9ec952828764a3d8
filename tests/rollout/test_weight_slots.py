"""Two slots of weights: staged while the other one decodes, swapped between two steps.

Whatever is swapped when, a rollout that ran under one version is, bit for bit, what a fresh engine
with these weights makes of it alone.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numpy")

import numpy as np
from tests.rollout.engine.exact import random_model
from tests.seeds import drawn_seed

from assay.core.errors import InvalidRequest
from assay.rollout import (
    Completed,
    InvalidWeights,
    PauseMode,
    RolloutOutcome,
    Runtime,
    RuntimeOptions,
    Sampling,
    WeightsNotReady,
    WeightsProblem,
    WorkerStalled,
)
from assay.rollout.errors import EngineLent
from assay.rollout.models import (
    DType,
    Engine,
    Model,
    StagedTensor,
    Tensor,
    TensorKind,
    staging,
    tensors_of,
)
from assay.rollout.models.driver import Driver, TokenSampling
from assay.rollout.models.engine import EngineSettings
from assay.rollout.models.staging import Versions
from assay.rollout.models.tensor_checks import PIECES_KEPT, ComingTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from assay.rollout.local.runtime import Pause

SETTINGS = EngineSettings(weight_dtype=DType.F32, batch_max=8, step_tokens_max=64, threads=1)
OPTIONS = RuntimeOptions(seq_len_max=128, prefill_chunk=10)
SAMPLING = Sampling(temperature=0.8, top_k=40)
MODES = tuple(PauseMode)


def version_of(version: int, family: str = "qwen3") -> Model:
    """The family's random model after `version` steps of a training no one should try."""
    model, rng = random_model(family), np.random.default_rng(version)
    if version == 0:
        return model
    moved = {
        key: Tensor.of(tensor.data + rng.normal(0, 0.05, tensor.shape).astype(np.float32))
        for key, tensor in model.tensors.items()
    }
    return Model(model.config, moved)


MODELS = {version: version_of(version) for version in range(4)}
ALL = list(tensors_of(MODELS[1]))


@pytest.fixture(scope="module")
def fresh() -> Iterator[dict[int, Engine]]:
    """An engine for each version, which never held another."""
    engines = {v: Engine.create(model, SETTINGS) for v, model in MODELS.items()}
    yield engines
    for engine in engines.values():
        engine.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.create(MODELS[0], SETTINGS) as engine:
        yield engine


def alone(engine: Engine, prompt: list[int], n: int, seed: int) -> tuple[list[int], list[float]]:
    """n tokens after the prompt, and their log-probs, without the runtime."""
    driver = Driver(engine, 16)
    rollout = driver.new(len(prompt) + n, TokenSampling(temperature=0.8, top_k=40, seed=seed))
    driver.prefill(rollout, prompt[:-1], 16)
    tokens, logps, last = [], [], prompt[-1]
    for _ in range(n):
        (made,) = driver.step([rollout], [[last]])
        tokens.append(made.token)
        logps.append(made.logp)
        last = made.token
    return tokens, logps


def stage(engine: Engine, version: int) -> None:
    engine.stage(version, tensors_of(MODELS[version]))


def swap(runtime: Runtime, engine: Engine, version: int, mode: PauseMode) -> None:
    if version not in (engine.policy_version, engine.ready_version):
        stage(engine, version)
    runtime.activate(version, mode=mode)


def submit(runtime: Runtime, prompt: list[int], n: int, seeds: list[int], user: int = 0) -> None:
    users = [user + i for i in range(len(seeds))]
    runtime.submit(
        prompt, max_tokens=n, seeds=seeds, user_ids=users, sampling=SAMPLING, want_reward=False
    )


def held_while_it_runs(runtime: Runtime) -> Pause:
    """A pause in the middle of one rollout, however late this thread is."""
    for _ in range(200):
        submit(runtime, [1], 120, [1])
        while runtime.stats().kv_in_use == 0 and runtime.stats().in_flight:
            runtime.wait(0.001)
        pause = runtime.pause()
        if runtime.stats().kv_in_use:
            return pause
        pause.resume()
        runtime.drain(60.0)
    raise AssertionError("every rollout ended before it could be held")


def settle(runtime: Runtime) -> None:
    while runtime.step():
        pass


def made(c: Completed) -> tuple[list[int], list[float]]:
    return list(c.tokens), list(c.logps)


def pieces(versions: list[int]) -> list[tuple[int, int, int]]:
    """Runs of equal versions: version, first token, the one after the last."""
    cuts = [0, *(i for i in range(1, len(versions)) if versions[i] != versions[i - 1])]
    ends = [*cuts[1:], len(versions)]
    return [(versions[a], a, b) for a, b in zip(cuts, ends, strict=True)]


SWAPS = int(os.environ.get("ASSAY_SWAPS", "40"))
"""`make swaps` makes 10,000."""


def test_over_random_swaps_each_version_makes_what_a_fresh_engine_makes(
    engine: Engine, fresh: dict[int, Engine]
) -> None:
    """In place, what a swap came into keeps its old keys and values, so that only rollouts under
    one version can be compared; retracted, every piece of a rollout can."""
    seed = drawn_seed()
    rng = random.Random(seed)
    stems = [[rng.randrange(331) for _ in range(40)] for _ in range(2)]
    asked: dict[int, tuple[list[int], int, int]] = {}  # user: prompt, seed, in-place swaps before
    in_place, pure, in_parts = 0, 0, 0
    with Runtime(engine, 16, OPTIONS, start=False) as runtime:
        for user in range(0, 10 * SWAPS, 10):
            prompt = [*rng.choice(stems)[: rng.randint(1, 40)], rng.randrange(331)]
            seeds = [rng.randrange(1 << 64) for _ in range(rng.randint(1, 3))]
            asked |= {user + i: (prompt, s, in_place) for i, s in enumerate(seeds)}
            if runtime.stats().slots_free >= len(seeds):
                submit(runtime, prompt, rng.randint(1, 12), seeds, user)
            for _ in range(rng.randint(0, 12)):
                runtime.step()
            if rng.random() < 0.5:
                settle(runtime)
            mode = rng.choice((PauseMode.IN_PLACE, PauseMode.RETRACT, PauseMode.RETRACT))
            came = runtime.poll()
            in_place += mode is PauseMode.IN_PLACE
            swap(runtime, engine, rng.randrange(4), mode)
            assert runtime.audit() == 0
            for c in came:
                prompt, own, before = asked[c.user_id]
                parts = pieces(list(c.policy_versions))
                pure += len(parts) == 1
                if before != in_place - (mode is PauseMode.IN_PLACE):
                    continue
                in_parts += len(parts) > 1
                for version, a, b in parts:
                    tokens, logps = alone(fresh[version], [*prompt, *c.tokens[:a]], b - a, own)
                    assert list(c.tokens[a:b]) == tokens
                    assert list(c.logps[a:b]) == logps
        assert runtime.stats().prefix_matched_positions > 0
    assert pure > 0
    assert in_parts > 0


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 20])
def test_a_retracted_rollout_keeps_its_tokens_and_goes_on_as_if_they_were_its_prompt(
    engine: Engine, fresh: dict[int, Engine], cut: int
) -> None:
    prompt = list(range(100, 133))
    stage(engine, 1)
    with Runtime(engine, 8, OPTIONS, start=False) as runtime:
        submit(runtime, prompt, 24, [5, 6, 7])
        for _ in range(4 + cut):
            runtime.step()
        runtime.activate(1, mode=PauseMode.RETRACT)
        assert runtime.stats().kv_in_use == 0
        assert runtime.stats().retracted == 3
        assert runtime.audit() == 0
        settle(runtime)
        done = runtime.poll()
        assert runtime.audit() == 0
    for c in done:
        kept = list(c.policy_versions).count(0)
        before, after = alone(fresh[0], prompt, kept, 5 + c.user_id), c.tokens[kept:]
        assert (list(c.tokens[:kept]), list(c.logps[:kept])) == before
        tokens, logps = alone(fresh[1], [*prompt, *c.tokens[:kept]], 24 - kept, 5 + c.user_id)
        assert (list(after), list(c.logps[kept:])) == (tokens, logps)
        assert list(c.policy_versions) == [0] * kept + [1] * (24 - kept)


@pytest.mark.parametrize("mode", MODES)
def test_a_version_that_is_not_staged_disturbs_no_rollout(engine: Engine, mode: PauseMode) -> None:
    """It is refused before the engine is held: nothing waits, and nothing is retracted for it."""
    with Runtime(engine, 8, OPTIONS, start=False) as runtime:
        submit(runtime, [1, 2, 3], 24, [5, 6])
        for _ in range(6):
            runtime.step()
        before = runtime.stats()
        with pytest.raises(WeightsNotReady, match="99"):
            runtime.activate(99, mode=mode)
        assert runtime.stats() == before
        runtime.activate(0, mode=PauseMode.IN_PLACE)  # the active one is always there


def test_retracted_rollouts_can_be_cancelled_and_every_credit_comes_back(engine: Engine) -> None:
    with Runtime(engine, 8, OPTIONS, start=False) as runtime:
        before = runtime.stats()
        refs = runtime.submit([1, 2, 3] * 9, max_tokens=30, seeds=range(4), want_reward=False)
        for steps, ref in zip((0, 3, 4, 9), refs, strict=True):
            for _ in range(steps):
                runtime.step()
            runtime.pause(mode=PauseMode.RETRACT).resume()
            runtime.cancel(ref)
            runtime.step()
        settle(runtime)
        assert [c.outcome for c in runtime.poll()] == [RolloutOutcome.CANCELLED] * 4
        after = runtime.stats()
        assert after.slots_free == before.slots_free
        assert after.words["kv_in_use"] == 0
        for name in before.words:
            if name.endswith("_available") or name.startswith("credits_available"):
                assert after.words[name] == before.words[name]


def test_retracted_rollouts_are_admitted_before_those_that_waited(engine: Engine) -> None:
    options = replace(OPTIONS, decode_credits=2)
    with Runtime(engine, 8, options, start=False) as runtime:
        submit(runtime, [1, 2, 3], 8, [1, 2, 3, 4])
        for _ in range(4):
            runtime.step()
        runtime.pause(mode=PauseMode.RETRACT).resume()
        settle(runtime)
        assert [c.user_id for c in runtime.poll()] == [0, 1, 2, 3]


def test_finish_lets_what_runs_end_and_admits_nothing(
    engine: Engine, fresh: dict[int, Engine]
) -> None:
    stage(engine, 1)
    options = replace(OPTIONS, decode_credits=2)
    with Runtime(engine, 8, options) as runtime:
        submit(runtime, [1, 2, 3], 60, [1, 2, 3, 4, 5, 6])
        while runtime.stats().decode_tokens == 0:
            runtime.wait(0.01)
        runtime.activate(1, mode=PauseMode.FINISH, timeout_s=60.0)
        done = {c.user_id: c for c in runtime.drain(60.0)}
    used = [set(done[user].policy_versions) for user in range(6)]
    assert used[0] == {0}
    assert used == sorted(used, key=max)
    for user, c in done.items():
        (version,) = used[user]
        assert made(c) == alone(fresh[version], [1, 2, 3], 60, 1 + user)


def test_a_pause_that_waits_for_the_end_is_not_answered_by_one_that_does_not(
    engine: Engine,
) -> None:
    with Runtime(engine, 4, OPTIONS) as runtime:
        with held_while_it_runs(runtime):
            with pytest.raises(WorkerStalled):
                runtime.pause(0.05, mode=PauseMode.FINISH)
            assert runtime.stats().in_flight == 1
        assert len(runtime.drain(60.0)) == 1
        with runtime.pause(mode=PauseMode.FINISH):
            before = runtime.stats().decode_tokens
            submit(runtime, [1], 1, [1])
            runtime.wait(0.01)
            assert runtime.stats().decode_tokens == before
        assert len(runtime.drain(60.0)) == 1


def test_an_unstarted_runtime_finishes_when_its_caller_has_stepped_it_to_the_end(
    engine: Engine,
) -> None:
    with Runtime(engine, 4, OPTIONS, start=False) as runtime:
        submit(runtime, [1], 3, [1])
        runtime.step()
        with pytest.raises(WorkerStalled):
            runtime.pause(0.01, mode=PauseMode.FINISH)
        settle(runtime)
        runtime.pause(0.01, mode=PauseMode.FINISH).resume()


@pytest.mark.parametrize("mode", MODES)
def test_weights_arrive_and_change_under_a_worker_that_decodes(
    engine: Engine, fresh: dict[int, Engine], mode: PauseMode
) -> None:
    """A thread stages and swaps again and again while groups come and go."""
    asked = {u: ([u % 331] * (1 + u % 20), u) for u in range(60)}
    failed: list[Exception] = []
    with Runtime(engine, 64, OPTIONS) as runtime:

        def train() -> None:
            try:
                for version in (1, 2, 3, 2, 0, 1, 0):
                    swap(runtime, engine, version, mode)
            except Exception as error:  # noqa: BLE001 - the test looks
                failed.append(error)

        trainer = threading.Thread(target=train)
        trainer.start()
        for user, (prompt, seed) in asked.items():
            submit(runtime, prompt, 12, [seed], user)
        trainer.join(120.0)
        done = runtime.drain(60.0)
        assert runtime.audit() == 0
    assert not failed
    assert len(done) == 60
    for c in done:
        parts = pieces(list(c.policy_versions))
        if mode is PauseMode.IN_PLACE:
            continue
        assert mode is PauseMode.RETRACT or len(parts) == 1
        prompt, seed = asked[c.user_id]
        for version, a, b in parts:
            tokens, logps = alone(fresh[version], [*prompt, *c.tokens[:a]], b - a, seed)
            assert (list(c.tokens[a:b]), list(c.logps[a:b])) == (tokens, logps)


def test_staging_leaves_the_slot_that_decodes_alone(
    engine: Engine, fresh: dict[int, Engine]
) -> None:
    with Runtime(engine, 8, OPTIONS, start=False) as runtime:
        submit(runtime, [7, 8, 9], 30, [1])
        for one in tensors_of(MODELS[2]):
            with pytest.raises(InvalidWeights):
                engine.stage(2, [one])
            runtime.step()
        settle(runtime)
        (c,) = runtime.poll()
    assert made(c) == alone(fresh[0], [7, 8, 9], 30, 1)


def test_a_rollback_finds_the_old_versions_cache(engine: Engine, fresh: dict[int, Engine]) -> None:
    prompt = list(range(33))
    stage(engine, 1)
    with Runtime(engine, 8, OPTIONS, start=False) as runtime:
        for version, matched in ((0, 0), (1, 0), (0, 32), (1, 64)):
            runtime.activate(version)
            submit(runtime, prompt, 4, [3], version)
            settle(runtime)
            (c,) = runtime.poll()
            assert made(c) == alone(fresh[version], prompt, 4, 3)
            assert set(c.policy_versions) == {version}
            assert runtime.stats().prefix_matched_positions == matched


@pytest.mark.parametrize("family", ["llama", "llama-biased-mha", "qwen2", "qwen3-yarn", "smollm"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_a_staged_model_of_any_family_is_the_model_it_would_be_alone(
    family: str, dtype: DType
) -> None:
    settings = replace(SETTINGS, weight_dtype=dtype)
    with (
        Engine.create(version_of(0, family), settings) as engine,
        Engine.create(version_of(1, family), settings) as other,
    ):
        shuffled = list(tensors_of(version_of(1, family)))
        random.Random(4).shuffle(shuffled)
        weights = engine.stage(1, shuffled)
        engine.activate(1)
        assert weights.digest == engine.weights_digest == other.weights_digest
        assert alone(engine, [5, 6, 7], 20, 1) == alone(other, [5, 6, 7], 20, 1)


def in_pieces(sent: Sequence[StagedTensor], rng: random.Random) -> Iterator[ComingTensor]:
    """Their bytes cut anywhere, in as few buffers as a reader may take turns with."""
    buffers = [bytearray() for _ in range(PIECES_KEPT)]
    taken = 0

    def pieces(one: StagedTensor) -> Iterator[memoryview]:
        nonlocal taken
        data, at = b"".join(one.pieces), 0
        while at < len(data):
            n = rng.choice([1, 3, 250, 1_000, 20_000])
            buffers[taken % PIECES_KEPT][:] = b"\xff" * len(buffers[taken % PIECES_KEPT])
            buffers[taken % PIECES_KEPT] = bytearray(data[at : at + n])
            yield memoryview(buffers[taken % PIECES_KEPT]).toreadonly()
            at, taken = at + n, taken + 1

    for one in sent:
        yield ComingTensor(
            kind=one.kind, layer=one.layer, dtype=one.dtype, shape=one.shape, pieces=pieces(one)
        )


@pytest.mark.parametrize("beside", [1, 1 << 40], ids=["checked beside", "checked first"])
@pytest.mark.parametrize(("share", "kept"), [(1.0, DType.F32), (1.0, DType.BF16), (0.9, DType.F32)])
def test_tensors_that_come_in_any_pieces_are_staged_as_those_that_come_whole(
    monkeypatch: pytest.MonkeyPatch, beside: int, share: float, kept: DType
) -> None:
    monkeypatch.setattr(staging, "CHECKED_BESIDE_BYTES", beside)
    monkeypatch.setattr(staging, "PIECE_BYTES", 4_096)
    settings = replace(SETTINGS, weight_dtype=kept)
    with (
        Engine.create(MODELS[0], settings) as engine,
        Engine.create(MODELS[1], settings) as other,
    ):
        rng = random.Random(f"{beside} {share} {kept}")
        weights = engine.stage(1, in_pieces(ALL, rng), share_max=share)
        engine.activate(1)
        assert weights.digest == other.weights_digest
        assert weights.bytes == sum(len(piece) for one in ALL for piece in one.pieces)
        assert alone(engine, [5, 6, 7], 20, 1) == alone(other, [5, 6, 7], 20, 1)


def changed(kind: TensorKind, change: Callable[[StagedTensor], StagedTensor]) -> list[StagedTensor]:
    return [change(t) if t.kind is kind else t for t in tensors_of(MODELS[1])]


def with_value(value: float) -> Callable[[StagedTensor], StagedTensor]:
    def change(one: StagedTensor) -> StagedTensor:
        data = np.array(one.tensor.data)
        data.flat[-1] = value
        return replace(one, tensor=Tensor.of(data))

    return change


DAMAGED: dict[str, tuple[list[StagedTensor], WeightsProblem]] = {
    "one missing": (ALL[:-1], WeightsProblem.MISSING),
    "none": ([], WeightsProblem.MISSING),
    "one twice": ([*ALL, ALL[3]], WeightsProblem.REPEATED),
    "a layer too many": ([*ALL, replace(ALL[-1], layer=3)], WeightsProblem.UNKNOWN),
    "a bias that the model has not": (
        [*ALL, replace(ALL[2], kind=TensorKind.BQ)],
        WeightsProblem.UNKNOWN,
    ),
    "rotary frequencies": (
        [replace(ALL[2], kind=TensorKind.ROPE_INV_FREQ)],
        WeightsProblem.UNKNOWN,
    ),
    "a matrix turned": (
        changed(
            TensorKind.W_DOWN, lambda t: replace(t, tensor=Tensor.of(np.array(t.tensor.data.T)))
        ),
        WeightsProblem.SHAPE,
    ),
    "integers": (
        changed(
            TensorKind.WO,
            lambda t: replace(t, tensor=Tensor(t.tensor.data.view(np.int32), DType.F32)),
        ),
        WeightsProblem.DTYPE,
    ),
    "not a number": (changed(TensorKind.WK, with_value(float("nan"))), WeightsProblem.NOT_FINITE),
    "infinite": (
        changed(TensorKind.FINAL_NORM, with_value(float("-inf"))),
        WeightsProblem.NOT_FINITE,
    ),
    "another checksum": (
        changed(TensorKind.EMBED, lambda t: replace(t, sha256=hashlib.sha256(b"").hexdigest())),
        WeightsProblem.CHECKSUM,
    ),
}


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_weights_are_named_and_can_not_be_activated(
    engine: Engine,
    fresh: dict[int, Engine],
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    beside: bool,
) -> None:
    if beside:  # as those of a large model: checksums come later, from another thread
        monkeypatch.setattr(staging, "CHECKED_BESIDE_BYTES", 1)
    tensors, problem = DAMAGED[case]
    stage(engine, 2)
    with pytest.raises(InvalidWeights) as refused:
        engine.stage(1, tensors)
    assert refused.value.problem is problem
    assert refused.value.field is not None
    assert refused.value.field.startswith("tensors.")
    for version in (1, 2):
        with pytest.raises(WeightsNotReady):
            engine.activate(version)
    assert alone(engine, [5, 6], 8, 1) == alone(fresh[0], [5, 6], 8, 1)
    stage(engine, 1)
    engine.activate(1)
    assert alone(engine, [5, 6], 8, 1) == alone(fresh[1], [5, 6], 8, 1)


@pytest.mark.parametrize("at", [0, 1, len(ALL) // 2, len(ALL) - 3, len(ALL) - 2, len(ALL) - 1])
def test_a_wrong_checksum_of_any_tensor_is_named_wherever_it_is_computed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(staging, "CHECKED_BESIDE_BYTES", 1)
    wrong = hashlib.sha256(b"").hexdigest()
    sent = [replace(t, sha256=wrong) if i == at else t for i, t in enumerate(ALL)]
    with pytest.raises(InvalidWeights) as refused:
        engine.stage(1, sent)
    assert refused.value.problem is WeightsProblem.CHECKSUM
    assert refused.value.field == f"tensors.{ALL[at].kind.name}.{ALL[at].layer}"
    assert engine.ready_version is None
    beside = engine.stage(1, ALL).digest
    monkeypatch.setattr(staging, "CHECKED_BESIDE_BYTES", 1 << 40)
    assert engine.stage(1, ALL).digest == beside


def test_a_checksum_of_the_bytes_that_came_is_accepted(engine: Engine) -> None:
    sent = [
        replace(t, sha256=hashlib.sha256(t.tensor.data.tobytes()).hexdigest().upper()) for t in ALL
    ]
    assert engine.stage(1, sent).version == 1


BITS = {
    DType.F32: (np.uint32, 0x7F800000),
    DType.F16: (np.uint16, 0x7C00),
    DType.BF16: (np.uint16, 0x7F80),
}
HALFWAY = 0x7F7F8000
"""Above the greatest bf16: from here on a float32 rounds to infinity."""


@pytest.mark.parametrize("kept", [DType.F32, DType.BF16])
@pytest.mark.parametrize("dtype", list(BITS))
def test_the_least_value_that_is_not_finite_as_it_is_kept_is_refused(
    dtype: DType, kept: DType
) -> None:
    stored, end = BITS[dtype]
    end = HALFWAY if (dtype, kept) == (DType.F32, DType.BF16) else end
    sign = 1 << (np.dtype(stored).itemsize * 8 - 1)
    wo = next(t for t in ALL if t.kind is TensorKind.WO)
    others = [t for t in ALL if t is not wo]

    def with_bits(bits: int, at: int) -> list[StagedTensor]:
        data = np.zeros(wo.tensor.shape, stored)
        data.flat[at] = bits
        kind = np.float32 if dtype is DType.F32 else np.float16 if dtype is DType.F16 else stored
        return [*others, replace(wo, tensor=Tensor(data.view(kind), dtype))]

    last = math.prod(wo.tensor.shape) - 1
    with Engine.create(MODELS[0], replace(SETTINGS, weight_dtype=kept)) as engine:
        for version, (bits, at) in enumerate([(0, 0), (end - 1, 0), (end - 1 | sign, last)], 1):
            engine.stage(version, with_bits(bits, at))
        for bits in (end, end | sign, end + 1, sign - 1):
            for at in (0, 7, last):
                with pytest.raises(InvalidWeights) as refused:
                    engine.stage(9, with_bits(bits, at))
                assert refused.value.problem is WeightsProblem.NOT_FINITE


def test_a_float32_that_bf16_can_not_hold_is_not_finite() -> None:
    greatest = float(np.finfo(np.float32).max)
    with Engine.create(MODELS[0], replace(SETTINGS, weight_dtype=DType.BF16)) as engine:
        with pytest.raises(InvalidWeights) as refused:
            engine.stage(1, changed(TensorKind.WV, with_value(greatest)))
        assert refused.value.problem is WeightsProblem.NOT_FINITE
        engine.stage(1, changed(TensorKind.FINAL_NORM, with_value(greatest)))


def test_a_version_names_the_same_weights_for_ever(engine: Engine) -> None:
    stage(engine, 1)
    engine.activate(1)
    for version in (0, 1):
        with pytest.raises(InvalidWeights) as refused:
            engine.stage(version, tensors_of(MODELS[2]))
        assert refused.value.problem is WeightsProblem.VERSION
    stage(engine, 0)
    engine.activate(0)
    with pytest.raises(InvalidWeights):
        engine.policy_version = 1


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=60), st.integers(1, 8))
def test_a_number_is_never_given_to_two_sets_of_weights_even_when_old_ones_are_forgotten(
    named: list[tuple[int, int]], versions_max: int
) -> None:
    versions, first = Versions(versions_max), dict[int, str]()
    for version, weights in named:
        try:
            versions.name(version, str(weights))
        except InvalidWeights:
            continue
        assert first.setdefault(version, str(weights)) == str(weights)


def test_one_thread_stages_at_a_time_and_the_engine_stays_open_for_it(engine: Engine) -> None:
    def tensors() -> Iterator[StagedTensor]:
        for one in ALL:
            with pytest.raises(WeightsNotReady):
                stage(engine, 2)
            with pytest.raises(EngineLent):
                engine.close()
            with pytest.raises(WeightsNotReady):
                engine.activate(1)
            yield one

    assert engine.stage(1, tensors()).version == 1
    engine.activate(1)


def test_an_engine_of_one_slot_refuses_to_stage() -> None:
    with (
        Engine.create(MODELS[0], replace(SETTINGS, weight_slots=1)) as engine,
        pytest.raises(WeightsNotReady),
    ):
        stage(engine, 1)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_of_a_core_that_is_none_is_refused(engine: Engine, share: float) -> None:
    with pytest.raises(InvalidRequest):
        engine.stage(1, ALL, share_max=share)


def test_a_retraction_waits_for_those_who_were_told_that_the_worker_is_held(
    engine: Engine,
) -> None:
    with Runtime(engine, 4, OPTIONS) as runtime:
        with held_while_it_runs(runtime):
            in_use = runtime.stats().kv_in_use
            with pytest.raises(WorkerStalled):
                runtime.pause(0.05, mode=PauseMode.RETRACT)
            assert runtime.stats().kv_in_use == in_use > 0
        with runtime.pause(mode=PauseMode.RETRACT), runtime.pause():
            assert runtime.stats().kv_in_use == 0
        assert len(runtime.drain(60.0)) == 1
