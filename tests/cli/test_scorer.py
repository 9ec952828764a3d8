"""Scoring a file: groups stay together, errors name the line."""

from hypothesis import given
from hypothesis import strategies as st

from assay.cli.rows import Row
from assay.cli.scorer import Summary, _of_line, chunked, output_line, task_name
from assay.client import Evidence, Outcome, ResourceUse, Result
from assay.core.errors import InvalidRequest, NotFound


def row(line: int, group_id: str) -> Row:
    return Row(
        line=line, request_id=f"r{line}", group_id=group_id, response="", reference={"answers": []}
    )


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=40), st.integers(1, 10))
def test_chunks_hold_every_row_once_and_no_group_in_two(groups: list[str], wanted: int) -> None:
    rows = [row(line, group) for line, group in enumerate(groups)]
    chunks = list(chunked(rows, wanted))
    assert sorted(r.line for chunk in chunks for r in chunk) == list(range(len(rows)))
    assert all(len(chunk) >= wanted for chunk in chunks[:-1])
    for group in {"a", "b", "c"}:
        assert sum(any(r.group_id == group for r in chunk) for chunk in chunks) <= 1


def test_an_error_of_the_service_names_the_line_of_the_file() -> None:
    rows = [row(10, ""), row(17, "")]
    error = _of_line(InvalidRequest("missing", field="requests[1].reference.answers"), rows)
    assert error.field == "line 17: reference.answers"
    other = NotFound("no such batch", field="batch_id")
    assert _of_line(other, rows) is other


def test_the_same_settings_in_any_order_are_the_same_task() -> None:
    assert task_name("math", {"a": 1, "b": 2}) == task_name("math", {"b": 2, "a": 1})
    assert task_name("math", {"a": 1}) != task_name("math", {"a": 2})
    assert task_name("math", {}) != task_name("exact", {})


def test_a_result_without_a_reward_is_counted_as_left_to_do() -> None:
    summary = Summary(rows=2, resumed=0)
    for outcome, reward in ((Outcome.SCORED, 1.0), (Outcome.INFRA_FAILED, None)):
        summary.add(
            Result(
                request_id="r",
                group_id="",
                outcome=outcome,
                reward=reward,
                evidence=Evidence(),
                resource_use=ResourceUse(),
                stages=[],
                attempts=1,
            )
        )
    assert summary.without_reward == 1
    assert summary.as_json()["reward_mean"] == 1.0


def test_a_line_separator_inside_a_text_does_not_break_the_line() -> None:
    result = Result(
        request_id="r",
        group_id="",
        outcome=Outcome.SCORED,
        reward=1.0,
        evidence=Evidence(extracted="a\nb\r\x00"),
        resource_use=ResourceUse(),
        stages=[],
        attempts=1,
    )
    assert output_line(result).count("\n") == 1
