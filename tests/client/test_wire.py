"""Submissions are cut into messages: nothing is lost, nothing is reordered, none is too large."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay.reward.wire
from assay.client import Pipeline, Request, StoredArtifact, Task, wire
from assay.client.wire import REQUEST_OVERHEAD_BYTES, reward_requests, runs
from assay.core.errors import InvalidRequest
from assay.v1 import reward_pb2

sizes = st.lists(st.integers(0, 3_000), max_size=40)


@given(sizes, st.integers(1, 5_000), st.integers(1, 10))
def test_runs_are_the_requests_in_order_within_their_bounds(
    response_sizes: list[int], bytes_max: int, requests_max: int
) -> None:
    messages = [
        reward_pb2.RewardRequest(request_id=f"r{index}", response=b"x" * size)
        for index, size in enumerate(response_sizes)
    ]
    cut = list(runs(messages, bytes_max=bytes_max, items_max=requests_max))
    assert [message for _, chunk in cut for message in chunk] == messages
    position = 0
    for first, chunk in cut:
        assert first == position
        position += len(chunk)
        assert 1 <= len(chunk) <= requests_max
        written = reward_pb2.SubmitRequest(requests=chunk).ByteSize()
        assert written <= bytes_max or len(chunk) == 1


def test_the_overhead_covers_what_a_message_adds_to_a_request() -> None:
    request = reward_pb2.RewardRequest(request_id="x" * 256, response=b"x" * 10_000)
    wrapped = reward_pb2.SubmitRequest(requests=[request])
    assert wrapped.ByteSize() - request.ByteSize() < REQUEST_OVERHEAD_BYTES


def test_a_reference_may_be_an_object_or_its_json() -> None:
    shared = {"answers": ["é"]}
    requests = [
        Request(request_id="a", response="x", reference=shared),
        Request(request_id="b", response=b"x", reference=b'{"answers":["4"]}'),
        Request(request_id="c", response="é", reference=shared),
    ]
    first, second, third = reward_requests(requests)
    assert first.reference_json == third.reference_json == '{"answers": ["é"]}'.encode()
    assert second.reference_json == b'{"answers":["4"]}'
    assert third.response == "é".encode()


@pytest.mark.parametrize("reference", [{"x": float("nan")}, {"x": object()}, {"x": {1, 2}}])
def test_a_reference_that_is_no_json_is_refused_before_it_is_sent(reference: object) -> None:
    good = Request(request_id="a", response="x", reference={})
    bad = Request(request_id="b", response="x", reference=reference)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest) as caught:
        reward_requests([good, bad])
    assert caught.value.field == "requests[1].reference"


@pytest.mark.parametrize(
    ("response", "sent"),
    [
        ("\ud800", b"\xed\xa0\x80"),
        ("\ud83d\ude00", "\N{GRINNING FACE}".encode()),
        ("a\0b", b"a\0b"),
        (b"caf\xe9\xff", b"caf\xe9\xff"),
    ],
)
def test_any_text_and_any_bytes_are_sent(response: str | bytes, sent: bytes) -> None:
    [message] = reward_requests([Request(request_id="a", response=response, reference={})])
    assert message.response == sent


def test_an_id_with_a_lone_surrogate_is_refused_before_it_is_sent() -> None:
    good = Request(request_id="a", response="x", reference={})
    for bad, field in (
        (replace(good, request_id="\ud800"), "request_id"),
        (replace(good, group_id="\ud800"), "group_id"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            reward_requests([good, bad])
        assert caught.value.field == f"requests[1].{field}"


def test_an_answer_is_made_and_read_by_the_names_of_its_fields() -> None:
    stored = StoredArtifact(sha256="ab", size=3, kept_until_ns=7)
    message = assay.reward.wire.made(reward_pb2.PutArtifactResponse, stored)
    assert (message.sha256, message.size, message.kept_until_ns) == ("ab", 3, 7)
    assert wire.made(StoredArtifact, message) == stored


def test_what_may_be_absent_is_none_and_what_is_repeated_a_tuple() -> None:
    assert wire.made(Task, reward_pb2.Task(), settings={}, created=True).delay_budget_ms is None
    message = reward_pb2.Pipeline(name="p", stages=["first", "second"])
    schemas = ("settings_schema", "reference_schema", "example_reference")
    unread: dict[str, object] = {name: {} for name in schemas}
    assert wire.made(Pipeline, message, **unread).stages == ("first", "second")


def test_an_answer_that_lacks_a_field_of_its_message_is_no_answer() -> None:
    with pytest.raises(AttributeError):
        assay.reward.wire.made(reward_pb2.Task, StoredArtifact(sha256="ab"))
    with pytest.raises(KeyError):
        wire.made(StoredArtifact, reward_pb2.Task())
