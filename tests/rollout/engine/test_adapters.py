"""LoRA and OFT beside the matrices: the merged model's numbers, the same bits in any company, and
no effect on what the other slot computes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.rollout.engine.adapting import (
    CAYLEY,
    EXPONENTIAL,
    LORA,
    NEUMANN,
    Adapted,
    adapted,
    begin,
    end,
    give,
    lora,
    merge,
    oft,
    stage,
    swap,
)
from tests.rollout.engine.exact import CONFIGS, Exact, ids_for, random_model, round_to_bf16
from tests.rollout.engine.feeding import TOLERANCE, decode_logits, last_logits, settings
from tests.seeds import drawn_seed

from assay.rollout.models import DType, Engine, Model, Tensor, TensorKind, load_model
from assay.rollout.models.driver import Driver
from assay.rollout.models.staging import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from assay.rollout.models.engine import Isa

K = TensorKind
INVALID, MISSING, NOT_FINITE = -1, -5, -11

ADAPTERS: dict[str, Callable[[Model], list[Adapted]]] = {
    "lora": lambda m: lora(m, 1),
    "lora of rank 1": lambda m: lora(m, 1, [1]),
    "cayley": lambda m: oft(m, 2, CAYLEY),
    "cayley in blocks of 48, shared": lambda m: oft(m, 3, CAYLEY, 48, shared=True),
    "neumann": lambda m: oft(m, 4, NEUMANN, 32),
    "exponential": lambda m: oft(m, 5, EXPONENTIAL, 8),
    "one rotation of all inputs": lambda m: oft(m, 6, EXPONENTIAL, 1 << 20),
    "lora on some": lambda m: [a for a in lora(m, 7) if a.tensor in {K.WV, K.W_UP} and a.layer],
    "oft on some": lambda m: [
        a for a in oft(m, 8, CAYLEY, 16) if a.tensor in {K.WK, K.W_GATE} and a.layer != 1
    ],
}


@pytest.fixture(scope="module")
def families() -> dict[str, Model]:
    return {name: random_model(name) for name in CONFIGS}


ON_FAMILIES = [
    *(("llama", adapter) for adapter in ADAPTERS),
    # What biases and norms of heads have to do with is where an adapter sits, not its rotation.
    *(("qwen2", adapter) for adapter in ("lora", "cayley", "lora on some", "oft on some")),
    *(("qwen3", adapter) for adapter in ("lora", "cayley", "lora on some", "oft on some")),
]


@pytest.mark.parametrize(("name", "adapter"), ON_FAMILIES)
def test_logits_are_those_of_the_merged_model(
    name: str, adapter: str, families: dict[str, Model], isas: list[Isa]
) -> None:
    model = families[name]
    parts = ADAPTERS[adapter](model)
    ids = ids_for(model, 40)
    wanted = Exact(merge(model, parts)).logits(ids)
    assert np.abs(wanted - Exact(model).logits(ids)).max() > 100 * TOLERANCE
    for isa in isas:
        with Engine.create(model, settings(isa)) as engine:
            adapted(engine, parts)
            assert np.abs(decode_logits(engine, ids, 12, 7) - wanted[12:]).max() < TOLERANCE


@pytest.mark.parametrize("adapter", ["lora", "cayley", "neumann", "exponential", "oft on some"])
def test_over_bf16_matrices_the_adapter_stays_float32(
    adapter: str, families: dict[str, Model], isas: list[Isa]
) -> None:
    model = families["llama-biased-mha"]
    parts = ADAPTERS[adapter](model)
    ids = ids_for(model, 40)
    wanted = Exact(merge(round_to_bf16(model), parts)).logits(ids)
    for isa in isas:
        how = settings(isa, DType.BF16, kv_dtype=DType.F32)
        with Engine.create(model, how) as engine:
            adapted(engine, parts)
            assert np.abs(decode_logits(engine, ids) - wanted).max() < 2 * TOLERANCE


@pytest.mark.parametrize("adapter", ["lora", "neumann", "oft on some"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_company_and_threads_change_no_bit(
    adapter: str, dtype: DType, families: dict[str, Model], isas: list[Isa]
) -> None:
    model = families["llama"]
    prompts = [ids_for(model, n, seed=n) for n in (1, 3, 17, 40, 2, 31)]
    for isa in isas:
        alone = None
        for threads in (1, 3):
            with Engine.create(model, settings(isa, dtype, threads=threads)) as engine:
                adapted(engine, ADAPTERS[adapter](model))
                alone = alone or [decode_logits(engine, ids)[-1] for ids in prompts]
                for order in ([4, 3], [5, 2, 0, 1], [5, 4, 3, 2, 1, 0]):
                    together = last_logits(engine, [prompts[i] for i in order])
                    for i, logits in zip(order, together, strict=True):
                        assert np.array_equal(logits, alone[i])


def without_effect(model: Model) -> dict[str, list[Adapted]]:
    zero_b = [replace(a, b=np.zeros_like(a.b)) for a in lora(model, 1)]
    turned = oft(model, 1, CAYLEY)
    return {
        "lora": zero_b,
        **{
            str(kind): [
                replace(a, kind=kind, a=np.zeros_like(a.a), terms=5 * (kind == NEUMANN))
                for a in turned
            ]
            for kind in (CAYLEY, NEUMANN, EXPONENTIAL)
        },
        "none": [],
    }


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_an_adapter_that_changes_nothing_changes_no_bit(
    dtype: DType, families: dict[str, Model], isas: list[Isa]
) -> None:
    model = families["qwen2"]
    ids = ids_for(model, 25)
    for isa in isas:
        with Engine.create(model, settings(isa, dtype)) as engine:
            plain = decode_logits(engine, ids)
            for version, parts in enumerate(without_effect(model).values()):
                adapted(engine, parts, version)
                assert np.array_equal(decode_logits(engine, ids), plain)


def test_the_order_of_pieces_changes_no_bit(families: dict[str, Model]) -> None:
    model = families["llama"]
    ids = ids_for(model, 20)
    for parts in (lora(model, 3), oft(model, 3, CAYLEY)):
        made = []
        for seed in range(3):
            random.Random(seed).shuffle(parts)
            with Engine.create(model, settings()) as engine:
                made.append(decode_logits(adapted(engine, parts), ids))
        assert np.array_equal(made[0], made[1])
        assert np.array_equal(made[0], made[2])


@pytest.mark.parametrize("ranks", [(2, 1), (1, 2), (40, 17)])
def test_what_an_adapter_leaves_in_the_memory_of_the_next_one_changes_no_bit(
    ranks: tuple[int, int], families: dict[str, Model]
) -> None:
    """Ranks are padded, so that both have the same memory; the rows of the first go beyond."""
    model = families["llama"]
    ids, [old, new] = ids_for(model, 9), ranks
    with Engine.create(model, settings()) as engine:
        fresh = decode_logits(adapted(engine, lora(model, 2, [new])), ids)
    with Engine.create(model, settings()) as engine:
        stage(engine, lora(model, 1, [old]))
        stage(engine, lora(model, 2, [new]))
        assert swap(engine, 1) == 0
        assert np.array_equal(decode_logits(engine, ids), fresh)


def test_an_adapter_that_was_staged_in_part_leaves_nothing_in_the_next_one(
    families: dict[str, Model],
) -> None:
    """Memory that is laid out alike is not cleared, as every value is written again."""
    model = families["llama"]
    ids, old, new = ids_for(model, 9), lora(model, 1), lora(model, 2)
    with Engine.create(model, settings()) as engine:
        fresh = decode_logits(adapted(engine, new), ids)
    with Engine.create(model, settings()) as engine:
        assert begin(engine, [one.piece(a=None, b=None) for one in old]) == 0
        for one in old[::2]:
            assert give(engine, one.piece()) == 0
        assert end(engine) == MISSING
        assert begin(engine, [one.piece(a=None, b=None) for one in new]) == 0
        for one in new[1:]:
            assert give(engine, one.piece()) == 0
        assert end(engine) == MISSING  # what the first one left does not count
        assert give(engine, new[0].piece()) == 0
        assert end(engine) == 0
        assert swap(engine, 1) == 0
        assert np.array_equal(decode_logits(engine, ids), fresh)


def test_adapters_and_weights_take_turns_in_the_slots(families: dict[str, Model]) -> None:
    """Random stagings and swaps, among them full weights, against fresh engines of each version."""
    rng = random.Random(drawn_seed())
    base = families["llama"]
    smaller = {k: Tensor.of(t.to_float32() * np.float32(0.9)) for k, t in base.tensors.items()}
    other = Model(base.config, smaller)
    adapters: list[list[Adapted]] = [[], lora(base, 1), oft(base, 2, CAYLEY), lora(base, 3, [2])]
    ids = ids_for(base, 9)
    fresh = {}
    for over in (0, 1):
        for i, parts in enumerate(adapters):
            with Engine.create([base, other][over], settings()) as engine:
                fresh[over, i] = decode_logits(adapted(engine, parts), ids)
    with Engine.create(base, settings()) as engine:
        slots = [(0, 0), (-1, -1)]
        for version in range(40):
            choice = rng.randrange(6)
            if choice == 0:
                over = rng.randrange(2)
                engine.stage(1000 + version, tensors_of([base, other][over]))
                slots[1] = (over, 0)
            elif choice < 4:
                i = rng.randrange(len(adapters))
                stage(engine, adapters[i])
                slots[1] = (slots[0][0], i)
            elif slots[1][0] >= 0:
                assert swap(engine, version) == 0
                slots.reverse()
            assert np.array_equal(decode_logits(engine, ids), fresh[slots[0]])


def test_tokens_carry_the_version_of_their_adapter(families: dict[str, Model]) -> None:
    model = families["smollm"]
    with Engine.create(model, settings()) as engine:
        driver = Driver(engine, 64)
        assert driver.decode([driver.new(20)], [5], 3)[0].shape == (3, 1)
        adapted(engine, lora(model, 1), 7)
        assert engine.policy_version == 7


def test_what_is_no_adapter_is_refused(families: dict[str, Model]) -> None:
    model = families["llama"]
    low, turned = lora(model, 1)[0], oft(model, 1, NEUMANN)[0]
    wrong = {
        "tensor": low.piece(tensor=K.EMBED),
        "layer": low.piece(layer=3),
        "kind": low.piece(kind=4),
        "rows": low.piece(rows=low.rows + 1),
        "cols": low.piece(cols=low.cols - 1),
        "rank 0": low.piece(size=0),
        "rank": low.piece(size=1025),
        "scale": low.piece(scale=float("inf")),
        "blocks of lora": low.piece(n_blocks=1),
        "block": turned.piece(size=7),
        "blocks": turned.piece(n_blocks=2),
        "terms": turned.piece(terms=65),
        "no terms": turned.piece(terms=0),
        "terms of cayley": turned.piece(kind=CAYLEY),
    }
    with Engine.create(model, settings()) as engine:
        plain = decode_logits(engine, [1, 2, 3])
        for why, piece in wrong.items():
            assert begin(engine, [piece]) == INVALID, why
            assert end(engine) == MISSING
            assert swap(engine, 1) == MISSING
        assert begin(engine, [low.piece(), low.piece()]) == INVALID
        assert begin(engine, [low.piece(), turned.piece(tensor=K.WO, cols=96)]) == INVALID
        assert give(engine, low.piece()) == INVALID
        assert begin(engine, [low.piece(), lora(model, 1)[1].piece()]) == 0
        assert give(engine, low.piece(size=low.size - 1)) == INVALID
        assert give(engine, low.piece(b=None)) == INVALID
        assert give(engine, low.piece()) == 0
        assert end(engine) == MISSING
        assert swap(engine, 1) == MISSING
        assert np.array_equal(decode_logits(engine, [1, 2, 3]), plain)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(value: float, families: dict[str, Model]) -> None:
    model = families["llama"]
    parts = [lora(model, 1)[0], *(oft(model, 1, kind)[0] for kind in (CAYLEY, NEUMANN))]
    with Engine.create(model, settings()) as engine:
        for part in parts:
            bad = part.a.copy()
            bad.flat[-1] = value
            assert begin(engine, [part.piece()]) == 0
            assert give(engine, replace(part, a=bad).piece()) == NOT_FINITE
            assert end(engine) == MISSING


def test_a_rotation_out_of_range_is_refused(families: dict[str, Model]) -> None:
    part = oft(families["llama"], 1, EXPONENTIAL)[0]
    with Engine.create(families["llama"], settings()) as engine:
        assert begin(engine, [part.piece()]) == 0
        assert give(engine, replace(part, a=part.a * np.float32(1e12)).piece()) == NOT_FINITE
        assert give(engine, replace(part, a=part.a * np.float32(100)).piece()) == 0


@pytest.mark.parametrize("kind", [LORA, CAYLEY, EXPONENTIAL])
def test_the_real_model_decodes_as_merged(kind: int, stories: Path, isas: list[Isa]) -> None:
    """The hidden layer of stories260K has 172 inputs: blocks of 4 and 43 do not fill a panel."""
    model = load_model(stories / "stories260K.bin")
    sizes = (4, 43)
    adapters = [lora(model, 1)] if kind == LORA else [oft(model, 1, kind, size) for size in sizes]
    for parts in adapters:
        wanted = Exact(merge(model, parts)).greedy([1, 403, 407], 30)
        for isa in isas:
            with Engine.create(model, settings(isa)) as engine:
                adapted(engine, parts)
                driver = Driver(engine, 64)
                rollout = driver.new(64)
                driver.prefill(rollout, [1, 403], 16)
                tokens, _ = driver.decode([rollout], [407], 30)
                assert tokens[:, 0].tolist() == wanted
