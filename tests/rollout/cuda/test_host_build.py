"""The whole kernel on the host: what it computes, and that nothing but a rollout's own inputs
decides it."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rollout.cuda.building import BUILDS, TINY, bits, ended, host_engine, tiny
from tests.rollout.engine.exact import Exact, ids_for, probabilities, random_model, round_to_bf16

from assay.rollout import EngineSaturated, InvalidRollout, RolloutOutcome, Sampling, Stop
from assay.rollout.cuda.engine import CudaEngine
from assay.rollout.cuda.host_build import HostMachine
from assay.rollout.cuda.options import CudaOptions
from assay.rollout.cuda.sizes import EMULATED, Sizes
from assay.rollout.layout import STOP_BYTES_MAX
from assay.rollout.models import Model, Tensor, TensorKind

if TYPE_CHECKING:
    from assay.rollout import Completed
    from assay.rollout.cuda.machine import Params

GREEDY = Sampling(temperature=0.0)
MODELS = ["llama", "llama3-rope", "qwen2", "qwen3-yarn", "qwen3", "smollm"]
LOGITS_ERROR_MAX = 1e-2
"""Relative, in bf16."""


def logits_of(engine: CudaEngine, row: int = 0) -> np.ndarray[Any, Any]:
    """Of one row of the last step."""
    sizes = engine.sizes
    assert isinstance(engine.machine, HostMachine)
    scratch = engine.machine.memory_at(engine._params.scratch)
    n = sizes.config.vocab_size
    at = sizes.scratch["LOGITS"] + 4 * row * n
    return np.array(scratch[at : at + 4 * n].view(np.float32))


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_tokens_are_those_of_float64_on_the_same_weights(name: str) -> None:
    model = random_model(name)
    exact, prompt = Exact(round_to_bf16(model)), ids_for(model, 21)
    with host_engine(model) as engine:
        engine.submit(prompt, max_tokens=8, seeds=[1], sampling=GREEDY, want_reward=False)
        (done,) = ended(engine, 1)
        last = logits_of(engine)
    wanted = exact.logits([*prompt, *done.tokens])[len(prompt) - 1 : -1]
    assert np.linalg.norm(last - wanted[-1]) / np.linalg.norm(wanted[-1]) < LOGITS_ERROR_MAX
    for token, logp, logits in zip(done.tokens, done.logps, wanted, strict=True):
        logps = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        assert logps[token] > logps.max() - 0.06  # the largest, or as good as it
        assert abs(logp - logps[token]) < 0.06


def test_a_rollouts_bits_do_not_depend_on_blocks_or_the_order_of_threads() -> None:
    """A missing barrier shows here: each seed holds other threads back."""
    seen = set()
    for blocks, seed in [(1, 0), (2, 1), (2, 2), (2, 3), (3, 4), (5, 5)]:
        with host_engine(tiny(), blocks=blocks, seed=seed) as engine:
            for at, n in enumerate((3, 19, 30)):
                prompt = list(range(at, at + n))
                options: dict[str, Any] = {"max_tokens": 9, "seeds": [5, 6], "want_reward": False}
                users = [2 * at, 2 * at + 1]
                how = Sampling(temperature=0.9, top_k=20 * (at == 1))
                engine.submit(prompt, sampling=how, user_ids=users, **options)
            seen.add(repr(bits(ended(engine, 6))))
    assert len(seen) == 1


def test_a_blocks_warps_attend_before_one_of_them_leaves_sums_in_their_memory() -> None:
    """Where a step flows, a warp multiplies its share of the inputs as soon as these are there.

    Here those of warp 1 lie in heads 0, 1 and 3, and warp 2 may still read its query of head 2, in
    the place of warp 1's sums (a query of 48 dimensions, four warps).
    """
    model = tiny(config=replace(TINY, n_heads=4, n_kv_heads=4, head_dim=48))
    four = replace(EMULATED, threads=128, piece=4)
    seen = set()
    for seed in range(9):
        with host_engine(model, blocks=1, seed=seed, tuning=four) as engine:
            engine.submit([1, 2, 3], max_tokens=24, seeds=[5], want_reward=False)
            seen.add(repr(bits(ended(engine, 1))))
    assert len(seen) == 1


def test_a_rollouts_bits_do_not_depend_on_how_many_rows_a_step_has() -> None:
    """One row up to 72: every number of rows and tiles that a visit of a product can take."""
    many = replace(EMULATED, rows=72)
    one: dict[str, Any] = {"max_tokens": 3, "sampling": Sampling(temperature=0.9)}
    seen: dict[int, tuple[bytes, bytes]] = {}
    for blocks, n in [(1, 1), (9, 8), (2, 16), (40, 16), (2, 30), (2, 72), (5, 72)]:
        with host_engine(tiny(), blocks=blocks, slots=72, tuning=many, prefill_chunk=72) as engine:
            with engine.pause(60.0):
                for seed in range(n):
                    prompt, ids = [seed % 3, 7], [seed]
                    engine.submit(prompt, seeds=ids, user_ids=ids, want_reward=False, **one)
            for user, found in enumerate(bits(ended(engine, n))):
                assert seen.setdefault(user, found) == found, (blocks, n)


def test_more_queries_of_a_key_than_one_product_takes_are_those_of_float64() -> None:
    config = replace(TINY, n_heads=20, head_dim=8)
    rng = np.random.default_rng(3)
    model = Model(
        config,
        {
            (kind, layer): Tensor.of(rng.normal(0.7 * (len(shape) == 1), 0.2, shape))
            for kind, layer, shape in config.tensor_shapes()
        },
    )
    prompt = ids_for(model, 40)
    with host_engine(model) as engine:
        engine.submit(prompt, max_tokens=4, seeds=[1], sampling=GREEDY, want_reward=False)
        (done,) = ended(engine, 1)
        last = logits_of(engine)
    wanted = Exact(round_to_bf16(model)).logits([*prompt, *done.tokens])[-2]
    assert np.linalg.norm(last - wanted) / np.linalg.norm(wanted) < LOGITS_ERROR_MAX


class Poisoned(HostMachine):
    """Scratch and KV hold NaN where the kernel has not written."""

    def start(self, params: Params) -> None:
        for at in (params.scratch, params.keys, params.values):
            self.memory_at(at)[:] = 0xFF
        super().start(params)


def test_nothing_is_read_that_was_not_written() -> None:
    def run(machine: type[HostMachine]) -> list[tuple[bytes, bytes]]:
        def make(sizes: Sizes) -> HostMachine:
            return machine(sizes, folder=BUILDS)

        options = CudaOptions(slots=8, seq_len_max=64, prefill_chunk=8, tuning=EMULATED)
        with CudaEngine(tiny(), make, options) as engine:
            for at, n in enumerate((1, 7, 33)):
                engine.submit(list(range(n)), max_tokens=5, seeds=[at], user_ids=[at])
            return bits(ended(engine, 3))

    assert run(Poisoned) == run(HostMachine)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), kv_blocks=st.integers(17, 48), credits=st.integers(1, 8))
def test_a_rollouts_bits_are_the_same_alone_and_in_any_company(
    seed: int, kv_blocks: int, credits: int
) -> None:
    """Groups, shared prefixes, chunked prefill, waiting for blocks and credits, cancelled
    siblings."""
    rng = random.Random(seed)
    limits: dict[str, Any] = {
        "kv_blocks": kv_blocks,
        "decode_credits": credits,
        "reward_credits": 2,
    }
    orders: list[tuple[list[int], Sampling, dict[str, Any]]] = []
    for at in range(4):
        prompt = [rng.randrange(331) for _ in range(rng.choice([1, 4, 5, 13, 40]))]
        how = Sampling(temperature=rng.choice([0.0, 0.8]), top_p=rng.choice([1.0, 0.7]))
        n = rng.randint(1, 4)
        options: dict[str, Any] = {
            "max_tokens": rng.randint(1, 20),
            "seeds": range(at * 9, at * 9 + n),
        }
        orders.append((prompt, how, options))
    with host_engine(tiny(), **limits) as engine:
        came: dict[int, Completed] = {}
        cancelled = set()
        for at, (prompt, how, options) in enumerate(orders):
            refs = None
            while refs is None:
                try:
                    users = [100 * at + i for i in range(len(options["seeds"]))]
                    refs = engine.submit(prompt, sampling=how, user_ids=users, **options)
                except EngineSaturated:
                    came |= {c.user_id: c for c in ended(engine, 1)}
            if rng.random() < 0.4:
                engine.cancel(refs[0])
                cancelled.add(100 * at)
        n_all = sum(len(o[2]["seeds"]) for o in orders)
        came |= {c.user_id: c for c in ended(engine, n_all - len(came))}
        assert engine.stats().in_flight == 0
        assert engine.stats().kv_available == kv_blocks
    with host_engine(tiny()) as alone:
        for user, c in came.items():
            prompt, how, options = orders[user // 100]
            one: dict[str, Any] = {**options, "seeds": [options["seeds"][user % 100]]}
            alone.submit(prompt, sampling=how, want_reward=False, **one)
            (wanted,) = ended(alone, 1)
            n = len(c.tokens)
            assert (c.tokens, c.logps) == (wanted.tokens[:n], wanted.logps[:n])
            assert user in cancelled or n == len(wanted.tokens)


def uniform(seed: int, position: int) -> float:
    """Philox4x32-10 of (seed, position), by its published definition."""
    key = [seed & 0xFFFFFFFF, seed >> 32]
    c = [position & 0xFFFFFFFF, position >> 32, 0, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return (((c[1] << 32 | c[0]) >> 11) + 0.5) / (1 << 53)


def test_a_token_is_the_one_that_its_random_number_reaches_in_the_kept_distribution() -> None:
    rng = random.Random(7)
    with host_engine(tiny()) as engine:
        for case in range(40):
            how = Sampling(
                temperature=rng.choice([0.3, 1.0, 2.5]),
                top_k=rng.choice([0, 1, 5, 50, 330, 331, 1000]),
                top_p=rng.choice([1.0, 0.95, 0.5, 0.01]),
                min_p=rng.choice([0.0, 0.0, 0.05, 1.0]),
            )
            seed, prompt = rng.randrange(1 << 64), [case, case + 1]
            engine.submit(prompt, max_tokens=1, seeds=[seed], sampling=how, want_reward=False)
            (done,) = ended(engine, 1)
            shares = probabilities(logits_of(engine), how)  # type: ignore[arg-type]  # same fields
            token, below = done.tokens[0], np.cumsum(shares)
            assert shares[token] > 0, how
            assert abs(done.logps[0] - math.log(shares[token])) < 1e-4, how
            u = uniform(seed, len(prompt))
            assert below[token] - shares[token] - 1e-5 <= u <= below[token] + 1e-5, how


def test_ties_at_a_filters_edge_stay_in_vocabulary_order() -> None:
    """All logits equal: top_k keeps the first k, top_p the first that reach it."""
    model = tiny()
    zero = Tensor.of(np.zeros((331, 32)))
    flat = Model(TINY, {**model.tensors, (TensorKind.EMBED, 0): zero})
    with host_engine(flat) as engine:
        for how, kept in [(Sampling(top_k=3), 3), (Sampling(top_p=0.1), 34)]:
            seen = set()
            for first in range(0, 160, 8):
                seeds = range(first, first + 8)
                engine.submit([1], max_tokens=1, seeds=seeds, sampling=how, want_reward=False)
                done = ended(engine, 8)
                seen |= {c.tokens[0] for c in done}
                assert all(abs(c.logps[0] + math.log(kept)) < 1e-5 for c in done)
            assert max(seen) < kept
            assert len(seen) > kept // 2


def test_logits_that_are_not_finite_end_their_rollout_alone() -> None:
    model = tiny()
    embed = model.tensors[TensorKind.EMBED, 0].to_float32().copy()
    embed[7] = 3e38
    broken = Model(TINY, {**model.tensors, (TensorKind.EMBED, 0): Tensor.of(embed)})
    with host_engine(broken) as engine:
        engine.submit([7], max_tokens=4, seeds=[1], user_ids=[0])
        (done,) = ended(engine, 1)
        assert (done.outcome, list(done.tokens)) == (RolloutOutcome.NOT_FINITE, [])
        assert engine.stats().failed == 1


def test_generations_and_indices_wrap() -> None:
    wrapping: dict[str, Any] = {
        "generation_first": 0xFFFFFFFF,
        "index_first": (1 << 64) - 3,
        "slots": 2,
    }
    with host_engine(tiny(), **wrapping) as engine, host_engine(tiny()) as plain:
        for seed in range(6):
            one: dict[str, Any] = {"max_tokens": 4, "seeds": [seed, seed + 1], "stop_ids": [3]}
            engine.submit([1, 2], **one)
            plain.submit([1, 2], **one)
            wanted = ended(plain, 2)
            assert bits(ended(engine, 2)) == bits(wanted)
            assert all(c.stop in {Stop.LENGTH, Stop.ID} for c in wanted)


WORDS = [bytes([97 + i % 5]) * (i % 3) + bytes([97 + i % 7]) for i in range(TINY.vocab_size)]
"""The bytes of each token: few letters, so that stop strings occur."""


def first_stop(tokens: list[int], stops: list[bytes]) -> int | None:
    """How many tokens it takes until the text contains a stop string."""
    text = b""
    for n, token in enumerate(tokens, 1):
        text += WORDS[token]
        if any(stop in text for stop in stops):
            return n
    return None


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1 << 32),
    stops=st.lists(st.text("abcdefg", min_size=1, max_size=5), min_size=1, max_size=4, unique=True),
)
def test_a_stop_string_ends_a_rollout_at_the_token_that_completes_it(
    seed: int, stops: list[str]
) -> None:
    strings = [stop.encode() for stop in stops]
    wanted: dict[str, Any] = {"max_tokens": 40, "want_reward": False, "seeds": [seed, seed + 1]}
    with host_engine(tiny(), token_bytes=WORDS) as engine:
        engine.submit([1, 2], **wanted)
        plain = ended(engine, 2)
        engine.submit([1, 2], stop_strings=strings, **wanted)
        stopped = ended(engine, 2)
    for before, after in zip(plain, stopped, strict=True):
        n = first_stop(list(before.tokens), strings)
        assert after.tokens == before.tokens[:n]
        assert after.stop is (Stop.LENGTH if n is None else Stop.STRING)


def test_a_tail_longer_than_any_stop_string_wraps() -> None:
    """The string is as long as can be, and its first byte lies a whole tail back."""
    with host_engine(tiny(), token_bytes=WORDS) as engine:
        one: dict[str, Any] = {"max_tokens": 60, "want_reward": False, "seeds": [3]}
        engine.submit([1], **one)
        (plain,) = ended(engine, 1)
        text = b"".join(WORDS[token] for token in plain.tokens)
        stop = text[31 : 31 + STOP_BYTES_MAX]
        assert len(stop) == STOP_BYTES_MAX
        engine.submit([1], stop_strings=[stop], **one)
        (stopped,) = ended(engine, 1)
    n = first_stop(list(plain.tokens), [stop])
    assert n is not None
    assert stopped.tokens == plain.tokens[:n]
    assert stopped.stop is Stop.STRING


def test_a_stop_string_is_of_one_rollouts_text_alone() -> None:
    """The slot's rollout before ended with its first bytes; or they lie before any text."""
    one: dict[str, Any] = {"max_tokens": 9, "want_reward": False}
    with host_engine(tiny(), slots=1, token_bytes=WORDS) as engine:
        texts = []
        for seed in (3, 4):
            engine.submit([1], seeds=[seed], **one)
            texts.append(b"".join(WORDS[token] for token in ended(engine, 1)[0].tokens))
        across = texts[0][-4:] + texts[1][:3]
        assert across not in texts[0] + b"|" + texts[1]
        for stop in (b"\0" + texts[1][:2], across):
            for seed in (4, 3, 4):
                engine.submit([1], seeds=[seed], stop_strings=[stop], **one)
                assert ended(engine, 1)[0].stop is Stop.LENGTH


def test_a_vocabulary_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidRollout, match="token_bytes"):
        host_engine(tiny(), token_bytes=WORDS[1:])
