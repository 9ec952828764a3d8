"""Which small faults does the whole-platform simulation see alone, and which does the suite?

    python -m tests.mutation --results FILE            the simulation's seeds, all mutants
    python -m tests.mutation --by suite --results FILE the test files of the mutants' packages
    python -m tests.mutation --list verdicts           mutants of the verdict rules, by their tests
    python -m tests.mutation --list plans              mutants of the planner, by their tests
    python -m tests.mutation --list cluster        mutants of pods and relay, by their tests
    python -m tests.mutation --list services           mutants of services and client
    python -m tests.mutation --list rollouts           mechanisms of the rollout service, taken out
    python -m tests.mutation --list adapters           promises of the trainers' adapters, taken out
    python -m tests.mutation --table FILE...           the results as a table

A mutant lies in a copy of its package that is searched first, never in the tree (`overlay`).
Results are written to FILE, one JSON line each; a run that is started again continues there. Seeds
that caught other mutants run first. The exit code is 1 when fewer than `--share-min` are caught, or
when the unchanged tree violates an invariant.
"""

import argparse
import hashlib
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.mutation.adapters import ADAPTER_MUTANTS
from tests.mutation.cluster import CLUSTER_MUTANTS
from tests.mutation.mutants import MUTANTS, Mutant
from tests.mutation.overlay import ROOT, environment, overlaid
from tests.mutation.plans import PLAN_MUTANTS
from tests.mutation.rollouts import ROLLOUT_MUTANTS
from tests.mutation.services import SERVICE_MUTANTS
from tests.mutation.suite import tests_of
from tests.mutation.verdicts import VERDICT_MUTANTS, VerdictMutant

UNCHANGED: Final = "unchanged"
AnyMutant = Mutant | VerdictMutant
LISTS: Final[Mapping[str, Sequence[VerdictMutant]]] = {
    "verdicts": VERDICT_MUTANTS,
    "plans": PLAN_MUTANTS,
    "cluster": CLUSTER_MUTANTS,
    "services": SERVICE_MUTANTS,
    "rollouts": ROLLOUT_MUTANTS,
    "adapters": ADAPTER_MUTANTS,
}
"""Lists of mutants that name the tests which have to fail."""
CPU_S_MAX: Final = 1_800
"""CPU time of one process. A process that needs more has caught nothing."""
FAILED_TEST: Final = re.compile(r"(?:FAILED|ERROR) (\S+::\w+(?:\[.*?\](?= - |$))?)")
"""The test in pytest's summary line of a failure."""
TEST_S_MAX: Final = 90
"""A test that waits for longer has caught the mutant; the unchanged tree's tests take less."""


class UnsteadyTest(Exception):
    """A test fails on the unchanged tree, so its failure says nothing about a mutant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one mutant."""

    key: str
    """Hash of the change; `UNCHANGED` for the tree itself."""
    kind: str = ""
    file: str = ""
    change: str = ""
    caught: bool
    seed: int | None = None
    finding: str = ""
    cpu_s: float = 0.0


def key_of(mutant: AnyMutant) -> str:
    """Names the change in files of results, whatever its place in the list."""
    return hashlib.sha256("\0".join(mutant[:4]).encode()).hexdigest()[:12]


def read(path: Path | None) -> dict[str, Result]:
    """Results so far; of two for one mutant the later counts."""
    if path is None or not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {one.key: one for one in (Result(**json.loads(line)) for line in lines)}


def in_order(seeds: int, results: Sequence[Result]) -> list[int]:
    """The seeds 0 to `seeds - 1`: first those that caught most mutants so far."""
    caught = Counter(result.seed for result in results)
    return sorted(range(seeds), key=lambda seed: (-caught[seed], seed))


def run(command: Sequence[str], place: Path | None) -> subprocess.CompletedProcess[str]:
    """Run one process that sees the mutant."""
    return subprocess.run(
        command, env=environment(place), cwd=ROOT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX)),
    )  # fmt: skip


def simulated(seeds: Sequence[int], place: Path | None) -> tuple[bool, int | None, str]:
    """Run seeds; whether an invariant was violated, by which seed, and which invariant."""
    done = run([sys.executable, "-m", "tests.mutation.seeds", *map(str, seeds)], place)
    try:
        said = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = done.stderr.strip().rpartition("\n")[2]
        return done.returncode > 0, None, last or f"ended with {done.returncode}"
    return done.returncode != 0, said["seed"], said["finding"]


def tested(files: Sequence[str], place: Path | None) -> tuple[bool, int | None, str]:
    """Run test files up to the first failure; which test failed.

    Raises:
        UnsteadyTest: the test that failed also fails without the mutant.
    """
    failed, last = first_failure(files, place)
    if failed and place is not None and (test := FAILED_TEST.match(last)):
        fails_too, why = first_failure([test[1]], None)
        if fails_too:
            raise UnsteadyTest(f"{test[1]} fails without the mutant: {why}")
    return failed, None, last


def first_failure(tests: Sequence[str], place: Path | None) -> tuple[bool, str]:
    """Whether one of these tests fails, and pytest's line about it."""
    flags = ["-q", "-x", "-p", "no:cacheprovider", f"--timeout={TEST_S_MAX}"]
    done = run([sys.executable, "-m", "pytest", *flags, *tests], place)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    last = failed[0] if failed else done.stdout.strip().rpartition("\n")[2]
    return done.returncode != 0, last


def tried(
    mutant: AnyMutant | None, options: argparse.Namespace, so_far: Sequence[Result]
) -> Result:
    """Put the mutant beside the tree and run; `None` = the tree itself."""
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as empty:
        place = overlaid((mutant,), Path(empty)) if mutant is not None else None
        if options.list in LISTS or options.by == "suite":
            found = tested(files_of(mutant, options.list), place)
        else:
            found = simulated(in_order(options.seeds, so_far), place)
    after_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = round(after_s.ru_utime + after_s.ru_stime - before_s.ru_utime - before_s.ru_stime, 1)
    caught, seed, finding = found
    if mutant is None:
        return Result(key=UNCHANGED, caught=caught, seed=seed, finding=finding, cpu_s=cpu_s)
    change = f"{mutant.old.strip()} -> {mutant.new.strip()}".replace("\n", " ")
    return Result(
        key=key_of(mutant), kind=mutant.kind, file=mutant.file, change=change, caught=caught,
        seed=seed, finding=finding[:200], cpu_s=cpu_s,
    )  # fmt: skip


def files_of(mutant: AnyMutant | None, listed: str) -> Sequence[str]:
    """Test files that are to catch the mutant; `None` = those of all mutants."""
    if isinstance(mutant, VerdictMutant):
        return mutant.tests
    if listed in LISTS:
        return sorted({test for mutant in LISTS[listed] for test in mutant.tests})
    return tests_of(mutant.file if mutant else None)


def row(result: Result) -> str:
    """One line for a person."""
    where = "missed" if not result.caught else "caught" if result.seed is None else ""
    seed = where or f"seed {result.seed}"
    name, change, finding = Path(result.file).name, result.change[:70], result.finding[:60]
    return f"{result.kind:10} {seed:9} {name:18} {change:70} {finding}"


def run_all(options: argparse.Namespace) -> list[Result]:
    """All chosen mutants that have no result yet."""
    results = read(options.results)
    listed: Sequence[AnyMutant] = LISTS.get(options.list, MUTANTS)
    chosen = listed if options.only is None else [listed[n] for n in options.only]
    again = {k for k, one in results.items() if options.missed_again and not one.caught}
    todo: list[AnyMutant | None] = [
        m for m in chosen if key_of(m) in again or key_of(m) not in results
    ]
    if todo and UNCHANGED not in results and not options.only:
        todo.insert(0, None)
    for number, mutant in enumerate(todo, 1):
        result = tried(mutant, options, list(results.values()))
        results[result.key] = result
        if options.results is not None:
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
        if mutant is None and result.caught:
            sys.exit(f"the unchanged tree: seed {result.seed}: {result.finding}")
        if not options.json:
            print(f"{number:3}/{len(todo)} {row(result)}", flush=True)
    return [results[key_of(mutant)] for mutant in chosen]


def table(paths: Sequence[Path]) -> str:
    """Caught per kind, in Markdown: one column per file of results."""
    files = [read(path) for path in paths]
    heads = [path.stem for path in paths]
    lines = [f"| kind | mutants | {' | '.join(heads)} |", "|---" * (2 + len(paths)) + "|"]
    kinds = list(dict.fromkeys(mutant.kind for mutant in MUTANTS))
    for kind in [*kinds, "all"]:
        keys = [key_of(m) for m in MUTANTS if kind in {m.kind, "all"}]
        counts = [str(sum(f[k].caught for k in keys if k in f)) for f in files]
        lines.append(f"| {kind} | {len(keys)} | {' | '.join(counts)} |")
    for mutant in MUTANTS:
        if not any(f[key_of(mutant)].caught for f in files if key_of(mutant) in f):
            lines.append(f"missed by all: {mutant}")
    return "\n".join(lines)


def main() -> int:
    """Run and count."""
    parser = argparse.ArgumentParser(
        prog="tests.mutation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", choices=("platform", *LISTS), default="platform")
    parser.add_argument("--by", choices=["simulation", "suite"], default="simulation")
    parser.add_argument("--seeds", type=int, default=200, help="per mutant")
    parser.add_argument("--only", type=int, nargs="*", help="these mutants, by place in the list")
    parser.add_argument("--results", type=Path, help="file of results, to continue")
    parser.add_argument("--missed-again", action="store_true", help="run missed mutants again")
    parser.add_argument("--share-min", type=float, default=0.9)
    parser.add_argument("--table", type=Path, nargs="*", help="print files of results, run nothing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return 0
    results = run_all(options)
    share = sum(result.caught for result in results) / len(results)
    if options.json:
        print(json.dumps({"share": share, "mutants": [asdict(r) for r in results]}, indent=1))
    else:
        missed = [result.change for result in results if not result.caught]
        how = f"in {options.seeds} seeds" if options.by == "simulation" else "by tests"
        print(f"{len(results)} mutants, {share:.1%} caught {how}; missed: {len(missed)}")
        print(*missed, sep="\n")
    return 0 if share >= options.share_min else 1


if __name__ == "__main__":
    sys.exit(main())
