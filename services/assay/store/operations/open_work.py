"""Reads the open work in pieces, so that no single call blocks the server for long.

A piece is up to `JOBS_A_CALL` requests, of one large batch or of several small ones. It is decoded
as it arrives, between two calls, so that the event loop is not blocked for long either.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from assay.core.records import BatchState, InFlight, OpenWork, TaskRecord
from assay.core.store_limits import too_much_open_work
from assay.store import codec
from assay.store.link import Reply

JOBS_A_CALL: Final = 500
BATCHES_A_CALL: Final = 64
START: Final = b"0"
"""Cursor with which a scan begins, and the one that ends it."""

ReadPiece = Callable[..., Awaitable[Reply]]
TaskOf = Callable[[tuple[bytes, bytes, bytes]], Awaitable[TaskRecord | None]]


@dataclass(slots=True, kw_only=True)
class _Reading:
    """A batch in progress; `task` is `None` until a usable part of it was read."""

    name: bytes
    cursor: bytes = START
    flat: Sequence[bytes] = ()
    task: TaskRecord | None = None
    requests: dict[bytes, InFlight] = field(default_factory=dict)

    async def take(self, piece: Reply, task_of: TaskOf) -> int:
        """Add a piece; returns how many requests are new."""
        self.cursor, self.flat, jobs = piece
        fields = dict(zip(self.flat[::2], self.flat[1::2], strict=True))
        if not fields or fields[b"state"].decode() in OVER:
            self.task = None
            return 0
        self.task = await task_of((fields[b"tenant"], fields[b"task"], fields[b"tn"]))
        if self.task is None:
            return 0
        opened_ns, stages = int(fields[b"opened"]) * codec.US, self.task.stages
        before = len(self.requests)
        for job, changing, services in zip(jobs[::3], jobs[1::3], jobs[2::3], strict=True):
            self.requests[job] = codec.in_flight(changing, services, stages, opened_ns)
        return len(self.requests) - before


OVER: Final = {BatchState.COMPLETE.value, BatchState.CANCELLED.value}


async def read_open_work(
    names: Sequence[bytes], *, read_piece: ReadPiece, task_of: TaskOf, requests_max: int
) -> Sequence[OpenWork]:
    """The work of the batches of these names, in their order, as `Store.open_work` describes.

    Raises:
        Saturated: more than `requests_max` requests.
    """
    waiting = deque(_Reading(name=name) for name in names)
    done: list[_Reading] = []
    requests = 0
    while waiting:
        some = list(islice(waiting, BATCHES_A_CALL))
        where = (value for one in some for value in (one.name, one.cursor))
        for one, piece in zip(some, await read_piece(JOBS_A_CALL, *where), strict=False):
            requests += await one.take(piece, task_of)
            if one.cursor == START:
                done.append(waiting.popleft())
        if requests > requests_max:
            raise too_much_open_work(requests_max)
    return [
        codec.open_work(one.flat, one.task, [one.requests[job] for job in sorted(one.requests)])
        for one in done
        if one.task is not None
    ]
