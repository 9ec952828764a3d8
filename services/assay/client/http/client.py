"""The synchronous client over HTTP, with the methods, types and errors of `SyncClient`.

    with HttpClient("http://127.0.0.1:8471") as client:
        scores = client.score([Request(...)], pipeline="math")

For environments in which protobuf or grpcio cannot be installed; elsewhere the gRPC client is the
better one: it joins small submissions, and sends again what a store that was rolled back has lost.
Here such a batch is `NotFound`, or ends without these results.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from assay.client import variables
from assay.client.backoff import Backoff
from assay.client.http import bodies, calls
from assay.client.http.address import LISTEN_S, tls_of
from assay.client.http.operations import BatchOperations, Operation, Operations, T
from assay.client.http.transport import LINE_BYTES_MAX, WORTH_REPEATING, Silent, Transport
from assay.client.types import (
    GroupSummary,
    Page,
    Request,
    Result,
    Scores,
    Submitted,
    Task,
)
from assay.core.errors import AssayError, DependencyDown


class HttpClient(Operations):
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
                TLS. With TLS by default those in the file `ASSAY_CA`.
            identity: PEM files of a certificate chain and its key, where the service asks for one;
                implies TLS. With TLS by default `ASSAY_CERTIFICATE` and `ASSAY_KEY`.
            backoff: how long to retry when the service cannot be reached or is full.
            timeout_s: timeout of one attempt of a call that does not wait for scoring.

        Raises:
            InvalidRequest: `url` or `token` is malformed.
        """
        self._transport = Transport(
            url,
            token=variables.token_of(token),
            tls=tls_of(url, root_certificates, identity),
            backoff=backoff or Backoff(),
            timeout_s=timeout_s,
        )

    def __enter__(self) -> Self:
        """No message is sent yet."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections; batches continue on the server."""
        self._transport.close()

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
        call = calls.open_batch(
            task,
            batch_id=batch_id or uuid.uuid4().hex,
            size=size,
            group_size=group_size,
            deadline_s=deadline_s,
            deadline_ns=deadline_ns,
        )
        return self.batch(self._told(call)["batch"]["batch_id"])

    def batch(self, batch_id: str) -> "HttpBatch":
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
        call = calls.score(
            requests,
            task=task,
            pipeline=pipeline,
            settings=dict(settings or {}),
            timeout_s=timeout_s,
            deadline_ns=deadline_ns,
        )
        until_s = None if timeout_s is None else self._transport.now_s() + timeout_s
        content = self._transport.call(call, deadline_s=until_s, waits=True)
        return bodies.scores(bodies.parsed(content))

    def _done(self, operation: Operation[T]) -> T:
        return operation.read(self._transport.call(operation.call))

    def _told(self, call: calls.Call) -> dict[str, Any]:
        return bodies.parsed(self._transport.call(call))


class HttpBatch(BatchOperations):
    """`SyncBatch` over HTTP."""

    def __init__(self, batch_id: str, *, transport: Transport) -> None:
        self.batch_id = batch_id
        self._transport = transport

    def submit(self, requests: Iterable[Request]) -> Submitted:
        accepted = duplicates = 0
        runs = bodies.runs(list(requests))
        for first, run in runs:
            try:
                answer = self._told(calls.submit(self.batch_id, run))
            except AssayError as error:
                runs.refused(first, run, error)
                continue
            accepted += answer["accepted"]
            duplicates += answer["duplicates"]
        return Submitted(accepted=accepted, duplicates=duplicates)

    def pages(self, *, cursor: int = 0) -> Iterator[Page]:
        """As of `SyncBatch`; after a lost connection it resumes from the last page's cursor."""
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
        call = calls.listen(self.batch_id, cursor)
        last = False
        with self._transport.answer(call, timeout_s=LISTEN_S) as answer:
            while line := answer.readline(LINE_BYTES_MAX):
                told = bodies.parsed(line)
                if "error" in told:
                    raise bodies.error_of(answer.status, line)
                last = bool(told["last"])
                yield bodies.page(told)
        if not last:
            raise DependencyDown(bodies.CUT_SHORT)

    def results(self, *, cursor: int = 0) -> Iterator[Result]:
        for page in self.pages(cursor=cursor):
            yield from page.results

    def groups(self, *, cursor: int = 0) -> Iterator[GroupSummary]:
        for page in self.pages(cursor=cursor):
            yield from page.groups

    def collect(self) -> Scores:
        results: dict[str, Result] = {}
        groups: dict[str, GroupSummary] = {}
        for page in self.pages():
            results.update((result.request_id, result) for result in page.results)
            groups.update((group.group_id, group) for group in page.groups)
        return Scores(results=list(results.values()), groups=list(groups.values()))

    def _done(self, operation: Operation[T]) -> T:
        return operation.read(self._transport.call(operation.call))

    def _told(self, call: calls.Call) -> dict[str, Any]:
        return bodies.parsed(self._transport.call(call))
