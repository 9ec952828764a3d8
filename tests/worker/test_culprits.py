"""One member that makes its group's stage fail costs the others nothing."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worker.claims import claim
from tests.worker.hosts import Judged, RunHost, Trainer

from assay.core.ids import StageName
from assay.core.outcome import Outcome
from assay.core.pipeline import StageSpec
from assay.core.records import EndRequest, FailAttempt
from assay.verifiers.port import StageDefinition
from assay.worker.assignment import HeldClaim
from assay.worker.auditing.culprits import (
    CONTROL,
    KNOWN,
    CulpritSearch,
    Failure,
    Suspects,
    chosen,
    runs_max,
)
from assay.worker.auditing.searches import GroupSearches
from assay.worker.slots.messages import SaidEnded, SaidFailed

STAGE = StageDefinition(spec=StageSpec(name=StageName("s")), handler="m:Handler", confined=True)
BROKE = Failure(error="the handler broke")
OVER = Failure(error="killed", limit="cpu_limit")


def searched(
    members: int, fails: Callable[[Suspects], Failure | None], *, has_control: bool = True
) -> tuple[CulpritSearch, int]:
    """The finished search, and its number of runs."""
    search = CulpritSearch(order=tuple(range(members)), first=BROKE, has_control=has_control)
    runs = 0
    while not search.is_over:
        runs += 1
        assert runs <= runs_max(members), "the search is bounded"
        search.ended(fails(search.following))
    return search, runs


@given(st.data(), st.integers(1, 24), st.integers(1, 3), st.sampled_from([BROKE, OVER]))
def test_exactly_the_members_that_make_it_fail_are_blamed(
    data: st.DataObject, members: int, needed: int, failure: Failure
) -> None:
    """`needed`: with fewer members the handler fails whatever they are, which one may not; then
    the part without a culprit has to be large enough to be found."""
    culprits = data.draw(st.sets(st.integers(0, members - 1)))

    def fails(part: Suspects) -> Failure | None:
        if part == CONTROL:
            return None
        return failure if culprits & set(part) or len(part) < needed else None

    search, _ = searched(members, fails)
    if needed == 1 or (members >= 4 * needed and len(culprits) <= 1):
        assert set(search.blamed) == culprits
        assert set(search.passing) == set(range(members)) - culprits
    assert set(search.blamed) | set(search.passing) == set(range(members))
    assert not search.infrastructure_failed


@given(st.integers(1, 24), st.booleans())
def test_where_a_control_fails_as_well_no_member_is_at_fault(
    members: int, has_control: bool
) -> None:
    search, runs = searched(members, lambda _: BROKE, has_control=has_control)
    assert search.infrastructure_failed
    assert not has_control or runs <= 3, "a trusted member settles it"


@given(st.integers(1, 24), st.booleans())
def test_a_group_that_passed_before_is_a_control_where_no_trivial_response_can_be_judged(
    members: int, works: bool
) -> None:
    search = CulpritSearch(
        order=tuple(range(members)), first=BROKE, has_control=False, known=("one", "two")
    )
    runs = 0
    while not search.is_over:
        runs += 1
        is_known = search.following == KNOWN
        assert not is_known or chosen(["x"] * members, search) == ("one", "two")
        search.ended(None if works and is_known else BROKE)
    assert runs <= runs_max(members)
    assert search.infrastructure_failed is not works
    assert set(search.blamed) == set(range(members))


@given(st.integers(1, 24), st.data())
def test_a_failure_that_passes_the_next_time_blames_no_one(
    members: int, data: st.DataObject
) -> None:
    at_most_two = iter(data.draw(st.lists(st.booleans(), min_size=500, max_size=500)))
    in_a_row: dict[Suspects, int] = {}

    def fails(part: Suspects) -> Failure | None:
        in_a_row[part] = in_a_row.get(part, 0) + 1 if next(at_most_two) else 0
        if in_a_row[part] > 2:
            in_a_row[part] = 0
        return BROKE if in_a_row[part] else None

    search, _ = searched(members, fails)
    assert not search.blamed
    assert sorted(search.passing) == list(range(members))


def test_where_only_the_sum_is_too_much_the_last_in_order_are_over_the_limit() -> None:
    def fails(part: Suspects) -> Failure | None:
        return OVER if len(part) > 5 else None

    search, _ = searched(8, fails)
    assert set(search.passing) == {0, 1, 2, 3, 4}


def verdicts(results: list[Judged]) -> list[tuple[Outcome, float | None, str]]:
    return [(one.record.outcome, one.record.reward, one.evidence.verdict) for one in results]


PASSED = (Outcome.SCORED, 1.0, "pass")
WRONG = (Outcome.SCORED, 0.0, "broke_the_run")


@pytest.mark.parametrize(
    ("culprit", "end"),
    [
        ("raise", WRONG),
        ("exit", WRONG),
        ("die", WRONG),
        ("spin", (Outcome.RESOURCE_LIMIT, 0.0, "cpu_limit")),
        ("memory", (Outcome.RESOURCE_LIMIT, 0.0, "memory_limit")),
    ],
)
async def test_the_member_that_breaks_the_stage_ends_and_the_others_are_judged(
    run_host: RunHost, trainer: Trainer, culprit: str, end: tuple[Outcome, float, str]
) -> None:
    await run_host("first", "group", slots=2)
    results = await trainer.judge("group", "pass", "pass", culprit, "pass")
    assert verdicts(results) == [PASSED, PASSED, end, PASSED]
    assert [one.evidence.extracted for one in results if one.evidence.extracted] == ["3"] * 3
    assert {one.record.attempts for one in results} == {2}, "one per stage"


async def test_members_that_can_only_be_judged_with_others_are(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("first", "group.trusting")
    results = await trainer.judge("group.trusting", "raise", *["together"] * 4)
    assert verdicts(results) == [WRONG, *[PASSED] * 4]


async def test_a_group_of_culprits_is_at_fault_where_a_trusted_member_passes(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("first", "group.trusting")
    assert verdicts(await trainer.judge("group.trusting", "raise", "exit")) == [WRONG, WRONG]


async def test_a_group_of_culprits_is_at_fault_where_a_trivial_response_passes(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("first", "group")
    assert verdicts(await trainer.judge("group", "raise", "exit")) == [WRONG, WRONG]


async def test_a_stage_that_fails_for_trivial_responses_too_blames_no_one_until_a_group_has_passed(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("first", "group.strict")
    results = await trainer.judge("group.strict", "raise", "raise")
    assert [one.record.outcome for one in results] == [Outcome.INFRA_FAILED] * 2
    assert "a control fails too" in results[0].record.error
    assert verdicts(await trainer.judge("group.strict", "pass", "pass")) == [PASSED, PASSED]
    assert verdicts(await trainer.judge("group.strict", "raise", "exit")) == [WRONG, WRONG], (
        "a group of the task that passed before passes again, so the stage works"
    )


async def test_a_stage_that_may_ask_a_service_blames_no_member_for_an_exception(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("first", "group.service")
    results = await trainer.judge("group.service", "pass", "raise")
    assert [one.record.outcome for one in results] == [Outcome.INFRA_FAILED] * 2


async def test_a_request_with_which_its_confined_slot_ends_is_wrong_where_a_control_passes(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("quiet", slots=2)
    results = await trainer.judge("quiet", "pass", "exit", "pass")
    assert verdicts(results) == [PASSED, WRONG, PASSED]
    assert {one.record.attempts for one in results} == {1}, "no attempt is used up"
    assert "slot ended" in results[1].evidence.error


async def test_a_request_is_not_at_fault_where_its_controls_cannot_be_judged_either(
    run_host: RunHost, trainer: Trainer
) -> None:
    await run_host("confined", "single", slots=1)
    for stage in ("confined", "single"):  # one that may ask a service has no controls
        (result,) = await trainer.judge(stage, "exit")
        assert (result.record.outcome, result.record.reward) == (Outcome.INFRA_FAILED, None)
        assert "slot ended" in result.record.error


ENDED = Failure(error="slot ended: the channel closed")
JUDGED = SaidEnded(outcome=Outcome.SCORED, reward=0.25, body=b"judged", unaudited=False)


@pytest.mark.parametrize(
    ("runs", "reward"),
    [
        ([ENDED, JUDGED, JUDGED], 0.25),
        ([ENDED, JUDGED, ENDED, ENDED, JUDGED], 0.25),
        ([ENDED, JUDGED, ENDED, ENDED, ENDED], 0.0),
        ([ENDED, ENDED, JUDGED, ENDED, ENDED, ENDED], 0.0),
        ([ENDED, ENDED, ENDED, SaidFailed(error="no control"), JUDGED], 0.25),
        ([ENDED, ENDED, ENDED, ENDED, ENDED, ENDED, ENDED], None),
    ],
)
def test_the_end_of_a_request_alone(
    runs: list[Failure | SaidEnded | SaidFailed], reward: float | None
) -> None:
    """The first run, then controls until one passes, then the request until it is decided."""
    again: list[HeldClaim] = []
    searches = GroupSearches(STAGE, again.extend)
    held = HeldClaim(claim=claim(), claimed_ns=0, payload_bytes=0)
    assert not searches.concerns(held, JUDGED)
    for at, ended in enumerate(runs):
        assert searches.concerns(held, ended)
        finish = searches.take(held, ended, version="v")
        assert (finish is None) == (at + 1 < len(runs)) == (len(again) == at + 1)
    if reward is None:
        assert finish == FailAttempt(error=ENDED.error)
    else:
        assert isinstance(finish, EndRequest)
        assert finish.reward == reward
