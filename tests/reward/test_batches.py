"""A batch from its opening to its last result, on both transports."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from tests.reward.faces import GrpcFace, HttpFace, Item, Refusal, answer_of, refused

from assay.client.wire import batch_status
from assay.core.advantages import zero_shift_micro
from assay.core.codec import pack_body
from assay.core.errors import DeadlinePassed
from assay.core.ids import BatchId, TaskId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchState,
    EndRequest,
    FailAttempt,
    Finish,
    Quota,
    ResultRecord,
)
from assay.core.verdict import Component, Evidence, ResourceUse
from assay.edge.auth import DEFAULT_TENANT, Tenant
from assay.edge.clock import Clock
from assay.edge.door import DoorLimits, limited
from assay.reward.http import ndjson
from assay.reward.operations.results import (
    PAGE_EVERY_S,
    PAGE_RESULTS_MAX,
    PAGE_SMALL,
    Results,
)
from assay.v1 import common_pb2, reward_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reward.faces import Face
    from tests.running import RunApi, Running, RunWorker

    from assay.core.records import Claim

WAIT_S = 30.0


def _numbered(claim: Claim) -> Finish:
    """`r3` -> reward 3.0."""
    return EndRequest(outcome=Outcome.SCORED, reward=float(claim.request_id[1:]), body=b"")


def _items(count: int, *, group_size: int = 0) -> list[Item]:
    return [
        Item(f"r{index}", b"x", b"{}", f"g{index // group_size}" if group_size else "")
        for index in range(count)
    ]


async def _until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await done():
            await asyncio.sleep(0.01)


# -- streams -------------------------------------------------------------------------------------
async def test_results_come_as_requests_end_and_the_stream_ends_with_the_batch(
    face: Face, run_worker: RunWorker
) -> None:
    await face.register("task", "noop")
    batch = await face.open("task", size=300)
    items = _items(300)
    await run_worker(_numbered)
    await face.submit(batch, items[:150])
    reading = asyncio.ensure_future(face.rewards(batch))
    await face.submit(batch, items[150:])
    async with asyncio.timeout(WAIT_S):
        assert await reading == {f"r{index}": float(index) for index in range(300)}
    assert await face.state(batch) == "COMPLETE"


async def test_each_result_is_streamed_while_its_batch_is_still_open(
    http_face: HttpFace, api: Running, run_worker: RunWorker
) -> None:
    await http_face.register("task", "noop")
    batch = await http_face.open("task", size=3)
    await run_worker(_numbered)
    results = Results(store=api.store, clock=Clock(), turn=None)
    pages = results.stream(Tenant(tenant_id=DEFAULT_TENANT, quota=Quota()), batch, cursor=0)
    async with aclosing(pages), asyncio.timeout(WAIT_S):
        for ended in (1, 2):
            await http_face.submit(batch, _items(ended)[-1:])
            page = await anext(pages)
            assert (page.cursor, page.last) == (ended, False)
            assert page.batch.state is BatchState.OPEN


async def test_a_stream_goes_on_from_any_cursor(
    grpc_face: GrpcFace, http_face: HttpFace, run_worker: RunWorker
) -> None:
    await run_worker(_numbered)
    await grpc_face.register("task", "noop")
    batch = await grpc_face.open("task", size=12, group_size=4)
    await grpc_face.submit(batch, _items(12, group_size=4))
    await grpc_face.rewards(batch)
    log = await _log(http_face, batch)
    assert sorted(log) == sorted([f"r{i}" for i in range(12)] + ["g0", "g1", "g2"])
    for group in range(3):
        members = [log.index(f"r{index}") for index in range(4 * group, 4 * group + 4)]
        assert log.index(f"g{group}") > max(members), "a summary follows the last of its group"
    for cursor in range(len(log) + 1):
        pages = await _pages(grpc_face, batch, cursor)
        names = [result.request_id for page in pages for result in page.results]
        names += [group.group_id for page in pages for group in page.groups]
        assert sorted(names) == sorted(log[cursor:])
        assert pages[-1].cursor == len(log)
        assert pages[-1].batch.state == reward_pb2.BATCH_STATE_COMPLETE


async def _log(face: HttpFace, batch_id: str) -> list[str]:
    """Names in order: pages of one entry."""
    names: list[str] = []
    last = False
    while not last:
        path = f"/v1/batches/{batch_id}/results?cursor={len(names)}&results_max=1"
        page = (await face.http.get(path)).json()
        names += [result["request_id"] for result in page["results"]]
        names += [group["group_id"] for group in page["groups"]]
        last = page["last"]
        assert page["cursor"] == len(names)
    return names


async def _pages(
    face: GrpcFace, batch_id: str, cursor: int = 0
) -> list[reward_pb2.StreamResultsResponse]:
    request = reward_pb2.StreamResultsRequest(batch_id=batch_id, cursor=cursor)
    stream: Any = face.stub.StreamResults(request)
    async with asyncio.timeout(WAIT_S):
        return [page async for page in stream]


async def test_results_carry_rewards_evidence_use_and_stage_times(
    grpc_face: GrpcFace, http_face: HttpFace, run_worker: RunWorker
) -> None:
    def judge(claim: Claim) -> Finish:
        evidence = Evidence(
            verdict="wrong_answer",
            tests_passed=3,
            tests_total=9,
            failed_test=3,
            stderr_tail="Traceback",
            extracted="42",
        )
        use = ResourceUse(cpu_s=1.5, memory_bytes_peak=2**33)
        return EndRequest(
            outcome=Outcome.RESOURCE_LIMIT,
            reward=-0.5,
            body=pack_body(
                evidence,
                use,
                components=(Component(name="format", value=-0.25, weight=2.0),),
                pipeline_version="abc",
                rescorable=True,
            ),
        )

    await run_worker(judge)
    await grpc_face.register("task", "noop")
    batch = await grpc_face.open("task", size=1)
    await grpc_face.submit(batch, [Item("r", reference=b"{}", group_id="g")])
    [result] = [result for page in await _pages(grpc_face, batch) for result in page.results]
    assert (result.request_id, result.group_id, result.attempts) == ("r", "g", 1)
    assert result.outcome == common_pb2.OUTCOME_RESOURCE_LIMIT
    assert result.reward == -0.5
    assert result.evidence == common_pb2.Evidence(
        verdict="wrong_answer",
        tests_passed=3,
        tests_total=9,
        failed_test=3,
        stderr_tail="Traceback",
        extracted="42",
    )
    assert result.resource_use == common_pb2.ResourceUse(cpu_s=1.5, memory_bytes_peak=2**33)
    part = reward_pb2.Component(name="format", value=-0.25, weight=2.0)
    assert (list(result.components), result.pipeline_version) == ([part], "abc")
    assert result.rescorable
    over_http = (await http_face.http.get(f"/v1/batches/{batch}/results")).json()["results"][0]
    assert over_http["components"] == [{"name": "format", "value": -0.25, "weight": 2.0}]
    assert (over_http["pipeline_version"], over_http["rescorable"]) == ("abc", True)
    [stage] = result.stages
    assert (stage.stage, stage.worker, stage.attempts) == ("noop", "stand-in", 1)
    times = [stage.enqueued_ns, stage.claimed_ns, stage.started_ns, stage.finished_ns]
    assert times == sorted(times)
    assert stage.released_ns >= stage.claimed_ns > 0


async def test_an_infrastructure_failure_has_no_reward_and_is_none_of_the_groups(
    face: Face, grpc_face: GrpcFace, http_face: HttpFace, run_worker: RunWorker
) -> None:
    def judge(claim: Claim) -> Finish:
        if claim.request_id == "r0":
            return FailAttempt(error="the disk is on fire")
        return _numbered(claim)

    await run_worker(judge)
    await face.register("task", "noop")
    batch = await face.open("task", size=4, group_size=4)
    await face.submit(batch, _items(4, group_size=4))
    assert await face.rewards(batch) == {"r0": None, "r1": 1.0, "r2": 2.0, "r3": 3.0}
    pages = await _pages(grpc_face, batch)
    [group] = [group for page in pages for group in page.groups]
    assert (group.size, group.rewards, group.mean, group.degenerate) == (4, 3, 2.0, False)
    assert group.std == pytest.approx((2 / 3) ** 0.5)
    last = pages[-1].batch
    assert dict(last.unjudged) == {"INFRA_FAILED": 0.25}
    shift_micro = zero_shift_micro([None, 1, 2, 3])
    assert shift_micro > 0
    assert last.bias_avoided == pytest.approx(shift_micro / 4e6)
    over_http = (await http_face.http.get(f"/v1/batches/{batch}")).json()
    assert over_http["unjudged"] == {"INFRA_FAILED": 0.25}
    assert over_http["bias_avoided"] == last.bias_avoided
    [failed] = [r for page in pages for r in page.results if r.request_id == "r0"]
    assert failed.outcome == common_pb2.OUTCOME_INFRA_FAILED
    assert "the disk is on fire" in failed.evidence.error


async def test_a_stream_of_a_cancelled_batch_ends_with_cancelled_requests(face: Face) -> None:
    await face.register("task", "noop")
    batch = await face.open("task", size=5)
    await face.submit(batch, _items(3))
    reading = asyncio.ensure_future(face.rewards(batch))
    assert await face.cancel(batch) == 3
    assert await face.cancel(batch) == 0
    async with asyncio.timeout(WAIT_S):
        assert await reading == {"r0": None, "r1": None, "r2": None}
    assert await face.state(batch) == "CANCELLED"


async def test_a_deadline_may_be_an_instant(
    face: Face, grpc_face: GrpcFace, run_worker: RunWorker
) -> None:
    await face.register("task", "noop")
    due_ns = time.time_ns() + 3_600 * 10**9
    batch = await face.open("task", deadline_ns=due_ns)
    assert await face.open("task", batch_id=batch, deadline_ns=due_ns) == batch
    opened = reward_pb2.GetBatchRequest(batch_id=batch)
    found: reward_pb2.GetBatchResponse = await answer_of(grpc_face.stub.GetBatch(opened))
    assert found.batch.deadline_ns == due_ns // 1_000 * 1_000
    past = await face.open("task", deadline_ns=due_ns - 7_200 * 10**9)
    found = await answer_of(grpc_face.stub.GetBatch(reward_pb2.GetBatchRequest(batch_id=past)))
    assert found.batch.deadline_ns > found.batch.opened_ns, "a late caller gets the earliest one"
    late = face.score(_items(1), pipeline="noop", deadline_ns=due_ns - 7_200 * 10**9)
    await refused(face, late, DeadlinePassed)
    await run_worker()
    assert await face.score(_items(1), pipeline="noop", deadline_ns=due_ns) == [1.0]


async def test_some_requests_are_cancelled_and_the_batch_goes_on(face: Face) -> None:
    await face.register("task", "noop")
    batch = await face.open("task")
    await face.submit(batch, _items(3))
    assert await face.cancel_requests(batch, ["r0", "none"], []) == 1
    assert await face.cancel_requests(batch, ["r0"], []) == 0
    assert await face.state(batch) == "OPEN"
    await face.seal(batch)
    assert await face.cancel_requests(batch, ["r1", "r2"], ["no such group"]) == 2
    async with asyncio.timeout(WAIT_S):
        assert await face.rewards(batch) == {"r0": None, "r1": None, "r2": None}
    assert await face.state(batch) == "COMPLETE"


async def test_requests_may_be_streamed_in(grpc_face: GrpcFace) -> None:
    await grpc_face.register("task", "noop")
    batch = await grpc_face.open("task")
    rewards = [
        reward_pb2.RewardRequest(request_id=f"r{index}", response=b"x", reference_json=b"{}")
        for index in range(40)
    ]

    async def messages() -> Any:
        for first in range(0, 40, 8):
            yield reward_pb2.SubmitRequest(batch_id=batch, requests=rewards[first : first + 8])
        yield reward_pb2.SubmitRequest(batch_id=batch, requests=rewards[:3])

    call: Any = grpc_face.stub.SubmitStream(messages())
    answer = await call
    assert (answer.accepted, answer.duplicates) == (40, 3)


# -- planning ------------------------------------------------------------------------------------
async def test_a_batch_at_risk_says_so_by_both_doors_and_in_its_stream(
    api: Running, grpc_face: GrpcFace, http_face: HttpFace, run_worker: RunWorker
) -> None:
    await grpc_face.register("task", "noop")
    name = await grpc_face.open("task", size=1)
    path = f"/v1/batches/{name}"
    assert (await http_face.http.get(path)).json()["deadline_at_risk"] is False
    await api.store.mark_at_risk(DEFAULT_TENANT, BatchId(name))
    assert (await http_face.http.get(path)).json()["deadline_at_risk"] is True
    request = reward_pb2.GetBatchRequest(batch_id=name)
    get_batch: Any = grpc_face.stub.GetBatch
    answer: reward_pb2.GetBatchResponse = await get_batch(request)
    assert batch_status(answer.batch).deadline_at_risk, "as the client sees it"
    await run_worker()
    await grpc_face.submit(name, _items(1))
    assert all(page.batch.deadline_at_risk for page in await _pages(grpc_face, name))


# -- deadlines and hints -------------------------------------------------------------------------
async def test_a_batch_without_a_deadline_gets_the_default_and_later_that_of_history(
    api: Running, face: Face, run_worker: RunWorker
) -> None:
    await run_worker(_numbered)
    await face.register("task", "noop", delay_budget_ms=1_500)
    first = await face.open("task", size=2)
    await face.submit(first, _items(2))
    await face.rewards(first)
    second = await face.open("task", size=2)
    named = await face.open("task", deadline_ms=77_000)
    assert await _allowed_ms(api, first) == 600_000
    assert 1_500 < await _allowed_ms(api, second) < 60_000
    assert await _allowed_ms(api, named) == 77_000


async def test_no_deadline_is_earlier_than_the_earliest_allowed(
    api: Running, face: Face, run_worker: RunWorker
) -> None:
    await run_worker(_numbered)
    await face.register("task", "noop", delay_budget_ms=0)
    eager = await face.open("task", deadline_ms=1, size=1)
    assert await _allowed_ms(api, eager) == 1_000
    await face.submit(eager, _items(1))
    await face.rewards(eager)
    by_history = await face.open("task")
    assert await _allowed_ms(api, by_history) >= 1_000


async def _allowed_ms(api: Running, batch_id: str) -> int:
    batch = await api.store.get_batch(DEFAULT_TENANT, BatchId(batch_id))
    return round((batch.deadline_ns - batch.opened_ns) / 1e6)


# -- Score ---------------------------------------------------------------------------------------
async def test_score_answers_in_the_order_of_the_requests(
    face: Face, run_worker: RunWorker
) -> None:
    await run_worker(_numbered)
    items = list(reversed(_items(50)))
    assert await face.score(items, pipeline="noop") == [float(49 - i) for i in range(50)]
    await face.register("task", "noop")
    assert await face.score(items[:2], task_id="task") == [49.0, 48.0]


async def test_score_takes_a_pipelines_settings(face: Face, run_worker: RunWorker) -> None:
    seen = set()

    def judge(claim: Claim) -> Finish:
        seen.add(json.loads(claim.task.settings_json)["reward_fail"])
        return _numbered(claim)

    await run_worker(judge)
    for reward_fail in (-1.0, -2.0, -1.0):
        settings = {"reward_fail": reward_fail}
        await face.score(_items(1), pipeline="noop", settings=settings)
    assert seen == {-1.0, -2.0}


async def test_a_score_that_takes_too_long_is_cancelled(face: Face, api: Running) -> None:
    with pytest.raises((Exception,)) as caught:
        await face.score(_items(1), pipeline="noop", timeout_s=0.3)
    code = getattr(caught.value, "code", None)
    assert code in {grpc.StatusCode.DEADLINE_EXCEEDED, 504}
    await _until_all_cancelled(api)


async def test_a_score_whose_grpc_caller_goes_away_is_cancelled(
    api: Running, grpc_face: GrpcFace
) -> None:
    scoring = asyncio.ensure_future(grpc_face.score(_items(2), pipeline="noop"))
    await _until_queued(api, 2)
    scoring.cancel()
    await _until_all_cancelled(api)


async def test_a_score_whose_http_caller_hangs_up_is_cancelled(api: Running) -> None:
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=30) as http:
        scoring = asyncio.ensure_future(HttpFace(http).score(_items(2), pipeline="noop"))
        await _until_queued(api, 2)
        scoring.cancel()
        await asyncio.wait([scoring])
    await _until_all_cancelled(api)


async def test_a_score_that_the_service_stops_under_is_cancelled(
    run_api: RunApi, api: Running
) -> None:
    stopping = await run_api()
    async with grpc.aio.insecure_channel(stopping.addresses.grpc) as channel:
        scoring = asyncio.ensure_future(GrpcFace(channel).score(_items(2), pipeline="noop"))
        await _until_queued(api, 2)
        await stopping.api.server.stop()
        await _until_all_cancelled(api)
        await asyncio.wait([scoring])
        assert scoring.exception()


async def test_a_score_may_end_while_the_service_drains(
    run_api: RunApi, api: Running, run_worker: RunWorker
) -> None:
    stopping = await run_api(drain_s=WAIT_S)
    async with grpc.aio.insecure_channel(stopping.addresses.grpc) as channel:
        scoring = asyncio.ensure_future(GrpcFace(channel).score(_items(2), pipeline="noop"))
        await _until_queued(api, 2)
        stop = asyncio.ensure_future(stopping.api.server.stop())
        await _until_not_ready(stopping)
        await run_worker(_numbered)
        async with asyncio.timeout(WAIT_S / 2):
            assert await scoring == [0.0, 1.0]
            await stop


async def _until_not_ready(api: Running) -> None:
    async def refused() -> bool:
        try:
            await GrpcFace(channel).state("none")
        except Refusal as refusal:
            return refusal.code == grpc.StatusCode.UNAVAILABLE
        return False

    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        await _until(refused)


async def _until_queued(api: Running, count: int) -> None:
    async def queued() -> bool:
        return sum(b.queued for b in await api.store.batches(batches_max=10)) == count

    await _until(queued)


async def _until_all_cancelled(api: Running) -> None:
    async def over() -> bool:
        return not await api.store.batches(batches_max=10)

    await _until(over)


# -- pages about the service ---------------------------------------------------------------------
async def test_pipelines_are_listed_with_the_forms_of_their_references(
    grpc_face: GrpcFace, http_face: HttpFace
) -> None:
    call: Any = grpc_face.stub.ListPipelines(reward_pb2.ListPipelinesRequest())
    listed = {pipeline.name: pipeline for pipeline in (await call).pipelines}
    assert {"exact", "noop"} <= set(listed)
    schema = json.loads(listed["exact"].reference_schema_json)
    assert schema["required"] == ["answers"]
    assert json.loads(listed["exact"].example_reference_json) == {"answers": ["Paris"]}
    over_http = (await http_face.http.get("/v1/pipelines")).json()["pipelines"]
    assert [pipeline["name"] for pipeline in over_http] == sorted(listed)
    assert next(p for p in over_http if p["name"] == "exact")["reference_schema"] == schema


async def test_the_openapi_page_has_every_operation_of_the_proto(http_face: HttpFace) -> None:
    page = (await http_face.http.get("/openapi.json")).json()
    summaries = {op["summary"] for path in page["paths"].values() for op in path.values()}
    operations = {summary.replace(" ", "").lower() for summary in summaries}
    service = reward_pb2.DESCRIPTOR.services_by_name["RewardService"]
    rpcs = {method.name.lower() for method in service.methods}
    # A stream of submissions is a loop over HTTP, and a large message one body; results are read
    # page by page, too.
    assert rpcs - {"submitstream", "submitparts", "scoreparts"} == operations - {"listresults"}
    assert (await http_face.http.get("/docs")).status_code == 200


async def test_a_task_is_kept_with_its_settings_complete(face: Face, api: Running) -> None:
    await face.register("task", "exact", settings={"ignore_case": True}, batch_size=64)
    record = await api.store.get_task(DEFAULT_TENANT, TaskId("task"))
    settings = json.loads(record.settings_json)
    assert settings["ignore_case"] is True
    assert settings["reward_fail"] == 0.0
    assert record.batch_size == 64


async def test_a_batch_says_where_its_requests_are(face: Face, api: Running) -> None:
    await face.register("task", "noop")
    batch = await face.open("task")
    await face.submit(batch, _items(3))
    record = await api.store.get_batch(DEFAULT_TENANT, BatchId(batch))
    assert (record.state, record.submitted, record.queued) == (BatchState.OPEN, 3, 3)


async def test_a_page_that_waits_for_its_reader_is_text_only(
    http_face: HttpFace, api: Running, run_worker: RunWorker
) -> None:
    """Every full garbage collection would visit the results of all streams that no one reads."""

    def records() -> dict[int, ResultRecord]:
        gc.collect()
        return {id(one): one for one in gc.get_objects() if isinstance(one, ResultRecord)}

    await http_face.register("task", "noop")
    batch = await http_face.open("task", size=PAGE_RESULTS_MAX + 1)
    await run_worker(_numbered)
    await http_face.submit(batch, _items(PAGE_RESULTS_MAX + 1))
    await http_face.rewards(batch)
    results = Results(store=api.store, clock=Clock(), turn=None)
    pages = results.stream(Tenant(tenant_id=DEFAULT_TENANT, quota=Quota()), batch, cursor=0)
    lines = ndjson(limited(pages, DoorLimits(calls_max=1, streams_max=1, bytes_max=1)), nullcontext)
    others = records()  # of the worker and the stream above, which may be on their way out
    async with aclosing(lines):
        assert len(json.loads(await anext(lines))["results"]) == PAGE_RESULTS_MAX
        assert not records().keys() - others.keys()


class Pauses(Clock):
    """Notes how long it was asked to sleep."""

    def __init__(self) -> None:
        self.asked_s: asyncio.Queue[float] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        """As the clock, with a note."""
        self.asked_s.put_nowait(seconds)
        await super().sleep(seconds)


@pytest.mark.parametrize(
    ("results", "pause_s"), [(PAGE_SMALL, PAGE_EVERY_S / 2), (PAGE_SMALL + 1, PAGE_EVERY_S)]
)
async def test_after_a_page_of_few_results_the_next_comes_sooner(
    http_face: HttpFace, api: Running, run_worker: RunWorker, results: int, pause_s: float
) -> None:
    await http_face.register("task", "noop")
    batch = await http_face.open("task", size=results + 1)
    await run_worker(_numbered)
    await http_face.submit(batch, _items(results))
    while (await api.store.get_batch(DEFAULT_TENANT, BatchId(batch))).ended < results:
        await asyncio.sleep(0.01)
    clock = Pauses()
    stream = Results(store=api.store, clock=clock, turn=None)
    pages = stream.stream(Tenant(tenant_id=DEFAULT_TENANT, quota=Quota()), batch, cursor=0)
    async with aclosing(pages):
        assert (await anext(pages)).cursor == results
        following = asyncio.ensure_future(anext(pages))
        assert await clock.asked_s.get() == pause_s
        following.cancel()
        await asyncio.wait([following])
