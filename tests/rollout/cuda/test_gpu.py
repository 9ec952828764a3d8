"""The kernel on a GPU (`pytest -m gpu`), and its bench on the host build."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.rollout.cuda.building import NEEDS_A_GPU, WHY, bits, ended, host_engine, tiny
from tests.rollout.cuda.test_adapters import adapter_of
from tests.rollout.cuda.test_host_build import WORDS, first_stop
from tests.rollout.engine.adapting import lora, merge
from tests.rollout.engine.exact import Exact, ids_for, random_model, round_to_bf16
from typer.testing import CliRunner

from assay.rollout import InvalidRollout, Sampling, Stop
from assay.rollout.bench.app import bench_app
from assay.rollout.bench.engine.gpu import (
    GpuWork,
    add_adapter,
    add_adapter_changes,
    add_barrier,
    load,
    measure,
    measure_trace,
)
from assay.rollout.bench.engine.gpu_control import (
    PipelineWork,
    add_launched,
    measure_cow,
    measure_pipeline,
    measure_tax,
    run_pipeline,
)
from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.cuda.engine import CudaEngine
from assay.rollout.cuda.gpu import GpuMachine, describe
from assay.rollout.cuda.link import HoldMode
from assay.rollout.cuda.options import CudaOptions
from assay.rollout.cuda.sizes import EMULATED, Tuning
from assay.rollout.local.trace import PAIRS, spans

if TYPE_CHECKING:
    from pathlib import Path

    from assay.rollout import RolloutRef


@pytest.mark.parametrize(
    "command",
    [
        "gpu",
        "gpu --part ring --part torch",
        *(f"{name} --engine cuda" for name in ("trace", "pipeline", "cow", "tax")),
    ],
)
def test_without_a_gpu_the_bench_ends_with_one_line_that_says_what_is_missing(
    command: str,
) -> None:
    if WHY is None:
        pytest.skip("this machine has a GPU")
    done = CliRunner().invoke(bench_app, command.split())
    assert done.exit_code == 1
    assert done.output.strip() == f"assay bench {command}: {WHY}"


def test_the_bench_measures_what_it_names() -> None:
    work = GpuWork(batches=(1, 4), tokens=16, prompt=3, echoes=20, group=4, prefix=20, groups=1)
    report = Report("x", "x", this_machine())
    with host_engine(tiny()) as engine:
        measure(report, engine, tiny(1), work, repeats=2, bandwidth=1e9)
        add_barrier(report, engine, work, repeats=2)
        assert engine.stats().in_flight == 0
    values = {figure.name: figure for figure in report.figures}
    assert values["host -> kernel -> host, p50"].median > 0
    assert values["decode B=4"].median > 0
    assert values["kernel launches in the engine's life"].median == 1
    assert len(values["1 of K=4 prefix=20: shared / alone"].samples) == 2
    # 20 + 16 - 1 positions in blocks of 8 are 5, the first 2 of them shared.
    assert values["1 of K=4 prefix=20: KV, shared"].samples == (14, 14)
    assert values["1 of K=4 prefix=20: KV, each alone"].samples == (20, 20)
    barriers = values["barriers a step B=4"]
    assert set(barriers.samples) == {4}  # a step of few rows flows
    assert values["host CPU per token B=4"].median > 0
    assert values["one barrier, at most"].median > 0
    assert values["change of weights: held"].median > 0


def test_the_bench_measures_what_an_adapter_costs() -> None:
    work = GpuWork(batches=(2,), tokens=16, prompt=3)
    report = Report("x", "x", this_machine())
    with host_engine(tiny(), tuning=replace(EMULATED, adapter_rank=8)) as engine:
        add_adapter(report, engine, work, repeats=2)
        assert engine.stats().policy_version == 1
    values = {figure.name: figure for figure in report.figures}
    assert len(values["step B=2, rank 8 / none"].samples) == 2
    assert len(values["change of adapter: held"].samples) == 3


def test_the_bench_measures_decoding_while_adapters_change() -> None:
    work = GpuWork(batches=(2,), tokens=16, prompt=3)
    report = Report("x", "x", this_machine())
    with host_engine(tiny(), tuning=replace(EMULATED, adapter_rank=8)) as engine:
        add_adapter_changes(report, engine, work, repeats=2, first=1)
        assert engine.stats().policy_version >= 2
    values = {figure.name: figure for figure in report.figures}
    assert len(values["decode B=2 meanwhile / undisturbed"].samples) == 2
    assert min(values["adapters pushed and activated beside decoding"].samples) > 0


def test_the_bench_of_the_trace_shows_all_eight_pairs(tmp_path: Path) -> None:
    work = GpuWork(tokens=4, prompt=3, group=4)
    with host_engine(tiny()) as engine:
        perfetto = tmp_path / "trace.json"
        report = measure_trace(engine, work, repeats=2, perfetto=perfetto, command="x")
    assert "host build" in report.title
    samples = {figure.name: figure.samples for figure in report.figures}
    assert all(len(samples[f"{pair.name} p50"]) == 2 for pair in PAIRS)
    assert len(json.loads(perfetto.read_text())["traceEvents"]) > 8 * 4


def report() -> Report:
    return Report("x", "x", this_machine())


def test_the_bench_of_the_pipeline_counts_rollouts_with_their_own_rewards() -> None:
    work, found = PipelineWork(rollouts=20, group=4, prompt=3, tokens=3), report()
    with host_engine(tiny()) as engine:  # eight slots
        measure_pipeline(found, engine, work, repeats=2, echoes=10)
        stats = engine.stats()
    assert (stats.completed, stats.in_flight) == (2 * 20, 0)
    values = {figure.name: figure for figure in found.figures}
    assert len(values["pipeline, CUDA"].samples) == 2
    ratio = values["pipeline, CUDA: tokens"].median / values["pipeline, CUDA"].median
    assert ratio == pytest.approx(3)
    assert values["pipeline, CUDA: host CPU"].median > 0
    assert values["host -> kernel -> host, p50"].median > 0


def test_the_bench_of_the_pipeline_does_not_count_a_wrong_reward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = PipelineWork(rollouts=2, group=2, prompt=3, tokens=2)
    with host_engine(tiny()) as engine:
        score = engine.score
        monkeypatch.setattr(engine, "score", lambda ref, reward: score(ref, reward + 1.0))
        with pytest.raises(RuntimeError, match="another's reward"):
            run_pipeline(engine, work)


def test_the_bench_of_branches_measures_what_is_shared() -> None:
    found = report()
    with host_engine(tiny()) as engine:  # blocks of 8
        measure_cow(found, engine, [2, 4], [20, 33], 2)
    values = {figure.name: figure for figure in found.figures}
    # 20 + 16 - 1 positions in blocks of 8 are 5, the first 2 of them shared; of 33, 4 of 6.
    assert values["K=4 prefix=20: memory saved"].samples == (30.0, 30.0)
    assert values["K=2 prefix=33: memory saved"].median == pytest.approx(100 / 3)
    assert all(f.samples == (100, 100) for f in found.figures if f.unit == "% of bound")
    assert values["K=2 prefix=20: all of it"].median > 0


def test_the_table_of_handing_over_has_the_persistent_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, work = report(), GpuWork(tokens=16, prompt=3)
    with host_engine(tiny()) as engine:
        measure_tax(found, engine, work, repeats=2)
    values = {figure.name: figure for figure in found.figures}
    assert len(values["persistent kernel"].samples) == 2
    assert values["persistent kernel, host CPU"].median > 0
    assert values["persistent kernel, launches"].median == pytest.approx(1 / 36, rel=0.4)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    add_launched(found, tiny().config, work, 2)
    assert set(found.left_out) == {"launch per step", "graph per step"}


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
        assert load(engine, [[1, 2, 3], [4, 5]], 1, 8).blocks == 2 + 2
    assert held == [HoldMode.IN_PLACE, HoldMode.IN_PLACE]


@pytest.mark.gpu
@NEEDS_A_GPU
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
@NEEDS_A_GPU
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_an_adapters_logits_are_those_of_the_merged_model(name: str) -> None:
    model = random_model(name)
    parts, prompt = lora(model, 1, (8, 3, 17, 20)), ids_for(model, 21)
    options = CudaOptions(slots=64, seq_len_max=64, tuning=Tuning(adapter_rank=20))
    with CudaEngine(model, GpuMachine, options) as engine:
        machine = engine.machine
        assert isinstance(machine, GpuMachine)
        engine.stage_adapter(1, adapter_of(parts))
        engine.activate(1)
        for k in (1, 40):  # alone, and in more visits than one
            greedy = Sampling(temperature=0.0)
            engine.submit(prompt, max_tokens=4, seeds=range(k), sampling=greedy, want_reward=False)
            done = ended(engine, k)[0]
            at = engine._params.scratch + engine.sizes.scratch["LOGITS"]
            last = machine.read(at, 4 * model.config.vocab_size).view(np.float32)
            exact = Exact(merge(round_to_bf16(model), parts))
            wanted = exact.logits([*prompt, *done.tokens])[-2]
            assert np.linalg.norm(last - wanted) / np.linalg.norm(wanted) < 1e-2


@pytest.mark.gpu
@NEEDS_A_GPU
def test_a_stop_string_ends_a_rollout_on_the_device() -> None:
    options = CudaOptions(slots=64, seq_len_max=64)
    with CudaEngine(tiny(), GpuMachine, options, token_bytes=WORDS) as engine:
        one: dict[str, Any] = {"max_tokens": 40, "want_reward": False, "seeds": [3]}
        engine.submit([1], **one)
        (plain,) = ended(engine, 1)
        stop = b"".join(WORDS[token] for token in plain.tokens)[9:15]
        engine.submit([1], stop_strings=[stop], **one)
        (stopped,) = ended(engine, 1)
    assert stopped.tokens == plain.tokens[: first_stop(list(plain.tokens), [stop])]
    assert stopped.stop is Stop.STRING


@pytest.mark.gpu
@NEEDS_A_GPU
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
@NEEDS_A_GPU
def test_a_rollouts_bits_do_not_depend_on_its_neighbours() -> None:
    options = CudaOptions(slots=64, seq_len_max=256)
    with CudaEngine(tiny(), GpuMachine, options) as engine:
        how = Sampling(temperature=1.0)
        engine.submit([5] * 150, max_tokens=60, seeds=[3], sampling=how, want_reward=False)
        (alone,) = ended(engine, 1)
        engine.submit([5] * 150, max_tokens=60, seeds=range(40), sampling=how, want_reward=False)
        together = ended(engine, 40)[3]
    assert (alone.tokens, alone.logps) == (together.tokens, together.logps)


@pytest.mark.gpu
@NEEDS_A_GPU
def test_an_engine_in_a_green_context_makes_the_same_tokens_and_leaves_the_rest() -> None:
    """One block for each multiprocessor that was granted; and as often as it is made again."""
    options, how = CudaOptions(slots=64, seq_len_max=128), Sampling(temperature=1.0)

    def tokens(engine: CudaEngine) -> list[tuple[bytes, bytes]]:
        engine.submit([5] * 40, max_tokens=40, seeds=range(20), sampling=how, want_reward=False)
        return bits(ended(engine, 20))

    with CudaEngine(tiny(), GpuMachine, options) as engine:
        wanted = tokens(engine)
    whole = describe().multiprocessors
    for asked in (20, whole // 2):
        machine = functools.partial(GpuMachine, green_sms=asked)
        with CudaEngine(tiny(), machine, options) as engine:
            assert tokens(engine) == wanted
            gpu = engine.machine
            assert isinstance(gpu, GpuMachine)
            assert gpu.green is not None
            assert asked <= gpu.blocks == gpu.green.multiprocessors < asked + 16
            assert gpu.blocks + gpu.green.rest == whole
    for asked in (whole, 10_000):
        with pytest.raises(InvalidRollout, match="green_sms"):
            CudaEngine(tiny(), functools.partial(GpuMachine, green_sms=asked), options)


RUNNING = """
from tests.rollout.cuda.building import tiny
from assay.rollout.cuda.engine import CudaEngine
from assay.rollout.cuda.gpu import GpuMachine
from assay.rollout.cuda.options import CudaOptions

class Astray(GpuMachine):
    def start(self, params):
        params.values = 16
        super().start(params)

engine = CudaEngine(tiny(), {machine}, CudaOptions(slots=64, seq_len_max=256))
engine.submit([1, 2, 3], max_tokens=200, seeds=range(8), user_ids=range(8), want_reward=False)
{rest}
"""
KILLED = RUNNING.format(
    machine="GpuMachine",
    rest="import os, signal\nengine.wait(5.0)\nos.kill(os.getpid(), signal.SIGKILL)",
)
ASTRAY = RUNNING.format(
    machine="Astray",
    rest="""
from assay.rollout.errors.cuda import KernelFailed
try:
    for _ in range(100):
        engine.wait(0.1)
        engine.poll()
except KernelFailed as lost:
    print(sorted(lost.rollouts), lost)
""",
)


@pytest.mark.gpu
@NEEDS_A_GPU
@pytest.mark.parametrize(("program", "said"), [(KILLED, ""), (ASTRAY, "[0, 1, 2, 3, 4, 5, 6, 7]")])
def test_the_device_is_free_again_after_a_process_that_lost_its_kernel(
    program: str, said: str
) -> None:
    """Killed with the kernel running; or the kernel used an invalid address, which the engine
    says, with the rollouts that are lost."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert said in done.stdout, done.stderr
    assert done.returncode == (0 if said else -signal.SIGKILL), done.stderr
    with CudaEngine(tiny(), GpuMachine, CudaOptions(slots=64, seq_len_max=64)) as engine:
        engine.submit([1, 2], max_tokens=4, seeds=[1], want_reward=False)
        assert len(ended(engine, 1)[0].tokens) == 4


@pytest.mark.gpu
@NEEDS_A_GPU
def test_greedy_tokens_agree_with_float64_over_a_thousand() -> None:
    """A token counts as agreeing where it is the largest, or as good in bf16."""
    model = random_model("qwen3")
    exact = Exact(round_to_bf16(model))
    with CudaEngine(model, GpuMachine, CudaOptions(slots=64, seq_len_max=128)) as engine:
        prompts = [ids_for(model, 5 + i) for i in range(32)]
        for i, prompt in enumerate(prompts):
            how = Sampling(temperature=0.0)
            engine.submit(
                prompt, max_tokens=32, seeds=[1], sampling=how, user_ids=[i], want_reward=False
            )
        came = ended(engine, 32)
    agreed = good = 0
    for prompt, done in zip(prompts, came, strict=True):
        logits = exact.logits([*prompt, *done.tokens])[len(prompt) - 1 : -1]
        agreed += sum(row.argmax() == t for t, row in zip(done.tokens, logits, strict=True))
        good += sum(row[t] > row.max() - 0.06 for t, row in zip(done.tokens, logits, strict=True))
    print(f"of 1,024 greedy tokens {agreed} are float64's and {good} as good in bf16")
    assert good >= 0.99 * 1024
