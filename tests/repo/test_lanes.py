"""Which tests run when: `./run test` leaves out the slow and the long ones, `--all` the long ones.

Both run four parts beside each other, then what needs the machine alone.
"""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lanes import LIST, LONG, entries, is_listed
from tests.parts import ALONE, TESTS, dealt, seconds_of_folders

ROOT = Path(__file__).resolve().parents[2]
CHOOSE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "choose_slow_tests.py"))
RUNNER: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "run_tests.py"))


@pytest.mark.parametrize("listed", [LIST, LONG, ALONE], ids=["slow", "long", "alone"])
def test_every_entry_of_a_list_names_tests_that_exist(listed: Path) -> None:
    stale = []
    for entry in entries(listed.read_text(encoding="utf-8")):
        path, _, function = entry.partition("::")
        there = (ROOT / path).is_file() or (not function and (ROOT / path).exists())
        name = function.partition("::")[0]  # of a state machine: its class
        if not there or (
            function and not re.search(rf"\b{name}\b", (ROOT / path).read_text("utf-8"))
        ):
            stale.append(entry)
    assert stale == [], "run: python scripts/choose_slow_tests.py"


def test_a_test_is_in_one_list() -> None:
    long, slow = (entries(one.read_text(encoding="utf-8")) for one in (LONG, LIST))
    assert [one for one in slow if is_listed(one, long)] == []
    assert len(seconds_of_folders(LONG.read_text(encoding="utf-8"), fast=False)) > 3, "dealt out"


def test_all_cases_are_drawn_in_the_long_lane_which_runs_each_test_that_draws() -> None:
    fewer, all_of_them = (settings.get_profile(name).max_examples for name in ("fewer", "assay"))
    assert 0 < fewer < all_of_them
    assert all("--hypothesis-profile=fewer" in RUNNER[lane] for lane in ("FAST", "ALL"))
    assert RUNNER["LONG"] == ("-m", "long or hypothesis")


def test_an_entry_names_a_function_a_file_or_a_folder_and_no_other() -> None:
    listed = ["tests/a", "tests/b/test_x.py", "tests/c/test_y.py::test_one", "tests/d/t.py::Class"]
    assert is_listed("tests/d/t.py::Class::test_it[x::y]", listed)
    assert is_listed("tests/a/deep/test_z.py::test_it", listed)
    assert not is_listed("tests/d/t.py::test_it", listed)
    assert is_listed("tests/a/test_z.py::test_it[1]", listed)
    assert is_listed("tests/b/test_x.py::test_it", listed)
    assert is_listed("tests/c/test_y.py::test_one[a-b]", listed)
    assert not is_listed("tests/ab/test_z.py::test_it", listed)
    assert not is_listed("tests/c/test_y.py::test_one_more", listed)


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(0.1, 300))
def test_the_fast_lane_fits_its_budget_and_keeps_the_quickest(
    took: list[float], budget: float
) -> None:
    seconds = {f"test_{number}": each for number, each in enumerate(took)}
    out = set(CHOOSE["slow"](seconds, budget))
    fast = [each for name, each in seconds.items() if name not in out]
    assert sum(fast) <= budget * (1 + 1e-9)
    if out:
        quickest = min(seconds[name] for name in out)
        assert max(fast, default=0) <= quickest
        assert sum(fast) + quickest > budget * (1 - 1e-9), "it would fit"


def test_the_rest_of_a_folder_is_what_the_fast_lane_runs_of_it() -> None:
    seconds = {"tests/a/test_x.py::one": 1.0, "tests/a/b/test_y.py::two": 2.0}
    seconds["tests/c/test_z.py::three"] = 4.0
    rest = CHOOSE["rest_of_folders"](seconds, ["tests/c/test_z.py::three"])
    assert rest == {"tests/a": 3.0}


def test_durations_are_those_of_functions_with_all_their_parameters(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    case = '<testcase classname="tests.repo.test_lanes" name="test_x[{}]" time="1.5"/>'
    report.write_text(f"<testsuites>{case.format(1)}{case.format(2)}</testsuites>")
    assert CHOOSE["durations"](report) == {"tests/repo/test_lanes.py::test_x": 3.0}


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 500), max_size=12),
    st.integers(1, 4),
)
def test_every_folder_is_in_one_part_and_no_part_waits_for_more_than_one_folder(
    seconds: dict[str, float], parts: int
) -> None:
    found = dealt(seconds, parts)
    assert sorted(name for part in found for name in part) == sorted(seconds)
    took = [sum(seconds[name] for name in part) for part in found]
    assert max(took) <= min(took) + max(seconds.values(), default=0.0) + 1e-6


def test_the_folders_of_the_list_exist() -> None:
    listed = LIST.read_text(encoding="utf-8")
    fast, full = (seconds_of_folders(listed, fast=fast) for fast in (True, False))
    assert len(fast) > 10
    assert {ROOT / name for name in full} <= set(TESTS.iterdir())
    assert all(full[name] >= took for name, took in fast.items())
    assert sum(full.values()) > sum(fast.values()) > 0


def test_a_failure_in_either_part_fails_and_the_other_runs_to_its_end(tmp_path: Path) -> None:
    def part(name: str, test: str) -> Any:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "pytest.ini").write_text("[pytest]")
        (folder / f"test_{name}.py").write_text(test)
        report = f"--junitxml={folder / 'report.xml'}"
        return RUNNER["Part"](name, [f"--rootdir={folder}", str(folder), report])

    def reports(*names: str) -> dict[str, list[str]]:
        output = tmp_path / "all" / "report.xml"
        RUNNER["put_together"]([tmp_path / name / "report.xml" for name in names], output)
        cases = ElementTree.parse(output).iter("testcase")
        return {case.attrib["name"]: [each.tag for each in case] for case in cases}

    late = "import time\ndef test_late(): time.sleep(0.2)"
    bad = "def test_bad(): assert 0"
    assert RUNNER["run"]([part("bad", bad), part("late", late)]) == {0, 1}
    assert reports("bad", "late") == {"test_bad": ["failure"], "test_late": []}
    assert RUNNER["run"]([part("good", late), part("worse", bad)]) == {0, 1}
    assert RUNNER["run"]([part("fine", late), part("nothing", "")]) == {0}


@pytest.mark.parametrize(
    ("failures", "tests", "forgiven"), [(1, 5, True), (2, 1, False), (1, 6, False)]
)
def test_a_few_tests_that_fail_once_are_named_and_those_that_fail_again_fail(
    failures: int,
    tests: int,
    forgiven: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runner = runpy.run_path(str(ROOT / "scripts" / "run_tests.py"))
    runner["part"].__globals__["ROOT"] = tmp_path
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p tests.parts")
    program = f"""
from pathlib import Path
import pytest
@pytest.mark.parametrize("number", range({tests}))
def test_shy(number):
    with Path(f"{{number}}.runs").open("a") as runs:
        runs.write("x")
        assert runs.tell() > {failures}
"""
    (tmp_path / "test_shy.py").write_text(program)
    first = runner["part"]("1/2", tmp_path)
    statuses = runner["run"]([first])
    assert statuses == {1}
    assert not runner["passes_again"]({1, 137}, tmp_path), "a part was killed"
    assert runner["passes_again"](statuses, tmp_path) is forgiven
    named = [line for line in capsys.readouterr().out.splitlines() if line.startswith("unsteady: ")]
    assert len(named) == (tests if forgiven else 0)


LEAVINGS = {
    "SigBlk": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    "SigIgn": "signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
    "handler of 15": "signal.signal(signal.SIGTERM, lambda *_: None)",
    "directory": "os.chdir('/')",
    "Umask": "os.umask(0o77)",
    "nice": "os.nice(1)",
    "scheduler": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "RLIMIT_CORE": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "collects garbage": "gc.disable()",
    "recursion limit": "sys.setrecursionlimit(10**6)",
    "$LEFT": "os.environ['LEFT'] = 'x'",
    "$HOME": "del os.environ['HOME']",
}


def test_what_a_test_leaves_behind_in_its_process_is_found() -> None:
    program = f"""
import gc, json, os, resource, signal, sys
os.environ["HOME"] = "/"
resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
from tests.process_state import differences, process_state
found = {{}}
for name, what in {LEAVINGS!r}.items():
    before = process_state()
    exec(what)
    found[name] = [each.partition(": ")[0] for each in differences(before, process_state())]
print(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert {name: name in names for name, names in found.items()} == dict.fromkeys(LEAVINGS, True)
