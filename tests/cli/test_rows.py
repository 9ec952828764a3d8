"""Rows of `assay score`: bad rows are named before anything is sent; a rerun resumes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.rows import Fields, keep_finished, read_rows
from assay.core.errors import InvalidRequest


def write(path: Path, *rows: object) -> Path:
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


def test_rows_are_read_with_their_line(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        {"response": "1", "reference": {"answers": ["1"]}},
        "",
        {"request_id": "x", "group_id": "g", "response": "2", "reference": "2"},
    )
    first, second = read_rows(path, Fields())
    assert (first.request_id, first.line) == ("line-1", 1)
    assert (second.request_id, second.group_id, second.line) == ("x", "g", 3)
    assert second.reference == {"answers": ["2"]}


def test_a_number_or_a_list_is_taken_as_right_answers(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"q": "r", "gold": 18}, {"q": "r", "gold": [1, "2"]})
    rows = read_rows(path, Fields(response="q", reference="gold"))
    assert [row.reference for row in rows] == [{"answers": ["18"]}, {"answers": ["1", "2"]}]


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("{not json", "line 2"),
        ("[1]", "line 2"),
        ({"reference": {}}, "line 2: response"),
        ({"response": 7, "reference": {}}, "line 2: response"),
        ({"response": "x"}, "line 2: reference"),
        ({"request_id": "a", "response": "x", "reference": {}}, "line 2: request_id"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: object, field: str) -> None:
    good = {"request_id": "a", "response": "x", "reference": {}}
    with pytest.raises(InvalidRequest) as caught:
        read_rows(write(tmp_path / "a.jsonl", good, row), Fields())
    assert caught.value.field == field


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"response": "\xff", "reference": {}}\n')
    with pytest.raises(InvalidRequest, match="line 1: not UTF-8"):
        read_rows(path, Fields())


def test_a_rerun_keeps_rewards_and_retries_the_rest(tmp_path: Path) -> None:
    path = write(
        tmp_path / "out.jsonl",
        {"request_id": "a", "reward": 0.0},
        {"request_id": "b", "reward": None, "outcome": "INFRA_FAILED"},
        "garbage",
    )
    with path.open("a") as file:
        file.write('{"request_id": "c", "reward": 1.0')
    assert keep_finished(path) == {"a"}
    assert [json.loads(line)["request_id"] for line in path.read_text().splitlines()] == ["a"]


@given(cut=st.integers(0, 200))
def test_a_kill_at_any_byte_loses_at_most_the_torn_line(tmp_path_factory, cut: int) -> None:  # type: ignore[no-untyped-def]
    path = write(
        tmp_path_factory.mktemp("out") / "o.jsonl",
        *({"request_id": f"r{i}", "reward": 1.0} for i in range(5)),
    )
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    assert keep_finished(path) == {f"r{i}" for i in range(complete)}
    assert keep_finished(path) == {f"r{i}" for i in range(complete)}
