"""Scoring: groups stay together, refused rows are left out at a linear cost."""

import asyncio
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.score.jsonl import BadRow, ScoreRow, basis_of
from assay.cli.score.scorer import Scorer, Tasks, chunked, output_line, task_name
from assay.client import Batch, Client, Evidence, Outcome, Request, ResourceUse, Result
from assay.core.errors import InvalidRequest, NotFound, TooLarge

MESSAGE_ROWS_MAX = 100


def row(line: int, group_id: str = "", *, size: int = 1) -> ScoreRow:
    return ScoreRow(
        line=line,
        request_id=f"r{line}",
        group_id=group_id,
        response="",
        reference={"answers": []},
        size=size,
    )


def result(request_id: str) -> Result:
    return Result(
        request_id=request_id,
        group_id="",
        outcome=Outcome.SCORED,
        reward=1.0,
        evidence=Evidence(extracted="a\nb\r\x00"),
        resource_use=ResourceUse(),
        stages=[],
        attempts=1,
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 12))), st.integers(1, 10))
def test_chunks_hold_every_row_once_in_order_and_small_groups_whole(
    runs: list[tuple[str, int]], wanted: int
) -> None:
    groups = [f"{name}{n}" for n, (name, size) in enumerate(runs) for _ in range(size)]
    rows = [row(line, group) for line, group in enumerate(groups)]
    chunks = list(chunked(rows, rows_wanted=wanted, rows_max=30))
    assert [r.line for chunk in chunks for r in chunk] == list(range(len(rows)))
    assert all(wanted <= len(chunk) <= 30 for chunk in chunks[:-1])
    for group in set(groups):
        assert sum(any(r.group_id == group for r in chunk) for chunk in chunks) == 1


def test_chunks_are_bounded_in_rows_and_bytes_whatever_the_groups() -> None:
    one_group = [row(line, "g") for line in range(100)]
    assert {len(c) for c in chunked(one_group, rows_wanted=5, rows_max=20)} == {20}
    large = [row(line, size=60) for line in range(10)]
    assert {len(c) for c in chunked(large, rows_wanted=5, bytes_max=150)} == {2}


@given(st.lists(st.sampled_from([{}, {"cpu_s": 1}, {"cpu_s": 2}]), max_size=30))
def test_a_chunk_has_rows_of_one_setting(settings: list[dict[str, int]]) -> None:
    rows = [replace(row(line), settings=one) for line, one in enumerate(settings)]
    chunks = list(chunked(rows, rows_wanted=8))
    assert [one for chunk in chunks for one in chunk] == rows
    assert all(one.settings == chunk[0].settings for chunk in chunks for one in chunk)


def test_settings_of_a_row_make_one_task_each_and_those_of_the_job_go_before() -> None:
    class Registers:
        def __init__(self) -> None:
            self.registered: list[dict[str, int]] = []

        async def register_task(self, name: str, *, pipeline: str, settings: Any) -> str:
            self.registered.append(settings)
            return f"{pipeline}/{name}"

    async def run(client: Registers) -> set[str]:
        tasks = Tasks(cast("Client", client), "exact", {"a": 1})
        rows: tuple[dict[str, int], ...] = ({}, {"b": 2}, {"a": 5, "b": 2}, {"b": 3}, {})
        return {cast("str", await tasks.of(own)) for own in rows}

    client = Registers()
    assert len(asyncio.run(run(client))) == 3
    assert client.registered == [{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 3}]


def test_the_same_settings_in_any_order_are_the_same_task() -> None:
    assert task_name("math", {"a": 1, "b": 2}) == task_name("math", {"b": 2, "a": 1})
    assert task_name("math", {"a": 1}) != task_name("math", {"a": 2})
    assert task_name("math", {}) != task_name("exact", {})


def test_a_line_separator_inside_a_text_does_not_break_the_line() -> None:
    line = output_line(result("r"), line=3, digest="d")
    assert line.count("\n") == 1
    assert (json.loads(line)["line"], json.loads(line)["digest"]) == (3, "d")


class Told:
    """A ledger that remembers."""

    def __init__(self) -> None:
        self.bad: list[BadRow] = []
        self.finished: list[str] = []

    def finish(self, results: Sequence[Result]) -> None:
        self.finished += [one.request_id for one in results]

    def refuse(self, bad: BadRow) -> None:
        self.bad.append(bad)


class Picky:
    """A batch that refuses whole messages for one bad request, as the service does."""

    def __init__(self, bad: frozenset[str]) -> None:
        self._bad = bad
        self.accepted: list[str] = []
        self.sent = 0
        self.ended = ""

    async def submit(self, requests: Iterable[Request]) -> None:
        names = [request.request_id for request in requests]
        self.sent += len(names)
        if len(names) > MESSAGE_ROWS_MAX:
            raise TooLarge("the message is too large")
        for index, name in enumerate(names):
            if name in self._bad:
                field = f"requests[{index}].reference.answers"
                raise InvalidRequest(f"{field}: no", field=field)
        self.accepted += names

    async def seal(self) -> None:
        self.ended = "sealed"

    async def cancel(self) -> None:
        self.ended = "cancelled"


def submit(batch: Any, rows: Sequence[ScoreRow]) -> Told:
    told = Told()
    scorer = Scorer(
        cast("Client", None),
        cast("Tasks", None),
        io.StringIO(),
        basis=basis_of("p", "", {}),
        ledger=told,
    )
    asyncio.run(scorer._submit(cast("Batch", batch), rows))
    return told


@given(st.integers(1, 300), st.data())
def test_every_good_row_is_sent_and_every_bad_one_told_at_a_linear_cost(
    number: int, data: st.DataObject
) -> None:
    rows = [row(line) for line in range(1, number + 1)]
    names = [one.request_id for one in rows]
    bad = data.draw(st.one_of(st.sets(st.sampled_from(names)), st.just(set(names))))
    batch = Picky(frozenset(bad))
    told = submit(batch, rows)
    assert batch.accepted == [name for name in names if name not in bad]
    assert [one.request_id for one in told.bad] == [name for name in names if name in bad]
    assert {one.field for one in told.bad} <= {"reference.answers"}
    assert {one.error for one in told.bad} <= {"no"}
    assert batch.sent <= 4 * number + 2_000
    assert batch.ended == ("cancelled" if len(bad) == number else "sealed" if bad else "")


def test_an_error_about_something_else_is_not_blamed_on_a_row() -> None:
    class Gone(Picky):
        async def submit(self, requests: Iterable[Request]) -> None:
            raise NotFound("no such batch", field="batch_id")

    with pytest.raises(NotFound):
        submit(Gone(frozenset()), [row(1), row(2)])
