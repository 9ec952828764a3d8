"""Runs the tests as four processes at the same time, then those that need the machine alone.

    python scripts/run_tests.py [--fast | --long] [--junitxml FILE]

`./run test`, also with `--all` or `--long`, calls this. Many tests wait for processes: beside three
parts, two cores have time left. Every line of output has its part in front of
it. All parts run to their end. With `--junitxml` the reports are put together into one file.

Tests that draw their cases with Hypothesis draw fewer but in the long lane (tests/conftest.py).

Up to AGAIN_MAX failed tests run again, with nothing beside them. Those that pass then are named
as unsteady in the last lines and do not fail the run: a loaded machine is no reason to refuse a
change, and the named test is a defect to look for. A test that fails twice, or more failures than
that, make the exit status 1.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
ALONE = ROOT / "tests" / "alone_tests.txt"
PARTS = 4
FEWER = "--hypothesis-profile=fewer"
FAST = ("-m", "not slow and not long", FEWER)
ALL = ("-m", "not long", FEWER)
LONG = ("-m", "long or hypothesis")
"""The long ones, and each test that draws its cases, with all that it draws."""
PASSED, FAILED, NOTHING_COLLECTED = 0, 1, 5
LAST_LINES_S_MAX = 10.0
AGAIN_MAX = 5


class Part:
    """A pytest process; its output is passed on line by line."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        # A group of its own: Ctrl-C reaches it once, through `stop`.
        self._process = subprocess.Popen(  # noqa: S603 - pytest
            [sys.executable, "-u", "-m", "pytest", *arguments],
            cwd=ROOT, process_group=0, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    def _pass_on(self) -> None:
        for line in self._process.stdout or ():
            sys.stdout.write(f"{self.name} | {line}")
            sys.stdout.flush()

    def stop(self) -> None:
        """End it as Ctrl-C does: what its tests started is stopped."""
        self._process.send_signal(signal.SIGINT)

    def ended(self) -> int:
        """Wait for its end; return pytest's exit status, PASSED also where it had no tests."""
        status = self._process.wait()
        # What a test has left behind may hold the pipe open.
        self._reader.join(LAST_LINES_S_MAX)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()
        sys.stdout.write(f"{self.name} | exit status {status}\n")
        return PASSED if status == NOTHING_COLLECTED else status


class Interrupted(Exception):
    """A signal asked for the end."""


def run(parts: Sequence[Part]) -> set[int]:
    """Wait for parts that run; return their exit statuses."""

    def stop(number: int, _: object) -> None:
        for part in parts:
            part.stop()
        raise Interrupted(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return {part.ended() for part in parts}  # each runs to its end
    except Interrupted:
        for part in parts:
            part.ended()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def part(name: str, folder: Path, *arguments: str) -> Part:
    """Start pytest; its report and the ids of what failed go to the folder."""
    file = folder / name.replace("/", "-")
    report = f"--junitxml={file}.xml"
    return Part(name, ["--durations=10", report, f"--failed-to={file}.failed", *arguments])


def run_all(lane: Sequence[str], folder: Path) -> bool:
    """Run all parts, then what runs alone, then what failed; tell whether the change may pass."""
    names = [f"{number}/{PARTS}" for number in range(1, PARTS + 1)]
    statuses = run([part(name, folder, *lane, f"--part={name}") for name in names])
    statuses |= run([part("alone", folder, *lane, *alone())])
    return statuses == {PASSED} or passes_again(statuses, folder)


def passes_again(statuses: set[int], folder: Path) -> bool:
    """Run the few tests that failed a second time, by themselves."""
    failed = [line for path in folder.glob("*.failed") for line in path.read_text().splitlines()]
    # A part that was killed or could not start says nothing about the tests that it did not reach.
    if not statuses <= {PASSED, FAILED} or not 0 < len(failed) <= AGAIN_MAX:
        return False
    if run([part("again", folder, *failed)]) != {PASSED}:
        return False
    for name in failed:
        sys.stdout.write(f"unsteady: {name} failed once and passed alone\n")
    return True


def alone() -> list[str]:
    """The tests that run when the parts are over."""
    lines = (line.partition("#")[0].strip() for line in ALONE.read_text("utf-8").splitlines())
    return [line for line in lines if line]


def put_together(reports: Sequence[Path], output: Path) -> None:
    """Write one JUnit report of several."""
    suites = ElementTree.Element("testsuites")
    for report in reports:
        suites.extend(ElementTree.parse(report).getroot())  # noqa: S314 - written by pytest
    output.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suites).write(output, encoding="utf-8", xml_declaration=True)


def main() -> None:
    """Run them; exit as they ended."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    lane = parser.add_mutually_exclusive_group()
    lane.add_argument("--fast", action="store_true", help="without tests/slow_tests.txt")
    lane.add_argument("--long", action="store_true", help="the long ones, all drawn cases")
    parser.add_argument("--junitxml", type=Path, help="write one report of all parts here")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            lane_of = LONG if asked.long else FAST if asked.fast else ALL
            passed = run_all(lane_of, folder)
        except Interrupted as signalled:
            sys.exit(f"stopped by {signalled}")
        if asked.junitxml:
            put_together(sorted(folder.glob("*.xml")), asked.junitxml)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
