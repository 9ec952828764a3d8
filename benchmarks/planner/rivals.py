"""`assay` over the best rival of each mix: python -m benchmarks.planner.rivals

Every rival is tuned for every mix, over `--seeds` workloads; the mixes are the named ones below and
those drawn from seeds 1 to `--drawn`. Two processes; some 15 minutes on two quiet cores.
`benchmarks.planner.tables` puts the table into docs/planner.md.
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from assay.sim.laboratory.report import SUMMARY_HEAD, summary
from assay.sim.laboratory.trials.mixes import draw_mix, named_mixes
from assay.sim.laboratory.trials.stress import REFERENCES, RIVALS, run
from benchmarks.planner.common import OUT, arrivals

NAMED = (
    "six tenants",
    "one task",
    "four stages",
    "history 0.2x",
    "trickle",
    "dying slots",
    "start-up 30 s",
    "start-up 60 s",
    "start-up 90 s",
    "start-up 120 s",
)
POLICIES = ("assay", *RIVALS, *REFERENCES)
PROCESSES = 2


def row(name: str, seeds: Sequence[int]) -> str:
    """The line of a named mix, or of one drawn from a seed."""
    drawn = name.removeprefix("drawn ")
    mix = draw_mix(int(drawn)) if drawn != name else named_mixes()[name]
    return summary(list(run(mix, POLICIES, seeds, arrivals())))


def main() -> None:
    """Measure and store the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mix", action="append", choices=NAMED, help="only these")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--drawn", type=int, default=5)
    args = parser.parse_args()
    names = [*(args.mix or NAMED), *(f"drawn {seed}" for seed in range(1, args.drawn + 1))]
    seeds = range(1, args.seeds + 1)
    rows: dict[str, str] = {}
    with ProcessPoolExecutor(PROCESSES) as pool:
        pending = {pool.submit(row, name, seeds): name for name in names}
        for one in as_completed(pending):
            rows[pending[one]] = one.result()
            print(rows[pending[one]], flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    table = [SUMMARY_HEAD, *(rows[name] for name in names)]
    Path(OUT / "rivals.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
