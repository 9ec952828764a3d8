"""The synchronous client over HTTP, with the methods, types and errors of `SyncClient`.

    with HttpClient("http://127.0.0.1:8471") as client:
        scores = client.score([Request(...)], pipeline="math")

For environments in which protobuf or grpcio cannot be installed; elsewhere the gRPC client is the
better one: it joins small submissions, and sends again what a store that was rolled back has lost.
Here such a batch is `NotFound`, or ends without these results.
"""

import hashlib
import os
import ssl
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from assay.client.backoff import Backoff
from assay.client.http import bodies
from assay.client.http.transport import WORTH_REPEATING, Call, Silent, Transport
from assay.client.types import (
    BatchStatus,
    GroupSummary,
    Page,
    Pipeline,
    Request,
    Result,
    Scores,
    StoredArtifact,
    Submitted,
    Task,
)
from assay.core.errors import AssayError, DependencyDown, InvalidRequest, TooLarge

TOKEN_VARIABLE: Final = "ASSAY_TOKEN"  # noqa: S105 the variable's name, not a token
MESSAGE_BYTES: Final = 2 * 1024**2
MESSAGE_REQUESTS: Final = 512
LISTEN_S: Final = 30.0
"""Silence of a stream after which the service is asked whether it still has the batch."""
LINE_BYTES_MAX: Final = 256 * 1024**2
"""Of one page of a stream."""
_JSON: Final = {"Content-Type": "application/json"}


class HttpClient:
    """A connection to the reward service; usable from any thread."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        identity: tuple[Path, Path] | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """Make a client; it connects on first use.

        Args:
            url: `http://host:port`, or `https://host:port` for TLS.
            token: the tenant's bearer token; by default that of `ASSAY_TOKEN`.
            root_certificates: PEM of the authorities to trust, in place of the system's; implies
                TLS.
            identity: PEM files of a certificate chain and its key, where the service asks for one;
                implies TLS.
            backoff: how long to retry when the service cannot be reached or is full.
            timeout_s: timeout of one attempt of a call that does not wait for scoring.

        Raises:
            InvalidRequest: `url` or `token` is malformed.
        """
        told = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        if not told.isascii() or not told.isprintable():
            raise InvalidRequest("token: not printable ASCII", field="token")
        tls = None
        if root_certificates is not None or identity is not None:
            tls = ssl.create_default_context(
                cadata=root_certificates.decode("ascii") if root_certificates else None
            )
        if tls is not None and identity is not None:
            tls.load_cert_chain(*identity)
        self._transport = Transport(
            url, token=told, tls=tls, backoff=backoff or Backoff(), timeout_s=timeout_s
        )

    def __enter__(self) -> Self:
        """No message is sent yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close idle connections; batches continue on the server."""
        self._transport.close()

    def list_pipelines(self) -> list[Pipeline]:
        """See `SyncClient.list_pipelines`."""
        told = bodies.parsed(self._transport.call(Call(method="GET", path="/v1/pipelines")))
        return [bodies.pipeline(one) for one in told["pipelines"]]

    def register_task(
        self,
        task_id: str,
        *,
        pipeline: str,
        settings: Mapping[str, Any] | None = None,
        batch_size: int = 0,
        delay_budget_ms: int | None = None,
        trainer_cost_rate: float = 0.0,
    ) -> Task:
        """See `SyncClient.register_task`."""
        told = self._post(
            "/v1/tasks",
            task_id=task_id,
            pipeline=pipeline,
            settings=dict(settings or {}),
            batch_size=batch_size,
            delay_budget_ms=delay_budget_ms,
            trainer_cost_rate=trainer_cost_rate,
        )
        return bodies.task(told)

    def hint(self, task: Task | str, *, size: int = 0) -> None:
        """See `SyncClient.hint`."""
        body = bodies.encoded({"size": size}, "size")
        path = f"/v1/tasks/{_quoted(_task_id(task), 'task_id')}/hint"
        self._transport.call(Call(method="POST", path=path, body=body, headers=_JSON))

    def put_artifact(self, content: bytes) -> StoredArtifact:
        """See `SyncClient.put_artifact`."""
        path = f"/v1/artifacts/{hashlib.sha256(content).hexdigest()}"
        headers = {"Content-Type": "application/octet-stream"}
        call = Call(method="PUT", path=path, body=content, headers=headers)
        return bodies.stored_artifact(bodies.parsed(self._transport.call(call)))

    def open_batch(
        self,
        task: Task | str,
        *,
        size: int = 0,
        group_size: int = 0,
        batch_id: str = "",
        deadline_s: float | None = None,
        deadline_ns: int | None = None,
    ) -> "HttpBatch":
        """See `SyncClient.open_batch`."""
        told = self._post(
            "/v1/batches",
            task_id=_task_id(task),
            batch_id=batch_id or uuid.uuid4().hex,  # so that a repeated call opens the same batch
            size=size,
            group_size=group_size,
            deadline_ms=None if deadline_s is None else round(deadline_s * 1000),
            deadline_ns=deadline_ns,
        )
        return self.batch(told["batch"]["batch_id"])

    def batch(self, batch_id: str) -> "HttpBatch":
        """See `SyncClient.batch`."""
        return HttpBatch(batch_id, transport=self._transport)

    def score(
        self,
        requests: Iterable[Request],
        *,
        task: Task | str = "",
        pipeline: str = "",
        settings: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        deadline_ns: int | None = None,
    ) -> Scores:
        """See `SyncClient.score`."""
        body = bodies.joined(
            bodies.reward_requests(list(requests)),
            task_id=_task_id(task),
            pipeline=pipeline,
            settings=dict(settings or {}),
            timeout_s=timeout_s,
            deadline_ns=deadline_ns,
        )
        until_s = None if timeout_s is None else self._transport.now_s() + timeout_s
        call = Call(method="POST", path="/v1/score", body=body, headers=_JSON)
        content = self._transport.call(call, deadline_s=until_s, waits=True)
        return bodies.scores(bodies.parsed(content))

    def _post(self, path: str, **told: object) -> dict[str, Any]:
        return _post(self._transport, path, **told)


class HttpBatch:
    """See `SyncBatch`."""

    def __init__(self, batch_id: str, *, transport: Transport) -> None:
        self.batch_id = batch_id
        self._transport = transport

    def _path(self) -> str:
        return f"/v1/batches/{_quoted(self.batch_id, 'batch_id')}"

    def submit(self, requests: Iterable[Request]) -> Submitted:
        """See `SyncBatch.submit`."""
        accepted = duplicates = 0
        ready = bodies.reward_requests(list(requests))
        waiting = deque(
            bodies.chunks(ready, bytes_max=MESSAGE_BYTES, requests_max=MESSAGE_REQUESTS)
        )
        while waiting:
            first, chunk = waiting.popleft()
            call = Call(
                method="POST",
                path=f"{self._path()}/requests",
                body=bodies.joined(chunk),
                headers=_JSON,
            )
            try:
                answer = bodies.parsed(self._transport.call(call))
            except AssayError as error:
                if not isinstance(error, TooLarge) or len(chunk) == 1:
                    raise bodies.shifted(error, first) from error
                half = len(chunk) // 2
                waiting.extendleft([(first + half, chunk[half:]), (first, chunk[:half])])
                continue
            accepted += answer["accepted"]
            duplicates += answer["duplicates"]
        return Submitted(accepted=accepted, duplicates=duplicates)

    def seal(self) -> BatchStatus:
        """See `SyncBatch.seal`."""
        return bodies.batch_status(_post(self._transport, f"{self._path()}/seal"))

    def cancel(self) -> int:
        """See `SyncBatch.cancel`."""
        return int(_post(self._transport, f"{self._path()}/cancel")["cancelled"])

    def cancel_requests(
        self, request_ids: Iterable[str] = (), *, group_ids: Iterable[str] = ()
    ) -> int:
        """See `SyncBatch.cancel_requests`."""
        told = _post(
            self._transport,
            f"{self._path()}/requests/cancel",
            request_ids=list(request_ids),
            group_ids=list(group_ids),
        )
        return int(told["cancelled"])

    def status(self) -> BatchStatus:
        """See `SyncBatch.status`."""
        content = self._transport.call(Call(method="GET", path=self._path()))
        return bodies.batch_status(bodies.parsed(content))

    def pages(self, *, cursor: int = 0) -> Iterator[Page]:
        """See `SyncBatch.pages`; after a lost connection it resumes from the last page's cursor."""
        pauses = self._transport.pauses()
        while True:
            try:
                for page in self._listen(cursor):
                    pauses = self._transport.pauses()
                    cursor = page.cursor
                    yield page
            except Silent:
                self.status()  # alive, and the batch is there
            except WORTH_REPEATING as error:
                self._transport.pause(pauses, error)
            else:
                return

    def _listen(self, cursor: int) -> Iterator[Page]:
        """The lines of one stream, until the batch is over.

        Raises:
            DependencyDown: the stream ended before the batch did.
            AssayError: the service ended it.
        """
        call = Call(method="GET", path=f"{self._path()}/results/stream?cursor={cursor}")
        last = False
        with self._transport.answer(call, timeout_s=LISTEN_S) as answer:
            while line := answer.readline(LINE_BYTES_MAX):
                told = bodies.parsed(line)
                if "error" in told:
                    raise bodies.error_of(answer.status, line)
                last = bool(told["last"])
                yield bodies.page(told)
        if not last:
            raise DependencyDown("the stream of results ended before its batch")

    def results(self, *, cursor: int = 0) -> Iterator[Result]:
        """See `SyncBatch.results`."""
        for page in self.pages(cursor=cursor):
            yield from page.results

    def groups(self, *, cursor: int = 0) -> Iterator[GroupSummary]:
        """See `SyncBatch.groups`."""
        for page in self.pages(cursor=cursor):
            yield from page.groups

    def collect(self) -> Scores:
        """See `SyncBatch.collect`."""
        results: dict[str, Result] = {}
        groups: dict[str, GroupSummary] = {}
        for page in self.pages():
            results.update((result.request_id, result) for result in page.results)
            groups.update((group.group_id, group) for group in page.groups)
        return Scores(results=list(results.values()), groups=list(groups.values()))


def _post(transport: Transport, path: str, **told: object) -> dict[str, Any]:
    body = bodies.encoded({k: v for k, v in told.items() if v is not None}, "body")
    call = Call(method="POST", path=path, body=body, headers=_JSON)
    return bodies.parsed(transport.call(call))


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
