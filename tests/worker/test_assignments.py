"""Which claims a slot gets, and which one its end is blamed on."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.worker.claims import claim, held

from assay.core.records import Artifact
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
    wire_work,
)


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
    each_max = batch_max
    if is_short and batch_max < AHEAD_EACH_MAX:
        within = AHEAD_HOLDS * AHEAD_HOLD_S_MAX / max(sum(last), 1e-9)
        each_max = min(AHEAD_EACH_MAX, int(within) * batch_max)
    most = slots * each_max - reserved
    if is_short and most - waiting > capacity and 2 * (most - waiting) >= most:
        assert room == most - waiting
    else:
        assert room == capacity
    surplus = queue.take_surplus(slots)
    assert len(surplus) == max(0, waiting - slots * each_max)


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


def test_a_slot_gets_all_that_came_with_the_request() -> None:
    file = Artifact(name="a.txt", content=b"file")
    whole = replace(
        claim(), response=b"response", reference=b"{}", handover=b"handover",
        messages=b'[{"role": "user"}]', artifacts=(file,),
    )  # fmt: skip
    work = wire_work(whole, 7)
    assert (work.task, work.response, work.reference) == (7, b"response", b"{}")
    assert (work.handover, work.messages) == (b"handover", b'[{"role": "user"}]')
    assert work.artifacts == [("a.txt", b"file")]
    assert work.tenant == whole.task.tenant
