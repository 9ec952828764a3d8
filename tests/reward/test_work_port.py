"""The port of workers without the store: what a token permits, and what none permits."""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.edge.endless import SENT_MAX, send_endless_headers
from tests.store.driver import FIRST, SECOND, TASK, TENANT, Driver, eventually, requests
from tests.store.remote import KEY, WorkPort, token_for

from assay.config.settings import VerifierSettings
from assay.core.errors import (
    AssayError,
    DependencyDown,
    InvalidRequest,
    PermissionDenied,
    Saturated,
    Unauthenticated,
)
from assay.core.hosts.record import HOSTS_PER_OWNER_MAX, HostRecord
from assay.core.ids import BatchId, JobId, StageName, TenantId, WorkerId, kept_for
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    EndRequest,
    FinishStatus,
    HandOver,
    Lease,
    Quota,
    Report,
    StageReport,
)
from assay.edge.clock import Clock
from assay.edge.work.addresses import peer_ip, refuse_own_address
from assay.edge.work.store import RemoteStore
from assay.edge.work.token_files import TokenFiles
from assay.edge.work.tokens import WorkerKeys, WorkerPass
from assay.reward.workers.gateway import LEFT_OUT_MAX
from assay.reward.workers.scopes import ArtifactScopes, KeptReports, scopes_of
from assay.store.port import Store
from assay.v1 import worker_pb2, worker_pb2_grpc
from assay.verifiers.registry import load_pipelines

NAME = WorkerId("host")
LONG_S = 600.0
SCORED = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
NONE = Lease(job_id=JobId("x"), fence=1)
DONE, STALE = FinishStatus.DONE, FinishStatus.STALE


class Scene:
    """A store, the port, and workers with tokens."""

    def __init__(self, store: Store, port: WorkPort) -> None:
        self.drive = Driver(store)
        self.store = store
        self.port = port
        self.workers: list[RemoteStore] = []

    def worker(self, *stages: str, **options: Any) -> RemoteStore:
        one = self.port.worker(*stages, **options)
        self.workers.append(one)
        return one

    async def waiting(self, count: int = 4) -> None:
        await self.drive.open()
        await self.drive.submit(requests(*(f"r{number}" for number in range(count))))


@pytest.fixture
async def scene(store: Store, tmp_path: Path) -> AsyncIterator[Scene]:
    port = WorkPort(store, tmp_path)
    await port.start()
    found = Scene(store, port)
    yield found
    for one in found.workers:
        await one.close()
    await port.listener.stop()


async def claims_of(worker: RemoteStore, stage: StageName = FIRST, count: int = 9) -> Any:
    return await worker.claim(stage, claims_max=count, lease_s=LONG_S, worker=NAME)


def report(lease: Lease, finish: Any = SCORED) -> Report:
    times = StageReport(worker=NAME, started_after_ns=1, finished_after_ns=2)
    return Report(lease=lease, report=times, finish=finish)


async def finish(worker: RemoteStore, *reports: Report, stage: StageName = FIRST) -> Any:
    return (await worker.finish(stage, reports, 3)).statuses


# -- stages --------------------------------------------------------------------------------------

Call = Callable[[RemoteStore], Awaitable[object]]
OF_ANOTHER_STAGE: dict[str, Call] = {
    "claim": lambda one: claims_of(one, SECOND),
    "wait": lambda one: one.wait_for_work([FIRST, SECOND], timeout_s=0.1),
    "beat": lambda one: one.beat(SECOND, lease_s=1.0, leases=[NONE]),
    "finish": lambda one: one.finish(SECOND, [report(NONE)], 3),
    "sweep": lambda one: one.reap(SECOND, attempts_max=1, jobs_max=1),
    "join": lambda one: one.put_host(
        HostRecord(
            worker=NAME, address="a:1", stages=(FIRST, SECOND), cores=1, memory_bytes=1, slots_max=1
        ),
        lease_s=5.0,
    ),
}


@pytest.mark.parametrize("call", OF_ANOTHER_STAGE.values(), ids=OF_ANOTHER_STAGE)
async def test_a_token_reaches_its_own_stages_only(scene: Scene, call: Call) -> None:
    await scene.waiting()
    await scene.drive.hand_over(await scene.drive.claim(2))
    with pytest.raises(PermissionDenied, match="does not permit 'run'"):
        await call(scene.worker(FIRST))
    assert (await scene.drive.depth(SECOND)).queued == 2
    assert not await scene.store.hosts()


@pytest.mark.parametrize("call", OF_ANOTHER_STAGE.values(), ids=OF_ANOTHER_STAGE)
async def test_the_operators_token_alone_only_enrolls(scene: Scene, call: Call) -> None:
    one = scene.worker(FIRST, SECOND)
    async with scene.port.channel() as channel:
        stub = worker_pb2_grpc.WorkServiceStub(channel)
        shown = (("authorization", f"Bearer {token_for(FIRST, SECOND)}"),)
        with pytest.raises(grpc.aio.AioRpcError, match="only to enroll"):
            await stub.Claim(
                worker_pb2.ClaimRequest(stages=[FIRST], claims_max=1, lease_s=1), metadata=shown
            )
    await call(one)  # with its own token it may


def changed(token: str) -> dict[str, str]:
    """Tokens that no key signed."""
    head, body, mac = token.split(".")
    content = json.loads(base64.urlsafe_b64decode(body + "=="))
    more = json.dumps({**content, "stages": [FIRST, SECOND]}).encode()
    other = WorkerPass(stages=(FIRST,), expires_ns=2**62, name="x")
    return {
        "other stages": f"{head}.{base64.urlsafe_b64encode(more).decode().rstrip('=')}.{mac}",
        "no seal": f"{head}.{body}.",
        "short seal": f"{head}.{body}.{mac[:-1]}",
        "another key": WorkerKeys([b"z" * 64]).mint(other),
        "another form": "x" * 50,
        "half": f"{head}.{body}",
    }


@pytest.mark.parametrize("kind", changed(token_for(FIRST)))
async def test_a_token_that_no_key_signed_is_no_one(scene: Scene, kind: str) -> None:
    one = scene.worker(token=changed(token_for(FIRST))[kind])
    with pytest.raises(Unauthenticated):
        await claims_of(one)


async def test_a_token_that_has_expired_is_refused_and_a_renewed_one_keeps_its_leases(
    store: Store, tmp_path: Path
) -> None:
    port = WorkPort(store, tmp_path, token_s=1.0)
    await port.start()
    scene = Scene(store, port)
    old = scene.worker(token=token_for(FIRST, expires_ns=1))
    with pytest.raises(Unauthenticated, match="expired"):
        await claims_of(old)
    await scene.waiting()
    one = scene.worker(FIRST)
    claims = await claims_of(one)
    first = one.session
    for _ in range(2):  # past the end of the first token; the worker renews it half-way
        await asyncio.sleep(0.6)
        assert not await one.beat(FIRST, lease_s=LONG_S, leases=[claims[0].lease])
    assert await finish(one, *(report(claim.lease) for claim in claims)) == (DONE,) * 4
    assert one.session != first
    await old.close()
    await one.close()
    await port.listener.stop()


class Skewed(Clock):
    """A machine whose clock is wrong."""

    def __init__(self, by_s: float) -> None:
        self._by_ns = int(by_s * 1e9)

    def now_ns(self) -> int:
        return super().now_ns() + self._by_ns


@pytest.mark.parametrize("by_s", [-3_600.0, 3_600.0])
async def test_a_host_with_a_wrong_clock_renews_its_token_in_time_and_not_each_time(
    store: Store, tmp_path: Path, by_s: float
) -> None:
    """A host that let its token end would be another worker afterwards, without its leases."""
    port = WorkPort(store, tmp_path, token_s=1.0)
    await port.start()
    scene = Scene(store, port)
    await scene.waiting()
    one = scene.worker(FIRST, clock=Skewed(by_s))
    claims = await claims_of(one)
    sessions = set()
    for _ in range(24):
        await asyncio.sleep(0.05)
        assert not await one.beat(FIRST, lease_s=LONG_S, leases=[claims[0].lease])
        sessions.add(one.session)
    assert 2 <= len(sessions) <= 5
    await one.close()
    await port.listener.stop()


# -- leases --------------------------------------------------------------------------------------


async def test_nothing_is_finished_or_renewed_that_was_not_leased_to_the_worker(
    scene: Scene,
) -> None:
    await scene.waiting()
    owner, thief = scene.worker(FIRST, name="owner"), scene.worker(FIRST, name="thief")
    claims = await claims_of(owner)
    direct = [
        Lease(job_id=JobId(claim.lease.job_id.split("~")[0]), fence=claim.lease.fence)
        for claim in claims
    ]
    guessed = [
        Lease(job_id=JobId(f"{lease.job_id}~run~0~{'A' * 22}"), fence=lease.fence)
        for lease in direct
    ]
    for stolen in ([claim.lease for claim in claims], direct, guessed):
        assert await finish(thief, *map(report, stolen)) == (STALE,) * 4
        assert await thief.beat(FIRST, lease_s=1.0, leases=stolen) == stolen
    later = [Lease(job_id=one.lease.job_id, fence=one.lease.fence + 1) for one in claims]
    assert await finish(owner, *map(report, later)) == (STALE,) * 4
    assert not await scene.drive.results()
    assert await finish(owner, *(report(claim.lease) for claim in claims)) == (DONE,) * 4


async def test_a_lease_of_one_stage_is_none_of_another(scene: Scene) -> None:
    await scene.waiting()
    one = scene.worker(FIRST, SECOND)
    claims = await claims_of(one)
    assert await finish(one, *(report(c.lease) for c in claims), stage=SECOND) == (STALE,) * 4


async def test_a_hand_over_goes_to_the_next_stage_whatever_the_worker_says(scene: Scene) -> None:
    await scene.waiting(1)
    one = scene.worker(FIRST, SECOND)
    (claim,) = await claims_of(one)
    end = HandOver(next_stage=StageName("judge"), handover=b"binary", gathers=True)
    assert await finish(one, report(claim.lease, end)) == (DONE,)
    (last,) = await claims_of(one, SECOND)
    assert last.handover == b"binary"
    with pytest.raises(InvalidRequest, match="the last one") as refused:
        await finish(one, report(last.lease, end), stage=SECOND)
    assert refused.value.field == "reports[0].finish.hand_over"


@pytest.mark.parametrize(
    ("outcome", "reward"),
    [
        (Outcome.CANCELLED, None), (Outcome.EXPIRED, None), (Outcome.SCORED, None),
        (Outcome.INFRA_FAILED, 1.0), (Outcome.SCORED, float("nan")), (Outcome.SCORED, float("inf")),
    ],
)  # fmt: skip
async def test_an_end_that_no_worker_can_mean_is_refused_and_changes_nothing(
    scene: Scene, outcome: Outcome, reward: float | None
) -> None:
    await scene.waiting(2)
    one = scene.worker(FIRST)
    good, bad = await claims_of(one)
    end = EndRequest(outcome=outcome, reward=reward, body=b"")
    with pytest.raises(InvalidRequest, match=r"reports\[1\]"):
        await finish(one, report(good.lease), report(bad.lease, end))
    assert not await scene.drive.results()


async def test_a_claim_whose_caller_has_gone_is_given_back(scene: Scene) -> None:
    await scene.waiting(2)
    who = WorkerPass(stages=(FIRST,), expires_ns=2**62, name="x", worker=NAME)
    gateway = scene.port.gateway
    call = asyncio.create_task(gateway.claim(who, [FIRST], claims_max=9, lease_s=LONG_S, wait_ms=0))
    for _ in range(3):  # the store has the call, and has not answered
        await asyncio.sleep(0)
    assert call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    async def all_wait() -> bool:
        depth = await scene.drive.depth()
        return (depth.queued, depth.running) == (2, 0)

    await gateway.close()
    await eventually(all_wait)
    assert [one.attempt for one in await scene.drive.claim()] == [1, 1]


async def test_one_reply_is_bounded_and_says_that_there_is_more(scene: Scene) -> None:
    await scene.drive.open()
    large = [one for name in range(40) for one in requests(f"r{name}")]
    await scene.drive.submit([replace(one, response=b"x" * 300_000) for one in large])
    one = scene.worker(FIRST)
    await one.check()
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(scene.port.address, options=options) as channel:
        stub = worker_pb2_grpc.WorkServiceStub(channel)
        answer = await stub.Claim(
            worker_pb2.ClaimRequest(stages=[FIRST], claims_max=40, lease_s=LONG_S),
            metadata=(("authorization", f"Bearer {one.session}"),),
        )
    assert (len(answer.claims), answer.more) == (16, True)
    assert len(await claims_of(one, count=40)) == 24


async def test_work_of_tenants_that_a_claim_leaves_out_stays_where_it_is(scene: Scene) -> None:
    """A host at the share of a tenant asks for that of others, through the port as without it."""
    other = TenantId("other")
    for tenant in (TENANT, other):
        await scene.store.put_task(replace(TASK, tenant=tenant))
        spec = BatchSpec(
            tenant=tenant, batch_id=BatchId("b"), task_id=TASK.task_id, size=0, group_size=0,
            deadline_after_ms=60_000,
        )  # fmt: skip
        await scene.store.open_batch(spec, Quota())
        await scene.store.submit(tenant, spec.batch_id, requests("r1", "r2"), Quota())
    one = scene.worker(FIRST)

    async def claimed(*left_out: TenantId) -> list[TenantId]:
        claims = await one.claim(
            FIRST, claims_max=9, lease_s=LONG_S, worker=NAME, left_out=left_out
        )
        return [claim.task.tenant for claim in claims]

    assert await claimed(TENANT, other) == []
    assert await claimed(TENANT) == [other] * 2
    assert await claimed(other) == [TENANT] * 2


async def test_a_claim_leaves_out_so_many_tenants_and_no_more(scene: Scene) -> None:
    one = scene.worker(FIRST)
    too_many = [TenantId(f"t{number}") for number in range(LEFT_OUT_MAX + 1)]
    with pytest.raises(InvalidRequest, match="left_out"):
        await one.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=NAME, left_out=too_many)


# -- what is kept --------------------------------------------------------------------------------


async def test_artifacts_of_other_pipelines_are_neither_read_nor_written(scene: Scene) -> None:
    cpp, text = scene.worker("cpp.compile"), scene.worker("math.verify")
    await scene.store.artifact_put("audit:verdict:abc", b"the platform's")
    for one in (cpp, text):
        assert await one.artifact_get("audit:verdict:abc") is None
    await cpp.artifact_put("audit:verdict:abc", b"mine")
    assert await text.artifact_get("audit:verdict:abc") is None
    assert await scene.store.artifact_get("audit:verdict:abc") == b"the platform's"
    assert await cpp.artifact_get("audit:verdict:abc") == b"mine"


@pytest.mark.parametrize("stages", [("python.run",), ("python.run", "math.verify", "match")])
async def test_a_report_is_found_by_its_pipeline_whatever_else_its_worker_serves(
    scene: Scene, stages: tuple[str, ...]
) -> None:
    pipelines = load_pipelines(VerifierSettings())
    kept = KeptReports(scene.store.artifact_get, ArtifactScopes(pipelines))
    name, other = kept_for("owner", "report-a"), kept_for("owner", "program-a")
    worker = scene.worker(*stages)
    for key in (name, other):
        await worker.artifact_put(key, b"made")
        assert await worker.artifact_get(key) == b"made"
    assert await kept("run.python", name) == b"made"
    assert await kept("math", name) == (b"made" if "math.verify" in stages else None)
    assert await kept("run.python", kept_for("other", "report-a")) is None
    await scene.store.artifact_put(kept_for("owner", "report-b"), b"of a host with the store")
    assert await kept("run.python", kept_for("owner", "report-b")) == b"of a host with the store"
    await scene.worker("shape").artifact_put(kept_for("owner", "report-c"), b"forged")
    assert await kept("run.python", kept_for("owner", "report-c")) is None


async def test_a_host_that_runs_untrusted_code_gets_no_leave_for_providers(scene: Scene) -> None:
    one = scene.worker("python.run")
    with pytest.raises(PermissionDenied, match="providers"):
        await one.permit(TENANT, "judge", {"requests": (1, 10)})


def test_stages_that_pipelines_connect_are_one_scope() -> None:
    class Spec:
        def __init__(self, *stages: str) -> None:
            self.spec = self
            self.stages = tuple(map(StageName, stages))

    pipelines: Any = {"p": Spec("c", "d"), "q": Spec("a", "b"), "r": Spec("b", "c"), "s": Spec("z")}
    assert scopes_of(pipelines) == {"a": "a", "b": "a", "c": "a", "d": "a", "z": "z"}


# -- lives ---------------------------------------------------------------------------------------


async def test_the_next_life_takes_back_what_a_killed_one_held_and_no_other_can(
    scene: Scene, tmp_path: Path
) -> None:
    await scene.waiting()
    killed, stranger = scene.worker(FIRST, name="host:1"), scene.worker(FIRST, name="host:9")
    assert len(await claims_of(killed)) == 4
    await scene.port.listener.gateway.store.put_host(
        HostRecord(
            worker=WorkerKeys([KEY]).read(killed.session).worker, address="a:1", stages=(FIRST,),
            cores=1, memory_bytes=1, slots_max=1,
        ),
        lease_s=60,
    )  # fmt: skip
    await stranger.take_back(FIRST, WorkerId("host:1"), attempts_max=3)
    operators = WorkerPass(stages=(FIRST,), expires_ns=2**62, name="x")
    with pytest.raises(PermissionDenied):
        await scene.port.gateway.leave(operators, WorkerKeys([KEY]).mint(operators))
    alive = WorkerKeys([KEY]).read(killed.session)
    with pytest.raises(Unauthenticated):  # it lives, so it is no earlier life of its own
        await scene.port.gateway.leave(alive, killed.session)
    assert (await scene.drive.depth()).running == 4
    following = scene.worker(FIRST, name="host:2")
    following._tokens.predecessor = ("host:1", killed.session)
    taken = await following.take_back(FIRST, WorkerId("host:1"), attempts_max=3)
    assert taken.redelivered == 4
    assert not await scene.store.hosts()
    assert sorted(one.attempt for one in await claims_of(following)) == [2, 2, 2, 2]


async def test_two_hosts_of_one_name_are_two_workers(scene: Scene) -> None:
    await scene.waiting()
    one, other = scene.worker(FIRST), scene.worker(FIRST)
    claims = await claims_of(one)
    assert await finish(other, *(report(claim.lease) for claim in claims)) == (STALE,) * 4


async def test_endless_headers_are_cut_while_a_worker_is_answered(scene: Scene) -> None:
    await scene.waiting()
    worker = scene.worker(FIRST)
    assert len(await claims_of(worker, count=1)) == 1
    sent = await send_endless_headers(scene.port.address)
    assert len(await claims_of(worker, count=1)) == 1
    assert sent < SENT_MAX


async def test_an_artifact_of_many_megabytes_passes_the_front(scene: Scene) -> None:
    """It is the first that its connection sends: as much as a stranger may in hours."""
    worker, content = scene.worker("shape"), secrets.token_bytes(48 * 1024**2)
    await worker.artifact_put("large", content)
    assert await worker.artifact_get("large") == content


async def test_when_one_api_is_gone_the_worker_asks_the_other(
    scene: Scene, store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    second = WorkPort(store, folder)
    await second.start()
    file = tmp_path / "token"
    file.write_text(token_for(FIRST))
    one = RemoteStore(
        [scene.port.address, second.address], worker=NAME,
        tokens=TokenFiles(file, tmp_path / "kept"), authority=None, clock=Clock(),
    )  # fmt: skip
    await scene.waiting()
    claims = await claims_of(one)
    await scene.port.listener.stop()
    with pytest.raises(DependencyDown, match=r"worker\.api"):
        await finish(one, *(report(claim.lease) for claim in claims))
    assert await finish(one, *(report(claim.lease) for claim in claims)) == (DONE,) * 4
    await one.close()
    await second.listener.stop()


class Half(worker_pb2_grpc.WorkServiceServicer):
    """An API that has lost its store while it sends an artifact."""

    def __init__(self) -> None:
        self.sending, self.may_send = asyncio.Event(), asyncio.Event()

    async def Enroll(self, request: Any, context: Any) -> worker_pb2.EnrollResponse:
        return worker_pb2.EnrollResponse(token="own", valid_s=LONG_S)

    async def Finish(self, request: Any, context: Any) -> worker_pb2.FinishResponse:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "no store")
        raise AssertionError

    async def Artifact(self, request: Any, context: Any) -> worker_pb2.WorkArtifactResponse:
        self.sending.set()
        await self.may_send.wait()
        return worker_pb2.WorkArtifactResponse(content=b"whole")


async def test_a_worker_that_asks_another_api_ends_none_of_its_calls_to_the_first(
    tmp_path: Path,
) -> None:
    half = Half()  # type: ignore[abstract]  # the other calls are not made
    server = grpc.aio.server()
    worker_pb2_grpc.add_WorkServiceServicer_to_server(half, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    file = tmp_path / "token"
    file.write_text(token_for(FIRST))
    one = RemoteStore(
        [address], worker=NAME, tokens=TokenFiles(file, tmp_path / "kept"), authority=None,
        clock=Clock(),
    )  # fmt: skip
    async with asyncio.timeout(60):
        getting = asyncio.create_task(one.artifact_get("k"))
        await half.sending.wait()
        with pytest.raises(DependencyDown):
            await finish(one, report(NONE))
        half.may_send.set()
        assert await getting == b"whole"
    await one.close()
    await server.stop(None)


# -- records of hosts ----------------------------------------------------------------------------


def host_at(address: str, **change: Any) -> HostRecord:
    fields = {"stages": (FIRST,), "cores": 1, "memory_bytes": 1, "slots_max": 1, **change}
    return HostRecord(worker=NAME, address=address, **fields)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254:80", "0.0.0.0:8472", "[::]:8472", "[fe80::1]:80", "224.0.0.1:80",
     "[::ffff:169.254.169.254]:80", "255.255.255.255:80"],
)  # fmt: skip
async def test_a_host_sends_planners_to_no_address_that_means_no_host(
    scene: Scene, address: str
) -> None:
    with pytest.raises(PermissionDenied, match="no address at which planners reach") as refused:
        await scene.worker(FIRST).put_host(host_at(address), lease_s=5.0)
    assert refused.value.field == "host.address"
    assert not await scene.store.hosts()


@pytest.mark.parametrize("address", ["unix:/run/x", "dns://evil/a:1", "a", "127.1:80"])
async def test_an_address_of_another_form_is_refused_by_name(scene: Scene, address: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await scene.worker(FIRST).put_host(host_at(address), lease_s=5.0)
    assert refused.value.field == "host.address"


async def test_a_record_is_always_the_callers_own(scene: Scene) -> None:
    victim, liar = scene.worker(FIRST, name="victim"), scene.worker(FIRST, name="liar")
    await victim.put_host(host_at("10.0.0.1:1", credential="v" * 43), lease_s=60.0)
    (record,) = await scene.store.hosts()
    assert record.credential == "v" * 43
    for name in ("victim", record.worker):
        other = host_at("10.0.0.9:1", credential="l" * 43)
        await liar.put_host(replace(other, worker=WorkerId(name)), lease_s=60.0)
        await liar.drop_host(WorkerId(name))
    named = scene.worker(FIRST, name=record.worker)  # it asks for the victim's name
    await named.put_host(host_at("10.0.0.9:1"), lease_s=60.0)
    kept = {one.worker: one for one in await scene.store.hosts()}
    assert kept.pop(record.worker) == record
    assert [one.address for one in kept.values()] == ["10.0.0.9:1"] * 2


async def test_one_token_registers_so_many_hosts_and_others_have_room(scene: Scene) -> None:
    async def join(number: int, name: str) -> bool:
        who = WorkerPass(
            stages=(FIRST,), expires_ns=2**62, name=name, worker=WorkerId(f"w{number}")
        )
        host = replace(host_at("10.0.0.1:1"), worker=who.worker)
        return await scene.port.gateway.join(who, host, lease_s=60.0, peer="10.0.0.1")

    for number in range(HOSTS_PER_OWNER_MAX):
        await join(number, "taken-over")
    for number in (999, 1_000):
        with pytest.raises(Saturated, match="by this token"):
            await join(number, "taken-over")
    assert await join(2_000, "honest")


async def test_a_hosts_credential_is_no_token_of_the_api(scene: Scene) -> None:
    with pytest.raises(Unauthenticated):
        await claims_of(scene.worker(token="c" * 43))


@pytest.mark.parametrize(
    ("address", "peer", "allowed"),
    [
        ("127.0.0.1:1", "127.0.0.1", True), ("127.0.0.1:1", "10.0.0.7", False),
        ("[::1]:1", "127.0.0.1", True), ("[::ffff:127.0.0.1]:1", "10.0.0.7", False),
        ("localhost:1", "10.0.0.7", False), ("LOCALHOST.:1", "10.0.0.7", False),
        ("a.localhost:1", "10.0.0.7", False), ("localhost:1", "::1", True),
        ("[fe80::1]:1", "fe80::1", True), ("169.254.169.254:80", "127.0.0.1", False),
        ("10.0.0.7:1", "10.9.9.9", True), ("worker-0.workers:1", "", True),
        ("127.0.0.1:1", "", False),
    ],
)  # fmt: skip
def test_only_a_caller_from_there_names_what_others_do_not_reach(
    address: str, peer: str, allowed: bool
) -> None:
    if allowed:
        refuse_own_address(address, peer)
        return
    with pytest.raises(PermissionDenied):
        refuse_own_address(address, peer)


def test_the_address_of_a_peer_is_read_as_grpc_writes_it() -> None:
    assert peer_ip("ipv4:10.0.0.7:4711") == "10.0.0.7"
    assert peer_ip("ipv6:%5B::1%5D:4711") == "::1"
    assert peer_ip("ipv6:%5Bfe80::1%25eth0%5D:4711") == "fe80::1"
    assert peer_ip("unix:/run/x") == ""


# -- anything at all -----------------------------------------------------------------------------


@given(st.text(max_size=60), st.integers(0, 2**60))
def test_no_text_is_a_lease_but_what_was_given(shown: str, fence: int) -> None:
    keys = WorkerKeys([KEY])
    seal = keys.seal(["w", "s", 7, "j", "", 0])
    assert keys.is_sealed(["w", "s", 7, "j", "", 0], seal)
    assert not keys.is_sealed(["w", "s", 7, "j", "", 0], shown)
    assert not keys.is_sealed(["w", "s", fence + 8, shown, "", 0], seal)


@given(st.lists(st.text(max_size=8), max_size=6), st.lists(st.text(max_size=8), max_size=6))
def test_no_two_lists_of_values_have_one_seal(some: list[str], others: list[str]) -> None:
    keys = WorkerKeys([b"k" * 32])
    assert keys.is_sealed(others, keys.seal(some)) == (some == others)


@given(st.binary(max_size=200))
def test_any_bytes_for_a_token_are_refused_in_words(content: bytes) -> None:
    keys = WorkerKeys([KEY])
    with pytest.raises(AssayError):
        keys.read(content.decode("utf-8", "replace"))


async def test_a_key_is_rotated_without_a_gap(scene: Scene, tmp_path: Path) -> None:
    await scene.waiting()
    one = scene.worker(FIRST)
    claims = await claims_of(one)
    new = b"n" * 64
    (tmp_path / "keys").write_bytes(new + b"\n" + KEY + b"\n")
    await asyncio.sleep(1.2)  # `LOOK_EVERY_S`
    assert await finish(one, *(report(claim.lease) for claim in claims)) == (DONE,) * 4
    (tmp_path / "keys").write_bytes(b"too short\n")
    await asyncio.sleep(1.2)
    assert await one.ping() >= 0, "the last good keys count"
    assert BatchId("step-1") in [b.batch_id for b in await scene.store.batches(batches_max=9)]
