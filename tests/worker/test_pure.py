"""Frames, verdicts on the wire, blame, and the artifact cache: no processes, no store."""

import math
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.codec import pack, pack_body, unpack_body
from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.outcome import Outcome
from assay.core.records import Claim, FailAttempt, HandOver, Lease, TaskRecord
from assay.core.verdict import Component, Ended, Evidence, HandedOver, ResourceUse
from assay.worker.artifacts.cache import ArtifactCache
from assay.worker.assignment import (
    AHEAD_BYTES_MAX,
    AHEAD_EACH_MAX,
    AHEAD_HOLD_S_MAX,
    AHEAD_HOLDS,
    AHEAD_STALE_S,
    ASSIGNMENT_BYTES_MAX,
    RERUNS_MAX,
    Assignment,
    HeldClaim,
    Waiting,
    blame_for_end,
    no_blame,
)
from assay.worker.finish import broke_limit, finish_of, times
from assay.worker.slots import messages
from assay.worker.slots.frames import BlockingFrames, ProtocolError, SlotFrameReader, encode

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.binary(max_size=50)
VALUES = st.recursive(PLAIN | st.text(max_size=20), lambda some: st.lists(some, max_size=5))


def claim(name: str = "r", *, settings: bytes = b"{}", stages: Sequence[str] = ("s",)) -> Claim:
    """A claim of the first of `stages`."""
    task = TaskRecord(
        tenant=TenantId("t"),
        task_id=TaskId("task"),
        pipeline=PipelineName("p"),
        stages=tuple(map(StageName, stages)),
        settings_json=settings,
    )
    return Claim(
        lease=Lease(job_id=JobId(name), fence=1),
        stage=task.stages[0],
        task=task,
        batch_id=BatchId("b"),
        request_id=RequestId(name),
        group_id=GroupId(""),
        attempt=1,
        response=b"",
        reference=b"",
        handover=b"",
        enqueued_ns=0,
        claimed_ns=0,
        deadline_ns=0,
    )


def held(name: str = "r", *, payload_bytes: int = 10, alone: bool = False) -> HeldClaim:
    """A claim in this host's hands."""
    return HeldClaim(claim=claim(name), claimed_ns=0, payload_bytes=payload_bytes, alone=alone)


# -- frames ----------------------------------------------------------------------------------------


@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), max_size=4), st.data())
def test_frames_survive_any_cutting(frames: list[list[object]], data: st.DataObject) -> None:
    stream = b"".join(encode(*frame) for frame in frames)
    reader = SlotFrameReader()
    arrived: list[list[object]] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        arrived += reader.feed(stream[:size])
        stream = stream[size:]
    assert arrived == frames


@given(st.binary(max_size=200))
def test_what_is_no_frame_is_nonsense_or_waits_for_more(data: bytes) -> None:
    try:
        for frame in SlotFrameReader().feed(data):
            assert isinstance(frame, list)
    except ProtocolError:
        pass


def test_a_frame_too_long_is_nonsense_before_it_arrives() -> None:
    with pytest.raises(ProtocolError, match="4294967295"):
        list(SlotFrameReader().feed(b"\xff\xff\xff\xff"))


def test_a_slot_hears_of_its_hosts_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(encode("work", 1))
        theirs.close()
        frames = BlockingFrames(ours)
        assert frames.receive() == ["work", 1]
        assert frames.receive() is None


def test_work_that_comes_while_a_slot_waits_for_an_answer_is_kept() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames = BlockingFrames(ours)
        theirs.sendall(encode("work", 1) + encode("take_back") + encode("artifact", None, False))
        assert frames.receive(leaving=messages.AHEAD) == ["artifact", None, False]
        assert not frames.next_is("take_back"), "work is before it"
        assert frames.receive() == ["work", 1]
        assert frames.next_is("take_back")
        assert not frames.next_is("take_back"), "nothing has arrived, and none is waited for"
        theirs.sendall(encode("work", 2))
        assert frames.next_is("work")
        theirs.close()
        assert not frames.next_is("work")
        assert frames.receive() is None


# -- verdicts --------------------------------------------------------------------------------------

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
        Ended(outcome=Outcome.INFRA_FAILED, reward=None, evidence=Evidence(error="it broke")),
        Ended(outcome=Outcome.CANCELLED, reward=None),
        Ended(outcome=Outcome.EXPIRED, reward=None),
        Ended(outcome=Outcome.SCORED, reward=1.0, components=PARTS * 2),
        Ended(outcome=Outcome.SCORED, reward=1.0, components=(Component(name="", value=1.0),)),
        Ended(outcome=Outcome.SCORED, reward=1.0, components=(Component(name="a\n", value=1.0),)),
        Ended(
            outcome=Outcome.SCORED, reward=1.0, components=(Component(name="a", value=math.nan),)
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
def test_a_verdict_that_cannot_be_is_nonsense(verdict: object) -> None:
    (frame,) = SlotFrameReader().feed(encode(messages.VERDICTS, [verdict], False))
    with pytest.raises(ProtocolError):
        messages.read_verdicts(frame, 1)


@given(VALUES)
def test_whatever_a_slot_says_is_a_verdict_or_nonsense(value: object) -> None:
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


# -- blame -----------------------------------------------------------------------------------------


@given(
    works=st.integers(1, 8),
    individually=st.booleans(),
    judged=st.integers(0, 7),
    reruns=st.lists(st.integers(0, RERUNS_MAX), min_size=8, max_size=8),
)
def test_a_slots_end_blames_one_at_most_and_loses_none(
    works: int, individually: bool, judged: int, reruns: list[int]
) -> None:
    each = [held(str(number)) for number in range(works)]
    for one, count in zip(each, reruns, strict=False):
        one.reruns = count
    assignment = Assignment(held=each, individually=individually)
    for number in range(min(judged, works - 1)):
        assignment.take(number)
    still_open = list(assignment.open.values())
    blame = blame_for_end(assignment)
    found = [*blame.again, *([blame.blamed] if blame.blamed else [])]
    assert sorted(map(id, found)) == sorted(map(id, still_open))
    if individually or len(still_open) == 1:
        assert blame.blamed is still_open[0]
    if blame.blamed is None:
        assert all(one.alone and one.reruns <= RERUNS_MAX for one in blame.again)


def test_who_retires_a_slot_is_run_in_a_fresh_one_a_bounded_number_of_times() -> None:
    one = held()
    for _ in range(RERUNS_MAX):
        blame = no_blame(Assignment(held=[one], individually=True))
        assert (blame.blamed, blame.again, one.fresh) == (None, (one,), True)
    assert no_blame(Assignment(held=[one], individually=True)).blamed is one


def test_slots_that_others_end_or_retire_are_not_counted_against_a_claim() -> None:
    """Seed 25005: a request behind four that retire their slot failed when it was the fifth."""
    last = held("last")
    for settle in (no_blame, blame_for_end) * RERUNS_MAX:
        settle(Assignment(held=[held("other"), last], individually=True))
    assert no_blame(Assignment(held=[last], individually=True)).blamed is None


@given(
    sizes=st.lists(
        st.sampled_from([1, ASSIGNMENT_BYTES_MAX // 3, 2 * ASSIGNMENT_BYTES_MAX]), max_size=40
    ),
    alone=st.sets(st.integers(0, 39)),
    slots_idle=st.integers(1, 4),
    batch_max=st.integers(1, 8),
)
def test_claims_are_given_out_in_order_within_the_bounds(
    sizes: list[int], alone: set[int], slots_idle: int, batch_max: int
) -> None:
    each = [
        held(str(number), payload_bytes=size, alone=number in alone)
        for number, size in enumerate(sizes)
    ]
    waiting = Waiting(batch_max=batch_max)
    waiting.add(each)
    given_out: list[HeldClaim] = []
    while len(waiting):
        taken = waiting.take(slots_idle=slots_idle)
        assert 1 <= len(taken) <= batch_max
        assert len(taken) == 1 or not any(one.alone for one in taken)
        assert len(taken) == 1 or sum(one.payload_bytes for one in taken) <= ASSIGNMENT_BYTES_MAX
        given_out += taken
    assert given_out == each


@given(
    fresh=st.lists(st.booleans(), max_size=12),
    slots_idle=st.integers(1, 4),
    batch_max=st.integers(1, 8),
)
def test_what_any_slot_may_judge_passes_the_first_claims_that_need_a_fresh_one(
    fresh: list[bool], slots_idle: int, batch_max: int
) -> None:
    each = [held(str(number)) for number in range(len(fresh))]
    for one, needs_fresh in zip(each, fresh, strict=True):
        one.fresh = needs_fresh
    waiting = Waiting(batch_max=batch_max)
    waiting.add(each)
    taken = waiting.take_past_fresh(slots_idle=slots_idle)
    assert bool(taken) == (False in fresh)
    assert not any(one.fresh for one in taken)
    assert not taken or taken[0] is each[fresh.index(False)]
    left = [one for one in each if one not in taken]
    while len(waiting):
        for one in waiting.take(slots_idle=1):
            assert one is left.pop(0), "what is left keeps its order"
    assert not left


def test_who_is_run_again_comes_first() -> None:
    waiting = Waiting(batch_max=8)
    first, second, third = held("1"), held("2"), held("3")
    waiting.add([third])
    waiting.add_again([first, second])
    assert waiting.take(slots_idle=1) == [first, second, third]


@given(
    waiting=st.integers(0, 12),
    idle=st.integers(0, 4),
    busy=st.integers(0, 4),
    reserved=st.integers(0, 3),
    batch_max=st.integers(1, 10),
    holds_s=st.lists(st.floats(0, 2 * AHEAD_HOLD_S_MAX), max_size=3 * AHEAD_HOLDS),
)
def test_claims_are_held_for_busy_slots_only_while_assignments_are_short(
    waiting: int, idle: int, busy: int, reserved: int, batch_max: int, holds_s: list[float]
) -> None:
    queue = Waiting(batch_max=batch_max)
    queue.add([held(str(number)) for number in range(waiting)])
    for hold_s in holds_s:
        queue.note_hold(hold_s)
    capacity, slots = idle * batch_max - waiting, idle + busy
    room = queue.room(capacity, slots, reserved)
    last = holds_s[-AHEAD_HOLDS:]
    is_short = len(last) == AHEAD_HOLDS and sum(last) <= AHEAD_HOLDS * AHEAD_HOLD_S_MAX
    assert queue.is_brisk is is_short
    each = 1.0
    if is_short and batch_max < AHEAD_EACH_MAX:
        within = AHEAD_HOLDS * AHEAD_HOLD_S_MAX / max(sum(last), 1e-9)
        each = min(AHEAD_EACH_MAX, int(within) * batch_max) / batch_max
    most = slots * each * batch_max - reserved
    if is_short and most - waiting > capacity and 2 * (most - waiting) >= most:
        assert room == most - waiting
    else:
        assert room == capacity
    surplus = queue.take_surplus(slots)
    assert len(surplus) == max(0, waiting - round(slots * each * batch_max))


@given(
    sizes=st.lists(st.sampled_from([1, AHEAD_BYTES_MAX // 3, 2 * AHEAD_BYTES_MAX]), max_size=40),
    alone=st.sets(st.integers(0, 39)),
    fresh=st.sets(st.integers(0, 39)),
    slots=st.integers(1, 4),
    batch_max=st.integers(1, 8),
    is_brisk=st.booleans(),
)
def test_busy_slots_get_what_is_small_and_needs_no_slot_of_its_own(
    sizes: list[int],
    alone: set[int],
    fresh: set[int],
    slots: int,
    batch_max: int,
    *,
    is_brisk: bool,
) -> None:
    each = [
        held(str(number), payload_bytes=size, alone=number in alone)
        for number, size in enumerate(sizes)
    ]
    for number in fresh & set(range(len(each))):
        each[number].fresh = True
    waiting = Waiting(batch_max=batch_max)
    waiting.add(each)
    for _ in range(AHEAD_HOLDS * is_brisk):
        waiting.note_hold(0.0)
    given_out: list[HeldClaim] = []
    while taken := waiting.take_ahead(slots=slots):
        assert len(taken) <= batch_max <= -(-(len(waiting) + len(taken)) // slots)
        assert not any(one.alone or one.fresh for one in taken)
        assert sum(one.payload_bytes for one in taken) <= AHEAD_BYTES_MAX
        given_out += taken
    assert given_out == each[: len(given_out)]
    assert is_brisk or not given_out
    left = each[len(given_out) :]
    if is_brisk and left:
        first = left[0]
        needs_idle = first.alone or first.fresh or first.payload_bytes > AHEAD_BYTES_MAX
        assert needs_idle or -(-len(left) // slots) < batch_max


def test_claims_held_for_slots_that_stay_busy_are_given_back_once() -> None:
    queue = Waiting(batch_max=1)
    late_ns = int(AHEAD_STALE_S * 1e9) + 1
    plain, again, new = held("1"), held("2"), held("3")
    again.reruns, new.claimed_ns = 1, late_ns
    queue.add([plain, again, new])
    assert queue.take_stale(late_ns) == [], "these were claimed for idle slots"
    for _ in range(AHEAD_HOLDS):
        queue.note_hold(0.0)
    assert queue.room(0, 1) == 5
    assert queue.take_stale(late_ns) == [plain]
    assert queue.take_stale(late_ns) == []
    assert queue.room(0, 1) == 0, "the next assignments decide again"
    assert queue.take(slots_idle=1) == [again]


# -- artifact cache --------------------------------------------------------------------------------


def test_the_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, bytes_max=3 * 132)
    for key in ("a", "b", "c"):
        cache.put(key, key.encode() * 100)
    assert cache.get("a") == b"a" * 100
    cache.put("d", b"d" * 100)
    assert cache.get("b") is None
    assert cache.get("a") == b"a" * 100
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 3 * 132


def test_the_cache_survives_its_host(tmp_path: Path) -> None:
    ArtifactCache(tmp_path, bytes_max=1_000).put("../../etc/passwd", b"content")
    assert ArtifactCache(tmp_path, bytes_max=1_000).get("../../etc/passwd") == b"content"
    assert ArtifactCache(tmp_path, bytes_max=10).get("../../etc/passwd") is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_artifact_is_dropped(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, bytes_max=1_000)
    cache.put("key", b"content")
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"X")
    assert cache.get("key") is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, bytes_max=100)
    cache.put("key", bytes(200))
    assert cache.get("key") is None
