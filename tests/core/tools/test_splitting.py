"""Submissions in messages: every item once and in order, smaller messages only where they help."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import AssayError, InvalidRequest, Saturated, TooLarge
from assay.core.tools.splitting import Runs, shifted

PARTS = st.lists(st.integers(0, 40).map(lambda size: b"x" * size), max_size=40)


@given(PARTS, st.integers(1, 60), st.integers(1, 7))
def test_runs_have_every_item_once_in_order_within_their_bounds(
    parts: list[bytes], bytes_max: int, items_max: int
) -> None:
    cut = list(Runs(parts, weigh=len, bytes_max=bytes_max, items_max=items_max))
    assert [one for _, run in cut for one in run] == parts
    at = 0
    for first, run in cut:
        assert first == at
        assert 1 <= len(run) <= items_max
        assert len(run) == 1 or sum(map(len, run)) <= bytes_max
        at += len(run)


@pytest.mark.parametrize("field", ["message", "body", "requests", ""])
@given(PARTS.filter(bool), st.integers(1, 7))
def test_a_message_that_is_too_large_as_a_whole_is_halved_until_it_fits(
    field: str, parts: list[bytes], fits: int
) -> None:
    runs = Runs(parts, weigh=len, bytes_max=10_000, items_max=512)
    sent: list[tuple[int, bytes]] = []
    for first, run in runs:
        if len(run) > fits:
            runs.refused(first, run, TooLarge("too large", field=field))
        else:
            sent += [(first + at, item) for at, item in enumerate(run)]
    assert sent == list(enumerate(parts))


@pytest.mark.parametrize(
    "error",
    [
        TooLarge("requests[1].response: 9 bytes", field="requests[1].response"),
        Saturated("full", field="message"),
        InvalidRequest("requests[1].group_id: missing", field="requests[1].group_id"),
    ],
)
def test_what_smaller_messages_do_not_help_is_raised_and_counts_in_the_submission(
    error: AssayError,
) -> None:
    runs = Runs([b""] * 4, weigh=len, bytes_max=1, items_max=2)
    (_, (first, run)) = runs
    with pytest.raises(type(error)) as raised:
        runs.refused(first, run, error)
    assert raised.value.field == error.field.replace("[1]", "[3]")


def test_one_item_is_not_halved() -> None:
    runs = Runs([b"x"], weigh=len, bytes_max=1, items_max=1)
    ((first, run),) = runs
    with pytest.raises(TooLarge):
        runs.refused(first, run, TooLarge("x", field="message"))


def test_indices_count_from_the_whole_submission() -> None:
    error = InvalidRequest("requests[2].response: NUL", field="requests[2].response")
    moved = shifted(error, 512)
    assert moved.field == "requests[514].response"
    assert moved.message == "requests[514].response: NUL"
    assert type(moved) is InvalidRequest
    assert shifted(InvalidRequest("k", field="prompts[2].k"), 256).field == "prompts[258].k"
