"""Writes tests/slow_tests.txt, so that the tests left in the fast lane take a given time.

    ./run test --all --junitxml=build/tests.xml
    python scripts/choose_slow_tests.py build/tests.xml --fast-s 90

Test functions are taken out of the fast lane from the slowest on, until the measured time of the
rest is below the budget: the fast lane keeps as many tests as it can. Measure on a quiet machine.
What the rest of each folder takes is written down too: the parts of a run are dealt out by it.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "tests" / "slow_tests.txt"
HEAD = """# Tests that are not in the fast lane; scripts/choose_slow_tests.py writes this list from
# measured durations (the seconds of all cases of a function stand behind it). What is left in a
# folder:
"""


def durations(report: Path) -> dict[str, float]:
    """Return test function -> seconds, of a JUnit report, all parameters together.

    A test that ran again after a failure counts once: its slower run.
    """
    cases: dict[tuple[str, str], float] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - written by pytest
        parts = case.attrib["classname"].split(".")
        depth = next((n for n in range(len(parts), 0, -1) if _file(parts[:n]).exists()), 0)
        if not depth:  # a module that was skipped as a whole
            continue
        names = [*parts[depth:], case.attrib["name"].partition("[")[0]]
        path = _file(parts[:depth]).relative_to(ROOT)
        key = "::".join([str(path), *names]), case.attrib["name"]
        cases[key] = max(cases.get(key, 0.0), float(case.attrib["time"]))
    seconds: defaultdict[str, float] = defaultdict(float)
    for (function, _), took in cases.items():
        seconds[function] += took
    return dict(seconds)


def _file(parts: list[str]) -> Path:
    return ROOT.joinpath(*parts).with_suffix(".py")


def slow(seconds: Mapping[str, float], fast_s: float) -> list[str]:
    """Return the slowest functions, as few as leave less than `fast_s` seconds for the rest."""
    left = sum(seconds.values())
    chosen = []
    for name, took in sorted(seconds.items(), key=lambda each: -each[1]):
        if left <= fast_s:
            break
        chosen.append(name)
        left -= took
    return sorted(chosen)


def rest_of_folders(seconds: Mapping[str, float], out: Sequence[str]) -> dict[str, float]:
    """Return folder -> seconds of its functions that are not among those `out`."""
    rest: defaultdict[str, float] = defaultdict(float)
    for name in seconds.keys() - set(out):
        rest["/".join(name.split("/")[:2])] += seconds[name]
    return dict(sorted(rest.items()))


def main() -> None:
    """Read the report, write the list."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("report", type=Path, help="JUnit XML of a run of all tests")
    parser.add_argument("--fast-s", type=float, default=90.0, help="budget of the fast lane")
    chosen = parser.parse_args()
    seconds = durations(chosen.report)
    names = slow(seconds, chosen.fast_s)
    rest = rest_of_folders(seconds, names)
    lines = [f"# {folder}: the others {took:.1f}\n" for folder, took in rest.items()]
    lines += [f"{name}  # {seconds[name]:.1f}\n" for name in names]
    OUTPUT.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
