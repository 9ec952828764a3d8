"""A second plan and `distrs` in two trees, in alternating runs: python -m benchmarks.planner.turns

With `--baseline BASE`, the root of a checkout of another commit.

Each round is one process per tree, which plans the same 2,048 requests of two stages; its figure is
the tenth percentile of CPU time. The ratio is the median of the rounds' ratios to BASE.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
SOURCES = ("proto", "runtime", "services", "simulator", "", "benchmarks", "benchmarks/planner")
CHILD = """
import json, sys, time
from functools import partial
try:
    from benchmarks.planner import speed
    settings = (speed.LARGE_POOLS,)
except (ImportError, AttributeError):  # the tree before the rebuild
    import speed
    settings = ()

def tenth_ms(call):
    call()
    took = []
    for _ in range(int(sys.argv[1])):
        begin = time.process_time()
        call()
        took.append(time.process_time() - begin)
    return 1000 * sorted(took)[len(took) // 10]

seen = speed.opening(2048, 2)
peaks = [stage.wanted for stage in speed.make_plan(seen, *settings).stages]
again = partial(speed.make_plan, seen, *settings, peaks_hint=peaks, search=False)
distrs = partial(speed.Distrs().decide, seen)
print(json.dumps({"second plan": tenth_ms(again), "distrs": tenth_ms(distrs)}))
"""
"""What runs in each tree."""


def measured(tree: Path, times: int) -> dict[str, float]:
    """CPU time in ms by what was planned."""
    path = os.pathsep.join(str(tree / source) for source in SOURCES)
    command = [sys.executable, "-c", CHILD, str(times)]
    done = subprocess.run(
        command,
        cwd=tree,
        env=dict(os.environ, PYTHONPATH=path),
        capture_output=True,
        check=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--baseline", type=Path, default=HERE, help="root of the other tree")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--times", type=int, default=300, help="per round")
    args = parser.parse_args()
    measured(HERE, 1), measured(args.baseline, 1)  # compile
    rounds = [
        (measured(args.baseline.resolve(), args.times), measured(HERE, args.times))
        for _ in range(args.rounds)
    ]
    for name in rounds[0][0]:
        ratios = sorted(now[name] / base[name] for base, now in rounds)
        base, now = (statistics.median(one[side][name] for one in rounds) for side in (0, 1))
        print(
            f"{name}: {base:.2f} ms in BASE, {now:.2f} ms here; ratio "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
