"""Losses and optimizer: supervised warm start, then a clipped policy gradient. Pure.

A batch holds prompts with responses, padded on the right. The policy's loss is that of GRPO (arXiv
2402.03300) without a KL term, summed over tokens as Dr. GRPO (arXiv 2503.20783) does: per token
min(r A, clip(r) A), where r is the ratio of the trainer's probability to `rollout_logp`, which the
runtime recorded when it sampled the token and which is never computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.demo.task import PAD, Problem, encode
from assay.rollout.demo.transformer import Array, Shape, Transformer, Weights, log_probs

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Sample:
    """One response with what is needed to learn from it."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    rollout_logp: Sequence[float]
    advantage: float


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Padded sequences: inputs (batch, time), and per input the token that follows it."""

    tokens: Array
    next_tokens: Array
    mask: Array
    """float; 1 where the next token belongs to a response."""


def batch_of(sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> TrainingBatch:
    """Pad (prompt, response) pairs."""
    longest = max(len(prompt) + len(response) for prompt, response in sequences)
    whole = np.full((len(sequences), longest), PAD, np.int64)
    mask = np.zeros((len(sequences), longest), np.float32)
    for row, (prompt, response) in enumerate(sequences):
        end = len(prompt) + len(response)
        whole[row, :end] = [*prompt, *response]
        mask[row, len(prompt) : end] = 1
    return TrainingBatch(whole[:, :-1], whole[:, 1:], mask[:, 1:])


@dataclass(slots=True)
class Adam:
    """Adam (arXiv 1412.6980) with a bound on the gradient's norm."""

    rate: float
    norm_max: float = 1.0
    betas: tuple[float, float] = (0.9, 0.98)
    steps: int = 0
    first: Weights = field(default_factory=dict)
    second: Weights = field(default_factory=dict)

    def update(self, weights: Weights, gradients: Weights) -> Weights:
        """The weights after one step; the arguments stay as they are."""
        self.steps += 1
        norm = float(
            np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values()))
        )
        shrink = min(1.0, self.norm_max / max(norm, 1e-12))
        updated = {}
        for name, gradient in gradients.items():
            g = (gradient * shrink).astype(np.float32)
            first = self.betas[0] * self.first.get(name, 0.0) + (1 - self.betas[0]) * g
            second = self.betas[1] * self.second.get(name, 0.0) + (1 - self.betas[1]) * g * g
            self.first[name], self.second[name] = first, second
            ahead = first / (1 - self.betas[0] ** self.steps)
            spread = np.sqrt(second / (1 - self.betas[1] ** self.steps)) + 1e-8
            updated[name] = (weights[name] - self.rate * ahead / spread).astype(np.float32)
        return updated


def _of_chosen(passed: Transformer, batch: TrainingBatch, weight: Array) -> Weights:
    """Gradient of the sum of weight x log-prob of the next token, negated."""
    shares = np.exp(log_probs(passed.logits))
    back = shares * weight[..., None]
    rows, columns = np.indices(batch.next_tokens.shape)
    back[rows, columns, batch.next_tokens] -= weight
    return passed.gradients(back)


def _chosen(passed: Transformer, batch: TrainingBatch) -> Array:
    """Log-prob of each next token."""
    found: Array = np.take_along_axis(
        log_probs(passed.logits), batch.next_tokens[..., None], axis=-1
    )[..., 0]
    return found


def supervised(shape: Shape, weights: Weights, chosen: Sequence[Problem]) -> tuple[float, Weights]:
    """Mean negative log-prob per token of the right responses, and its gradient."""
    batch = batch_of([(encode(one.prompt), encode(one.answer + "#")) for one in chosen])
    passed = Transformer(shape, weights, batch.tokens)
    weight = batch.mask / batch.mask.sum()
    loss = -float((_chosen(passed, batch) * weight).sum())
    return loss, _of_chosen(passed, batch, weight)


@dataclass(frozen=True, slots=True)
class PolicyStep:
    """What one step of the policy's loss found."""

    clipped: float
    """Share of tokens whose ratio is outside of the bound."""
    gradients: Weights


def policy(
    shape: Shape, weights: Weights, samples: Sequence[Sample], clip: float = 0.2
) -> PolicyStep:
    """The gradient of the clipped policy loss over all tokens of the samples."""
    batch = batch_of([(one.prompt_ids, one.response_ids) for one in samples])
    old, advantage = np.zeros_like(batch.mask), np.zeros_like(batch.mask)
    for row, one in enumerate(samples):
        start = len(one.prompt_ids) - 1
        old[row, start : start + len(one.response_ids)] = one.rollout_logp
        advantage[row] = one.advantage
    passed = Transformer(shape, weights, batch.tokens)
    ratio = np.exp(np.where(batch.mask > 0, _chosen(passed, batch) - old, 0.0))
    bounded = np.where(advantage > 0, ratio > 1 + clip, ratio < 1 - clip)
    weight = ratio * advantage * batch.mask * ~bounded / batch.mask.sum()
    outside = (np.abs(ratio - 1) > clip) & (batch.mask > 0)
    return PolicyStep(
        float(outside.sum() / batch.mask.sum()),
        _of_chosen(passed, batch, weight.astype(np.float32)),
    )
