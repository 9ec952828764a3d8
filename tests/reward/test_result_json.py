"""A result as JSON over HTTP: what the documented body says, made at a fraction of its cost."""

import json
from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assay.core.codec import pack_body
from assay.core.ids import GroupId, RequestId, StageName, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import ResultRecord, StageTiming
from assay.core.verdict import Component, Evidence, ResourceUse
from assay.reward.bodies.answers import ResultBody, result_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
COUNT = st.integers(0, 2**62)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


def _drawn(kind: type, **given_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Every field is drawn, so that a new one cannot be forgotten."""
    assert set(given_) == {field.name for field in fields(kind)}
    return st.builds(kind, **given_)


EVIDENCE = _drawn(
    Evidence,
    verdict=TEXT,
    tests_passed=COUNT,
    tests_total=COUNT,
    failed_test=st.none() | COUNT,
    stderr_tail=TEXT,
    extracted=TEXT,
    error=TEXT,
)
USE = _drawn(ResourceUse, cpu_s=NUMBER, memory_bytes_peak=COUNT)
COMPONENT = _drawn(Component, name=TEXT, value=NUMBER, weight=NUMBER)
STAGE = _drawn(
    StageTiming,
    stage=TEXT.map(StageName),
    enqueued_ns=COUNT,
    claimed_ns=COUNT,
    started_ns=COUNT,
    finished_ns=COUNT,
    released_ns=COUNT,
    attempts=COUNT,
    worker=TEXT.map(WorkerId),
)
BODY = st.just(b"") | st.builds(
    pack_body,
    EVIDENCE,
    USE,
    components=st.lists(COMPONENT, max_size=3),
    pipeline_version=TEXT,
    rescorable=st.booleans(),
)
RECORD = _drawn(
    ResultRecord,
    request_id=TEXT.map(RequestId),
    group_id=TEXT.map(GroupId),
    outcome=st.sampled_from(Outcome),
    reward=st.none() | st.floats(),
    body=BODY,
    stages=st.lists(STAGE, max_size=3).map(tuple),
    attempts=COUNT,
    error=TEXT,
)


@given(RECORD)
def test_a_result_says_what_its_body_says(record: ResultRecord) -> None:
    assert json.loads(result_json(record)) == json.loads(ResultBody.of(record).model_dump_json())
