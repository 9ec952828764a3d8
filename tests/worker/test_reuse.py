"""The same request is judged once, where its task wants that."""

import dataclasses
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.worker.hosts import RunHost, Trainer, until

from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    owner_in,
    owner_of,
)
from assay.core.outcome import Outcome
from assay.core.records import Artifact, Claim, Lease, Member, TaskRecord
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.store.port import Store
from assay.testing.memory_store import MemoryStore
from assay.verifiers.registry import load_pipelines
from assay.worker.assignment import HeldClaim
from assay.worker.reuse import FOLLOWERS_MAX, WRITES_MAX, Reuse, ReusePolicy
from assay.worker.slots.messages import Said, SaidEnded, SaidFailed, SaidHandedOver

WANTED: dict[str, object] = {"reuse_results": True}
SETTINGS = b'{"reuse_results": true}'
TASK = TaskRecord(
    tenant=TenantId("acme"),
    task_id=TaskId("task"),
    pipeline=PipelineName("exact"),
    stages=(StageName("match"),),
    settings_json=SETTINGS,
)
CLAIM = Claim(
    lease=Lease(job_id=JobId("1"), fence=1),
    stage=StageName("match"),
    task=TASK,
    batch_id=BatchId("batch"),
    request_id=RequestId("r1"),
    group_id=GroupId("g"),
    attempt=1,
    response=b"Paris",
    reference=b"{}",
    handover=b"",
    enqueued_ns=0,
    claimed_ns=0,
    deadline_ns=0,
)
SCORED = SaidEnded(outcome=Outcome.SCORED, reward=1.0, body=b"")


def held(number: int = 1, **changes: object) -> HeldClaim:
    lease = Lease(job_id=JobId(str(number)), fence=number)
    claim = dataclasses.replace(CLAIM, lease=lease, **changes)  # type: ignore[arg-type]
    return HeldClaim(claim=claim, claimed_ns=0, payload_bytes=0)


def admit(reuse: Reuse, one: HeldClaim) -> Said | bool:
    one.reuse_key = reuse.key_of(one.claim)
    return reuse.admit(one)


def open_reuse(
    version: str = "v1",
    store: MemoryStore | None = None,
    spawn: Callable[..., object] = lambda work, **_: work.close(),
) -> Reuse:
    return Reuse(
        stage=StageName("match"),
        store=store or MemoryStore(Clock()),
        policy=ReusePolicy(load_pipelines()),
        version_of=lambda _pipeline, _settings: version,
        metrics=Metrics(),
        now_s=lambda: 0.0,
        spawn=spawn,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"response": b"Rome"},
        {"reference": b'{"answers": []}'},
        {"messages": b"[]"},
        {"artifacts": (Artifact("f", b"x"),)},
        {"handover": b"other"},
        {"task": dataclasses.replace(TASK, tenant=TenantId("other"))},
        {"task": dataclasses.replace(TASK, settings_json=b'{"reuse_results":true}')},
    ],
)
def test_only_what_is_the_same_in_all_and_of_one_tenant_shares(changes: dict[str, object]) -> None:
    reuse = open_reuse()
    assert reuse.key_of(held().claim) == reuse.key_of(held(2, request_id=RequestId("b")).claim)
    assert reuse.key_of(held(2, **changes).claim) != reuse.key_of(held().claim)
    assert reuse.key_of(held().claim) != open_reuse("v2").key_of(held().claim)


def test_what_a_host_keeps_counts_for_its_tenant() -> None:
    kept = open_reuse().key_of(held().claim)
    assert owner_in(kept) == owner_of((TASK.tenant,))


@pytest.mark.parametrize(
    ("pipeline", "settings"),
    [("exact", b"{}"), ("exact", b'{"reuse_results": false}'), ("code.python", SETTINGS)],
)
def test_a_task_has_to_want_it_and_its_pipeline_to_be_deterministic(
    pipeline: str, settings: bytes
) -> None:
    task = dataclasses.replace(TASK, pipeline=PipelineName(pipeline), settings_json=settings)
    assert open_reuse().key_of(held(task=task).claim) == ""


def test_the_others_get_the_verdict_of_the_one_that_leads() -> None:
    reuse = open_reuse()
    claims = [held(number) for number in range(1, 4)]
    assert [admit(reuse, one) for one in claims] == [True, False, False]
    assert list(reuse.judged(claims[0], SCORED)) == claims[1:]
    assert admit(reuse, held(9)) == SCORED


@pytest.mark.parametrize(
    "said",
    [
        SaidFailed(error="broken"),
        SaidEnded(outcome=Outcome.RESOURCE_LIMIT, reward=0.0, body=b""),
        SaidEnded(outcome=Outcome.REJECTED_INVALID, reward=None, body=b""),
        dataclasses.replace(SCORED, unaudited=True),
    ],
)
def test_what_is_not_a_sound_verdict_is_for_no_one_else(said: Said) -> None:
    reuse = open_reuse()
    first, second, third = (held(number) for number in (1, 2, 3))
    for one in (first, second, third):
        admit(reuse, one)
    assert not reuse.judged(first, said)
    assert list(reuse.leave(first)) == [second]  # it is judged in its place
    assert list(reuse.judged(second, SaidHandedOver(handover=b"on"))) == [third]


def test_who_leaves_while_it_waits_gets_no_verdict() -> None:
    reuse = open_reuse()
    first, second, third = (held(number) for number in (1, 2, 3))
    for one in (first, second, third):
        admit(reuse, one)
    assert not reuse.leave(second)
    assert list(reuse.judged(first, SCORED)) == [third]


def test_a_group_that_is_judged_as_a_whole_is_judged_each_time() -> None:
    member = Member(
        job_id=JobId("1"), request_id=RequestId("r1"), response=b"Paris", reference=b"{}"
    )
    assert open_reuse().key_of(held(members=(member,)).claim) == ""


def test_a_claim_without_a_key_leads_no_others() -> None:
    reuse = open_reuse()
    alone = held(task=dataclasses.replace(TASK, settings_json=b"{}"))
    assert admit(reuse, alone) is True
    assert not reuse.judged(alone, SCORED)


def test_those_that_follow_in_place_of_the_first_are_counted() -> None:
    reuse = open_reuse()
    claims = [held(number) for number in range(FOLLOWERS_MAX + 1)]
    assert [admit(reuse, one) for one in claims].count(False) == FOLLOWERS_MAX
    assert list(reuse.leave(claims[0])) == [claims[1]]
    more = [admit(reuse, held(number)) for number in (10**6, 10**6 + 1)]
    assert more == [False, True], "one place is free"


async def test_verdicts_are_written_for_other_hosts_however_many_there_were_before() -> None:
    store = MemoryStore(Clock())
    writing: list[Coroutine[Any, Any, None]] = []
    reuse = open_reuse(store=store, spawn=lambda work, **_: writing.append(work))
    for number in range(WRITES_MAX + 1):
        one = held(number, response=b"%d" % number)
        admit(reuse, one)
        reuse.judged(one, SCORED)
        while writing:
            await writing.pop()
    other = open_reuse(store=store)
    await other.look_up([one.claim])
    assert admit(other, one) == SCORED


def test_those_that_wait_are_bounded_and_given_back_together() -> None:
    reuse = open_reuse()
    claims = [held(number) for number in range(FOLLOWERS_MAX + 2)]
    admitted = [admit(reuse, one) for one in claims]
    assert admitted.count(False) == FOLLOWERS_MAX
    assert admitted[-1] is True
    assert len(reuse.take_followers()) == FOLLOWERS_MAX
    assert not reuse.judged(claims[0], SCORED)


async def test_requests_that_come_together_are_judged_once(
    run_host: RunHost, store: Store, tmp_path: Path
) -> None:
    log, go = tmp_path / "log", tmp_path / "go"
    await run_host("certain", slots=4)
    trainer = Trainer(store=store, settings=WANTED)
    batch = await trainer.submit("certain", [f"log {log} {go}"] * 6 + ["pass"])
    await trainer.until_ended(batch, 1)
    await until(log.exists)
    go.touch()
    results = await trainer.results(batch)
    assert {one.record.reward for one in results} == {1.0}
    assert log.read_text() == "judged\n"


async def test_a_verdict_is_found_by_another_host_and_not_by_a_task_that_does_not_want_it(
    run_host: RunHost, store: Store, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    trainer = Trainer(store=store, settings=WANTED)
    first = await run_host("certain")
    await trainer.judge("certain", f"log {log}")
    await first.stop()
    await run_host("certain")
    [again] = await trainer.judge("certain", f"log {log}")
    assert again.record.reward == 1.0
    assert log.read_text().count("judged") == 1
    await Trainer(store=store).judge("certain", f"log {log}")
    assert log.read_text().count("judged") == 2


async def test_a_failed_attempt_is_shared_with_no_one(
    run_host: RunHost, store: Store, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    await run_host("certain", slots=2)
    trainer = Trainer(store=store, settings=WANTED)
    results = await trainer.judge("certain", *[f"log_and_fail_once {log}"] * 4)
    assert {one.record.reward for one in results} == {1.0}
    assert log.read_text().count("judged") == 2
