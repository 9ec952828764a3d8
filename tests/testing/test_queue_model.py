"""The pure model of the store, by properties; what it does call by call is in `tests/store`."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.ids import (
    BatchId,
    GroupId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.ordering import order_key
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    BatchState,
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    GiveBack,
    HandOver,
    NewRequest,
    Quota,
    Report,
    ResultRecord,
    StageReport,
    TaskRecord,
)
from assay.testing.queue_model import QueueLimits, QueueModel

TENANT = TenantId("acme")
FIRST, SECOND = StageName("compile"), StageName("run")
TASK = TaskRecord(
    tenant=TENANT,
    task_id=TaskId("task"),
    pipeline=PipelineName("code.cpp"),
    stages=(FIRST, SECOND),
    settings_json=b"{}",
)
WORKER = WorkerId("w")
S = 10**9
FINISHES: list[Finish] = [
    EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b""),
    HandOver(next_stage=SECOND, handover=b"x"),
    FailAttempt(error="broken"),
    GiveBack(),
]


def model_with(deadlines_s: list[int], sizes: list[int]) -> QueueModel:
    """Batches `0`, `1` ... opened at the same instant, filled one after the other and sealed."""
    model = QueueModel(QueueLimits(history_batches=100))
    model.task_book.put_task(TASK)
    for number, (deadline_s, size) in enumerate(zip(deadlines_s, sizes, strict=True)):
        spec = BatchSpec(
            tenant=TENANT,
            batch_id=BatchId(str(number)),
            task_id=TASK.task_id,
            size=size,
            group_size=0,
            deadline_after_ms=deadline_s * 1000,
        )
        model.open_batch(spec, Quota(), 0)
        requests = [
            NewRequest(
                request_id=RequestId(f"r{index}"),
                group_id=GroupId(f"g{index % 2}"),
                response=b"",
                reference=b"",
            )
            for index in range(size)
        ]
        model.submit(TENANT, spec.batch_id, requests, Quota(), number)
    return model


def claim(model: QueueModel, stage: StageName, count: int, now_ns: int) -> list[Claim]:
    return list(model.claim(stage, claims_max=count, lease_ns=10 * S, worker=WORKER, now_ns=now_ns))


def report(one: Claim, finish: Finish) -> Report:
    account = StageReport(worker=WORKER, started_after_ns=1, finished_after_ns=3)
    return Report(lease=one.lease, report=account, finish=finish)


BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), min_size=1, max_size=5)


@given(BATCHES, st.integers(1, 7))
def test_everything_is_served_once_in_the_order_of_the_keys(
    batches: list[tuple[int, int]], claims_max: int
) -> None:
    deadlines_s, sizes = (list(part) for part in zip(*batches, strict=True))
    model = model_with(deadlines_s, sizes)
    served: list[Claim] = []
    while claims := claim(model, FIRST, claims_max, S):
        assert len(claims) <= claims_max
        served += claims
    assert len(served) == sum(sizes)
    keys = [order_key(deadline_ns=c.deadline_ns, sequence=int(c.lease.job_id)) for c in served]
    assert keys == sorted(set(keys))


@settings(max_examples=60)
@given(BATCHES, st.data())
def test_whatever_workers_do_all_requests_end_once_and_nothing_is_left(
    batches: list[tuple[int, int]], data: st.DataObject
) -> None:
    deadlines_s, sizes = (list(part) for part in zip(*batches, strict=True))
    model = model_with(deadlines_s, sizes)
    now_ns, completed = S, Counter[str]()
    for step in range(1_000):
        now_ns += S
        stage = FIRST if step % 2 else SECOND
        claims = claim(model, stage, 4, now_ns)
        reports = [report(one, data.draw(st.sampled_from(FINISHES))) for one in claims]
        silent = data.draw(st.integers(0, 3)) if claims else 0
        finished = model.finish(stage, reports[silent:], 3, now_ns)
        assert {status.value for status in finished.statuses} <= {"DONE"}
        reaped = model.reap(stage, attempts_max=3, jobs_max=2, now_ns=now_ns)
        completed.update(one.batch_id for one in (*finished.completed, *reaped.completed))
        if len(completed) == len(sizes):
            break
    assert completed == Counter(str(number) for number in range(len(sizes)))
    for number, size in enumerate(sizes):
        batch = model.get_batch(TENANT, BatchId(str(number)), now_ns)
        assert (batch.state, batch.ended) == (BatchState.COMPLETE, size)
        log = model.results(TENANT, batch.batch_id, cursor=0, entries_max=10**6, now_ns=now_ns)
        results = [entry for entry in log if isinstance(entry, ResultRecord)]
        assert sorted(one.request_id for one in results) == [f"r{i}" for i in range(size)]
        assert len(log) - len(results) == min(size, 2), "each group is reported once"
    assert all(d.queued == d.running == 0 for d in model.depths((FIRST, SECOND), now_ns))


def test_what_changed_is_left_for_the_shell() -> None:
    model = model_with([1], [2])
    assert (model.changes.work, model.changes.batches) == ({FIRST}, {BatchId("0")})
    model.changes.batches.clear()
    [one] = claim(model, FIRST, 1, S)
    assert (model.changes.work, model.changes.batches) == ({FIRST}, set())
    claim(model, FIRST, 1, S)
    assert model.changes.work == set()
    model.finish(FIRST, [report(one, FINISHES[1])], 3, S)
    assert (model.changes.work, model.changes.batches) == ({SECOND}, set())


def test_a_lease_ends_at_its_instant_and_not_before() -> None:
    model = model_with([1_000], [1])
    [one] = claim(model, FIRST, 1, S)
    before = model.reap(FIRST, attempts_max=3, jobs_max=9, now_ns=11 * S - 1)
    at = model.reap(FIRST, attempts_max=3, jobs_max=9, now_ns=11 * S)
    assert (before.redelivered, at.redelivered) == (0, 1)
    assert model.finish(FIRST, [report(one, FINISHES[0])], 3, 11 * S).statuses == ("STALE",)


def test_a_batch_is_overdue_an_hour_after_its_deadline_and_forgotten_an_hour_after_its_end() -> (
    None
):
    model = model_with([60], [3])
    overdue_ns = 60 * S + 3_600 * S
    assert model.reap(FIRST, attempts_max=3, jobs_max=9, now_ns=overdue_ns - 1).expired == 0
    assert model.reap(FIRST, attempts_max=3, jobs_max=9, now_ns=overdue_ns).expired == 3
    last_ns = overdue_ns + 3_600 * S - 1
    assert model.get_batch(TENANT, BatchId("0"), last_ns).outcomes == {Outcome.EXPIRED: 3}
    assert model.batches(batches_max=9) == []
    model.reap(FIRST, attempts_max=3, jobs_max=9, now_ns=last_ns + 1)
    spec = BatchSpec(
        tenant=TENANT,
        batch_id=BatchId("0"),
        task_id=TASK.task_id,
        size=7,
        group_size=0,
        deadline_after_ms=1,
    )
    assert model.open_batch(spec, Quota(), last_ns + 1)[1], "its name is free again"
