"""The demo's model: its gradients, its folder in the runtime, and that it learns."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from assay.rollout.demo import task, training
from assay.rollout.demo.checkpoint import write_folder
from assay.rollout.demo.transformer import Shape, Transformer, Weights, initial, log_probs
from assay.rollout.interface.rollouts import Completed, Sampling
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime
from assay.rollout.models.engine import Engine, EngineSettings
from assay.rollout.models.load import load_model, load_tokenizer
from assay.rollout.models.model import DType

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = Shape(dim=16, layers=2, heads=2, hidden=24)
PROBLEMS = [task.Problem((1, 2, 3)), task.Problem((9, 9, 9)), task.Problem((0, 0, 0))]
PATIENCE_S = 60.0


def _double(shape: Shape, seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    return {
        name: w + 0.1 * rng.standard_normal(w.shape) for name, w in initial(shape, seed).items()
    }


def _compare(loss: Callable[[Weights], float], weights: Weights, gradients: Weights) -> None:
    rng, step = np.random.default_rng(0), 1e-5
    assert gradients.keys() == weights.keys()
    for name, tensor in weights.items():
        way = rng.standard_normal(tensor.shape)
        there = loss({**weights, name: tensor + step * way})
        back = loss({**weights, name: tensor - step * way})
        expected = (there - back) / (2 * step)
        assert float((gradients[name] * way).sum()) == pytest.approx(
            expected, rel=1e-4, abs=1e-8
        ), name


def test_gradients_of_the_supervised_loss_are_finite_differences() -> None:
    weights = _double(SMALL, 3)
    _, gradients = training.supervised(SMALL, weights, PROBLEMS)
    _compare(lambda w: training.supervised(SMALL, w, PROBLEMS)[0], weights, gradients)


def _samples(advantages: list[float]) -> list[training.Sample]:
    return [
        training.Sample(task.encode(p.prompt), task.encode(text), [-1.0] * len(text), a)
        for p, text, a in zip(PROBLEMS, ("6#", "27#", "1111"), advantages, strict=True)
    ]


def test_gradients_of_the_policy_loss_are_finite_differences_and_clipped_tokens_have_none() -> None:
    weights, samples = _double(SMALL, 4), _samples([1.0, -0.5, 0.25])
    batch = training.batch_of([(s.prompt_ids, s.response_ids) for s in samples])
    advantage = np.array([s.advantage for s in samples])[:, None]

    def loss(w: Weights) -> float:
        logp = log_probs(Transformer(SMALL, w, batch.tokens).logits)
        chosen = np.take_along_axis(logp, batch.next_tokens[..., None], -1)[..., 0]
        ratio = np.where(batch.mask > 0, np.exp(chosen + 1.0), 1.0)
        bounded = np.clip(ratio, 0.8, 1.2)
        worth = np.minimum(ratio * advantage, bounded * advantage) * batch.mask
        return -float(worth.sum() / batch.mask.sum())

    step = training.policy(SMALL, weights, samples)
    assert 0 < step.clipped < 1
    _compare(loss, weights, step.gradients)


def test_the_runtime_samples_from_what_the_trainer_computes(tmp_path: Path) -> None:
    shape, weights = Shape(), initial(Shape(), 5)
    model = load_model(write_folder(tmp_path, shape, weights))
    prompt, done = task.encode("<7+8+9>"), list[Completed]()
    with (
        Engine.create(model, EngineSettings(weight_dtype=DType.F32)) as engine,
        Runtime(engine, 8, RuntimeOptions(seq_len_max=32)) as runtime,
    ):
        runtime.submit(
            prompt,
            max_tokens=task.RESPONSE_MAX,
            seeds=range(8),
            sampling=Sampling(temperature=1.0),
            want_reward=False,
        )
        until = time.monotonic() + PATIENCE_S
        while len(done) < 8 and time.monotonic() < until:
            runtime.wait(0.05)
            done += runtime.poll()
    assert len(done) == 8
    for one in done:
        tokens = list(one.tokens)
        inputs = np.array([[*prompt, *tokens][:-1]])
        rows = log_probs(Transformer(shape, weights, inputs).logits)[0, len(prompt) - 1 :]
        expected = [float(row[token]) for row, token in zip(rows, tokens, strict=True)]
        assert list(one.logps) == pytest.approx(expected, abs=1e-4)


def test_the_tokenizer_has_one_token_per_character_and_hides_the_end(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_folder(tmp_path, SMALL, initial(SMALL, 0)))
    for problem in PROBLEMS:
        assert tokenizer.encode(problem.prompt) == task.encode(problem.prompt)
        assert tokenizer.decode(task.encode(problem.answer + "#")) == problem.answer
    assert tokenizer.eos_ids == (task.STOP,)


def test_problems_are_divided_once() -> None:
    known, held_out = task.problems(held_out=False), task.problems(held_out=True)
    assert len(set(known) | set(held_out)) == len(known) + len(held_out) == 1_000
    assert 150 < len(held_out) < 250
    assert all(len(task.encode(p.answer + "#")) <= task.RESPONSE_MAX for p in known + held_out)


def test_supervised_steps_lower_the_loss() -> None:
    chance, weights = random.Random(1), initial(SMALL, 1)
    optimizer, losses = training.Adam(3e-3), []
    for _ in range(40):
        chosen = task.draw(chance, task.problems(held_out=False), 32)
        loss, gradients = training.supervised(SMALL, weights, chosen)
        weights = optimizer.update(weights, gradients)
        losses.append(loss)
    assert np.mean(losses[-5:]) < 0.6 * losses[0]
