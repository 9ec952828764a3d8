"""`assay rescore`: which rows may be judged again, and what a difference is."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assay.cli.score.rescore import (
    NO_RESULT,
    NOT_JUDGED,
    STATE_GONE,
    Before,
    Comparison,
    compare,
    read_results,
    why_refused,
)

REWARDS = st.floats(allow_nan=False, allow_infinity=False)


def test_what_was_not_judged_or_whose_state_may_be_gone_is_refused() -> None:
    assert why_refused(None) == NO_RESULT
    assert why_refused(Before(None, "", rescorable=False)) == NOT_JUDGED
    assert why_refused(Before(1.0, "v", rescorable=False)) == STATE_GONE
    assert why_refused(Before(0.0, "v", rescorable=True)) == ""


@given(before=st.dictionaries(st.text(), REWARDS), now=st.dictionaries(st.text(), REWARDS))
def test_every_row_is_the_same_or_changed(before: dict[str, float], now: dict[str, float]) -> None:
    found = Comparison()
    compare(
        {name: Before(reward, "1", rescorable=True) for name, reward in before.items()},
        {name: Before(reward, "2", rescorable=True) for name, reward in now.items()},
        list(before),
        found,
    )
    assert found.same == sum(now.get(name) == reward for name, reward in before.items())
    assert found.same + len(found.changed) == len(before)
    assert all(
        before[name] == was and now.get(name) == is_now for name, was, is_now in found.changed
    )


def test_a_reward_that_is_missing_now_is_a_change() -> None:
    found = Comparison()
    was = {"a": Before(0.0, "1", rescorable=True), "b": Before(1.0, "1", rescorable=True)}
    compare(was, {"a": Before(None, "", rescorable=False)}, ["a", "b"], found)
    assert found.changed == [("a", 0.0, None), ("b", 1.0, None)]


def test_lines_that_are_no_results_are_left_out(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"request_id": "a", "reward": 1, "pipeline_version": "v", "rescorable": True},
        {"request_id": None, "line": 3, "error": "bad"},
        ["x"],
    ]
    path = tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines) + '{"request_id": "torn')
    assert read_results(path) == {"a": Before(1.0, "v", rescorable=True)}
