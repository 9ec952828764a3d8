"""The sampler draws from the distribution it says it draws from."""

from __future__ import annotations

import ctypes
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.rollout.engine.exact import probabilities, softmax

from assay.rollout.layout import Sampler
from assay.rollout.library.binding import load
from assay.rollout.models.driver import TokenSampling
from assay.rollout.models.engine import Isa

Floats = NDArray[np.float32]


def draw(
    logits: Floats, how: TokenSampling, n: int, position: int = 0, isa: Isa = Isa.AUTO
) -> tuple[NDArray[np.int32], Floats]:
    """n tokens and log-probs at positions position, position + 1, ..."""
    raw = Sampler(
        temperature=how.temperature,
        top_p=how.top_p,
        min_p=how.min_p,
        top_k=how.top_k,
        seed=how.seed,
    )
    logits = np.ascontiguousarray(logits, dtype=np.float32)
    tokens, logps = np.zeros(n, np.int32), np.zeros(n, np.float32)
    status = load().assay_sample_many(
        logits.ctypes.data,
        len(logits),
        ctypes.byref(raw),
        position,
        n,
        isa,
        tokens.ctypes.data,
        logps.ctypes.data,
    )
    assert status == 0
    return tokens, logps


def chi_square_p(counts: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Probability of so large a statistic (Wilson-Hilferty), rare tokens pooled."""
    rare = expected < 8
    observed = np.append(counts[~rare], counts[rare].sum())
    pooled = np.append(expected[~rare], expected[rare].sum())
    observed, pooled = observed[pooled > 0], pooled[pooled > 0]
    free = len(pooled) - 1
    statistic = float(((observed - pooled) ** 2 / pooled).sum())
    z = ((statistic / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))
    return 0.5 * math.erfc(z / math.sqrt(2))


HOWS = [
    TokenSampling(temperature=1.0, seed=1),
    TokenSampling(temperature=0.5, seed=2),
    TokenSampling(temperature=1.5, top_k=12, seed=3),
    TokenSampling(temperature=1.0, top_p=0.7, seed=4),
    TokenSampling(temperature=2.0, min_p=0.1, seed=5),
    TokenSampling(temperature=1.2, top_k=40, top_p=0.9, min_p=0.01, seed=6),
]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("vocab", [37, 300, 5000])
def test_chi_square(how: TokenSampling, vocab: int) -> None:
    logits = np.random.default_rng(vocab).normal(0, 2, vocab).astype(np.float32)
    n = 40_000 if vocab < 1000 else 12_000
    tokens, _ = draw(logits, how, n)
    expected = probabilities(logits, how) * n
    counts = np.bincount(tokens, minlength=vocab).astype(np.float64)
    assert not counts[expected == 0].any()
    assert chi_square_p(counts, expected) > 1e-4


def test_chi_square_would_notice() -> None:
    """The test above fails for a temperature that is 3 % off."""
    logits = np.random.default_rng(0).normal(0, 2, 300).astype(np.float32)
    tokens, _ = draw(logits, TokenSampling(temperature=1.0, seed=1), 40_000)
    off = probabilities(logits, TokenSampling(temperature=1.03)) * 40_000
    assert chi_square_p(np.bincount(tokens, minlength=300).astype(np.float64), off) < 1e-4


@settings(max_examples=300, deadline=None)
@given(
    values=st.lists(st.integers(-40, 40), min_size=1, max_size=400),
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.integers(0, 420),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    seed=st.integers(0, 2**64 - 1),
)
def test_support_and_logps(
    values: list[int], temperature: float, top_k: int, top_p: float, min_p: float, seed: int
) -> None:
    """Ties included: what is kept among equals is the earliest, as a stable sort has it."""
    logits = (np.array(values) / 8).astype(np.float32)
    how = TokenSampling(temperature, top_k, top_p, min_p, seed)
    shares = probabilities(logits, how)
    tokens, logps = draw(logits, how, 16)
    for token, logp in zip(tokens, logps, strict=True):
        near = shares[token]
        if near == 0:  # at the edge of the nucleus float32 may keep one token more
            wider = TokenSampling(temperature, top_k, min(1.0, top_p + 1e-4), min_p * 0.999, seed)
            near = probabilities(logits, wider)[token]
        assert near > 0
        assert abs(math.exp(logp) - near) < 1e-3


def test_tokens_follow_from_seed_and_position() -> None:
    logits = np.zeros(1000, np.float32)
    how = TokenSampling(temperature=1.0, seed=9)
    tokens, _ = draw(logits, how, 50)
    again, _ = draw(logits, how, 20, position=30)
    assert tokens[30:].tolist() == again.tolist()
    other, _ = draw(logits, TokenSampling(temperature=1.0, seed=10), 50)
    assert (tokens == other).sum() < 5


def test_every_isa_draws_the_same(isas: list[Isa]) -> None:
    logits = np.random.default_rng(3).normal(0, 2, 3000).astype(np.float32)
    for how in HOWS:
        drawn = [draw(logits, how, 200, isa=isa)[0].tolist() for isa in isas]
        assert all(tokens == drawn[0] for tokens in drawn)


def test_greedy_takes_the_first_largest_and_its_plain_logp() -> None:
    logits = np.array([1.0, 5.0, 5.0, -2.0], np.float32)
    tokens, logps = draw(logits, TokenSampling(temperature=0.0), 3)
    assert tokens.tolist() == [1, 1, 1]
    assert abs(logps[0] - math.log(softmax(logits.astype(np.float64))[1])) < 1e-6


def test_masked_logits_are_never_drawn() -> None:
    logits = np.full(500, -np.inf, np.float32)
    logits[[17, 400]] = 0.0
    tokens, logps = draw(logits, TokenSampling(temperature=1.0, seed=2), 300)
    assert Counter(tokens.tolist()).keys() == {17, 400}
    assert np.allclose(logps, math.log(0.5), atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite_give_no_token(bad: float) -> None:
    logits = np.zeros(100, np.float32)
    logits[60] = bad
    tokens, logps = draw(logits, TokenSampling(temperature=1.0), 2)
    assert tokens.tolist() == [-1, -1]
    assert np.isnan(logps).all()
    assert draw(np.full(8, -np.inf, np.float32), TokenSampling(), 1)[0].tolist() == [-1]


def test_uniform_is_philox() -> None:
    """Known answer: Philox4x32-10 of a zero key and counter begins 0x6627e8d5 0xe169c58d."""
    word = 0xE169C58D << 32 | 0x6627E8D5
    assert load().assay_uniform(0, 0) == ((word >> 11) + 0.5) * 2.0**-53
