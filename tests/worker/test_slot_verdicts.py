"""Verdicts of slots over the wire: what becomes a finish, and what breaks the protocol."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worker.claims import claim

from assay.core.codec import pack, pack_body, unpack_body
from assay.core.ids import (
    WorkerId,
)
from assay.core.outcome import Outcome
from assay.core.records import FailAttempt, HandOver
from assay.core.verdict import Component, Ended, Evidence, HandedOver, ResourceUse
from assay.worker.finish import broke_limit, finish_of, times
from assay.worker.slots import messages
from assay.worker.slots.frames import ProtocolError, SlotFrameReader, encode

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.binary(max_size=50)
VALUES = st.recursive(PLAIN | st.text(max_size=20), lambda some: st.lists(some, max_size=5))


PARTS = (Component(name="format", value=0.25, weight=2.0),)
SAID = [
    Ended(outcome=Outcome.SCORED, reward=0.25, evidence=Evidence(verdict="pass")),
    Ended(outcome=Outcome.SCORED, reward=0.5, components=PARTS, rescorable=False),
    Ended(outcome=Outcome.RESOURCE_LIMIT, reward=0.0),
    Ended(outcome=Outcome.REJECTED_INVALID, reward=None),
    HandedOver(artifact=b"artifact"),
]


@pytest.mark.parametrize("said", SAID)
def test_a_verdict_comes_over_the_wire(said: Ended | HandedOver) -> None:
    before = ResourceUse(cpu_s=2.0)
    frame = encode(
        messages.VERDICTS, [(0, 5, 9, messages.said_by(said, before, version="v"))], False
    )
    (arrived,) = SlotFrameReader().feed(frame)
    (verdict,), retiring = messages.read_verdicts(arrived, 1)
    assert (verdict.at, verdict.started_ns, verdict.finished_ns, retiring) == (0, 5, 9, False)
    if isinstance(said, HandedOver):
        finish = finish_of(claim(stages=("s", "next")), verdict.said)
        assert isinstance(finish, HandOver)
        assert finish.next_stage == "next"
    else:
        assert isinstance(verdict.said, messages.SaidEnded)
        assert (verdict.said.outcome, verdict.said.reward) == (said.outcome, said.reward)
        body = unpack_body(verdict.said.body)
        assert (body.evidence, body.use) == (said.evidence, before)
        assert (body.components, body.rescorable) == (said.components, said.rescorable)
        assert body.pipeline_version == "v"


@pytest.mark.parametrize(
    "said",
    [
        Ended(outcome=Outcome.SCORED, reward=float("nan")),
        Ended(outcome=Outcome.SCORED, reward=float("inf")),
        Ended(outcome=Outcome.SCORED, reward=10**400),
        Ended(outcome=Outcome.INFRA_FAILED, reward=None, evidence=Evidence(error="it broke")),
        Ended(outcome=Outcome.CANCELLED, reward=None),
        Ended(outcome=Outcome.EXPIRED, reward=None),
        Ended(outcome=Outcome.SCORED, reward=1.0, components=PARTS * 2),
        Ended(outcome=Outcome.SCORED, reward=1.0, components=(Component(name="", value=1.0),)),
        Ended(outcome=Outcome.SCORED, reward=1.0, components=(Component(name="a\n", value=1.0),)),
        *(
            Ended(outcome=Outcome.SCORED, reward=1.0, components=(part,))
            for part in (
                Component(name="a", value=math.nan),
                Component(name="a", value=10**400),
                Component(name="a", value=1.0, weight=math.inf),
                Component(name="a", value=1.0, weight=-(10**400)),
            )
        ),
        Ended(
            outcome=Outcome.SCORED,
            reward=1.0,
            components=tuple(Component(name=str(n), value=1.0) for n in range(65)),
        ),
    ],
)
def test_what_is_not_a_stages_to_say_is_a_failed_attempt(said: Ended) -> None:
    assert messages.said_by(said, ResourceUse())[0] == "failed"


BODY = pack_body(Evidence(), ResourceUse())


@pytest.mark.parametrize(
    "verdict",
    [
        [1, 0, 0, ["ended", "SCORED", 1.0, BODY]],
        [-1, 0, 0, ["ended", "SCORED", 1.0, BODY]],
        ["0", 0, 0, ["ended", "SCORED", 1.0, BODY]],
        [0, 0, 0, ["ended", "SCORED", None, BODY]],
        [0, 0, 0, ["ended", "SCORED", float("nan"), BODY]],
        [0, 0, 0, ["ended", "SCORED", "1.0", BODY]],
        [0, 0, 0, ["ended", "REJECTED_INVALID", 1.0, BODY]],
        [0, 0, 0, ["ended", "INFRA_FAILED", None, BODY]],
        [0, 0, 0, ["ended", "SCORED", 1.0, b"no body"]],
        [0, 0, 0, ["handed_over", b"no hand-over"]],
        [0, 0, 0, ["handed_over", "text"]],
        [0, 0, 0, ["failed", b"bytes"]],
        [0, 0, 0, []],
        [0, 0, 0],
        7,
    ],
)
def test_a_verdict_that_cannot_be_breaks_the_protocol(verdict: object) -> None:
    (frame,) = SlotFrameReader().feed(encode(messages.VERDICTS, [verdict], False))
    with pytest.raises(ProtocolError):
        messages.read_verdicts(frame, 1)


@given(VALUES)
def test_whatever_a_slot_says_is_a_verdict_or_breaks_the_protocol(value: object) -> None:
    for frame in ([messages.VERDICTS, [value], False], [messages.VERDICTS, value, False]):
        try:
            messages.read_verdicts(frame, 3)
            messages.read_key(frame)
            messages.read_content(frame)
        except ProtocolError:
            pass


@given(*[st.integers(0, 100)] * 4)
def test_times_lie_between_claim_and_now(
    started: int, finished: int, claimed: int, now: int
) -> None:
    claimed, now = sorted((claimed, now))
    verdict = messages.Verdict(0, started, finished, messages.SaidFailed(error=""))
    report = times(verdict, worker=WorkerId("w"), claimed_ns=claimed, now_ns=now)
    assert 0 <= report.started_after_ns <= report.finished_after_ns <= now - claimed


def test_a_broken_limit_is_worth_what_the_task_says() -> None:
    ended = broke_limit(
        claim(settings=b'{"reward_resource_limit": -0.25}'),
        handover=b"",
        limit="cpu_limit",
        error="",
        cpu_s=1.5,
    )
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, -0.25)
    assert unpack_body(ended.body)[1].cpu_s == 1.5


def test_a_hand_over_from_the_last_stage_is_a_failed_attempt() -> None:
    said = messages.SaidHandedOver(handover=pack([1, b"", 0.0, 0]))
    assert isinstance(finish_of(claim(), said), FailAttempt)
