"""Worker hosts, in this process or in one of their own, and a trainer that submits to them."""

import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.core.codec import unpack_body
from assay.core.ids import BatchId, GroupId, PipelineName, RequestId, TaskId, TenantId
from assay.core.records import (
    Artifact,
    BatchRecord,
    BatchSpec,
    NewRequest,
    Quota,
    ResultRecord,
    TaskRecord,
)
from assay.core.tools.response import CUT
from assay.core.verdict import Evidence
from assay.store.port import Store
from assay.verifiers.registry import load_pipelines
from assay.worker.build import WorkerService
from assay.worker.forking import processes

TENANT = TenantId("default")
WAIT_S = 60.0

RunHost = Callable[..., Awaitable[WorkerService]]


async def until(holds: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    """Wait for a condition of the outer world, with a bound."""
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def slots_of_this_process() -> dict[int, str]:
    """Pid -> name of every process below this one that is a slot."""
    found = {}
    waiting = processes.children(os.getpid())
    for pid in waiting:
        waiting += processes.children(pid)
        name = Path(f"/proc/{pid}/comm")
        try:
            text = name.read_text().strip()
        except OSError:
            continue
        if text.startswith("slot:"):
            found[pid] = text
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A result, unpacked."""

    record: ResultRecord
    evidence: Evidence


@dataclass(slots=True, kw_only=True)
class Trainer:
    """Submits responses and waits for their results."""

    store: Store
    settings: dict[str, object] = field(default_factory=dict)
    tenant: TenantId = TENANT

    async def submit(
        self,
        pipeline: str,
        responses: Sequence[str],
        reference: dict[str, object] | None = None,
        *,
        cut: Sequence[int] = (),
    ) -> BatchId:
        """Open a batch of these; for a pipeline that judges groups they are one.

        `cut` are the numbers of those that were longer than the service takes.
        """
        definition = load_pipelines()[PipelineName(pipeline)]
        task = TaskRecord(
            tenant=self.tenant,
            task_id=TaskId(f"{pipeline}-{len(self.settings)}"),
            pipeline=definition.spec.name,
            stages=definition.spec.stages,
            settings_json=definition.settings(**self.settings).model_dump_json().encode(),
            group_stage=definition.group_stage,
        )
        is_group = definition.group_stage is not None
        await self.store.put_task(task)
        batch = BatchId(secrets.token_hex(6))
        spec = BatchSpec(
            tenant=self.tenant,
            batch_id=batch,
            task_id=task.task_id,
            size=len(responses),
            group_size=len(responses) if is_group else 0,
            deadline_after_ms=60_000,
        )
        await self.store.open_batch(spec, Quota())
        told = json.dumps(reference or definition.example_reference or {}).encode()
        requests = [
            NewRequest(
                request_id=RequestId(f"r{number}"),
                group_id=GroupId("g" if is_group else ""),
                response=response.encode(),
                reference=told,
                artifacts=(Artifact(CUT, b"9000000"),) if number in cut else (),
            )
            for number, response in enumerate(responses)
        ]
        await self.store.submit(self.tenant, batch, requests, Quota())
        return batch

    async def record(self, batch: BatchId) -> BatchRecord:
        """The batch now."""
        return await self.store.get_batch(self.tenant, batch)

    async def until_ended(self, batch: BatchId, requests: int) -> None:
        """Wait until so many have ended."""
        async with asyncio.timeout(WAIT_S):
            async for _ in self.store.watch(batch):
                if (await self.record(batch)).ended >= requests:
                    return

    async def results(self, batch: BatchId) -> list[Judged]:
        """Wait for all, in the order of submission."""
        await self.until_ended(batch, (await self.record(batch)).submitted)
        entries = await self.store.results(self.tenant, batch, cursor=0, entries_max=10_000)
        records = [entry for entry in entries if isinstance(entry, ResultRecord)]
        assert len({record.request_id for record in records}) == len(records), "one result each"
        records.sort(key=lambda record: int(record.request_id[1:]))
        return [Judged(record=one, evidence=unpack_body(one.body)[0]) for one in records]

    async def judge(self, pipeline: str, *responses: str) -> list[Judged]:
        """Submit and wait."""
        return await self.results(await self.submit(pipeline, responses))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """A worker host that is a process of its own."""

    process: asyncio.subprocess.Process
    data_dir: Path
    log: Path

    @property
    def addresses(self) -> dict[str, str]:
        """Where it listens; empty until it does."""
        try:
            found: dict[str, str] = json.loads((self.data_dir / "run" / "worker.json").read_text())
        except FileNotFoundError:
            return {}
        return found


StartHost = Callable[..., Awaitable[HostProcess]]
