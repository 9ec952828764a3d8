"""LoRA on the device, beside the weights, and OFT merged into them: the merged model's numbers, the
same bits in any company, two slots, and refusals that change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.cuda.building import bits, ended, host_engine, tiny
from tests.rollout.cuda.test_host_build import GREEDY, LOGITS_ERROR_MAX, logits_of
from tests.rollout.engine.adapting import (
    CAYLEY,
    EXPONENTIAL,
    LORA,
    NEUMANN,
    Adapted,
    lora,
    merge,
    oft,
)
from tests.rollout.engine.exact import Exact, ids_for, random_model, round_to_bf16

from assay.rollout import InvalidWeights, Sampling, WeightsNotReady
from assay.rollout.cuda.sizes import EMULATED, Sizes
from assay.rollout.cuda.weights.packed import Packed, PackedAdapter, adapter_bytes, packed_bytes
from assay.rollout.cuda.weights.rotated import Rotated
from assay.rollout.models import Model, Tensor, TensorKind, tensors_of
from assay.rollout.models.adapters import AdaptedProjection, Adapter, AdapterKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

K = TensorKind
RANK = 20
"""No multiple of 8, and with three projections of one input not one of 32 either."""
ADAPTED: dict[str, Any] = {"tuning": replace(EMULATED, adapter_rank=RANK)}


def adapter_of(parts: Iterable[Adapted]) -> Adapter:
    return Adapter(
        tuple(
            AdaptedProjection(
                tensor=one.tensor,
                layer=one.layer,
                kind=AdapterKind(one.kind),
                rows=one.rows,
                cols=one.cols,
                size=one.size,
                a=Tensor.of(one.a),
                b=None if one.b is None else Tensor.of(one.b),
                scale=one.scale,
                terms=one.terms,
            )
            for one in parts
        )
    )


def small(model: Model, seed: int = 1) -> list[Adapted]:
    """On every projection."""
    return lora(model, seed, (8, 3, 17, RANK))


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "smollm"])
@pytest.mark.parametrize("some", [False, True])
def test_logits_are_those_of_the_merged_model(name: str, *, some: bool) -> None:
    model = random_model(name)
    parts = small(model)
    if some:
        parts = [one for one in parts if one.tensor in {K.WV, K.W_UP, K.WO} and one.layer]
    prompt = ids_for(model, 21)
    with host_engine(model, **ADAPTED) as engine:
        engine.stage_adapter(1, adapter_of(parts))
        engine.activate(1)
        engine.submit(prompt, max_tokens=4, seeds=[1], sampling=GREEDY, want_reward=False)
        (done,) = ended(engine, 1)
        last = logits_of(engine)
    assert set(done.policy_versions) == {1}
    whole = [*prompt, *done.tokens]
    wanted = Exact(merge(round_to_bf16(model), parts)).logits(whole)[-2]
    without = Exact(round_to_bf16(model)).logits(whole)[-2]
    assert np.linalg.norm(last - wanted) / np.linalg.norm(wanted) < LOGITS_ERROR_MAX
    assert np.linalg.norm(last - without) / np.linalg.norm(without) > 5 * LOGITS_ERROR_MAX


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "smollm"])
@pytest.mark.parametrize("kind", [CAYLEY, NEUMANN, EXPONENTIAL])
def test_logits_under_a_rotation_are_those_of_the_merged_model(name: str, kind: int) -> None:
    model = random_model(name)
    parts = oft(model, 1, kind, 8, shared=kind == NEUMANN)
    if kind == EXPONENTIAL:
        parts = [one for one in parts if one.tensor in {K.WK, K.W_GATE, K.W_DOWN} and one.layer]
    prompt = ids_for(model, 21)
    with host_engine(model) as engine:  # needs no room for adapters
        staged = engine.stage_adapter(1, adapter_of(parts))
        assert staged.bytes == sum(one.a.nbytes for one in parts)
        engine.activate(1)
        engine.submit(prompt, max_tokens=4, seeds=[1], sampling=GREEDY, want_reward=False)
        (done,) = ended(engine, 1)
        last = logits_of(engine)
    assert set(done.policy_versions) == {1}
    whole = [*prompt, *done.tokens]
    wanted = Exact(merge(round_to_bf16(model), parts)).logits(whole)[-2]
    without = Exact(round_to_bf16(model)).logits(whole)[-2]
    assert np.linalg.norm(last - wanted) / np.linalg.norm(wanted) < LOGITS_ERROR_MAX
    assert np.linalg.norm(last - without) / np.linalg.norm(without) > 5 * LOGITS_ERROR_MAX


@given(
    heads=st.integers(1, 3),
    kind=st.sampled_from([CAYLEY, NEUMANN, EXPONENTIAL]),
    terms=st.integers(4, 7),
    some=st.sets(st.integers(0, 6), min_size=1),
)
def test_a_rotation_is_merged_into_its_own_projections_only(
    heads: int, kind: int, terms: int, some: set[int]
) -> None:
    """Packed: the bits of the merged tensors, and of no other byte any other."""
    config = replace(tiny().config, n_heads=4, n_kv_heads=heads if heads != 3 else 4, head_dim=8)
    rng = np.random.default_rng(heads)
    tensors = {
        (tensor, layer): Tensor.of(rng.normal(0, 1, shape).astype(np.float32))
        for tensor, layer, shape in config.tensor_shapes()
    }
    model = round_to_bf16(Model(config, tensors))
    adapted = [one for i, one in enumerate(oft(model, 3, kind, 4)) if i in some]
    if kind == NEUMANN:
        adapted = [replace(one, terms=terms) for one in adapted]
    sizes = Sizes(config, EMULATED, 64)
    found, wanted = (np.zeros(packed_bytes(sizes), dtype=np.uint8) for _ in range(2))
    Packed(sizes, found).fill(model)
    Packed(sizes, wanted).fill(merge(model, adapted))
    to = Rotated(sizes, found)
    for one in adapter_of(adapted).projections:
        to.put(one)
    differ = found.view(np.uint16) != wanted.view(np.uint16)  # rounded from float32, not float64
    assert differ.mean() < 0.01
    there, due = (
        (raw.view(np.uint16)[differ].astype(np.uint32) << 16).view(np.float32)
        for raw in (found, wanted)
    )
    assert np.allclose(there, due, rtol=1 / 128, atol=1e-5)


def test_rotations_adapters_and_whole_weights_take_turns() -> None:
    """Every version's bits are its own, whatever was staged, activated and taken back before: what
    lies below a rotation is found again when another slot has to be written."""
    model = {0: tiny(0), 9: tiny(9)}
    over = {
        1: oft(model[0], 1, CAYLEY, 8),
        2: oft(model[0], 2, NEUMANN, 4),
        3: small(model[0], 3),
        4: oft(model[0], 4, EXPONENTIAL, 16),
        5: [],
        6: oft(model[0], 6, CAYLEY, 4),
    }
    wanted = {}
    for version, parts in over.items():
        merged = merge(round_to_bf16(model[0]), parts)
        with host_engine(model[0], **ADAPTED) as alone, host_engine(merged) as plain:
            alone.stage_adapter(version, adapter_of(parts))
            alone.activate(version)
            wanted[version] = run(alone)
            if version != 3:  # whole weights, in bf16, are the same numbers nearly always
                assert run(plain)[0][0] == wanted[version][0][0]
    assert len({repr(one) for one in wanted.values()}) == len(wanted)
    with host_engine(model[9], **ADAPTED) as other:
        wanted[9] = run(other)
    with host_engine(model[0], **ADAPTED) as engine:
        for version, parts in over.items():
            engine.stage_adapter(version, adapter_of(parts), base_version=0)
            before = engine.activate(version).previous
            assert run(engine) == wanted[version]
            engine.activate(before)
            assert run(engine) == (wanted[before] if before else wanted[5])
            engine.activate(version)
        engine.stage(9, tensors_of(model[9]))
        assert run(engine) == wanted[6]
        with pytest.raises(InvalidWeights, match="base_version"):
            engine.stage_adapter(7, adapter_of(over[1]), base_version=9)  # staged, not in use
        engine.stage(9, tensors_of(model[9]))
        engine.activate(9)
        assert run(engine) == wanted[9]
        assert engine._slots._whole is not None  # version 6 is ready, and has a rotation
        engine.stage(0, tensors_of(model[0]))
        assert engine._slots._whole is None
        engine.activate(0)
        engine.stage_adapter(1, adapter_of(over[1]), base_version=0)
        engine.activate(1)
        assert run(engine) == wanted[1]


def test_a_push_that_fails_under_a_rotation_leaves_what_the_next_one_needs() -> None:
    parts, again = adapter_of(oft(tiny(), 1, CAYLEY, 8)), adapter_of(oft(tiny(), 2, CAYLEY, 8))
    with host_engine(tiny()) as fresh:
        fresh.stage_adapter(2, again)
        fresh.activate(2)
        wanted = run(fresh)
    with host_engine(tiny()) as engine:
        engine.stage_adapter(1, parts)
        engine.activate(1)
        with pytest.raises(InvalidWeights, match="is needed"):
            engine.stage(3, list(tensors_of(tiny(9)))[:-1])
        with pytest.raises(InvalidWeights, match=r"tensors\.WQ\.0"):
            engine.stage_adapter(3, adapter_of(refused()["not finite"]))
        engine.stage_adapter(2, again)
        engine.activate(2)
        assert run(engine) == wanted


def test_a_rotation_needs_a_second_slot_of_weights() -> None:
    with host_engine(tiny(), weight_slots=1) as engine:
        with pytest.raises(WeightsNotReady, match="weight_slots=1"):
            engine.stage_adapter(1, adapter_of(oft(tiny(), 1, CAYLEY, 8)))
        assert engine.ready_version is None


def test_bits_do_not_depend_on_rows_blocks_or_the_order_of_threads() -> None:
    many = replace(EMULATED, rows=72, adapter_rank=RANK)
    parts = adapter_of(small(tiny()))
    one: dict[str, Any] = {"max_tokens": 3, "sampling": Sampling(temperature=0.9)}
    seen: dict[int, tuple[bytes, bytes]] = {}
    for blocks, n, seed in [(1, 1, 0), (9, 8, 1), (2, 16, 2), (40, 30, 3), (2, 72, 4), (5, 72, 5)]:
        size: dict[str, Any] = {"slots": 72, "prefill_chunk": 72, "tuning": many}
        with host_engine(tiny(), blocks=blocks, seed=seed, **size) as engine:
            engine.stage_adapter(1, parts)
            engine.activate(1)
            with engine.pause(60.0):
                for at in range(n):
                    prompt = [at % 3, 7]
                    engine.submit(prompt, seeds=[at], user_ids=[at], want_reward=False, **one)
            for user, found in enumerate(bits(ended(engine, n))):
                assert seen.setdefault(user, found) == found, (blocks, n)


def run(engine: Any, seed: int = 5) -> list[tuple[bytes, bytes]]:
    engine.submit([3, 1, 4], max_tokens=6, seeds=[seed], want_reward=False)
    return bits(ended(engine, 1))


def test_without_an_adapter_bits_are_those_of_a_kernel_that_takes_none() -> None:
    with host_engine(tiny()) as plain, host_engine(tiny(), **ADAPTED) as engine:
        wanted = run(plain)
        assert run(engine) == wanted
        engine.stage_adapter(1, adapter_of(small(tiny())))
        assert run(engine) == wanted  # staged, not active
        engine.activate(1)
        assert run(engine) != wanted
        engine.activate(0)
        assert run(engine) == wanted


def test_adapters_and_whole_weights_take_turns() -> None:
    """Every version's bits are its own, whatever was staged, activated and taken back before."""
    model = {0: tiny(0), 1: tiny(9)}
    over = {2: small(model[0], 2), 3: small(model[0], 3), 4: small(model[1], 4)}
    with host_engine(model[1]) as plain:
        second = run(plain)
    with host_engine(model[0], **ADAPTED) as engine:
        found = {0: run(engine)}
        for version in (2, 3):
            engine.stage_adapter(version, adapter_of(over[version]), base_version=0)
            engine.activate(version)
            found[version] = run(engine)
        assert len({repr(one) for one in found.values()}) == 3
        engine.activate(2)
        assert run(engine) == found[2]
        engine.stage(1, tensors_of(model[1]))
        assert run(engine) == found[2]
        engine.activate(1)
        assert run(engine) == second
        engine.stage_adapter(4, adapter_of(over[4]), base_version=1)
        engine.activate(4)
        assert run(engine) not in (second, *found.values())
        engine.stage_adapter(5, Adapter(()), base_version=1)
        engine.activate(5)
        assert run(engine) == second


def test_tokens_on_both_sides_of_an_activation_say_which_weights_made_them() -> None:
    prompt, n = [3, 1, 4], 40
    with host_engine(tiny(), **ADAPTED) as engine:
        engine.stage_adapter(7, adapter_of(small(tiny())))
        engine.submit(prompt, max_tokens=n, seeds=[5], want_reward=False)
        while not engine._link.generated(0, 1):
            engine.wait(0.001)
        engine.activate(7)
        (done,) = ended(engine, 1)
    versions = list(done.policy_versions)
    assert versions == sorted(versions)
    assert set(versions) in ({0, 7}, {0})  # it may have ended before


def refused() -> dict[str, list[Adapted]]:
    good = small(tiny())
    first = good[0]
    assert first.b is not None
    nan, odd, huge = first.a.copy(), first.a.copy(), first.a.copy()
    nan[0, 0], huge[0, 0] = np.nan, 3.4e38
    odd.view(np.uint32)[0, 0] = 0xFFFFFFFF  # rounded as a number, it would be 0
    return {
        "both kinds": [*oft(tiny(), 1, CAYLEY, 8)[1:], first],
        "not finite": [replace(one, a=one.a * np.inf) for one in oft(tiny(), 1, CAYLEY, 8)],
        "no blocks of its inputs": [replace(oft(tiny(), 1, CAYLEY, 8)[0], size=5)],
        "twice": [first, first],
        "of another shape": [replace(first, a=first.a[:, :-1])],
        "rank": lora(tiny(), 1, [RANK + 1]),
        "nan": [replace(first, a=nan), *good[1:]],
        "nan of all ones": [replace(first, a=odd), *good[1:]],
        "rounds to infinity": [replace(first, a=huge), *good[1:]],
        "scaled to infinity": [replace(first, b=first.b * 1e30, scale=1e30), *good[1:]],
    }


@pytest.mark.parametrize("why", refused())
def test_an_adapter_that_can_not_be_used_changes_nothing(why: str) -> None:
    good = adapter_of(small(tiny()))
    with host_engine(tiny(), **ADAPTED) as engine:
        engine.stage_adapter(1, good)
        engine.activate(1)
        before = run(engine)
        with pytest.raises(InvalidWeights, match=r"tensors\.WQ\.0"):
            engine.stage_adapter(2, adapter_of(refused()[why]))
        with pytest.raises(InvalidWeights, match="base_version"):
            engine.stage_adapter(2, good, base_version=1)
        with pytest.raises(InvalidWeights, match="version"):
            engine.stage_adapter(0, good)
        with pytest.raises(WeightsNotReady):
            engine.activate(2)
        assert run(engine) == before


def test_a_kernel_made_without_adapters_refuses_them_by_name() -> None:
    with host_engine(tiny()) as engine, pytest.raises(InvalidWeights, match="made for 0"):
        engine.stage_adapter(1, adapter_of(small(tiny())))


def unpacked(raw: NDArray[np.uint8], outputs: int, inputs: int) -> NDArray[np.uint16]:
    """A padded matrix, element by element as `multiply_pieces` indexes it."""
    halves = raw[: 2 * outputs * inputs].view(np.uint16)
    found = np.zeros((outputs, inputs), dtype=np.uint16)
    for row in range(outputs):
        for k in range(inputs):
            piece = (row // 16 * (inputs // 32) + k // 32) * 512
            lane = row % 8 * 4 + k % 32 // 8
            at = piece + k % 8 // 4 * 256 + lane * 8 + k % 4 // 2 * 4 + row // 8 % 2 * 2 + k % 2
            found[row, k] = halves[at]
    return found


@given(seed=st.integers(0, 1 << 32), heads=st.integers(1, 3), rank=st.integers(1, 20))
def test_projections_lie_where_the_kernel_reads_them(seed: int, heads: int, rank: int) -> None:
    """Queries, keys and values of one input: weights one below another, As likewise, Bs apart."""
    base = tiny()
    config = replace(base.config, n_heads=4, n_kv_heads=heads if 4 % heads == 0 else 1, head_dim=8)
    rng = np.random.default_rng(seed)
    shapes = {(kind, layer): shape for kind, layer, shape in config.tensor_shapes()}
    sizes = Sizes(config, replace(EMULATED, adapter_rank=rank), 64)
    weights = {
        key: Tensor.of(rng.normal(0, 1, shape).astype(np.float32)) for key, shape in shapes.items()
    }
    raw = np.zeros(packed_bytes(sizes), dtype=np.uint8)
    Packed(sizes, raw).fill(Model(config, weights))
    at = sizes.model["LAYERS"] + sizes.layer["QKV_WEIGHTS"]
    found = unpacked(raw[at:], sizes.qkv_outputs, config.dim)
    low, wanted, first = sizes.low(3), [], 0
    packed = np.zeros(adapter_bytes(sizes), dtype=np.uint8)
    to = PackedAdapter(sizes, packed)
    for kind in (K.WQ, K.WK, K.WV):
        rows, cols = shapes[kind, 0]
        a = rng.normal(0, 1, (rank, cols)).astype(np.float32)
        b = rng.normal(0, 1, (rows, rank)).astype(np.float32)
        (one,) = adapter_of([Adapted(kind, 0, LORA, rows, cols, rank, a, b, 2.0)]).projections
        to.put(one)
        wanted.append((first, rows, weights[kind, 0].to_float32(), a, b))
        first += rows
    a_all = unpacked(packed[sizes.adapter["QKV_A"] :], low, config.dim)
    b_all = unpacked(packed[sizes.adapter["QKV_B"] :], sizes.qkv_outputs, low)
    for number, (start, rows, weight, a, b) in enumerate(wanted):
        column = number * sizes.rank
        assert close(found[start : start + rows], weight)
        assert close(a_all[column : column + rank], a)
        assert close(b_all[start : start + rows, column : column + rank], 2 * b)
        b_all[start : start + rows, column : column + rank] = 0
    assert not b_all.any()
    assert not found[first:].any()


def close(bits_: NDArray[np.uint16], values: NDArray[np.float32]) -> bool:
    wide = (bits_.astype(np.uint32) << 16).view(np.float32)
    return bool(np.allclose(wide, values, rtol=1 / 256, atol=0))
