"""A real transformer behind the rings: the same tokens as the engine alone, in any company."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from tests.rollout.engine.exact import random_model

from assay.rollout import (
    CrashCause,
    RolloutOutcome,
    Runtime,
    RuntimeOptions,
    Sampling,
    Stop,
    WorkerCrashed,
)
from assay.rollout.models import DType, Engine, load_model, load_tokenizer
from assay.rollout.models.driver import Driver, TokenSampling
from assay.rollout.models.engine import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

MODELS = Path(os.environ.get("ASSAY_MODELS", Path(__file__).parents[3] / "shared" / "models"))
CHECKPOINT = MODELS / "stories260K" / "stories260K.bin"


SETTINGS = EngineSettings(weight_dtype=DType.F32, batch_max=8, step_tokens_max=64, threads=1)


@pytest.fixture(scope="module")
def storyteller() -> Iterator[Engine]:
    if not CHECKPOINT.exists():
        pytest.skip(f"no {CHECKPOINT}; set ASSAY_MODELS")
    with Engine.create(load_model(CHECKPOINT), SETTINGS) as engine:
        yield engine


@pytest.fixture(scope="module")
def qwen() -> Iterator[Engine]:
    """Random weights; what needs no model file holds for it too."""
    with Engine.create(random_model("qwen3"), SETTINGS) as engine:
        yield engine


@pytest.fixture(params=["qwen", "storyteller"])
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.getfixturevalue(request.param)
    return made


def alone(engine: Engine, prompt: list[int], n: int, seed: int) -> tuple[list[int], list[float]]:
    """One rollout on the engine, without the runtime."""
    driver = Driver(engine, 64)
    sampling = TokenSampling(temperature=0.8, top_k=40, seed=seed)
    rollout = driver.new(len(prompt) + n, sampling)
    driver.prefill(rollout, prompt[:-1], 16)
    tokens, logps, last = [], [], prompt[-1]
    for _ in range(n):
        (made,) = driver.step([rollout], [[last]])
        tokens.append(made.token)
        logps.append(made.logp)
        last = made.token
    return tokens, logps


@pytest.mark.parametrize("cache", [True, False])
def test_a_group_gives_what_each_rollout_gives_alone(engine: Engine, cache: bool) -> None:
    prompts = [[1, 203, 207, 261, *range(300, 320)], [1, 203, 207, 261, *range(300, 309)], [1]]
    options = RuntimeOptions(seq_len_max=128, prefill_chunk=10, prefix_cache=cache)
    with Runtime(engine, 16, options) as runtime:
        for at, prompt in enumerate(prompts):
            runtime.submit(
                prompt,
                max_tokens=24,
                seeds=[10 * at + i for i in range(4)],
                user_ids=[10 * at + i for i in range(4)],
                sampling=Sampling(temperature=0.8, top_k=40),
                want_reward=False,
            )
        done = {c.user_id: c for c in runtime.drain(30.0)}
        assert len(done) == 12
        assert (runtime.stats().prefix_matched_positions > 0) is cache
    for user_id, c in done.items():
        tokens, logps = alone(engine, prompts[user_id // 10], 24, user_id)
        assert c.outcome is RolloutOutcome.COMPLETED
        assert list(c.tokens) == tokens
        assert list(c.logps) == pytest.approx(logps, abs=1e-6)


def test_a_stop_string_ends_a_story_where_its_last_byte_is_told(storyteller: Engine) -> None:
    tokenizer = load_tokenizer(CHECKPOINT.parent / "tok512.bin")
    table = tokenizer.token_bytes(storyteller.config.vocab_size)
    with Runtime(storyteller, 4, RuntimeOptions(seq_len_max=128), token_bytes=table) as runtime:
        runtime.submit(
            [1],
            max_tokens=100,
            seeds=[0],
            sampling=Sampling(temperature=0.0),
            stop_strings=[b"never told", b"girl nam"],
            want_reward=False,
        )
        (story,) = runtime.drain(30.0)
    told = tokenizer.decode([1, *story.tokens])
    assert story.stop is Stop.STRING
    assert told.startswith("Once upon a time, there was a little girl nam")
    assert "girl nam" not in tokenizer.decode([1, *story.tokens[:-1]])


def kernel_threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


def test_a_dying_thread_of_the_engine_is_a_crash_that_names_its_rollouts() -> None:
    before = kernel_threads()
    settings = EngineSettings(weight_dtype=DType.F32, batch_max=8, step_tokens_max=64, threads=2)
    with Engine.create(random_model("llama"), settings) as engine:
        (pool_thread,) = kernel_threads() - before
        with Runtime(engine, 4, RuntimeOptions(seq_len_max=256)) as runtime:
            runtime.submit([1], max_tokens=4, seeds=[1], user_ids=[40], want_reward=False)
            assert [c.user_id for c in runtime.drain(30.0)] == [40]
            signal_thread(pool_thread, signal.SIGSEGV)
            runtime.submit([1], max_tokens=250, seeds=[1, 2], user_ids=[41, 42])
            with pytest.raises(WorkerCrashed) as crash:
                runtime.drain(30.0)
        assert crash.value.cause is CrashCause.ENGINE
        assert sorted(crash.value.rollouts) == [41, 42]


def signal_thread(thread: int, number: int) -> None:
    """tgkill(2), for a thread that Python did not start."""
    tgkill = ctypes.CDLL(None, use_errno=True).tgkill
    assert tgkill(os.getpid(), thread, number) == 0
