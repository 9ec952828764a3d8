"""Compares `assay` with tuned rivals on mixes of tasks, simulated.

python -m assay.sim.laboratory                          every named mix
python -m assay.sim.laboratory --mix "six tenants"      one of them
python -m assay.sim.laboratory --seed N --runs 5        five mixes drawn from seeds N, N + 1, ...
python -m assay.sim.laboratory --lone 10 --seeds 5      lone calls every 10 s beside small batches
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from assay.config.planning import PlanSettings
from assay.sim.files import read_arrivals
from assay.sim.laboratory.report import HEAD, LONE_HEAD, lone_row, ratio_line, table
from assay.sim.laboratory.trials.lone import run_lone
from assay.sim.laboratory.trials.mixes import Mix, draw_mix, named_mixes
from assay.sim.laboratory.trials.stress import REFERENCES, RIVALS, StressScore, ratios, run
from assay.sim.policies.large_pools import LARGE_POOLS

RUNS_MAX = 1_000
SEEDS_MAX = 100
LONE_S_MIN = 0.5


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m assay.sim.laboratory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--mix", action="append", choices=sorted(named_mixes()), help="a named mix")
    made.add_argument("--seed", type=int, help="draw mixes from this seed on")
    made.add_argument("--runs", type=int, default=1, help="drawn mixes")
    made.add_argument(
        "--lone", action="append", type=float, metavar="S",
        help="instead of mixes: lone calls of a pipeline so many seconds apart, on small pools",
    )  # fmt: skip
    made.add_argument("--seeds", type=int, default=1, help="workloads per mix")
    made.add_argument("--policies", default=",".join(("assay", *RIVALS, *REFERENCES)))
    made.add_argument("--arrivals", type=Path, help="real arrival curves; else fitted quantiles")
    made.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the planner"
    )
    made.add_argument("--json", type=Path, help="write every setting's figures here")
    made.add_argument("--plot", type=Path, help="write cost against p95 d per mix, as PNG")
    return made


def mixes_of(args: argparse.Namespace) -> list[Mix]:
    """The chosen mixes."""
    if args.seed is not None:
        return [draw_mix(args.seed + k) for k in range(args.runs)]
    named = named_mixes()
    return [named[name] for name in args.mix or named]


def plan_settings(given: Sequence[str], settings: PlanSettings = LARGE_POOLS) -> PlanSettings:
    """The comparisons' settings with some of them changed; values are JSON.

    Raises:
        ValueError: an unknown name, or a value of another type.
    """
    changed = settings.model_dump()
    for one in given:
        name, _, value = one.partition("=")
        if name not in changed:
            raise ValueError(f"the planner has no setting {name!r}")
        changed[name] = json.loads(value)
    return PlanSettings.model_validate(changed)


def write(everything: Sequence[Sequence[StressScore]], path: Path) -> None:
    """Every setting's figures, and the ratios."""
    rows = [asdict(one) for scores in everything for one in scores]
    lines = {scores[0].mix: dict(ratios(scores)) for scores in everything}
    path.write_text(json.dumps({"scores": rows, "ratios": lines}, indent=1) + "\n", "utf-8")


def main(argv: Sequence[str]) -> int:
    """The command line."""
    made = parser()
    args = made.parse_args(argv)
    known = ("assay", *RIVALS, *REFERENCES)
    policies = tuple(args.policies.split(","))
    if not set(policies) <= set(known):
        made.error(f"--policies: choose from {', '.join(known)}")
    if not (1 <= args.runs <= RUNS_MAX and 1 <= args.seeds <= SEEDS_MAX):
        made.error(f"--runs of 1 to {RUNS_MAX}, --seeds of 1 to {SEEDS_MAX}")
    try:
        plans = plan_settings(args.set, PlanSettings() if args.lone else LARGE_POOLS)
    except ValueError as error:
        made.error(f"--set: {error}")
    if args.lone:
        if min(args.lone) < LONE_S_MIN:
            made.error(f"--lone of at least {LONE_S_MIN:g} s")
        print(LONE_HEAD, flush=True)
        for one in run_lone(args.lone, range(1, args.seeds + 1), plans):
            print(lone_row(one), flush=True)
        return 0
    sources = read_arrivals(args.arrivals) if args.arrivals else ()
    everything: list[list[StressScore]] = []
    print(HEAD, flush=True)
    for mix in mixes_of(args):
        scores = list(run(mix, policies, range(1, args.seeds + 1), sources, plans))
        everything.append(scores)
        for line in table(scores):
            print(line, flush=True)
    print()
    for scores in everything:
        print(ratio_line(scores), flush=True)
    if args.json:
        write(everything, args.json)
    if args.plot:
        from assay.sim.plots import plot_tradeoffs

        points = {s[0].mix: [(o.policy, o.delay_p95_s, o.cost) for o in s] for s in everything}
        plot_tradeoffs(points, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
