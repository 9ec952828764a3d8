"""The lanes of the tests: `./run test` leaves out the slow ones, `./run test --all` none."""

import re
import runpy
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.lanes import LIST, entries, is_slow

ROOT = Path(__file__).resolve().parents[2]
CHOOSE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "choose_slow_tests.py"))


def test_every_entry_of_the_list_names_tests_that_exist() -> None:
    stale = []
    for entry in entries(LIST.read_text(encoding="utf-8")):
        path, _, function = entry.partition("::")
        there = (ROOT / path).is_file() or (not function and (ROOT / path).exists())
        name = function.partition("::")[0]  # of a state machine: its class
        if not there or (
            function and not re.search(rf"\b{name}\b", (ROOT / path).read_text("utf-8"))
        ):
            stale.append(entry)
    assert stale == [], "run: python scripts/choose_slow_tests.py"


def test_an_entry_names_a_function_a_file_or_a_folder_and_no_other() -> None:
    listed = ["tests/a", "tests/b/test_x.py", "tests/c/test_y.py::test_one"]
    assert is_slow("tests/a/test_z.py::test_it[1]", listed)
    assert is_slow("tests/b/test_x.py::test_it", listed)
    assert is_slow("tests/c/test_y.py::test_one[a-b]", listed)
    assert not is_slow("tests/ab/test_z.py::test_it", listed)
    assert not is_slow("tests/c/test_y.py::test_one_more", listed)


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


def test_durations_are_those_of_functions_with_all_their_parameters(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    case = '<testcase classname="tests.repo.test_lanes" name="test_x[{}]" time="1.5"/>'
    report.write_text(f"<testsuites>{case.format(1)}{case.format(2)}</testsuites>")
    assert CHOOSE["durations"](report) == {"tests/repo/test_lanes.py::test_x": 3.0}
