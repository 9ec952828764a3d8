"""The Valkey scripts against the pure model: any sequence of calls gives the same answers.

Every call is made on both; what they answer and what can be seen afterwards must agree in all but
instants and fences, which are each one's own. Both count requests from one, so even the names of
jobs agree. Where the clock decides (leases, overdue batches), times are either over
at once or never, and both clocks are moved past the former before anything else happens. Three
tenants with weights share the stages; what a cancelled claim held counts where it is more than was
expected of it, so requests are expected here to take longer than any example.
"""

import asyncio
import dataclasses
import os
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.store.driver import ENTRIES_MAX, FIRST, SECOND, TASK, TENANT, WORKER, request

from assay.config.settings import StoreSettings
from assay.core.errors import AssayError
from assay.core.ids import BatchId, GroupId, JobId, RequestId, StageName, TenantId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    Artifact,
    BatchSpec,
    BatchState,
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    FinishGroup,
    GiveBack,
    HandOver,
    Lease,
    NewRequest,
    Quota,
    Report,
    StageReport,
)
from assay.store.embedded import EmbeddedValkey
from assay.store.valkey import ValkeyStore
from assay.testing.queue_model import QueueLimits, QueueModel

F = TypeVar("F", bound=Callable[..., Any])
QUOTA = Quota(requests_open_max=9, bytes_open_max=60, batches_open_max=3)
OVERDUE_S = 0.001
MOMENT_S = 0.003
"""Longer than every time that is over at once."""
AT_ONCE_S, NEVER_S = 0.001, 3_600.0
PHASES = [Phase.explicit, Phase.generate] if "MACHINE_UNSHRUNK" in os.environ else list(Phase)
EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", "30"))
FORMS = {
    # name: (size, group size, deadline); deadlines so far apart that no clock confuses them
    BatchId("sized"): (4, 2, 4_000_000),
    BatchId("open"): (0, 0, 2_000_000),
    BatchId("grouped"): (0, 2, 3_000_000),
    BatchId("late"): (0, 0, 1),
}
TENANTS = {
    # batch: (its tenant, the weight with which it is opened)
    BatchId("sized"): (TENANT, 1.0),
    BatchId("open"): (TenantId("beta"), 3.0),
    BatchId("grouped"): (TenantId("Gamma.2"), 0.7),
    BatchId("late"): (TENANT, 1.5),
}
TASKS = {tenant: dataclasses.replace(TASK, tenant=tenant) for tenant, _ in TENANTS.values()}
SERVICES_NS = (600 * 10**9, 1_000 * 10**9 + 1_500_999, 3_000 * 10**9)
WARM = BatchId("warm")
BATCHES = st.sampled_from(sorted(FORMS))
PRIORITIES = (10**15, 10**18 // 2, 5 * 10**18)
"""Before all deadlines and after them, by either clock."""
STAGES = st.sampled_from([FIRST, SECOND])
NEW = st.builds(
    lambda name, group, response, attached: request(
        name, group=group, response=response, **attached
    ),
    st.sampled_from(["a", "b", "c", "d", "e"]),
    st.sampled_from(["", "g", "h"]),
    st.sampled_from([b"1", b"22"]),
    st.sampled_from([{}, {"messages": b"[]"}, {"artifacts": (Artifact("f", b"x"),)}]),
)
FINISHES = st.sampled_from(
    [
        EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"body"),
        EndRequest(outcome=Outcome.SCORED, reward=0.1, body=b""),
        EndRequest(outcome=Outcome.REJECTED_INVALID, reward=None, body=b"no"),
        HandOver(next_stage=SECOND, handover=b"artifact"),
        FailAttempt(error="broken"),
        GiveBack(),
    ]
)


def timeless(value: Any) -> Any:
    """Without instants; durations stay, as differences."""
    if isinstance(value, list | tuple):
        return [timeless(one) for one in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if "started_ns" in fields:
        fields["held_ns"] = fields["finished_ns"] - fields["started_ns"]
    own_time = {"oldest_age_s", "slack_ms", "fence"}
    kept = {k: v for k, v in fields.items() if not k.endswith("_ns") and k not in own_time}
    kept["service_ns"] = fields.get("service_ns")
    return type(value).__name__, {k: timeless(v) for k, v in kept.items()}


def timeless_work(found: Any) -> Any:
    """Of `open_work`, with all that is no instant."""
    return [
        (
            timeless(work),
            work.ended_natural_ns > 0,
            work.order_deadline_ns if work.order_deadline_ns in PRIORITIES else None,
            [one.claimed_ns > 0 for one in work.requests],
        )
        for work in found
    ]


def by_tenant(flat: Any) -> dict[TenantId, int]:
    """A reply of members and scores."""
    return {TenantId(t.decode()): int(v) for t, v in zip(flat[::2], flat[1::2], strict=True)}


def of_group(claim: Claim, finish: Finish, spared: int) -> Finish:
    """The same about a whole group, if it is one; a member fails, another is forgotten."""
    if not claim.members or not isinstance(finish, EndRequest | HandOver):
        return finish
    said: list[tuple[JobId, EndRequest | HandOver | FailAttempt]] = []
    for index, member in enumerate(claim.members):
        if index % 3 != spared:
            said.append((member.job_id, finish))
        elif spared == 1:
            said.append((member.job_id, FailAttempt(error="this one")))
    return FinishGroup(members=tuple(said))


def may_be_spent(what: str, times: int) -> Callable[[F], F]:
    """Calls after which nothing more happens in a batch are rare, or nothing ever would."""
    return precondition(lambda self: self.spent[what] < times)


class StoreMachine(RuleBasedStateMachine):
    """Calls both and compares."""

    group_stage: StageName | None = None
    """The stage that judges whole groups."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        store_settings = StoreSettings(
            shard=secrets.token_hex(6), batch_overdue_s=OVERDUE_S, results_kept_s=NEVER_S
        )
        self.store = ValkeyStore(store_settings, url=url)
        self.model = QueueModel(
            QueueLimits(batch_overdue_ns=int(OVERDUE_S * 1e9), results_kept_ns=int(NEVER_S * 1e9))
        )
        self.now_ns = 10**18
        self.claims: list[Claim] = []
        self.models_lease: dict[Lease, Lease] = {}
        """By the lease that the store gave."""
        self.opened: set[BatchId] = set()
        self.spent: Counter[str] = Counter()
        for task in TASKS.values():
            task = dataclasses.replace(task, group_stage=self.group_stage)
            self.both(self.store.put_task(task), partial(self.model.task_book.put_task, task))
        self.warm_up()

    def warm_up(self) -> None:
        """One request passes all stages, so that something is expected of the others."""
        spec = BatchSpec(
            tenant=TENANT,
            batch_id=WARM,
            task_id=TASK.task_id,
            size=1,
            group_size=0,
            deadline_after_ms=9_000_000,
        )
        self.both(
            self.store.open_batch(spec, QUOTA),
            lambda: self.model.open_batch(spec, QUOTA, self.now_ns),
        )
        new = [request("a", group="g")]
        self.both(
            self.store.submit(TENANT, WARM, new, QUOTA),
            lambda: self.model.submit(TENANT, WARM, new, QUOTA, self.now_ns),
        )
        account = StageReport(worker=WORKER, started_after_ns=0, finished_after_ns=SERVICES_NS[1])
        ends: dict[StageName, Finish] = {
            FIRST: self.hand_over(b""),
            SECOND: EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b""),
        }
        for stage, finish in ends.items():
            lease_ns = int(NEVER_S * 1e9)
            [claim] = self.both(
                self.store.claim(stage, claims_max=1, lease_s=NEVER_S, worker=WORKER),
                partial(
                    self.model.claim,
                    stage,
                    claims_max=1,
                    lease_ns=lease_ns,
                    worker=WORKER,
                    now_ns=self.now_ns,
                ),
            )
            finish = of_group(claim, finish, 2)
            report = Report(lease=claim.lease, report=account, finish=finish)
            self.both(
                self.store.finish(stage, [report], 1),
                partial(self.model.finish, stage, self.models([report]), 1, self.now_ns),
            )

    def hand_over(self, handover: bytes) -> HandOver:
        return HandOver(next_stage=SECOND, handover=handover, gathers=self.group_stage == SECOND)

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()

    def pause(self) -> None:
        """Let everything that is over at once be over, on both clocks."""
        time.sleep(MOMENT_S)
        self.now_ns += int(MOMENT_S * 1e9)

    def both(
        self,
        call: Awaitable[Any],
        expect: Callable[[], Any],
        see: Callable[[Any], Any] = timeless,
    ) -> Any:
        """Make a call on both; the answers or the refusals must agree."""
        self.now_ns += 1_000

        async def made() -> Any:
            return await call

        def answer(ask: Callable[[], Any]) -> tuple[Any, Any]:
            try:
                found = ask()
            except AssayError as error:
                return None, (type(error), error.field)
            return found, see(found)

        real, seen = answer(lambda: self.runner.run(made()))
        own, expected = answer(expect)
        assert seen == expected
        if real and isinstance(real, list) and isinstance(real[0], Claim):
            pairs = zip(real, own, strict=True)
            self.models_lease |= {one.lease: other.lease for one, other in pairs}
        return real

    def models(self, reports: list[Report]) -> list[Report]:
        """The same reports, with the model's leases."""
        return [
            dataclasses.replace(report, lease=self.models_lease[report.lease]) for report in reports
        ]

    @may_be_spent("open_batch", 5)
    @rule(name=BATCHES, size=st.sampled_from([None, 3]), reserved=st.sampled_from([0, 2, 5]))
    def open_batch(self, name: BatchId, size: int | None, reserved: int) -> None:
        self.spend("open_batch")
        right_size, group_size, deadline_after_ms = FORMS[name]
        tenant, weight = TENANTS[name]
        spec = BatchSpec(
            tenant=tenant,
            weight=weight,
            batch_id=name,
            task_id=TASK.task_id,
            size=right_size if size is None or name not in self.opened else size,
            group_size=group_size,
            deadline_after_ms=deadline_after_ms,
            deadline_ns=reserved * 10**9,  # long past: no clock may choose it
            requests_reserved=reserved,
            bytes_reserved=4 * reserved,
        )
        opened = self.both(
            self.store.open_batch(spec, QUOTA),
            lambda: self.model.open_batch(spec, QUOTA, self.now_ns),
        )
        if opened is not None:
            self.opened.add(name)
            self.spent["over at once"] += name == "late"
        self.pause()

    def a_batch(self, data: st.DataObject) -> BatchId:
        return data.draw(st.sampled_from(sorted(self.opened)))

    def has_room(self) -> bool:
        """Some batch takes requests, or refusing was not seen often yet."""
        batches = (
            self.model.get_batch(TENANTS[name][0], name, self.now_ns) for name in self.opened
        )
        return self.spent["refused"] < 3 or any(one.state is BatchState.OPEN for one in batches)

    def spend(self, what: str) -> None:
        self.spent[what] += 1

    @initialize(names=st.lists(BATCHES, min_size=1, max_size=3, unique=True), data=st.data())
    def begin(self, names: list[BatchId], data: st.DataObject) -> None:
        """Somewhere worth being: random calls on nothing would find little."""
        for name in names:
            self.open_batch(name, None, 0)
            self.submit(data)

    @precondition(lambda self: self.has_room())
    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        name = self.a_batch(data)
        tenant, _ = TENANTS[name]
        new = data.draw(st.lists(NEW, min_size=1, max_size=4))
        submitted = self.both(
            self.store.submit(tenant, name, new, QUOTA),
            lambda: self.model.submit(tenant, name, new, QUOTA, self.now_ns),
        )
        if submitted is None:
            self.spend("refused")

    @may_be_spent("open_batch", 5)
    @rule(
        name=BATCHES,
        new=st.lists(NEW, min_size=1, max_size=4),
        size=st.sampled_from([0, 1, 3]),
        reserved=st.sampled_from([0, 2, 5]),
    )
    def open_filled(self, name: BatchId, new: list[NewRequest], size: int, reserved: int) -> None:
        self.spend("open_batch")
        _, group_size, deadline_after_ms = FORMS[name]
        tenant, weight = TENANTS[name]
        spec = BatchSpec(
            tenant=tenant,
            weight=weight,
            batch_id=name,
            task_id=TASK.task_id,
            size=size,
            group_size=group_size,
            deadline_after_ms=deadline_after_ms,
            requests_reserved=reserved,
            bytes_reserved=4 * reserved,
        )
        filled = self.both(
            self.store.open_filled(spec, new, QUOTA),
            lambda: self.model.open_filled(spec, new, QUOTA, self.now_ns),
        )
        if filled is not None:
            self.opened.add(name)
            self.spent["over at once"] += name == "late"
        self.pause()

    @rule()
    def time_passes(self) -> None:
        self.pause()

    def stages_with_work(self) -> list[StageName]:
        depths = self.model.depths(TASK.stages, self.now_ns)
        return [depth.stage for depth in depths if depth.queued]

    @precondition(lambda self: self.stages_with_work())
    @rule(
        data=st.data(),
        count=st.integers(0, 4),
        lease_s=st.sampled_from([NEVER_S, NEVER_S, AT_ONCE_S]),
        left_out=st.just(()) | st.lists(st.sampled_from([*TASKS, TenantId("none")])).map(tuple),
    )
    def claim(
        self, data: st.DataObject, count: int, lease_s: float, left_out: tuple[TenantId, ...]
    ) -> None:
        stage = data.draw(st.sampled_from(self.stages_with_work()))
        claims = self.both(
            self.store.claim(
                stage, claims_max=count, lease_s=lease_s, worker=WORKER, left_out=left_out
            ),
            lambda: self.model.claim(
                stage,
                claims_max=count,
                lease_ns=int(lease_s * 1e9),
                worker=WORKER,
                left_out=left_out,
                now_ns=self.now_ns,
            ),
        )
        self.claims += claims
        self.spent["over at once"] += lease_s == AT_ONCE_S
        self.pause()

    def is_running(self) -> bool:
        return any(depth.running for depth in self.model.depths(TASK.stages, self.now_ns))

    @precondition(lambda self: self.is_running())
    @rule(
        data=st.data(),
        finish=FINISHES,
        attempts_max=st.integers(1, 2),
        took_ns=st.sampled_from(SERVICES_NS),
        spared=st.integers(0, 2),
    )
    def finish(
        self, data: st.DataObject, finish: Finish, attempts_max: int, took_ns: int, spared: int
    ) -> None:
        """Also by claims that were lost or have been reported before."""
        some = data.draw(
            st.lists(st.sampled_from(self.claims[-6:]), min_size=1, max_size=4, unique_by=id)
        )
        stage = data.draw(st.sampled_from([some[0].stage, SECOND]))
        account = StageReport(worker=WORKER, started_after_ns=5, finished_after_ns=5 + took_ns)
        if isinstance(finish, HandOver):
            finish = self.hand_over(finish.handover)
        reports = [
            Report(lease=claim.lease, report=account, finish=of_group(claim, finish, spared))
            for claim in some
            if not (isinstance(finish, HandOver) and claim.stage == SECOND)
        ]
        self.both(
            self.store.finish(stage, reports, attempts_max),
            lambda: self.model.finish(stage, self.models(reports), attempts_max, self.now_ns),
        )

    @precondition(lambda self: self.is_running())
    @rule(data=st.data(), stage=STAGES)
    def beat(self, data: st.DataObject, stage: StageName) -> None:
        some = data.draw(st.lists(st.sampled_from(self.claims), max_size=4, unique_by=id))
        leases = [claim.lease for claim in some]
        self.both(
            self.store.beat(stage, lease_s=NEVER_S, leases=leases),
            lambda: self.model.beat(
                stage,
                lease_ns=int(NEVER_S * 1e9),
                leases=[self.models_lease[lease] for lease in leases],
                now_ns=self.now_ns,
            ),
        )

    @precondition(lambda self: self.spent["over at once"])
    @rule(stage=STAGES, attempts_max=st.integers(1, 2))
    def reap(self, stage: StageName, attempts_max: int) -> None:

        def see(found: Any) -> Any:
            completed = sorted(one.batch_id for one in found.completed)
            return found.redelivered, found.dead, found.expired, completed

        self.both(
            self.store.reap(stage, attempts_max=attempts_max, jobs_max=100),
            lambda: self.model.reap(
                stage, attempts_max=attempts_max, jobs_max=100, now_ns=self.now_ns
            ),
            see,
        )

    @rule(stage=STAGES, knows=st.integers(0, 6))
    def give_back_undelivered(self, stage: StageName, knows: int) -> None:
        """It holds some of its latest claims; the answers to the others were lost."""
        leases = [one.lease for one in self.claims[len(self.claims) - knows :]]
        self.both(
            self.store.give_back_undelivered(stage, worker=WORKER, leases=leases),
            lambda: self.model.give_back_undelivered(
                stage,
                worker=WORKER,
                leases=[self.models_lease[lease] for lease in leases],
                now_ns=self.now_ns,
            ),
        )

    @rule(stage=STAGES, attempts_max=st.integers(1, 2), dead=st.booleans())
    def take_back(self, stage: StageName, attempts_max: int, dead: bool) -> None:
        worker = WORKER if dead else WorkerId("another")

        def see(found: Any) -> Any:
            completed = sorted(one.batch_id for one in found.completed)
            return found.redelivered, found.dead, found.expired, completed

        self.both(
            self.store.take_back(stage, worker, attempts_max=attempts_max),
            lambda: self.model.take_back(
                stage, worker, attempts_max=attempts_max, now_ns=self.now_ns
            ),
            see,
        )

    @may_be_spent("seal", 3)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        self.spend("seal")
        name = self.a_batch(data)
        tenant, _ = TENANTS[name]
        self.both(self.store.seal(tenant, name), lambda: self.model.seal(tenant, name, self.now_ns))

    @may_be_spent("cancel", 2)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.spend("cancel")
        name = self.a_batch(data)
        tenant, _ = TENANTS[name]
        self.both(
            self.store.cancel(tenant, name), lambda: self.model.cancel(tenant, name, self.now_ns)
        )

    @may_be_spent("cancel requests", 3)
    @rule(
        data=st.data(),
        ids=st.lists(
            st.sampled_from([RequestId(name) for name in "abcde"]), max_size=2, unique=True
        ),
        groups=st.lists(st.sampled_from([GroupId("g"), GroupId("h")]), max_size=1),
    )
    def cancel_requests(
        self, data: st.DataObject, ids: list[RequestId], groups: list[GroupId]
    ) -> None:
        self.spend("cancel requests")
        name = self.a_batch(data)
        tenant, _ = TENANTS[name]
        self.both(
            self.store.cancel_requests(tenant, name, request_ids=ids, group_ids=groups),
            lambda: self.model.cancel_requests(tenant, name, ids, groups, self.now_ns),
        )

    @may_be_spent("prioritize", 4)
    @rule(data=st.data(), deadline_ns=st.sampled_from([0, *PRIORITIES]))
    def prioritize(self, data: st.DataObject, deadline_ns: int) -> None:
        self.spend("prioritize")
        name = self.a_batch(data)
        self.both(
            self.store.prioritize(TENANTS[name][0], name, deadline_ns),
            lambda: self.model.prioritize(TENANTS[name][0], name, deadline_ns, self.now_ns),
        )

    @may_be_spent("mark", 3)
    @rule(data=st.data(), at_risk=st.booleans())
    def mark_at_risk(self, data: st.DataObject, *, at_risk: bool) -> None:
        self.spend("mark")
        name = self.a_batch(data)
        self.both(
            self.store.mark_at_risk(TENANTS[name][0], name, at_risk=at_risk),
            lambda: self.model.mark_at_risk(
                TENANTS[name][0], name, at_risk=at_risk, now_ns=self.now_ns
            ),
        )

    @precondition(lambda self: self.model.dead_letters(letters_max=1))
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        letters = self.model.dead_letters(letters_max=100)
        jobs = [letter.job_id for letter in letters]
        job_id = data.draw(st.sampled_from([*jobs, JobId(f"{1:016d}")]))
        self.both(self.store.replay(job_id), lambda: self.model.replay(job_id, self.now_ns))
        self.spend("over at once")
        self.pause()

    @invariant()
    def all_that_can_be_seen_agrees(self) -> None:
        for name in sorted(self.opened):
            tenant, _ = TENANTS[name]
            get_batch = partial(self.model.get_batch, tenant, name, self.now_ns)
            self.both(self.store.get_batch(tenant, name), get_batch)
            whole = {"cursor": 0, "entries_max": ENTRIES_MAX}
            results = partial(self.model.results, tenant, name, **whole, now_ns=self.now_ns)
            self.both(self.store.results(tenant, name, **whole), results)
        self.both(
            self.store.depths(TASK.stages), lambda: self.model.depths(TASK.stages, self.now_ns)
        )
        self.both(
            self.store.dead_letters(letters_max=100),
            lambda: self.model.dead_letters(letters_max=100),
            lambda letters: sorted(timeless(one)[1]["job_id"] for one in letters),
        )
        self.both(
            self.store.open_work(batches_max=9, requests_max=99),
            lambda: self.model.open_work(batches_max=9, requests_max=99),
            timeless_work,
        )
        for tenant in TASKS:
            self.both(
                self.store.history(tenant, TASK.task_id, batches_max=100),
                partial(self.model.task_book.history, tenant, TASK.task_id, batches_max=100),
            )

    @invariant()
    def virtual_times_agree(self) -> None:
        for stage in TASK.stages:
            shares = self.model.stages.queues[stage].shares
            assert self.shares_in_store(stage) == (
                shares.waiting,
                {t: ahead for t, ahead in shares.debts.items() if ahead > shares.now_us},
                shares.now_us,
                shares.since,
            )

    def models_fence(self, fence: int) -> int:
        """0 = before the first claim."""
        own = {lease.fence: other.fence for lease, other in self.models_lease.items()}
        return own[fence] if fence else 0

    def shares_in_store(self, stage: StageName) -> Any:
        """As `Shares` has them; times that `now` has passed mean nothing, and -1 is the 0 of a
        tenant that waits alone."""
        link = self.store._link
        waiting, debts, (since, now_us) = self.runner.run(
            link.call_all(
                [
                    ("ZRANGE", f"{link.prefix}s:{stage}", 0, -1, "WITHSCORES"),
                    ("ZRANGE", f"{link.prefix}sd:{stage}", 0, -1, "WITHSCORES"),
                    ("HMGET", f"{link.prefix}sv:{stage}", "since", "now"),
                ]
            )
        )
        now_us = int(now_us or 0)
        return (
            {tenant: ahead + (since is None) for tenant, ahead in by_tenant(waiting).items()},
            {tenant: ahead for tenant, ahead in by_tenant(debts).items() if ahead > now_us},
            now_us,
            None if since is None else self.models_fence(int(since)),
        )

    @invariant()
    def counters_balance(self) -> None:
        for name in self.opened:
            batch = self.model.get_batch(TENANTS[name][0], name, self.now_ns)
            assert batch.submitted == batch.ended + batch.queued + batch.running
            assert min(batch.ended, batch.queued, batch.running) >= 0


@pytest.mark.parametrize("group_stage", [FIRST, SECOND])
@pytest.mark.parametrize("derandomize", [True, False], ids=["same", "fresh"])
def test_any_sequence_of_calls_with_a_stage_for_groups_gives_what_the_model_says(
    valkey: EmbeddedValkey, *, derandomize: bool, group_stage: StageName
) -> None:
    run(valkey, derandomize=derandomize, group_stage=group_stage)


@pytest.mark.parametrize("derandomize", [True, False], ids=["same", "fresh"])
def test_any_sequence_of_calls_gives_what_the_model_says(
    valkey: EmbeddedValkey, *, derandomize: bool
) -> None:
    run(valkey, derandomize=derandomize, group_stage=None)


def run(valkey: EmbeddedValkey, *, derandomize: bool, group_stage: StageName | None) -> None:
    class OnThisServer(StoreMachine):
        def __init__(self) -> None:
            super().__init__(valkey.url)

    OnThisServer.group_stage = group_stage
    run_state_machine_as_test(
        OnThisServer,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            derandomize=derandomize,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
