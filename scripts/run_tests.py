"""Runs the tests as two processes at the same time, then those that need the machine alone.

    python scripts/run_tests.py [--fast] [--junitxml FILE]

`./run test` and `./run test --all` call this. Many tests wait for processes, so two parts on two
cores take little more than half of the time. Every line of output has its part in front of it. All
parts run to their end; the exit status is 1 where any of them failed. With `--junitxml` the reports
are put together into one file.
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
NAMES = ("1/2", "2/2")
NOTHING_COLLECTED = 5
LAST_LINES_S_MAX = 10.0


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

    def passed(self) -> bool:
        """Wait for its end; tell whether all of its tests passed."""
        status = self._process.wait()
        # What a test has left behind may hold the pipe open.
        self._reader.join(LAST_LINES_S_MAX)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()
        sys.stdout.write(f"{self.name} | exit status {status}\n")
        return status in {0, NOTHING_COLLECTED}


class Interrupted(Exception):
    """A signal asked for the end."""


def run(parts: Sequence[Part]) -> bool:
    """Wait for parts that run; tell whether all tests passed."""

    def stop(number: int, _: object) -> None:
        for part in parts:
            part.stop()
        raise Interrupted(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        passed = [part.passed() for part in parts]  # each runs to its end
        return all(passed)
    except Interrupted:
        for part in parts:
            part.passed()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_all(lane: Sequence[str], folder: Path) -> bool:
    """Run both parts, then what runs alone; leave a report of each in the folder."""

    def start(name: str, number: int, *arguments: str) -> Part:
        report = f"--junitxml={folder / f'{number}.xml'}"
        return Part(name, ["--durations=10", *lane, report, *arguments])

    both = run([start(name, number, f"--part={name}") for number, name in enumerate(NAMES)])
    last = run([start("alone", len(NAMES), *alone())])
    return both and last


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
    parser.add_argument("--fast", action="store_true", help="without tests/slow_tests.txt")
    parser.add_argument("--junitxml", type=Path, help="write one report of all parts here")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            passed = run_all(["-m", "not slow"] if asked.fast else [], folder)
        except Interrupted as signalled:
            sys.exit(f"stopped by {signalled}")
        if asked.junitxml:
            put_together(sorted(folder.glob("*.xml")), asked.junitxml)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
