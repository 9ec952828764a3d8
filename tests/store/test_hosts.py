"""Worker hosts in the store: their records, and the leases of one that is dead."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.driver import (
    FIRST,
    SECOND,
    TENANT,
    WORKER,
    Driver,
    MakeStore,
    eventually,
    requests,
)

from assay.core.codec import pack
from assay.core.errors import InvalidRequest, Saturated
from assay.core.hosts.record import (
    BUSY_UNKNOWN,
    HOST_GONE,
    HOST_STAGES_MAX,
    HOSTS_MAX,
    HOSTS_PER_OWNER_MAX,
    HostRecord,
    address_of,
    check_host,
)
from assay.core.ids import BatchId, StageName, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import FinishStatus
from assay.store.operations.hosts import record_of
from assay.testing.queue_hosts import HostBook

HOST = HostRecord(
    worker=WorkerId("one:17:ab"),
    address="127.0.0.1:8472",
    stages=(FIRST, SECOND),
    cores=8,
    memory_bytes=1 << 34,
    slots_max=256,
    credential="c" * 43,
    busy=3,
)
LONG_S = 600.0
NO_ADDRESSES = (
    "unix:/run/secret.sock", "unix:///run/secret.sock", "dns://evil/a:1", "http://a:1", "a", "a:",
    "a:0", "a:65536", "a:-1", "a b:1", "a\r\nb:1", "a/b:1", "a@b:1", "::1:80", "[::1]", "[x]:1",
    "-a:1", "127.1:80", "2130706433:80", "0x7f000001:80", "0177.0.0.1:80", "1.2.3.400:80",
    "a:1,b:2", "ä:1",
)  # fmt: skip
NO_CREDENTIALS = ("short", "c" * 129, "c" * 42 + "\n", "c" * 42 + " ", "c" * 42 + "ä", "\0" * 43)


async def test_a_host_is_kept_as_it_said_and_renewing_it_is_not_news(drive: Driver) -> None:
    assert await drive.store.put_host(HOST, lease_s=LONG_S)
    grown = replace(HOST, slots_max=300)
    assert not await drive.store.put_host(grown, lease_s=LONG_S)
    assert list(await drive.store.hosts()) == [grown]


async def test_a_host_that_does_not_renew_is_gone(drive: Driver) -> None:
    await drive.store.put_host(HOST, lease_s=0.001)

    async def gone() -> bool:
        return not await drive.store.hosts()

    await eventually(gone)
    assert await drive.store.put_host(HOST, lease_s=LONG_S), "it is new again"


async def test_a_host_that_leaves_is_gone_at_once_and_only_it(drive: Driver) -> None:
    other = replace(HOST, worker=WorkerId("other"))
    for host in (HOST, other):
        await drive.store.put_host(host, lease_s=LONG_S)
    for _ in range(2):
        await drive.store.drop_host(HOST.worker)
    assert list(await drive.store.hosts()) == [other]


async def test_planners_wake_when_a_host_comes_and_goes_and_not_when_it_renews(
    drive: Driver,
) -> None:
    seen = 0

    async def watch() -> None:
        nonlocal seen
        async for _ in drive.store.watch_planning():
            seen += 1

    watching = asyncio.create_task(watch())

    async def reached(count: int) -> None:
        async def there() -> bool:
            return seen >= count

        await eventually(there)

    await reached(1)
    await drive.store.put_host(HOST, lease_s=LONG_S)
    await reached(2)
    await drive.store.put_host(HOST, lease_s=LONG_S)
    await drive.store.drop_host(HOST.worker)
    await reached(3)
    assert seen == 3
    watching.cancel()


async def test_leases_of_a_dead_host_are_redelivered_at_once_in_their_places(
    drive: Driver,
) -> None:
    await drive.open()
    await drive.submit(requests(*"abcdef"))
    dead = await drive.claim(3)
    live = await drive.store.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=WorkerId("lives"))
    taken = await drive.store.take_back(FIRST, WORKER, attempts_max=3)
    assert (taken.redelivered, taken.dead) == (3, 0)
    again = await drive.claim()
    assert [one.request_id for one in again] == ["a", "b", "c", "e", "f"]
    assert [one.attempt for one in again] == [2, 2, 2, 1, 1]
    assert set((await drive.score(dead)).statuses) == {FinishStatus.STALE}
    assert set((await drive.score([*again, *live])).statuses) == {FinishStatus.DONE}
    assert len(await drive.results()) == 6
    await drive.batch()


async def test_a_request_whose_hosts_die_ends_as_a_dead_letter_that_says_so(
    drive: Driver,
) -> None:
    await drive.open(size=1)
    await drive.submit(requests("kills"))
    for attempt in (1, 2):
        await drive.claim()
        taken = await drive.store.take_back(FIRST, WORKER, attempts_max=2)
        assert (taken.redelivered, taken.dead) == ((1, 0) if attempt == 1 else (0, 1))
    assert [one.batch_id for one in taken.completed] == ["step-1"]
    (result,) = await drive.results()
    assert (result.outcome, result.error) == (Outcome.INFRA_FAILED, HOST_GONE)
    (letter,) = await drive.store.dead_letters(letters_max=9)
    assert letter.error == HOST_GONE


async def test_what_a_dead_host_did_not_hold_is_left_alone(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests(*"abc"))
    held = await drive.claim(2)
    for worker, stage in ((WorkerId("host/"), FIRST), (WORKER, SECOND)):
        taken = await drive.store.take_back(stage, worker, attempts_max=3)
        assert (taken.redelivered, taken.dead, taken.completed) == (0, 0, ())
    await drive.store.cancel(TENANT, BatchId("step-1"))
    taken = await drive.store.take_back(FIRST, WORKER, attempts_max=3)
    assert taken.redelivered == 0, "it was cancelled"
    assert set((await drive.score(held)).statuses) == {FinishStatus.STALE}


async def test_thousands_of_leases_are_searched_in_parts(make_store: MakeStore) -> None:
    drive = Driver(make_store())
    await drive.open()
    names = [f"r{number:04}" for number in range(700)]
    await drive.submit(requests(*names))
    for first in range(0, 700, 100):
        worker = WorkerId("dead") if first % 200 else WorkerId("lives")
        await drive.store.claim(FIRST, claims_max=100, lease_s=LONG_S, worker=worker)
    taken = await drive.store.take_back(FIRST, WorkerId("dead"), attempts_max=3)
    assert taken.redelivered == 300
    batch = await drive.batch()
    assert (batch.queued, batch.running) == (300, 400)


async def test_hosts_beyond_the_setting_are_refused_until_one_is_gone(
    make_store: MakeStore,
) -> None:
    store = make_store(hosts_max=2)
    names = [WorkerId(name) for name in "abc"]
    for name in names[:2]:
        assert await store.put_host(replace(HOST, worker=name), lease_s=LONG_S)
    third = replace(HOST, worker=names[2])
    with pytest.raises(Saturated, match="2 worker hosts are registered"):
        await store.put_host(third, lease_s=LONG_S)
    assert not await store.put_host(replace(HOST, worker=names[0]), lease_s=LONG_S), "renewed"
    await store.drop_host(names[0])
    assert await store.put_host(third, lease_s=LONG_S)
    assert sorted(one.worker for one in await store.hosts()) == names[1:]


async def test_one_owner_cannot_take_the_places_of_the_others(drive: Driver) -> None:
    def named(number: int) -> HostRecord:
        return replace(HOST, worker=WorkerId(f"liar-{number}"))

    for number in range(HOSTS_PER_OWNER_MAX):
        assert await drive.store.put_host(named(number), lease_s=LONG_S, owner="one-token")
    with pytest.raises(Saturated, match="by this token") as refused:
        await drive.store.put_host(named(9_999), lease_s=LONG_S, owner="one-token")
    assert refused.value.retry_after_s
    assert not await drive.store.put_host(named(7), lease_s=LONG_S, owner="one-token"), "renewed"
    assert await drive.store.put_host(HOST, lease_s=LONG_S, owner="another")
    await drive.store.drop_host(named(0).worker)
    assert await drive.store.put_host(named(9_999), lease_s=LONG_S, owner="one-token")
    assert len(await drive.store.hosts()) == HOSTS_PER_OWNER_MAX + 1


# -- records, pure -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("worker", {"worker": WorkerId("")}),
        ("address", {"address": "x" * 300}),
        *(("address", {"address": one}) for one in NO_ADDRESSES),
        *(("credential", {"credential": one}) for one in NO_CREDENTIALS),
        ("stages", {"stages": ()}),
        ("stages", {"stages": tuple(StageName(f"s{n}") for n in range(HOST_STAGES_MAX + 1))}),
        ("stages[1]", {"stages": (FIRST, StageName(""))}),
        ("cores", {"cores": 0}),
        ("memory_bytes", {"memory_bytes": -1}),
        ("slots_max", {"slots_max": 10**9}),
        ("busy", {"busy": -2}),
    ],
)
async def test_a_record_out_of_its_limits_is_refused_by_name(
    drive: Driver, field: str, change: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await drive.store.put_host(replace(HOST, **change), lease_s=LONG_S)  # type: ignore[arg-type] # by name
    assert refused.value.field == f"host.{field}"
    assert not await drive.store.hosts()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50), st.booleans()), max_size=60))
def test_the_list_of_hosts_is_who_renewed_in_time_and_did_not_leave(
    steps: list[tuple[int, int, bool]],
) -> None:
    book, until = HostBook(), dict[str, int]()
    for now_ns, (number, lease_ns, leaves) in enumerate(steps):
        worker = WorkerId(str(number))
        if leaves:
            book.drop(worker)
            until.pop(worker, None)
        else:
            book.put(replace(HOST, worker=worker), lease_ns, now_ns)
            until[worker] = now_ns + lease_ns
        live = {host.worker for host in book.all(now_ns)}
        assert live == {worker for worker, ends_ns in until.items() if ends_ns > now_ns}


async def test_what_a_host_judged_is_counted_by_stage_whatever_it_says_of_itself(
    drive: Driver,
) -> None:
    other, store = WorkerId("other"), drive.store
    await drive.open(size=6)
    await drive.submit(requests(*"abcdef"))
    mine = await store.claim(FIRST, claims_max=4, lease_s=LONG_S, worker=WORKER)
    theirs = await store.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=other)
    await drive.hand_over(mine[:1])
    await drive.score(mine[1:2])
    await drive.score(mine[1:2])
    await drive.fail(mine[2:3])
    await drive.give_back(mine[3:])
    assert dict(await store.ended_by([WORKER, other])) == {WORKER: {FIRST: 2}, other: {}}
    await drive.score(theirs)
    many = [other, *(WorkerId(f"none{number}") for number in range(200))]
    assert (await store.ended_by(many))[other] == {FIRST: 1}


def test_the_number_of_hosts_is_bounded() -> None:
    book = HostBook()
    for number in range(HOSTS_MAX):
        book.put(replace(HOST, worker=WorkerId(str(number))), 10, 0)
    with pytest.raises(Exception, match="are registered"):
        book.put(HOST, 10, 5)
    assert check_host(HOST) is HOST
    assert book.put(HOST, 10, 11), "there is room once they are gone"


@given(
    st.text("abz0127.-_[]:/@? %\t\n,é", max_size=30)
    | st.tuples(st.text("a0.-x[]:f", max_size=12), st.integers(-1, 70_000)).map(
        "{0[0]}:{0[1]}".format
    )
)
def test_an_address_is_a_host_and_a_port_or_refused(text: str) -> None:
    try:
        name, port = address_of(text)
    except InvalidRequest:
        return
    assert text in {f"{name}:{text.rpartition(':')[2]}", f"[{name}]:{text.rpartition(':')[2]}"}
    assert 0 < port < 65_536
    assert not set(name) & set("/@?#% \t\r\n,")


def test_what_no_release_wrote_counts_as_absent() -> None:
    whole = {
        "address": "a:1", "stages": ["s"], "cores": 1, "memory_bytes": 1, "slots_max": 1,
    }  # fmt: skip
    before = record_of(b"w", pack(whole))
    assert before is not None
    assert (before.credential, before.busy) == ("", BUSY_UNKNOWN), "of the release before"
    later = record_of(b"w", pack({**whole, "credential": "c" * 43, "rooms": 7}))
    assert later is not None
    assert later.credential == "c" * 43
    changes: list[dict[str, object]] = [
        {"cores": "many"}, {"address": "unix:/x"}, {"stages": None}, {"cores": -1},
    ]  # fmt: skip
    for wrong in (b"", b"\xc1", pack(7), pack({}), *(pack({**whole, **one}) for one in changes)):
        assert record_of(b"w", wrong) is None
    assert record_of(b"\xff", pack(whole)) is None


def test_a_credential_is_not_shown_in_a_log() -> None:
    assert HOST.credential not in repr(HOST)
