"""A receipt reproduces its rollout to the bit, or the reason why not is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

from tests.rollout.checkpoints import write_checkpoint
from typer.testing import CliRunner

from assay.cli.main import app
from assay.rollout import InvalidRollout, ProbeEngine, Runtime, RuntimeOptions, Sampling
from assay.rollout.interface.receipts import read_record, write_record
from assay.rollout.models import DType, Engine, Model, load_model
from assay.rollout.models.engine import EngineSettings
from assay.rollout.replay.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from assay.rollout import Completed

PROMPTS = [[1, 2, 3], [7, *range(20, 61)], [9] * 33]
HOW = Sampling(temperature=0.9, top_k=40, top_p=0.95, min_p=0.01)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("m") / "m.bin", layers=2, positions=128)


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> Model:
    return load_model(checkpoint)


def rollouts(model: Model, *, threads: int = 1, cache: bool = True, **how: Any) -> list[Completed]:
    """Two waves of a mixed company: the second finds the first's prompts in the cache."""
    settings = EngineSettings(threads=threads, batch_max=8, step_tokens_max=64, **how)
    options = RuntimeOptions(seq_len_max=128, prefill_chunk=13, prefix_cache=cache)
    ended = []
    with Engine.create(model, settings) as engine, Runtime(engine, 32, options) as runtime:
        for wave in range(2):
            for i, prompt in enumerate(PROMPTS):
                seeds = [100 * wave + 10 * i + k for k in range(3)]
                runtime.submit(prompt, max_tokens=24, seeds=seeds, sampling=HOW, want_reward=False)
            ended += runtime.drain(60.0)
        assert not cache or runtime.stats().prefix_matched_positions > 0
    return ended


@pytest.mark.parametrize(
    "how",
    [{}, {"threads": 2, "cache": False}, {"weight_dtype": DType.F32}, {"kv_dtype": DType.BF16}],
    ids=["cached", "two-threads", "f32", "bf16-kv"],
)
def test_rollouts_of_any_company_come_out_again_alone(
    model: Model, how: dict[str, Any], tmp_path: Path
) -> None:
    ended = rollouts(model, **how)
    assert len(ended) == 18
    for completed in ended:
        write_record(tmp_path / "r.json", completed)
        found = replay(read_record(tmp_path / "r.json"), model, threads=1)
        assert (found.reproduced, found.tokens, found.reasons) == (True, 24, ())


@pytest.fixture(scope="module")
def one(model: Model) -> Completed:
    return rollouts(model)[4]


@pytest.fixture
def written(one: Completed, tmp_path: Path) -> Path:
    write_record(tmp_path / "receipt.json", one)
    return tmp_path / "receipt.json"


def alter(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", 5),
        ("temperature", 0.8),
        ("top_k", 0),
        ("weights", ["0" * 64]),
        ("versions", [4]),
        ("prompt", "0" * 64),
    ],
)
def test_a_field_that_was_changed_is_named(
    written: Path, model: Model, field: str, value: object
) -> None:
    alter(written, lambda document: document["receipt"].update({field: value}))
    found = replay(read_record(written), model)
    assert not found.reproduced
    assert f"{field}: changed after the receipt was written" in found.reasons


@pytest.mark.parametrize("part", ["prompt", "tokens", "logps"])
def test_changed_contents_are_named(written: Path, model: Model, part: str) -> None:
    alter(written, lambda document: document[part].__setitem__(1, 3))
    found = replay(read_record(written), model)
    name = "prompt" if part == "prompt" else "result"
    assert found.reasons == (f"{name}: changed after the receipt was written",)


def test_other_weights_are_named(written: Path, model: Model) -> None:
    kind = next(iter(model.tensors))
    tensor = model.tensors[kind]
    nudged = tensor.data.copy()
    nudged.flat[17] += 1e-3
    other = replace(model, tensors={**model.tensors, kind: replace(tensor, data=nudged)})
    found = replay(read_record(written), other)
    assert not found.reproduced
    assert found.reasons[0].startswith("weights: ")


def test_another_build_is_named_where_the_bits_differ_and_noted_where_not(
    written: Path, model: Model
) -> None:
    record = read_record(written)
    engine = replace(record.receipt.engine, build="f" * 64)
    elsewhere = replace(record, receipt=replace(record.receipt, engine=engine))
    found = replay(elsewhere, model)
    assert found.reproduced
    assert found.reasons[0].startswith("build: ")
    lower = record.logps[:]
    lower[9] = lower[9] - 1.0
    found = replay(replace(elsewhere, logps=lower), model)
    assert (found.reproduced, found.differs_at) == (False, 9)
    assert found.reasons[0].startswith("build: ")


def test_weights_that_changed_under_a_rollout_are_told() -> None:
    engine = ProbeEngine(batch_max=4)
    options = RuntimeOptions(seq_len_max=64, prefill_chunk=4)
    with Runtime(engine, 4, options, start=False) as runtime:
        runtime.submit(range(1, 20), max_tokens=6, seeds=[1], want_reward=False)
        for _ in range(3):
            runtime.step()
        runtime.set_policy_version(5)
        while runtime.stats().in_flight:
            runtime.step()
        (ended,) = runtime.poll()
    assert ended.receipt is not None
    assert ended.receipt.mixed
    assert ended.receipt.versions == (0, 5)
    assert len({*ended.receipt.weights}) == 2
    assert not ended.receipt.one_version


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("receipt"),
        lambda d: d["receipt"].pop("seed"),
        lambda d: d["receipt"].update(seed="7"),
        lambda d: d["receipt"].update(engine=None),
        lambda d: d["receipt"].update(versions=3),
        lambda d: d.update(tokens=[2**40]),
        lambda d: d.pop("seals"),
        lambda d: d.update(format=2),
    ],
)
def test_a_damaged_file_is_refused_by_field(
    written: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    alter(written, change)
    with pytest.raises(InvalidRollout, match="receipt"):
        read_record(written)


def test_the_command_says_the_same_and_ends_with_a_code(
    written: Path, checkpoint: Path, tmp_path: Path
) -> None:
    command = ["replay-rollout", str(written), "--model", str(checkpoint)]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.output) == (0, "24 tokens and log-probs, every bit the same\n")
    other = write_checkpoint(tmp_path / "other.bin", layers=1, positions=128)
    done = CliRunner().invoke(app, [*command[:-1], str(other), "--json"])
    assert done.exit_code == 5
    assert json.loads(done.output)["reasons"][0].startswith("weights: ")
