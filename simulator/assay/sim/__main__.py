"""Command line of the simulator.

    python -m assay.sim --seed N             deterministic simulation testing; prints its seed first
    python -m assay.sim platform --seed N    the same for the whole platform, see `--help` there
    python -m assay.sim stress --seed N      tuned rivals on mixes of tasks, see `--help` there
    python -m assay.sim --replay FILE        replay an `assay history export` file with each policy

A seed that breaks an invariant exits with 1 and prints the command that replays it.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from assay.config.extras import needed

with needed("server,sim"):
    from assay.core.errors import InvalidRequest
    from assay.model.policy import Policy
    from assay.planner.core.policy import Assay
    from assay.sim.laboratory.__main__ import main as stress
    from assay.sim.platform.__main__ import main as platform
    from assay.sim.policies.autoscalers import Kpa
    from assay.sim.policies.distrs import Distrs, ZeroQueue
    from assay.sim.policies.large_pools import LARGE_POOLS
    from assay.sim.pools.cluster import Cluster, StartUp
    from assay.sim.pools.faults import Broken, run_seed
    from assay.sim.pools.replay import workload_of
    from assay.sim.pools.runner import Options, simulate


def policies(cap: int, stages: int) -> dict[str, Callable[[], Policy]]:
    """The policies that a replay compares."""
    return {
        "assay": lambda: Assay(LARGE_POOLS),
        "distrs": Distrs,
        "zero_queue": ZeroQueue,
        "kpa": lambda: Kpa((cap,) * stages),
    }


def read_traces(path: Path) -> list[dict[str, object]]:
    """One object per line.

    Raises:
        InvalidRequest: a line is not an object.
    """
    traces = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                trace = json.loads(line)
            except ValueError as error:
                raise InvalidRequest(f"line {number}: {error}", field="traces") from error
            if not isinstance(trace, dict):
                raise InvalidRequest(f"line {number}: not an object", field="traces")
            traces.append(trace)
    return traces


def replay(args: argparse.Namespace) -> int:
    """Replay the traces and print what each policy would have used."""
    try:
        workload = workload_of(read_traces(args.replay), past=args.past)
    except InvalidRequest as error:
        print(f"{error.field}: {error.message}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{args.replay}: {error.strerror}", file=sys.stderr)
        return 2
    cluster = Cluster(startup=(StartUp(median_s=args.startup_s),), caps=(args.cap,))
    batches = sum(len(task) for task in workload.batches)
    print(f"{len(workload.tasks)} tasks, {batches} batches, seed {args.seed or 0}")
    print(
        f"{'policy':12} {'slot-s':>10} {'busy':>10} {'cost':>10} {'mean d':>8} {'max d':>8} in time"
    )
    for name, make in policies(args.cap, len(workload.stages)).items():
        found = simulate(workload, cluster, make(), Options(seed=args.seed or 0))
        held = sum(use.held_s for use in found.stages)
        busy = sum(use.busy_s for use in found.stages)
        print(
            f"{name:12} {held:10.1f} {busy:10.1f} {found.cost:10.2f} {found.delay_mean_s:8.2f} "
            f"{found.delay_max_s:8.2f} {found.in_time_share:7.0%}"
        )
    return 0


def run_seeds(first: int, runs: int) -> int:
    """Run `runs` seeds, starting at `first`."""
    for seed in range(first, first + runs):
        print(f"seed {seed}", flush=True)
        try:
            report = run_seed(seed)
        except Broken as broken:
            print(f"broken: {broken}\nreplay: python -m assay.sim --seed {seed}")
            return 1
        faults = ", ".join(report.faults) or "none"
        print(
            f"  {report.requests} requests, {report.instants} instants, {report.strikes} strikes, "
            f"{report.outages} outages, {report.lost} lost; faults: {faults}; "
            f"digest {report.digest[:16]}",
            flush=True,
        )
    return 0


def main() -> int:
    """The command line."""
    if sys.argv[1:2] == ["platform"]:
        return platform(sys.argv[2:])
    if sys.argv[1:2] == ["stress"]:
        return stress(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m assay.sim", description=__doc__)
    parser.add_argument("--seed", type=lambda text: int(text, 0))
    parser.add_argument("--runs", type=int, default=1, help="seeds N, N + 1, ...")
    parser.add_argument("--replay", type=Path, help="traces, one batch per line")
    parser.add_argument("--past", type=int, default=1, help="batches per task known beforehand")
    parser.add_argument("--cap", type=int, default=64, help="most slots per stage")
    parser.add_argument("--startup-s", type=float, default=1.0, help="start-up time of a slot")
    args = parser.parse_args()
    if args.replay is not None:
        return replay(args)
    if args.seed is None:
        parser.error("--seed or --replay")
    return run_seeds(args.seed, args.runs)


if __name__ == "__main__":
    sys.exit(main())
