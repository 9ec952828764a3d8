"""`python -m tests.mutation`: which small faults does the whole-platform simulation alone see?

Each mutant is put into a copy of the source tree, never into the tree itself; then seeds are run
until one breaks a promise, or `--seeds` have passed. The exit code is 1 when fewer than
`--share-min` of the mutants are caught, or when the unchanged copy breaks a promise.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.mutation.mutants import MUTANTS, Mutant

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("services", "simulator", "proto", "runtime")
SEED_LINE: Final = re.compile(r"^seed (\d+): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one mutant."""

    number: int
    kind: str
    file: str
    change: str
    caught: bool
    seed: int | None
    finding: str


def copied(into: Path) -> Path:
    """A copy of what the simulation imports."""
    for source in SOURCES:
        shutil.copytree(ROOT / source, into / source, symlinks=True)
    return into


def simulate(tree: Path, seeds: int, timeout_s: float) -> tuple[bool, int | None, str]:
    """Run seeds in the copy; whether a promise was broken, by which seed, and which.

    A run that is not over in time has seen nothing; one that cannot start has.
    """
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(str(tree / s) for s in SOURCES))
    command = [sys.executable, "-m", "assay.sim.platform", "--runs", str(seeds), "--no-shrink"]
    try:
        done = subprocess.run(
            command, env=environment, cwd=tree, capture_output=True, text=True, timeout=timeout_s,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, None, f"no end within {timeout_s:g} s"
    found = SEED_LINE.search(done.stdout)
    if found:
        return True, int(found[1]), found[2][:100]
    last = done.stderr.strip().rpartition("\n")[2][:100]
    return done.returncode != 0, None, last


def tried(number: int, mutant: Mutant, tree: Path, options: argparse.Namespace) -> Result:
    """Put the mutant in, simulate, take it out."""
    file = tree / mutant.file
    before, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        caught, seed, finding = simulate(tree, options.seeds, options.timeout_s)
    finally:
        file.write_text(before, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    change = f"{mutant.old.strip()} -> {mutant.new.strip()}".replace("\n", " ")
    return Result(
        number=number, kind=mutant.kind, file=mutant.file, change=change[:160], caught=caught,
        seed=seed, finding=finding,
    )  # fmt: skip


def row(result: Result) -> str:
    """For a person."""
    where = f"seed {result.seed}" if result.caught else "missed"
    place = f"{result.number:3} {result.kind:10} {where:9} {Path(result.file).name:18}"
    return f"{place} {result.change[:70]:70} {result.finding[:60]}"


def run(options: argparse.Namespace) -> Sequence[Result]:
    """All mutants, `jobs` at a time, each job in a copy of its own."""
    chosen = [(n, m) for n, m in enumerate(MUTANTS) if options.only in {None, n}]
    with tempfile.TemporaryDirectory() as place:
        trees = [copied(Path(place, str(job))) for job in range(options.jobs)]
        broken, seed, finding = simulate(trees[0], 8, options.timeout_s * 5)
        if broken:
            sys.exit(f"the unchanged tree breaks a promise: seed {seed}: {finding}")

        def job(at: int) -> list[Result]:
            results = []
            for number, mutant in chosen[at :: options.jobs]:
                results.append(tried(number, mutant, trees[at], options))
                if not options.json:
                    print(row(results[-1]), flush=True)
            return results

        with ThreadPoolExecutor(options.jobs) as pool:
            found = [result for some in pool.map(job, range(options.jobs)) for result in some]
    return sorted(found, key=lambda result: result.number)


def main() -> int:
    """Run and count."""
    parser = argparse.ArgumentParser(prog="tests.mutation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="per mutant")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, help="this mutant")
    parser.add_argument("--timeout-s", type=float, default=300.0, help="per mutant")
    parser.add_argument("--share-min", type=float, default=0.9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = run(options)
    share = sum(result.caught for result in results) / len(results)
    if options.json:
        print(json.dumps({"share": share, "mutants": [asdict(r) for r in results]}, indent=1))
    else:
        missed = [result.number for result in results if not result.caught]
        print(
            f"{len(results)} mutants, {share:.1%} caught in {options.seeds} seeds, missed {missed}"
        )
    return 0 if share >= options.share_min else 1


if __name__ == "__main__":
    sys.exit(main())
