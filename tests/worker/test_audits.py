"""Audits of references: once for the platform, by slots that see no response."""

import asyncio
import json
from collections import Counter, deque
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Never

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worker.claims import claim
from tests.worker.hosts import Judged, RunHost, StartHost, Trainer, until

from assay.core.ids import StageName, TenantId, kept_for, owner_of
from assay.core.outcome import Outcome
from assay.core.pipeline import StageSpec
from assay.core.records import Claim
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.store.port import Store
from assay.verifiers.audit import reference_key
from assay.verifiers.port import PipelineSettings, StageDefinition
from assay.worker.auditing import references
from assay.worker.auditing.shares import AuditShares
from assay.worker.auditing.slots import AT_ONCE_BYTES_MAX, AT_ONCE_MAX, AuditingSlots, _Asked
from assay.worker.host import BackgroundTasks


def pids(log: Path) -> list[str]:
    return log.read_text().split()


async def judged(trainer: Trainer, stage: str, responses: int, **reference: object) -> list[Judged]:
    batch = await trainer.submit(stage, ["pass"] * responses, reference)
    return await trainer.results(batch)


async def test_a_reference_is_audited_once_however_many_slots_and_hosts_see_it(
    run_host: RunHost, start_host: StartHost, trainer: Trainer, tmp_path: Path
) -> None:
    log = tmp_path / "audits"
    first = await run_host("audited", slots=3)
    results = await judged(trainer, "audited", 12, log=str(log))
    assert [one.record.reward for one in results] == [1.0] * 12
    (auditor,) = pids(log)
    assert auditor not in {one.evidence.extracted for one in results}, "it saw a response"
    first.host.resize("audited", 0)
    await start_host("audited")
    assert len(await judged(trainer, "audited", 2, log=str(log))) == 2
    assert pids(log) == [auditor]
    await judged(trainer, "audited", 1, log=str(log), finds="weak")
    assert len(pids(log)) == 2, "another reference"


@pytest.mark.parametrize(
    ("setting", "outcome", "reward"),
    [("refuse", Outcome.REJECTED_INVALID, None), ("report", Outcome.SCORED, 1.0)],
)
async def test_a_weak_reference_is_treated_as_the_task_says(
    run_host: RunHost, trainer: Trainer, tmp_path: Path, setting: str, outcome: Outcome,
    reward: float | None,
) -> None:  # fmt: skip
    await run_host("audited", slots=2)
    trainer.settings["reference_audit"] = setting
    results = await judged(trainer, "audited", 4, log=str(tmp_path / "audits"), finds="weak")
    assert {(one.record.outcome, one.record.reward) for one in results} == {(outcome, reward)}
    assert all("empty_program" in one.evidence.error for one in results)
    assert len(pids(tmp_path / "audits")) == 1


async def test_two_slots_that_find_faults_audit_one_reference_once_before_they_judge_by_it(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    log = tmp_path / "audits"
    await run_host("faults", slots=2)
    batches = [
        await trainer.submit("faults", ["pass"] * 6, {"log": str(log), "finds": finds})
        for finds in ("sound", "weak", "sound", "weak")
    ]
    found = [(await trainer.results(batch)) for batch in batches]
    said = [{one.evidence.extracted.partition(" ")[2] for one in each} for each in found]
    assert said == [{""}, {"reference: weak"}, {""}, {"reference: weak"}]
    judges = {one.evidence.extracted.partition(" ")[0] for each in found for one in each}
    assert len(pids(log)) == 2, "two references"
    assert not judges & set(pids(log)), "an auditor saw a response"


async def test_a_reference_whose_audit_never_ends_is_at_fault_after_its_cpu_time(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    await run_host("faults", slots=1)
    results = await judged(trainer, "faults", 3, log=str(tmp_path / "audits"), finds="spin")
    assert all("more than 0.3 s of CPU time" in one.evidence.extracted for one in results)


async def test_each_slot_finds_out_for_itself_if_the_audit_fails_or_is_off(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    log = tmp_path / "audits"
    await run_host("faults", slots=1)
    (result,) = await judged(trainer, "faults", 1, log=str(log), finds="death")
    assert result.record.outcome is Outcome.INFRA_FAILED, "as the handler itself"
    auditor, *slots = pids(log)
    assert slots
    assert auditor not in slots
    trainer.settings["reference_audit"] = "off"
    (one,) = await judged(trainer, "faults", 1, log=str(tmp_path / "off"))
    assert pids(tmp_path / "off") == one.evidence.extracted.split()


async def test_audits_that_are_asked_together_end_each_by_itself(
    run_host: RunHost, trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[list[bool]] = []

    def take(slots: AuditingSlots, tenant: TenantId) -> list[Any]:
        asked = before(slots, tenant)
        taken.append([one.is_alone for one in asked])
        return asked

    before = AuditingSlots._take
    monkeypatch.setattr(AuditingSlots, "_take", take)
    said = {"sound": "", "weak": "reference: weak", "spin": "more than 0.3 s of CPU time"}
    asked = ["sound", "weak", "spin", "sound", "death", "weak", "exception", "sound"]
    batches = [
        await trainer.submit(
            "faults.many",
            ["pass"],
            {"log": str(tmp_path / "audits"), "finds": finds, "number": number},
        )
        for number, finds in enumerate(asked)
    ]
    await run_host("faults.many", slots=1)
    for finds, batch in zip(asked, batches, strict=True):
        (found,) = await trainer.results(batch)
        if finds in said:
            assert found.record.reward == 1.0
            assert said[finds] in found.evidence.extracted
            assert bool(said[finds]) == (" " in found.evidence.extracted)
        else:
            assert found.record.outcome is Outcome.INFRA_FAILED, "as the handler itself"
    assert max(map(len, taken)) > 2
    assert [True] in taken
    assert all(len(one) == 1 for one in taken if True in one)


@given(
    sizes=st.lists(st.integers(1, AT_ONCE_BYTES_MAX * 2), min_size=1, max_size=40),
    alone=st.sets(st.integers(0, 39)),
)
async def test_a_message_asks_for_few_small_audits_in_order(
    sizes: list[int], alone: set[int]
) -> None:
    """One that is tried again goes alone."""
    slots = auditing_slots(Path(), finds_faults=True)
    loop = asyncio.get_running_loop()
    asked = [
        _Asked(replace(claim_of("a"), reference=bytes(size)), loop.create_future(), at in alone)
        for at, size in enumerate(sizes)
    ]
    slots._waiting[TenantId("a")] = deque(asked)
    taken = []
    while (tenant := slots._next()) is not None:
        taken.append(slots._take(tenant))
    assert [one for turn in taken for one in turn] == asked
    for turn in taken:
        assert len(turn) <= AT_ONCE_MAX
        assert len(turn) == 1 or not any(one.is_alone for one in turn)
        assert len(turn) == 1 or sum(len(one.claim.reference) for one in turn) <= AT_ONCE_BYTES_MAX
    for turn, following in pairwise(taken):
        size = sum(len(one.claim.reference) for one in (*turn, following[0]))
        is_full = len(turn) == AT_ONCE_MAX or size > AT_ONCE_BYTES_MAX
        assert is_full or turn[0].is_alone or following[0].is_alone


@pytest.mark.parametrize("finds", ["exception", "death"])
async def test_an_audit_that_fails_says_nothing_about_the_reference(
    run_host: RunHost, trainer: Trainer, tmp_path: Path, finds: str
) -> None:
    await run_host("audited", slots=1)
    for _ in range(2):
        (result,) = await judged(trainer, "audited", 1, log=str(tmp_path / "audits"), finds=finds)
        assert result.record.reward == 1.0
    assert len(pids(tmp_path / "audits")) == 2, "not kept"


async def test_a_slot_that_saw_responses_cannot_forge_an_audit(
    run_host: RunHost, trainer: Trainer, store: Store, tmp_path: Path
) -> None:
    await run_host("audited", "pretends", slots=1)
    log = tmp_path / "audits"
    reference = json.dumps({"log": str(log)}).encode()
    settings = PipelineSettings().model_dump_json().encode()
    name = reference_key("audited", settings, reference, trainer.tenant)
    key = f"audit:{kept_for(owner_of([trainer.tenant]), name)}"
    (forger,) = await trainer.judge("audited", f"make {key} {tmp_path / 'made'}")
    assert forger.record.outcome is Outcome.INFRA_FAILED
    assert "not an artifact key of a slot" in forger.record.error
    assert await store.artifact_get(key) is None
    (result,) = await judged(trainer, "audited", 1, log=str(log))
    assert (result.record.reward, len(pids(log))) == (1.0, 1)
    assert await store.artifact_get(key) == b"sound", "the key is the one that a host uses"
    (pretender,) = await judged(trainer, "pretends", 1, log=str(log))
    assert "of a stage without" in pretender.record.error


@pytest.mark.parametrize("stage", ["audited", "faults"])
async def test_slow_references_of_a_tenant_keep_no_other_tenant_waiting(
    run_host: RunHost, trainer: Trainer, tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for a claim nor for an audit, however many there are."""
    monkeypatch.setattr(references, "HELD_MAX", 4)
    service = await run_host(stage, slots=1)
    audits = service.host._supervisors[StageName(stage)]._audits
    log, end = tmp_path / "audits", tmp_path / "end"
    slow: dict[str, object] = {"log": str(log), "waits_for": str(end)}
    batches = [
        await trainer.submit(stage, ["pass"], {**slow, "number": number}) for number in range(12)
    ]
    await until(lambda: trainer.tenant in audits.at_share)
    await asyncio.sleep(0.5)  # sweeps wake the host for what it has left
    assert len(audits) + len(audits.findings) < 8, "the others wait in the store"
    other = replace(trainer, tenant=TenantId("other"))
    for number in range(3):
        async with asyncio.timeout(10):  # an audit of the first would take 20 s
            (found,) = await judged(other, stage, 1, log=str(log), number=number)
        assert found.record.reward == 1.0
    assert trainer.tenant in audits.at_share, "its audits still wait"
    end.touch()
    for batch in batches:
        (found,) = await trainer.results(batch)
        assert found.record.reward == 1.0


TENANTS = [TenantId(name) for name in "abcdef"]


@given(st.lists(st.tuples(st.sampled_from(TENANTS), st.booleans())), st.integers(1, 20))
def test_shares_of_audits_leave_room_for_who_comes_next(
    steps: list[tuple[TenantId, bool]], room: int
) -> None:
    shares, held = AuditShares(), Counter[TenantId]()
    for tenant, comes in steps:
        if comes and tenant not in shares.at_share(room) and not shares.is_full(room):
            shares.add(tenant)
            held[tenant] += 1
        elif not comes and held[tenant]:
            shares.remove(tenant)
            held[tenant] -= 1
        waiting = {one for one in TENANTS if held[one]}
        assert shares.at_share(room) <= waiting, "who holds nothing is never left out"
        assert len(shares) == held.total() <= room + len(waiting)
        assert len(waiting) != 1 or not shares.is_full(room)
        assert len(waiting) != 1 or held.total() <= max(1, (room + 1) // 2)


async def test_tenants_that_wait_for_audits_are_served_in_turn(tmp_path: Path) -> None:
    slots = auditing_slots(tmp_path, finds_faults=False)
    asked = [asyncio.create_task(slots.lets_pass(claim_of(name))) for name in "aaab"]
    await asyncio.sleep(0)
    turns = []
    while (tenant := slots._next()) is not None:
        assert [one.claim.task.tenant for one in slots._take(tenant)] == [tenant]
        turns.append(tenant)
    assert turns == ["a", "b", "a", "a"]
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    await slots.close()


def auditing_slots(scratch: Path, *, finds_faults: bool) -> AuditingSlots:
    return AuditingSlots(
        StageDefinition(
            spec=StageSpec(name=StageName("s")),
            handler="none:none",
            audits=not finds_faults,
            finds_faults=finds_faults,
        ),
        forks=NoForks(),
        scratch=scratch,
        clock=Clock(),
        metrics=Metrics(),
        spawn=BackgroundTasks().spawn,
    )


def claim_of(tenant: str) -> Claim:
    one = claim()
    return replace(one, task=replace(one.task, tenant=TenantId(tenant)))


class NoForks:
    """A machine that starts no process."""

    async def fork_slot(self, _stage: StageName, _number: int) -> Never:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        """Nothing is held."""
