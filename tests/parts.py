"""A pytest plugin: `--part 1/4` collects one of four parts, which can run beside each other.

A part is a set of folders below `tests`, so that what a folder starts for a whole run is started
once. The folders are dealt out by the seconds that tests/slow_tests.txt and tests/long_tests.txt
name for the lane that runs, the longest first.
Tests of tests/alone_tests.txt belong to no part: they run when all are over, by their names.

`--failed-to FILE` appends the id of each test that fails, one per line: those can be run again.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.lanes import LIST, LONG, entries, is_listed

ALONE = Path(__file__).with_name("alone_tests.txt")
TESTS = Path(__file__).parent
DRAWN_S = 40.0
"""What a folder's drawn cases take in the long lane, about; the list of that lane has them not."""
_SLOW = re.compile(r"^(tests/[^/\s]+)/\S+ +# ([\d.]+)$", re.M)
_FAST = re.compile(r"^# (tests/[^/\s]+): the others ([\d.]+)$", re.M)


def seconds_of_folders(listed: str, *, fast: bool) -> dict[str, float]:
    """Return folder -> measured seconds of its tests, in the fast lane or of all."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for folder, took in _FAST.findall(listed) + ([] if fast else _SLOW.findall(listed)):
        seconds[folder] += float(took)
    return dict(seconds)


def dealt(seconds: Mapping[str, float], parts: int) -> Sequence[frozenset[str]]:
    """Split the folders into parts that take about equally long."""
    loads = [0.0] * parts
    chosen: list[set[str]] = [set() for _ in range(parts)]
    for folder, took in sorted(seconds.items(), key=lambda each: (-each[1], each[0])):
        least = loads.index(min(loads))
        loads[least] += took
        chosen[least].add(folder)
    return [frozenset(each) for each in chosen]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--part", metavar="NUMBER/PARTS", help="collect one part of the tests")
    parser.addoption("--failed-to", type=Path, metavar="FILE", help="append ids of failed tests")


class _Part:
    """Collects what belongs to one part."""

    def __init__(self, root: Path, chosen: str, lane: str) -> None:
        number, parts = (int(word) for word in chosen.split("/"))
        if not 1 <= number <= parts:
            raise pytest.UsageError(f"--part {chosen}: no such part")
        folders = {f"tests/{each.name}": 0.0 for each in TESTS.iterdir() if each.is_dir()}
        listed = (LONG if lane.startswith("long") else LIST).read_text(encoding="utf-8")
        measured = seconds_of_folders(listed, fast="not slow" in lane)
        drawn = DRAWN_S if lane.startswith("long") else 0.0
        here = {name: measured.get(name, 0.0) + drawn for name in folders}
        own = dealt(here, parts)[number - 1]
        self._others = {root / name for name in folders if name not in own}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out the folders of other parts."""
        return True if collection_path in self._others else None

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what runs alone."""
        alone = entries(ALONE.read_text(encoding="utf-8"))
        out = [item for item in items if is_listed(item.nodeid, alone)]
        if out:
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if item not in set(out)]


class _Failed:
    """Writes down what failed: a test in any of its phases, or a file that cannot be collected."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._seen: set[str] = set()

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._seen:
            self._seen.add(report.nodeid)
            with self._output.open("a", encoding="utf-8") as out:
                out.write(f"{report.nodeid}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """After each phase of a test."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """After each file and folder."""
        self._note(report)


def pytest_configure(config: pytest.Config) -> None:
    """Collect one part, and write down what fails, where that is asked for."""
    if chosen := config.getoption("--part"):
        lane = config.getoption("markexpr")
        config.pluginmanager.register(_Part(config.rootpath, chosen, lane))
    if output := config.getoption("--failed-to"):
        config.pluginmanager.register(_Failed(output))
