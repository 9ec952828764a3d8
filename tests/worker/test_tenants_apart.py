"""Two tenants send the same, and each one's work is done for itself.

Time and CPU time of a result would otherwise tell one tenant what another has sent.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.worker.hosts import RunHost, Trainer

from assay.core.ids import TenantId

OTHER = TenantId("other")


def lines(log: Path) -> int:
    return len(log.read_text().splitlines())


@pytest.mark.parametrize("stage", ["audited", "faults"])
async def test_a_reference_is_audited_once_for_each_tenant(
    run_host: RunHost, trainer: Trainer, tmp_path: Path, stage: str
) -> None:
    """By the auditing slots, and by what the host remembers."""
    await run_host(stage, slots=1)
    log = tmp_path / "audits"
    for tenants, one in enumerate((trainer, replace(trainer, tenant=OTHER)), start=1):
        for _ in range(2):
            await one.results(await one.submit(stage, ["pass"] * 2, {"log": str(log)}))
            assert lines(log) == tenants


@pytest.mark.parametrize("stage", ["sharing", "patient"])
async def test_a_program_is_made_once_for_each_tenant(
    run_host: RunHost, trainer: Trainer, tmp_path: Path, stage: str
) -> None:
    """By one slot, whose own memory is apart too; `sharing` names its artifacts."""
    await run_host(stage, slots=1)
    log = tmp_path / "made"
    other = replace(trainer, tenant=OTHER)
    make = f"make shared-one- {log} good one"
    await trainer.judge(stage, make)
    (found,) = await other.judge(stage, "find shared-one- one")
    assert found.evidence.extracted == "nothing"
    for _ in range(2):
        await other.judge(stage, make)
        await trainer.judge(stage, make)
        assert lines(log) == 2


async def test_a_verdict_is_used_again_by_its_tenant_only(
    run_host: RunHost, trainer: Trainer, tmp_path: Path
) -> None:
    trainer.settings["reuse_results"] = True
    await run_host("certain", slots=1)
    log = tmp_path / "judged"
    for tenants, one in enumerate((trainer, replace(trainer, tenant=OTHER)), start=1):
        await one.judge("certain", *[f"log {log}"] * 3)
        assert lines(log) == tenants
