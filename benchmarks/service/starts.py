"""From the start of `assay score` to its first reward, and the CPU time of all that it starts.

    python -m benchmarks.service.starts [--rounds 5] [--pipelines math exact] [--json] [--plot]
    git worktree add /path/to/base COMMIT     # with an environment of its own in .venv
    python -m benchmarks.service.starts --baseline /path/to/base

Each run is a platform of its own on a fresh data directory, with twelve rows of one pipeline. The
first run of a checkout is not counted: it compiles and computes what later ones find. With `--cold`
every run has an empty cache. With `--baseline` the checkouts take turns, and figures of the second
one are next to their ratio (this tree over the baseline, median of the rounds' ratios).
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.worker.forking.processes import adopt_orphans
from benchmarks.harness.platform_run import FREE_PORTS
from benchmarks.harness.report import OUT, Report, Spread, bar_plot

ROOT: Final = Path(__file__).resolve().parents[2]
ROWS: Final = 12
RUN_S_MAX: Final = 120.0
POLL_S: Final = 0.005
CASES: Final = {
    "noop": ("x", {}),
    "exact": ("The answer is Paris.", {"answers": ["Paris"]}),
    "math": ("So it is \\boxed{\\frac{1}{2}}.", {"answers": ["0.5"]}),
    "code.python": (
        "```python\nprint(input())\n```",
        {"tests": [{"stdin": "1\n", "stdout": "1\n"}]},
    ),
}
"""Pipeline -> a response and its reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one command took."""

    first_s: float
    """Until its output had the first reward."""
    end_s: float
    cpu_s: float
    """Of all its processes."""


def run(checkout: Path, pipeline: str, cache: Path) -> Run:
    """Score `ROWS` rows with the command of a checkout.

    Raises:
        RuntimeError: it did not give every row a reward.
    """
    response, reference = CASES[pipeline]
    row = {"response": response, "reference": reference}
    with tempfile.TemporaryDirectory(prefix="assay-starts-") as folder:
        rows, rewards = Path(folder, "rows.jsonl"), Path(folder, "rewards.jsonl")
        rows.write_text(
            "".join(json.dumps({**row, "request_id": f"r{i}"}) + "\n" for i in range(ROWS))
        )
        command = [
            *(str(checkout / ".venv/bin/assay"), "score", str(rows), "--pipeline", pipeline),
            *("--out", str(rewards), "--data-dir", str(Path(folder, "data"))),
        ]
        environment = {**os.environ, **FREE_PORTS, "XDG_CACHE_HOME": str(cache)}
        before = _cpu_s()
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        first_s = _first_reward_s(process, rewards, began)
        process.wait(RUN_S_MAX)
        end_s = time.perf_counter() - began
        _reap_all()
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
        return Run(first_s=first_s, end_s=end_s, cpu_s=_cpu_s() - before)


def _first_reward_s(process: subprocess.Popen[bytes], rewards: Path, began: float) -> float:
    while process.poll() is None and time.perf_counter() - began < RUN_S_MAX:
        if rewards.exists() and b"\n" in rewards.read_bytes():
            break
        time.sleep(POLL_S)
    return time.perf_counter() - began


def _reap_all() -> None:
    """Wait for the processes that the command left: their CPU time counts once they are reaped."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(
    checkouts: Sequence[Path], pipeline: str, rounds: int, *, cold: bool
) -> dict[Path, list[Run]]:
    """The runs of each checkout, in turn."""
    runs: dict[Path, list[Run]] = {checkout: [] for checkout in checkouts}
    with tempfile.TemporaryDirectory(prefix="assay-starts-cache-") as caches:
        for number in range(rounds + (not cold)):
            for index, checkout in enumerate(checkouts[:: 1 if number % 2 else -1]):
                name = f"{number}-{index}" if cold else checkout.name
                runs[checkout].append(run(checkout, pipeline, Path(caches, name)))
    return {checkout: found[not cold :] for checkout, found in runs.items()}


def main(
    pipelines: Sequence[str],
    rounds: int,
    baseline: Path | None,
    *,
    cold: bool,
    as_json: bool,
    plot: bool,
) -> None:
    """Measure and print."""
    adopt_orphans()
    checkouts = [ROOT, *([baseline] if baseline else [])]
    report = Report(
        title="Start of assay score" + (", with an empty cache" if cold else ""),
        columns=("pipeline", "figure", "here", "baseline", "ratio"),
    )
    bars: dict[str, float | Spread] = {}
    for pipeline in pipelines:
        runs = measured(checkouts, pipeline, rounds, cold=cold)
        for figure, title in (
            ("first_s", "first reward, s"),
            ("end_s", "end, s"),
            ("cpu_s", "CPU time, s"),
        ):
            here = [getattr(one, figure) for one in runs[ROOT]]
            row: dict[str, object] = {"here": Spread.of(here)}
            if baseline is not None:
                there = [getattr(one, figure) for one in runs[baseline]]
                row["baseline"] = Spread.of(there)
                row["ratio"] = Spread.of([a / b for a, b in zip(here, there, strict=True)])
            report.add(pipeline=pipeline, figure=title, **row)
            if figure == "first_s":
                bars[pipeline] = Spread.of(here)
    report.show(as_json=as_json)
    if plot:
        print(bar_plot(OUT / "starts.png", "Start of assay score", "first reward, s", bars))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pipelines", nargs="+", choices=sorted(CASES), default=["math", "exact"])
    parser.add_argument("--baseline", type=Path, help="another checkout, with its own .venv")
    parser.add_argument("--cold", action="store_true", help="an empty cache for every run")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", action="store_true", help="write a PNG of the first rewards")
    chosen = parser.parse_args()
    main(
        chosen.pipelines,
        chosen.rounds,
        chosen.baseline and chosen.baseline.resolve(),
        cold=chosen.cold,
        as_json=chosen.json,
        plot=chosen.plot,
    )
