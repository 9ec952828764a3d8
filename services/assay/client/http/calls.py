"""What the methods of a client send, as calls: the same for both clients over HTTP. Pure.

The operations that are one call and one answer are in `operations`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from assay.client.http import bodies
from assay.client.types import Request, Task
from assay.core.errors import InvalidRequest

JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is sent of a call."""

    method: str
    path: str
    """With the query, if any."""
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


def put_file(content: bytes) -> Call:
    path = f"/v1/artifacts/{hashlib.sha256(content).hexdigest()}"
    headers = {"Content-Type": "application/octet-stream"}
    return Call(method="PUT", path=path, body=content, headers=headers)


def open_batch(task: Task | str, *, deadline_s: float | None, **told: object) -> Call:
    """The batch has a name, so that a repeated call opens the same one."""
    deadline_ms = None if deadline_s is None else round(deadline_s * 1000)
    return post("/v1/batches", task_id=_task_id(task), deadline_ms=deadline_ms, **told)


def score(requests: Iterable[Request], *, task: Task | str, **told: object) -> Call:
    ready = bodies.reward_requests(list(requests))
    body = bodies.joined(ready, task_id=_task_id(task), **told)
    return Call(method="POST", path="/v1/score", body=body, headers=JSON)


def submit(batch_id: str, chunk: Iterable[bytes]) -> Call:
    """One message of `Batch.submit`."""
    path = f"{batch_path(batch_id)}/requests"
    return Call(method="POST", path=path, body=bodies.joined(chunk), headers=JSON)


def listen(batch_id: str, cursor: int) -> Call:
    """The stream of a batch's pages from a position on."""
    return Call(method="GET", path=f"{batch_path(batch_id)}/results/stream?cursor={cursor}")


def batch_path(batch_id: str) -> str:
    """Where a batch is."""
    return f"/v1/batches/{_quoted(batch_id, 'batch_id')}"


def task_path(task: Task | str) -> str:
    """Where a task is."""
    return f"/v1/tasks/{_quoted(_task_id(task), 'task_id')}"


def post(path: str, **told: object) -> Call:
    """One with these fields as its body; those that are `None` are left out."""
    body = bodies.encoded({k: v for k, v in told.items() if v is not None}, "body")
    return Call(method="POST", path=path, body=body, headers=JSON)


def _quoted(name: str, field: str) -> str:
    """A name as one part of a path.

    Raises:
        InvalidRequest: it would be another path; other names are the service's to refuse.
    """
    if not name or "/" in name or name in {".", ".."}:
        raise InvalidRequest(f"{field}: {name[:64]!r} is not a name", field=field)
    return quote(name, safe="", errors="surrogatepass")


def _task_id(task: Task | str) -> str:
    return task if isinstance(task, str) else task.task_id
