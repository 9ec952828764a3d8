"""Cost of a call between tests and program: CPU time of the box per call, by what crosses.

    python -m benchmarks.verdicts.calls [--rounds 5] [--json]
    python -m benchmarks.verdicts.calls --baseline /path/to/other/checkout

The tests' text repeats one step; its cost is the CPU time of the run (of the tests' and of the
program's process, as the sandbox counts it) less that of a run without steps. With `--baseline`
the verifiers of another checkout are measured too, in rounds that alternate, in processes of this
environment; the ratios are the medians of the rounds (minimum to maximum), above 1 where this
checkout costs more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import indent
from typing import Any

from assay.verifiers.local import LocalPipelines
from benchmarks.harness.report import Report, Spread

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("proto", "runtime", "services", "simulator")
"""Folders of a checkout from which `assay` is imported."""
RESPONSE = """```python
class Solution:
    def f(self, x):
        return sorted(x)

def g(x):
    return sorted(x)

class Stack:
    def __init__(self):
        self.items = []

    def push(self, x):
        self.items.append(x)
        return len(self.items)
```"""
SETTINGS: dict[str, Any] = {"cpu_s": 30.0, "blocked_s": 30.0, "reference_audit": "off"}
STEPS = {
    "function": (2_000, "", "assert g([3, i, 1]) == sorted([3, i, 1])"),
    "method": (1_000, "", "assert Solution().f([3, i, 1]) == sorted([3, i, 1])"),
    "object": (2_000, "s = Stack()", "assert s.push(i) == i + 1"),
    "list that both hold": (400, "s = Stack()\nkept = []", "s.push(i)\nkept.append(s.items)"),
    "100,000 integers": (4, "x = list(range(100_000))", "assert g(x) == x"),
}
"""What crosses -> number of steps, what comes before them, one step."""


def milliseconds() -> dict[str, float]:
    """CPU time of each step, in this process's checkout."""
    with (
        tempfile.TemporaryDirectory(prefix="assay-calls-") as scratch,
        LocalPipelines(scratch=Path(scratch)) as pipelines,
    ):

        def cpu_s(before: str, step: str, count: int) -> float:
            code = f"{before}\nfor i in range({count}):\n{indent(step, '    ')}"
            reference = {"asserts": {"code": [code]}}
            ended = pipelines.judge("code.python", RESPONSE, reference, **SETTINGS)
            if ended.reward != 1.0:
                raise SystemExit(f"{step}: {ended.evidence}")
            return ended.use.cpu_s

        return {
            name: (cpu_s(before, step, count) - cpu_s(before, step, 0)) / count * 1e3
            for name, (count, before, step) in STEPS.items()
        }


def measured(checkout: Path) -> dict[str, float]:
    """The same in a new process, with the verifiers of this checkout."""
    path = os.pathsep.join(str(checkout / part) for part in PARTS)
    command = (sys.executable, "-m", "benchmarks.verdicts.calls", "--measure")
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(milliseconds()))
        return
    baseline: Path | None = options.baseline and options.baseline.resolve()
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    for at in range(options.rounds):
        if baseline is None:
            rounds.append((measured(ROOT), {}))
        elif at % 2:
            other = measured(baseline)
            rounds.append((measured(ROOT), other))
        else:
            rounds.append((measured(ROOT), measured(baseline)))
    more = ("baseline", "this / baseline") if baseline else ()
    report = Report(title="CPU-milliseconds per step", columns=("step", "this", *more))
    for name in STEPS:
        row: dict[str, object] = {"this": Spread.of([this[name] for this, _ in rounds])}
        if baseline:
            row["baseline"] = Spread.of([other[name] for _, other in rounds])
            row["this / baseline"] = Spread.of([this[name] / other[name] for this, other in rounds])
        report.add(step=name, **row)
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
