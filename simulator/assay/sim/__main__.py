"""`python -m assay.sim --seed N`: deterministic simulation testing; the seed is printed first.

A shell: it reads the arguments and prints. A run that breaks an invariant exits with 1 and names
the seed that replays it.
"""

import argparse
import sys

from assay.planner.dst import Broken, run_seed


def main() -> int:
    """Run one seed, or several from it on."""
    parser = argparse.ArgumentParser(prog="python -m assay.sim", description=__doc__)
    parser.add_argument("--seed", type=lambda text: int(text, 0), required=True)
    parser.add_argument("--runs", type=int, default=1, help="seeds N, N + 1, ...")
    args = parser.parse_args()
    for seed in range(args.seed, args.seed + args.runs):
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


if __name__ == "__main__":
    sys.exit(main())
