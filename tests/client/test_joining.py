"""Submissions that are joined into one message end as they would alone."""

import asyncio
import gc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.client.joining import JOINED_BYTES_MAX, JOINED_REQUESTS_MAX, Joining
from assay.client.types import Submitted
from assay.core.errors import AssayError, DependencyDown, InvalidRequest, Saturated
from assay.v1.reward_pb2 import RewardRequest

JOIN_S = 0.001
BAD = "bad"
TOGETHER_MAX = 12


class Service:
    """Accepts all requests of a message or none."""

    def __init__(self) -> None:
        self.stored: set[str] = set()
        self.sizes: list[int] = []
        self.is_down = False

    async def send(self, messages: Sequence[RewardRequest]) -> Submitted:
        self.sizes.append(len(messages))
        await asyncio.sleep(JOIN_S)
        if self.is_down:
            raise DependencyDown("down")
        ids = [message.request_id for message in messages]
        if BAD in ids:
            field = f"requests[{ids.index(BAD)}]"
            raise InvalidRequest(f"{field}: wrong", field=field)
        if len(ids) > TOGETHER_MAX:
            raise Saturated("too many at once", retry_after_s=0.0)
        fresh = set(ids) - self.stored
        self.stored |= fresh
        return Submitted(accepted=len(fresh), duplicates=len(ids) - len(fresh))


def messages(ids: Sequence[str]) -> list[RewardRequest]:
    """Requests without content."""
    return [RewardRequest(request_id=one) for one in ids]


def submitted(service: Service, calls: Sequence[Sequence[str]]) -> list[Submitted | BaseException]:
    """All calls at once."""

    async def scenario() -> list[Submitted | BaseException]:
        joining = Joining(service.send, join_s=JOIN_S)
        made = [joining.submit(messages(ids)) for ids in calls]
        return await asyncio.gather(*made, return_exceptions=True)

    return asyncio.run(scenario())


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(
        st.lists(st.sampled_from([*"abcdefghijklmnop", BAD]), max_size=4), min_size=1, max_size=12
    ),
    before=st.sets(st.sampled_from("abcdef")),
)
def test_each_call_ends_as_alone_and_the_counts_add_up(
    calls: Sequence[Sequence[str]], before: set[str]
) -> None:
    service = Service()
    service.stored |= before
    results = submitted(service, calls)
    good = {one for ids in calls if BAD not in ids for one in ids}
    assert service.stored == before | good
    accepted = 0
    for ids, result in zip(calls, results, strict=True):
        if BAD in ids:
            assert isinstance(result, InvalidRequest)
            assert result.field == f"requests[{ids.index(BAD)}]"
        else:
            assert isinstance(result, Submitted)
            assert result.accepted + result.duplicates == len(ids)
            assert min(result.accepted, result.duplicates) >= 0
            accepted += result.accepted
    assert accepted == len(good - before)


def test_calls_that_meet_one_in_progress_share_a_message() -> None:
    service = Service()
    submitted(service, [[f"{number}"] for number in range(TOGETHER_MAX)])
    assert service.sizes == [1, TOGETHER_MAX - 1]


def test_a_call_that_meets_no_other_does_not_wait() -> None:
    service = Service()

    async def scenario() -> None:
        joining = Joining(service.send, join_s=3_600.0)
        for number in range(3):
            await joining.submit(messages([f"{number}"]))

    asyncio.run(scenario())
    assert service.sizes == [1, 1, 1]


def test_a_full_message_goes_without_waiting() -> None:
    service = Service()

    async def scenario() -> None:
        joining = Joining(service.send, join_s=3_600.0)
        made = [
            asyncio.create_task(joining.submit(messages([f"{number}"])))
            for number in range(JOINED_REQUESTS_MAX + 2)
        ]
        while len(service.sizes) < 2:
            await asyncio.sleep(0)
        for task in made:
            task.cancel()
        await asyncio.gather(*made, return_exceptions=True)

    asyncio.run(scenario())
    assert service.sizes[:2] == [1, JOINED_REQUESTS_MAX]


def test_messages_are_full_by_bytes_too_and_each_has_the_whole_room() -> None:
    service = Service()
    large = b"x" * (JOINED_BYTES_MAX * 2 // 5)

    async def scenario() -> None:
        joining = Joining(service.send, join_s=JOIN_S)
        made = [[RewardRequest(request_id=f"{n}", response=large)] for n in range(6)]
        await asyncio.gather(*map(joining.submit, made))

    asyncio.run(scenario())
    assert service.sizes == [1, 2, 2, 1]


def test_a_call_that_was_cancelled_while_it_waited_is_not_sent() -> None:
    service = Service()

    async def scenario() -> None:
        joining = Joining(service.send, join_s=JOIN_S)
        first, left, last = [
            asyncio.create_task(joining.submit(messages([one])))
            for one in ("first", "left", "last")
        ]
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(first, last)

    asyncio.run(scenario())
    assert service.stored == {"first", "last"}


def test_a_service_that_is_down_is_asked_once_for_all() -> None:
    service = Service()
    service.is_down = True
    results = submitted(service, [["a"], ["b"], ["c"]])
    assert all(isinstance(result, DependencyDown) for result in results)
    assert service.sizes == [1, 2]


def test_what_is_too_much_together_is_sent_apart() -> None:
    service = Service()
    results = submitted(service, [[f"{number}"] for number in range(TOGETHER_MAX + 2)])
    assert not any(isinstance(result, AssayError) for result in results)
    assert len(service.stored) == TOGETHER_MAX + 2


def test_a_request_that_two_calls_submit_is_a_duplicate_for_the_second() -> None:
    _, *results = submitted(Service(), [["z"], ["a"], ["b"], ["a"]])
    assert results == [
        Submitted(accepted=1, duplicates=0),
        Submitted(accepted=1, duplicates=0),
        Submitted(accepted=0, duplicates=1),
    ]


@pytest.mark.parametrize("callers", [4, TOGETHER_MAX])
def test_what_waits_goes_when_nothing_is_in_progress_any_more(callers: int) -> None:
    """With what the callers submit who were waiting for that answer, however many these are."""
    service = Service()

    async def scenario() -> None:
        joining = Joining(service.send, join_s=3_600.0)

        async def caller(name: int) -> None:
            for number in range(3):
                await joining.submit(messages([f"{name}-{number}"]))

        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            for name in range(callers):
                tasks.create_task(caller(name))

    asyncio.run(scenario())
    assert service.sizes[:4] == [1, callers, 1, callers]
    assert len(service.stored) == 3 * callers


def test_an_error_that_no_one_foresaw_reaches_all_callers_and_no_log() -> None:
    service = Service()

    async def broken(sent: Sequence[RewardRequest]) -> Submitted:
        if len(sent) > 1:
            raise RuntimeError("the channel is closed")
        return await service.send(sent)

    async def scenario() -> list[Submitted | BaseException]:
        joining = Joining(broken, join_s=JOIN_S)
        made = [joining.submit(messages([one])) for one in "abc"]
        return await asyncio.gather(*made, return_exceptions=True)

    first, *others = asyncio.run(scenario())
    assert first == Submitted(accepted=1, duplicates=0)
    assert all(isinstance(one, RuntimeError) for one in others)
    gc.collect()
