"""Command line of the whole-platform simulation (also `python -m assay.sim platform`).

    python -m assay.sim.platform --seed N               one seed; prints it first
    python -m assay.sim.platform --seed N --runs 1000   1000 seeds from N on
    python -m assay.sim.platform --seed N --hash        with a hash of all events
    python -m assay.sim.platform --seed N --faults 2,5  with these of its faults only

A seed that violates an invariant prints its number, the faults needed for it, the hash of that run,
and the command that repeats it; the exit code is then 1. Ctrl-C prints the figures of the seeds
that were run, and where to go on.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from assay.config.extras import needed

with needed("server"):
    from assay.edge.clock import Clock
    from assay.sim.platform.faults import Fault
    from assay.sim.platform.run import RunReport, run_seed, seed_faults, shrunk


@dataclass(slots=True)
class Totals:
    """What has been run."""

    done: int = 0
    found: int = 0
    virtual_s: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="assay.sim.platform", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1, help="number of seeds, starting at --seed")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this long")
    parser.add_argument("--keep-going", action="store_true", help="continue after a finding")
    parser.add_argument("--no-shrink", action="store_true", help="print all faults of a finding")
    parser.add_argument("--hash", action="store_true", help="print the hash of each run")
    parser.add_argument("--faults", help="only these of the seed's faults, by number; - = none")
    parser.add_argument("--json", action="store_true", help="one line of figures per run of this")
    args = parser.parse_args(arguments)
    totals = Totals()
    try:
        run_seeds(args, totals)
    except KeyboardInterrupt:
        print(f"interrupted; go on with --seed {args.seed + totals.done}", flush=True)
    figures(totals, time.process_time(), as_json=args.json)
    return 1 if totals.found else 0


def run_seeds(args: argparse.Namespace, totals: Totals) -> None:
    """Run the seeds and count them."""
    clock = Clock()
    began_s = clock.monotonic_ns() / 1e9
    for seed in range(args.seed, args.seed + args.runs):
        if args.runs == 1:
            print(f"seed {seed}", flush=True)
        report = run_seed(seed, chosen(seed, args.faults), hashed=args.hash)
        totals.virtual_s += report.virtual_s
        if args.hash:
            print(f"seed {seed} {report.digest}")
        if report.finding:
            totals.found += 1
            show(report if args.no_shrink else shrunk(report))
        totals.done += 1
        if report.finding and not args.keep_going:
            break
        if args.seconds and clock.monotonic_ns() / 1e9 - began_s > args.seconds:
            break


def chosen(seed: int, numbers: str | None) -> Sequence[Fault] | None:
    """Some of a seed's own faults; `None` = all."""
    if numbers is None:
        return None
    own = seed_faults(seed)
    return [own[int(number)] for number in numbers.split(",")] if numbers != "-" else []


def show(report: RunReport) -> None:
    """Print a finding."""
    print(f"seed {report.seed}: {report.finding}")
    own = list(seed_faults(report.seed))
    numbers = [own.index(fault) for fault in report.faults]
    for number, fault in zip(numbers, report.faults, strict=True):
        print(f"    {number:2} {fault}")
    if report.digest:
        print(f"    hash {report.digest}")
    kept = ",".join(map(str, numbers)) or "-"
    print(
        f"    replay: python -m assay.sim.platform --seed {report.seed} --faults {kept}", flush=True
    )


def figures(totals: Totals, cpu_s: float, *, as_json: bool) -> None:
    """Totals of the runs, by CPU time: a run uses one core and never waits."""
    facts = {
        "seeds": totals.done,
        "findings": totals.found,
        "cpu_seconds": round(cpu_s, 2),
        "seeds_per_core_hour": round(totals.done / cpu_s * 3600),
        "simulated_seconds_per_second": round(totals.virtual_s / cpu_s, 1),
    }
    print(json.dumps(facts) if as_json else "  ".join(f"{k} {v}" for k, v in facts.items()))


if __name__ == "__main__":
    sys.exit(main())
