"""The kernel on a GPU (`pytest -m gpu`), and its bench on the host build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.rollout.cuda.building import ended, host_engine, tiny
from tests.rollout.engine.exact import Exact, ids_for, random_model, round_to_bf16
from typer.testing import CliRunner

from assay.rollout import Sampling
from assay.rollout.bench.app import bench_app
from assay.rollout.bench.engine.gpu import GpuWork, add_barrier, load, measure, measure_trace
from assay.rollout.cuda.engine import CudaEngine
from assay.rollout.cuda.errors import CudaError
from assay.rollout.cuda.gpu import GpuMachine, describe
from assay.rollout.cuda.link import HoldMode
from assay.rollout.cuda.options import CudaOptions
from assay.rollout.trace import PAIRS, spans

if TYPE_CHECKING:
    from pathlib import Path

    from assay.rollout import RolloutRef


def missing() -> str | None:
    """What keeps a GPU test from running here; None: nothing."""
    try:
        describe()
    except CudaError as problem:
        return str(problem)
    return None


WHY = missing()
on_a_gpu = pytest.mark.skipif(WHY is not None, reason=str(WHY))


@pytest.mark.parametrize("command", ["gpu", "trace --engine cuda"])
def test_without_a_gpu_the_bench_ends_with_one_line_that_says_what_is_missing(
    command: str,
) -> None:
    if WHY is None:
        pytest.skip("this machine has a GPU")
    done = CliRunner().invoke(bench_app, command.split())
    assert done.exit_code == 1
    assert done.output.strip() == f"assay bench {command}: {WHY}"


def test_the_bench_measures_what_it_names() -> None:
    work = GpuWork(batches=(1, 4), tokens=16, prompt=3, echoes=20, group=4, prefix=20)
    with host_engine(tiny()) as engine:
        report = measure(engine, tiny(1), work, repeats=2, command="x", bandwidth=1e9)
        add_barrier(report, engine, work, repeats=2)
        assert engine.stats().in_flight == 0
    values = {figure.name: figure for figure in report.figures}
    assert values["host -> kernel -> host, p50"].median > 0
    assert values["decode B=4"].median > 0
    assert values["kernel launches in the engine's life"].median == 1
    assert len(values["K=4 prefix=20: shared / alone"].samples) == 2
    # 20 + 16 - 1 positions in blocks of 4 are 9, the first 4 of them shared.
    assert values["K=4 prefix=20: KV, shared"].samples == (24, 24)
    assert values["K=4 prefix=20: KV, each alone"].samples == (36, 36)
    barriers = values["barriers a step B=4"]
    assert 5 <= min(barriers.samples) <= max(barriers.samples) <= 5 + 2 * 6 * tiny().config.n_layers
    assert values["host CPU per token B=4"].median > 0
    assert values["one barrier, at most"].median > 0
    assert values["change of weights: held"].median > 0


def test_the_bench_of_the_trace_shows_all_eight_pairs(tmp_path: Path) -> None:
    work = GpuWork(tokens=4, prompt=3, group=4)
    with host_engine(tiny()) as engine:
        perfetto = tmp_path / "trace.json"
        report = measure_trace(engine, work, repeats=2, perfetto=perfetto, command="x")
    assert "host build" in report.title
    samples = {figure.name: figure.samples for figure in report.figures}
    assert all(len(samples[f"{pair.name} p50"]) == 2 for pair in PAIRS)
    assert len(json.loads(perfetto.read_text())["traceEvents"]) > 8 * 4


def test_a_load_of_many_prompts_is_all_submitted_before_one_of_them_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with host_engine(tiny()) as engine:
        held: list[int] = []
        submit = engine.submit

        def seen(*prompt: list[int], **options: Any) -> list[RolloutRef]:
            held.append(int(engine._link.head.held) & 3)
            return submit(*prompt, **options)

        monkeypatch.setattr(engine, "submit", seen)
        assert load(engine, [[1, 2, 3], [4, 5]], 1, 8).blocks == 3 + 3
    assert held == [HoldMode.IN_PLACE, HoldMode.IN_PLACE]


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "smollm"])
def test_logits_and_tokens_are_those_of_float64(name: str) -> None:
    model = random_model(name)
    exact, prompt = Exact(round_to_bf16(model)), ids_for(model, 21)
    options = CudaOptions(slots=64, seq_len_max=64)
    with CudaEngine(model, GpuMachine, options) as engine:
        greedy = Sampling(temperature=0.0)
        engine.submit(prompt, max_tokens=8, seeds=[1], sampling=greedy, want_reward=False)
        (done,) = ended(engine, 1)
        at = engine._params.scratch + engine.sizes.scratch["LOGITS"]
        machine = engine.machine
        assert isinstance(machine, GpuMachine)
        last = machine.read(at, 4 * model.config.vocab_size).view(np.float32)
    wanted = exact.logits([*prompt, *done.tokens])[len(prompt) - 1 : -1]
    assert np.linalg.norm(last - wanted[-1]) / np.linalg.norm(wanted[-1]) < 1e-2
    assert all(row[t] > row.max() - 0.06 for t, row in zip(done.tokens, wanted, strict=True))


@pytest.mark.gpu
@on_a_gpu
def test_the_devices_instants_are_aligned_with_those_of_the_host() -> None:
    with CudaEngine(tiny(), GpuMachine, CudaOptions(slots=64, seq_len_max=64)) as engine:
        engine.set_trace(on=True)
        engine.submit([1, 2, 3], max_tokens=8, seeds=range(16))
        ended(engine, 16)
        records, _, lost = engine.read_trace()
        error = engine.clock_error_ns
    assert lost == 0
    assert {one.pair.name for one in spans(records)} == {pair.name for pair in PAIRS}
    assert error is not None
    assert error < 100_000


@pytest.mark.gpu
@on_a_gpu
def test_a_rollouts_bits_do_not_depend_on_its_neighbours() -> None:
    options = CudaOptions(slots=64, seq_len_max=256)
    with CudaEngine(tiny(), GpuMachine, options) as engine:
        how = Sampling(temperature=1.0)
        engine.submit([5] * 150, max_tokens=60, seeds=[3], sampling=how, want_reward=False)
        (alone,) = ended(engine, 1)
        engine.submit([5] * 150, max_tokens=60, seeds=range(40), sampling=how, want_reward=False)
        together = ended(engine, 40)[3]
    assert (alone.tokens, alone.logps) == (together.tokens, together.logps)
