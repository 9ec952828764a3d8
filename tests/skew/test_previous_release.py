"""One release of skew between trainers, API, workers and planner, in both directions.

The release before is its pinned wire (`previous.binpb`), the present one is the real code. What a
later release may send is made by hand: numbers of enumerations and fields that nothing has yet.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from tests.running import Running, RunWorker
from tests.skew.previous import between, message, pinned, stub
from tests.store.driver import FIRST, Driver, requests
from tests.store.remote import WorkPort, token_for

import assay.client.wire as client_wire
from assay.client import Client, Request
from assay.client.http import bodies
from assay.config.access import OperatorSettings
from assay.core.errors import FailedPrecondition
from assay.core.hosts.record import HostRecord
from assay.core.ids import WorkerId
from assay.core.outcome import Outcome, by_outcome
from assay.core.records import BatchState, EndRequest, FinishStatus, Report, StageReport
from assay.edge.auth import Operator
from assay.edge.clock import Clock
from assay.edge.work.store import RemoteStore
from assay.edge.work.token_files import TokenFiles
from assay.planner.service.host_calls import HostConnections
from assay.store.port import Store
from assay.v1 import common_pb2, planner_pb2, reward_pb2, rollout_pb2, worker_pb2

LONG_S = 600.0
NAME = WorkerId("host")
LATER: Any = 77
"""A number of an enumeration that no release so far has."""
PRESENT = {
    file.DESCRIPTOR.name: file.DESCRIPTOR
    for file in (common_pb2, planner_pb2, reward_pb2, rollout_pb2, worker_pb2)
}
RESULT: dict[str, object] = {
    "request_id": "r", "group_id": "", "outcome": "SCORED", "evidence": {}, "resource_use": {},
    "stages": [], "attempts": 1, "components": [],
}  # fmt: skip
PREVIOUS = {file.name: file for file in pinned().file if file.name in PRESENT}


def fields_of(file: descriptor_pb2.FileDescriptorProto) -> set[tuple[object, ...]]:
    """Each field of each message: what may never change."""
    found = set[tuple[object, ...]]()

    def add(kind: descriptor_pb2.DescriptorProto, within: str) -> None:
        name = f"{within}.{kind.name}"
        for field in kind.field:
            found.add(
                (f"{name}.{field.name}", field.number, field.type, field.label, field.type_name)
            )
        for inner in kind.nested_type:
            add(inner, name)

    for kind in file.message_type:
        add(kind, file.package)
    return found


@pytest.mark.parametrize("name", PREVIOUS)
def test_fields_methods_and_values_are_added_and_never_changed(name: str) -> None:
    now, before = descriptor_pb2.FileDescriptorProto(), PREVIOUS[name]
    PRESENT[name].CopyToProto(now)
    assert fields_of(before) <= fields_of(now)
    for file, found in ((before, values := set[object]()), (now, has := set[object]())):
        for enum in (*file.enum_type, *(e for kind in file.message_type for e in kind.enum_type)):
            found |= {(enum.name, one.name, one.number) for one in enum.value}
        for service in file.service:
            found |= {
                (service.name, one.name, one.input_type, one.output_type, one.client_streaming,
                 one.server_streaming)
                for one in service.method
            }  # fmt: skip
    assert values <= has


# -- workers and the API -----------------------------------------------------------------------


@pytest.fixture
async def port(store: Store, tmp_path: Path) -> AsyncIterator[WorkPort]:
    one = WorkPort(store, tmp_path)
    await one.start()
    yield one
    await one.listener.stop()


def report(claim: Any) -> Report:
    times = StageReport(worker=NAME, started_after_ns=1, finished_after_ns=2)
    end = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
    return Report(lease=claim.lease, report=times, finish=end)


async def test_a_worker_of_the_release_before_works_by_the_present_api(
    store: Store, port: WorkPort
) -> None:
    drive = Driver(store)
    await drive.open()
    await drive.submit(requests("a", "b"))
    async with port.channel() as channel:

        async def call(name: str, token: str, /, **fields: Any) -> Any:
            request = message(f"{name}Request")(**fields)
            metadata = (("authorization", f"Bearer {token}"),)
            return await stub(channel, f"/assay.v1.WorkService/{name}")(request, metadata=metadata)

        own = (await call("Enroll", token_for(FIRST), worker="old:1")).token
        await call(
            "Join", own, address="10.0.0.1:8472", stages=[FIRST], cores=2, memory_bytes=1,
            slots_max=4, lease_s=60.0,
        )  # fmt: skip
        claims = (await call("Claim", own, stages=[FIRST], claims_max=9, lease_s=LONG_S)).claims
        leases = [message("WorkLease")(lease=one.lease, fence=one.fence) for one in claims]
        assert not (await call("Heartbeat", own, stage=FIRST, lease_s=LONG_S, leases=leases)).lost
        scored = common_pb2.OUTCOME_SCORED
        end = message("WorkFinish")(end={"outcome": scored, "reward": 1.0})
        reports = [message("WorkReport")(lease=one, slot="1", finish=end) for one in leases]
        assert list((await call("Finish", own, stage=FIRST, reports=reports)).done) == [True] * 2
        await call("Sweep", own, stage=FIRST)
        (host,) = await store.hosts()
        assert HostConnections(Operator(OperatorSettings())).shown_to(host) == ()
        await call("Leave", own)
    assert [one.outcome for one in await drive.results()] == [Outcome.SCORED] * 2


async def test_a_present_worker_works_by_an_api_of_the_release_before(
    store: Store, port: WorkPort, tmp_path: Path
) -> None:
    drive = Driver(store)
    await drive.open()
    await drive.submit(requests("a", "b"))
    file = tmp_path / "given"
    file.write_text(token_for(FIRST))
    host = HostRecord(
        worker=NAME, address="10.0.0.1:8472", stages=(FIRST,), cores=1, memory_bytes=1,
        slots_max=1, credential="c" * 43,
    )  # fmt: skip
    async with between(port.address) as (address, before):
        tokens = TokenFiles(file, tmp_path / "kept")
        one = RemoteStore([address], worker=NAME, tokens=tokens, authority=None, clock=Clock())
        await one.put_host(host, lease_s=60.0)
        assert await one.wait_for_work([FIRST], timeout_s=10.0) == FIRST
        claims = await one.claim(FIRST, claims_max=9, lease_s=LONG_S, worker=NAME)
        leases = [claim.lease for claim in claims]
        assert not await one.beat(FIRST, lease_s=LONG_S, leases=leases)
        finished = await one.finish(FIRST, [report(claim) for claim in claims], 3)
        assert finished.statuses == (FinishStatus.DONE,) * 2
        await one.artifact_put("k", b"content")
        assert await one.artifact_get("k") == b"content"
        assert [record.address for record in await store.hosts()] == [host.address]
        await one.drop_host(NAME)
        await one.close()
    assert {"Enroll", "Join", "Claim", "Heartbeat", "Finish", "Leave"} <= {*before.calls}
    assert [ended.outcome for ended in await drive.results()] == [Outcome.SCORED] * 2


async def test_an_end_that_only_a_later_release_has_costs_its_own_request_an_attempt_and_no_other(
    store: Store, port: WorkPort
) -> None:
    drive = Driver(store)
    await drive.open()
    await drive.submit(requests("a", "b"))
    worker = port.worker(FIRST)
    claims = await worker.claim(FIRST, claims_max=9, lease_s=LONG_S, worker=NAME)
    async with port.channel() as channel:
        request = worker_pb2.FinishRequest(stage=FIRST)
        for claim, outcome in zip(claims, (LATER, common_pb2.OUTCOME_SCORED), strict=True):
            one = request.reports.add()
            one.lease.lease, one.lease.fence = claim.lease.job_id, claim.lease.fence
            one.finish.end.outcome, one.finish.end.reward = outcome, 1.0
        finish: Any = channel.unary_unary("/assay.v1.WorkService/Finish")
        unknown = b"\xfa\xff\x03\x05later"  # field 8191, bytes
        content = request.SerializeToString() + unknown
        metadata = (("authorization", f"Bearer {worker.session}"),)
        answer = worker_pb2.FinishResponse.FromString(await finish(content, metadata=metadata))
    assert list(answer.done) == [True, True]
    assert [(one.request_id, one.outcome) for one in await drive.results()] == [
        (claims[1].request_id, Outcome.SCORED)
    ]
    assert [one.attempt for one in await drive.claim()] == [2]
    await worker.close()


# -- trainers and the API ----------------------------------------------------------------------


async def test_a_trainer_and_an_api_one_release_apart_score_a_batch(
    api: Running, run_worker: RunWorker
) -> None:
    await run_worker()
    async with between(api.addresses.grpc) as (address, before), Client(address) as client:
        task = await client.register_task("t", pipeline="noop")
        batch = await client.open_batch(task, size=3)
        await batch.submit(
            [Request(request_id=f"r{n}", response="x", reference={}) for n in range(3)]
        )
        ended = [result.outcome async for result in batch.results()]
    assert ended == [Outcome.SCORED] * 3
    assert {"RegisterTask", "OpenBatch", "StreamResults"} <= {*before.calls}


async def test_a_call_that_the_service_does_not_have_yet_is_refused_in_its_words(
    api: Running,
) -> None:
    lacks = frozenset({"Hint"})
    async with between(api.addresses.grpc, lacks=lacks) as (address, _), Client(address) as client:
        task = await client.register_task("t", pipeline="noop")
        with pytest.raises(FailedPrecondition, match="not found"):
            await client.hint(task, size=3)


def test_an_outcome_that_only_a_later_release_has_is_a_failure_and_never_a_reward() -> None:
    told = reward_pb2.Result(request_id="r", outcome=LATER, reward=1.0)
    (result,) = client_wire.scores(reward_pb2.ScoreResponse(results=[told])).results
    assert (result.outcome, result.reward) == (Outcome.INFRA_FAILED, None)
    batch = reward_pb2.Batch(state=reward_pb2.BATCH_STATE_OPEN, ended=5)
    batch.outcomes.update({"SCORED": 2, "INFRA_FAILED": 1, "LATER": 2})
    assert dict(client_wire.batch_status(batch).outcomes) == {
        Outcome.SCORED: 2, Outcome.INFRA_FAILED: 3,
    }  # fmt: skip
    for completed_ns, state in ((0, BatchState.SEALED), (7, BatchState.COMPLETE)):
        later = reward_pb2.Batch(state=LATER, completed_ns=completed_ns)
        assert client_wire.batch_status(later).state is state
    assert by_outcome({"A": 0.5, "B": 0.25}) == {Outcome.INFRA_FAILED: 0.75}
    over_http = {
        "results": [{**RESULT, "outcome": "LATER", "reward": 1.0}, {**RESULT, "reward": 1.0}],
        "groups": [],
    }
    found = bodies.scores(over_http).results
    assert [(one.outcome, one.reward) for one in found] == [
        (Outcome.INFRA_FAILED, None), (Outcome.SCORED, 1.0),
    ]  # fmt: skip
