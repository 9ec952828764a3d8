"""The launcher on other Pythons: its conformance tests, and the cost of a trivial program.

    python -m benchmarks.sandbox.pythons PYTHON [PYTHON ...] [--rounds 5] [--runs 100] [--only-cost]

Each interpreter gets an environment below `~/.cache/assay/pythons`, made once, with what the
launcher and its tests import (pip: needs an index). First `tests/sandbox` runs there, where
one failure ends the command; then each runs trivial programs in turn with this interpreter.
`cpu_ms` is the CPU time per program of launcher, zygote and box together: that of a process with
`--runs` programs less that of one with none, over their number.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Final

from benchmarks.harness.report import Report, Spread

ROOT: Final = Path(__file__).resolve().parents[2]
IMPORTED: Final = (
    *("pydantic", "pydantic-settings", "pyseccomp"),
    *("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis", "psutil"),
)
TESTS: Final = (
    *("test_native.py", "test_networks.py", "test_harness.py", "test_launchers.py"),
    *("test_attacks_on_the_box.py", "test_shown_directories.py", "test_rehearsal.py"),
)
ENVIRONMENTS: Final = Path("~/.cache/assay/pythons").expanduser()
TARGET: Final = 1.15
"""Cost of another Python, of that of this one."""
COST: Final = """
import sys
from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun
run = PythonRun(source=b"print(int(input()) + 1)", stdin=b"1\\n")
with ZygoteLauncher(SandboxSettings(), Clock()) as launcher:
    assert launcher.is_native
    for _ in range(int(sys.argv[1])):
        assert launcher.run_python(run).stdout == b"2\\n"
"""


def environment_of(python: str) -> str:
    """An interpreter of the same version, with what is needed; made at the first call."""
    version = _said(python, "import platform; print(platform.python_version())")
    folder = ENVIRONMENTS / version
    own = str(folder / "bin" / "python")
    if not (folder / "made").exists():
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([own, "-m", "pip", "install", "-q", *_requirements()], check=True)
        (folder / "made").touch()
    return own


def _requirements() -> list[str]:
    """As the project states them, in whatever extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [project["project"]["dependencies"]]
    lists += project["project"]["optional-dependencies"].values()
    lists += project.get("dependency-groups", {}).values()
    stated = {
        line.split("[")[0].split(">")[0].split("=")[0].strip(): line
        for one in lists
        for line in one
        if isinstance(line, str)
    }
    return [stated.get(name, name) for name in IMPORTED]


def _variables() -> dict[str, str]:
    folders = [str(ROOT / name) for name in ("services", "simulator", "runtime", ".")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def _said(python: str, source: str, *arguments: str) -> str:
    done = subprocess.run(
        [python, "-c", source, *arguments],
        env=_variables(),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()


def conform(python: str) -> None:
    """Run the launcher's tests, without those of the rest of the platform beside them.

    Raises:
        CalledProcessError: one fails.
    """
    folder = ROOT / "tests" / "sandbox"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--confcutdir={folder}"]
    command += [str(folder / name) for name in TESTS]
    subprocess.run(command, env=_variables(), cwd=ROOT, check=True, stdout=sys.stderr)


def cpu_ms(python: str, runs: int) -> float:
    """CPU time per program."""
    return (_spent_s(python, runs) - _spent_s(python, 0)) / runs * 1e3


def _spent_s(python: str, runs: int) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _said(python, COST, str(runs))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Test, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("python", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only-cost", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    began_s = time.monotonic()
    pythons = [sys.executable, *map(environment_of, options.python)]
    if not options.only_cost:
        for python in pythons[1:]:
            conform(python)
    taken: dict[str, list[float]] = {python: [] for python in pythons}
    for repeat in range(options.rounds):
        for at in range(len(pythons)):
            python = pythons[(at + repeat) % len(pythons)]
            taken[python].append(cpu_ms(python, options.runs))
    report = Report(
        title=f"A trivial program, {options.rounds} rounds in turn: median (least-most)",
        columns=("python", "cpu_ms", "of_this", "target"),
    )
    own = taken[sys.executable]
    for python, found in taken.items():
        ratio = Spread.of([one / other for one, other in zip(found, own, strict=True)])
        version = _said(python, "import platform; print(platform.python_version())")
        is_met = "met" if ratio.median <= TARGET else "missed"
        target = f"<= {TARGET}: {is_met}"
        report.add(python=version, cpu_ms=Spread.of(found), of_this=ratio, target=target)
    report.title += f"; {time.monotonic() - began_s:.0f} s in all"
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
