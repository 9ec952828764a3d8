"""Conversion of records to the server's form and back.

Instants are sent as microseconds of the server's clock, names as UTF-8, rewards as the text of a
double (empty = none), so that a reward is read back as exactly the same number.
"""

import asyncio
import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, assert_never

import msgpack

from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
    blob_name,
)
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchHistory,
    CompletedBatch,
    DeadLetter,
    EndRequest,
    FailAttempt,
    Finish,
    FinishGroup,
    GiveBack,
    GroupRecord,
    HandOver,
    HintRecord,
    InFlight,
    Leadership,
    LogEntry,
    NewRequest,
    OpenWork,
    RequestHistory,
    ResultRecord,
    StageTiming,
    TaskRecord,
)
from assay.store.link import Argument, Reply
from assay.store.operations.looking import US as US
from assay.store.operations.looking import batch_record as batch_record
from assay.store.port import Report

JOB_WIDTHS: Final = (15, 13)
"""Values in the changing part of a job, see `pack_job` in `scripts/requests.lua`; 13 before tenants
had their own queues."""
ROWS_AT_ONCE: Final = 64
"""Rows that are made or packed without a pause: a few tenths of a millisecond."""
FEW_ROWS: Final = 4  # after so many there is no pause: it would cost as much as they do
JOB_ERROR: Final = 12
"""Index of the error among them."""
_OUTCOMES: Final = {outcome.value.encode(): outcome for outcome in Outcome}


# -- tasks and batches ---------------------------------------------------------------------------


def pack_task(task: TaskRecord) -> bytes:
    """Pack everything except the name; equal tasks give equal bytes."""
    fields: list[object] = [
        task.pipeline,
        list(task.stages),
        task.settings_json,
        task.batch_size,
        task.delay_budget_ms,
        task.trainer_cost_rate,
    ]
    if task.group_stage:  # absent for tasks of earlier releases
        fields.append(task.group_stage)
    packed: bytes = msgpack.packb(fields)
    return packed


def unpack_task(tenant: TenantId, task_id: TaskId, packed: bytes) -> TaskRecord:
    """Inverse of `pack_task`."""
    pipeline, stages, settings, size, delay_budget_ms, cost_rate, *gathers = msgpack.unpackb(packed)
    return TaskRecord(
        tenant=tenant,
        task_id=task_id,
        pipeline=PipelineName(pipeline),
        stages=tuple(StageName(stage) for stage in stages),
        settings_json=settings,
        batch_size=size,
        delay_budget_ms=delay_budget_ms,
        trainer_cost_rate=cost_rate,
        group_stage=StageName(gathers[0]) if gathers else None,
    )


def completed_batch(reply: Reply) -> CompletedBatch:
    """From `completed` in a script's reply."""
    slack_ms, flat = reply
    return CompletedBatch(batch=batch_record(flat), slack_ms=slack_ms)


# -- requests ------------------------------------------------------------------------------------


Row = tuple[str, str, bytes, bytes, bytes, int, str]
"""One request for the submit script: request, group, digest, static, payload, bytes, blobs."""


class Parcel:
    """Requests as rows of the submit script.

    A small payload part is packed as bytes; `blobs` holds the others by name (a str), which
    replaces the part.
    """

    __slots__ = ("_inline_bytes_max", "_tenant", "blobs", "rows")

    def __init__(self, *, tenant: TenantId, inline_bytes_max: int) -> None:
        self._tenant = tenant
        self.blobs: dict[str, bytes] = {}
        self.rows: list[Row] = []
        self._inline_bytes_max = inline_bytes_max

    def add(self, requests: Sequence[NewRequest]) -> None:
        """Append rows; a large parcel is made in several steps."""
        self.rows += map(self._row, requests)

    def _row(self, request: NewRequest) -> Row:
        contents = [request.response, request.reference]
        names = [artifact.name for artifact in request.artifacts]
        if request.messages or names:
            contents += (request.messages, *(one.content for one in request.artifacts))
        parts: list[bytes | str] = list(contents)
        size = request.payload_bytes
        hashes = self._move_large(parts, contents) if size > self._inline_bytes_max else ""
        payload = sent = msgpack.packb([*parts, names] if len(parts) > 2 else parts)
        if hashes:  # what was sent, not whose it is
            plain = [one.partition(".")[0] if isinstance(one, str) else one for one in parts]
            sent = msgpack.packb([*plain, names] if len(plain) > 2 else plain)
        digest = hashlib.blake2b(sent, digest_size=16)
        digest.update(request.group_id.encode())
        static = msgpack.packb((request.request_id, request.group_id, size, hashes))
        return request.request_id, request.group_id, digest.digest(), static, payload, size, hashes

    def _move_large(self, parts: list[bytes | str], contents: Sequence[bytes]) -> str:
        """Keep large contents as blobs, with their names in their places; returns the names."""
        hashes = ""
        for index, content in enumerate(contents):
            if len(content) > self._inline_bytes_max:
                parts[index] = name = blob_name(self._tenant, content)
                self.blobs[name] = content
                hashes = f"{hashes} {name}"
        return hashes

    def parts(self, *, requests_max: int, bytes_max: int) -> list[list[Row]]:
        """Split the rows, in order, into parts of bounded size; an oversized row is one part."""
        parts: list[list[Row]] = []
        size = 0
        for row in self.rows:
            size += len(row[4])
            if not parts or len(parts[-1]) == requests_max or size > bytes_max:
                parts.append([])
                size = len(row[4])
            parts[-1].append(row)
        return parts


async def packed_in_steps(rows: Sequence[Sequence[Argument]]) -> bytes:
    """As `packed_rows`, yielding to other calls."""
    packer = msgpack.Packer(use_bin_type=False, autoreset=False)
    packer.pack_array_header(sum(map(len, rows)))
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[first : first + ROWS_AT_ONCE]
        for row in some:
            for value in row:
                packer.pack(value)
        if len(some) > FEW_ROWS:
            await asyncio.sleep(0)
    packed: bytes = packer.bytes()
    return packed


def packed_rows(rows: Iterable[Sequence[Argument]]) -> bytes:
    """Rows as one argument of a script: a flat list, faster to unpack than separate arguments."""
    flat = [value for row in rows for value in row]
    packed: bytes = msgpack.packb(flat, use_bin_type=False)
    return packed


def without_payload(row: Row) -> Row:
    """A row whose payload was staged."""
    request, group, digest, _, _, size, hashes = row
    return request, group, digest, b"", b"", size, hashes


PayloadPart = bytes | str
"""Payload part: the content, or the name of its blob."""


class Payload(NamedTuple):
    """The contents of a job; large ones by name."""

    parts: Sequence[PayloadPart]
    """Response and reference; with more contents also the messages, then each artifact."""
    names: Sequence[str]
    """Of the artifacts."""


def payload(packed: bytes) -> Payload:
    """Contents of a job."""
    parts = msgpack.unpackb(packed)
    return Payload(parts, ()) if len(parts) == 2 else Payload(parts[:-1], parts[-1])


def group_size(static: bytes) -> int:
    """Submitted requests of a group, from the static part of its own job."""
    size: int = msgpack.unpackb(static)[2]
    return size


def job_names(static: bytes) -> tuple[RequestId, GroupId]:
    """Names of a job: request id and group id."""
    request, group, _, _ = msgpack.unpackb(static)
    return RequestId(request), GroupId(group)


def report_arguments(report: Report) -> tuple[Argument, ...]:
    """One report as arguments of the finish script."""
    kind, *three = _finish_arguments(report.finish)
    lease, account = report.lease, report.report
    return (
        kind,
        lease.job_id,
        lease.fence,
        account.started_after_ns,
        account.finished_after_ns,
        *three,
    )


def _finish_arguments(finish: Finish) -> tuple[Argument, Argument, Argument, Argument]:
    match finish:
        case EndRequest():
            reward = "" if finish.reward is None else repr(finish.reward)
            return "END", finish.outcome.value, reward, finish.body
        case HandOver():
            gathers = "1" if finish.gathers else ""
            return "HANDOVER", finish.next_stage, finish.handover, gathers
        case FailAttempt():
            return "FAIL", finish.error.encode(errors="replace"), "", ""
        case GiveBack():
            return "GIVEBACK", "", "", ""
        case FinishGroup():
            rows = ((job_id, *_finish_arguments(one)) for job_id, one in finish.members)
            return "GROUP", packed_rows(rows), "", ""
        case _:
            assert_never(finish)


# -- results -------------------------------------------------------------------------------------


def _reward(text: bytes) -> float | None:
    return float(text) if text else None


def _timing(packed: Sequence[Any]) -> StageTiming:
    stage, enqueued, claimed, started, finished, released, attempts, worker = packed
    claimed_ns = int(claimed) * US
    return StageTiming(
        stage=StageName(stage.decode()),
        enqueued_ns=int(enqueued) * US,
        claimed_ns=claimed_ns,
        started_ns=claimed_ns + int(started),
        finished_ns=claimed_ns + int(finished),
        released_ns=int(released) * US,
        attempts=int(attempts),
        worker=WorkerId(worker.decode()),
    )


def log_entry(packed: bytes) -> LogEntry:
    """One entry of a batch's log."""
    kind, *rest = msgpack.unpackb(packed, raw=True)
    if kind == 1:
        group, rewards = rest
        return GroupRecord(
            group_id=GroupId(group.decode()),
            rewards=tuple(_reward(reward) for reward in rewards.split(b",")),
        )
    (request, group, *_), outcome, reward, body, error, attempts, *timings = rest
    return ResultRecord(
        request_id=RequestId(request.decode()),
        group_id=GroupId(group.decode()),
        outcome=_OUTCOMES[outcome],
        reward=_reward(reward),
        body=body,
        error=error.decode(),
        stages=tuple(_timing(timing) for timing in timings),
        attempts=int(attempts),
    )


# -- planners ------------------------------------------------------------------------------------


def _listed(packed: bytes, count: int) -> Sequence[Any]:
    """Unpack the values that a script packed one after the other."""
    values: Sequence[Any] = msgpack.unpackb(b"\xdc" + struct.pack(">H", count) + packed, raw=True)
    return values


def _changing(packed: bytes) -> Sequence[Any]:
    try:
        return _listed(packed, JOB_WIDTHS[0])
    except ValueError:  # fewer values
        return _listed(packed, JOB_WIDTHS[1])


class JobState(NamedTuple):
    """What changes of a job, in part."""

    stage: bytes
    state: bytes
    attempts: int
    enqueued_us: int
    claimed_us: int
    arrived_us: int
    worker: bytes
    error: bytes


def job_state(changing: bytes) -> JobState:
    """From what a job's hash holds."""
    values = _changing(changing)
    _, stage, state, attempts, _, _, enqueued, claimed, arrived, worker, *_ = values
    instants = (int(enqueued), int(claimed), int(arrived))
    return JobState(stage, state, int(attempts), *instants, worker, values[JOB_ERROR])


def in_flight(
    changing: bytes, services: bytes | None, stages: Sequence[StageName], opened_ns: int
) -> InFlight:
    """From what a job's hash holds; `stages` are those of the pipeline, in order."""
    _, stage, state, _, _, _, enqueued, claimed, arrived, _, gone, *_ = _changing(changing)
    held: dict[bytes, int] = {}
    if services and gone:
        pairs = _listed(services, 2 * int(gone))
        held = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return InFlight(
        arrived_after_ns=int(arrived) * US - opened_ns,
        stage=StageName(stage.decode()),
        service_ns=tuple(int(held.get(name.encode(), 0)) for name in stages),
        enqueued_ns=int(enqueued) * US,
        claimed_ns=int(claimed) * US if state == b"L" else 0,
    )


def open_work(flat: Sequence[bytes], task: TaskRecord, requests: Sequence[InFlight]) -> OpenWork:
    """From the field-value list of a batch's hash, and its requests."""
    batch = batch_record(flat)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    rank_ns = int(fields.get(b"rank", 0)) * US
    return OpenWork(
        batch=batch,
        task=task,
        number=int(fields.get(b"number", 0)),
        order_deadline_ns=rank_ns or batch.deadline_ns,
        weight=float(fields.get(b"weight", 1)),
        ended_natural_ns=int(fields.get(b"natural", 0)),
        requests=tuple(requests),
    )


def task_name(packed: bytes) -> tuple[TenantId, TaskId]:
    """From `<tenant>:<task>`."""
    tenant, _, task = packed.decode().rpartition(":")
    return TenantId(tenant), TaskId(task)


def hint(reply: Reply) -> HintRecord:
    """From the hints script."""
    name, packed = reply
    tenant, task_id = task_name(name)
    size, hinted = _listed(packed, 2)
    return HintRecord(tenant=tenant, task_id=task_id, size=int(size), hinted_ns=int(hinted) * US)


def leadership(reply: Reply) -> Leadership:
    """From the lead script."""
    leads, planner, fence, until_ms = reply
    return Leadership(
        leads=bool(leads),
        planner=planner.decode(),
        fence=fence,
        expires_ns=until_ms * 1_000_000,
    )


# -- history and operators -----------------------------------------------------------------------


def _request_histories(
    packed: bytes, opened_ns: int, stages: Sequence[StageName]
) -> Iterator[RequestHistory]:
    unpacker = msgpack.Unpacker(raw=True, max_buffer_size=len(packed) or 1)
    unpacker.feed(packed)
    for arrived, outcome, *services in unpacker:
        held = dict(zip(services[::2], services[1::2], strict=True))
        yield RequestHistory(
            arrived_after_ns=int(arrived) * US - opened_ns,
            service_ns=tuple(int(held.get(stage.encode(), 0)) for stage in stages),
            outcome=_OUTCOMES[outcome],
        )


def batch_history(packed: bytes, stages: Sequence[StageName]) -> BatchHistory:
    """One entry of a task's history; `stages` are those of its pipeline, in order."""
    unpacker = msgpack.Unpacker(raw=True, max_buffer_size=len(packed))
    unpacker.feed(packed)
    batch, opened, completed, deadline, requests = unpacker
    opened_ns = int(opened) * US
    return BatchHistory(
        batch_id=BatchId(batch.decode()),
        opened_ns=opened_ns,
        completed_ns=int(completed) * US,
        deadline_ns=int(deadline) * US,
        requests=tuple(_request_histories(requests, opened_ns, stages)),
    )


def dead_letter(reply: Reply) -> DeadLetter:
    """From the dead-letters script."""
    job, changing, static, died_ms = reply
    uid, stage, _, attempts, *rest = _changing(changing)
    error = rest[JOB_ERROR - 4]
    request_id, group_id = job_names(static)
    tenant, _, batch = uid.decode().rpartition(":")
    return DeadLetter(
        job_id=JobId(job.decode()),
        tenant=TenantId(tenant),
        batch_id=BatchId(batch),
        request_id=request_id,
        group_id=group_id,
        stage=StageName(stage.decode()),
        attempts=int(attempts),
        error=error.decode(),
        died_ns=int(died_ms) * 1_000_000,
    )
