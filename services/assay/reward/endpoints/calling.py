"""What the endpoints share: a message is read, scored and waited for; equal calls are one.

Invariants: work whose callers are all gone is cancelled; a call joins only an equal one of its own
tenant that is still in progress, so that no result is older than the call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assay.core.codec import unpack_body
from assay.core.errors import DependencyDown, InvalidRequest, TooLarge
from assay.core.outcome import Outcome
from assay.edge.calls import current_call
from assay.edge.lifecycle import heard, joined
from assay.reward.drafts import BatchDraft, ScoreDraft, TaskDraft
from assay.reward.reading import Form

if TYPE_CHECKING:
    from starlette.requests import Request

    from assay.core.ids import TenantId
    from assay.core.records import ResultRecord
    from assay.core.verdict import Evidence
    from assay.edge.auth import Tenant
    from assay.reward.readers import Readers, Reading
    from assay.reward.service import RewardService

T = TypeVar("T")

JSON: Final = "application/json"
REFUSED_MAX: Final = 16
"""As in the adapters: so many refused samples in a row are a mistake of the caller."""
KNOWN_MAX: Final = 4_096
"""Pipelines and tasks of tenants of which is remembered that a sample was scored."""
Kept = Callable[[str, str], Awaitable[bytes | None]]
"""Returns the report of a run by its pipeline and key, if it is still kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The results of a message."""

    context: Mapping[str, Any]
    """What the reader of the message left for the answer."""
    results: Mapping[str, ResultRecord]
    """By request; one that was refused has none."""
    refusal: str = ""
    """Why the one request of the message was refused."""

    def evidence(self, request_id: str) -> Evidence:
        """The evidence of a result."""
        evidence = unpack_body(self.results[request_id].body).evidence
        error = self.results[request_id].error
        return replace(evidence, error=error) if error else evidence

    def components(self, request_id: str) -> Mapping[str, float]:
        """The named sub-scores of a result, if its pipeline has any."""
        body = unpack_body(self.results[request_id].body)
        return {one.name: one.value for one in body.components}

    def reward(self, request_id: str) -> tuple[float | None, str]:
        """The reward, or `None` and the cause for which there is none."""
        result = self.results.get(request_id)
        if result is None:
            refused = Outcome.REJECTED_INVALID.value
            return None, f"{refused}: {self.refusal}" if self.refusal else refused
        if result.reward is not None:
            return result.reward, ""
        error = self.evidence(request_id).error
        return None, f"{result.outcome.value}: {error}" if error else result.outcome.value


Adjust = Callable[[ScoreDraft, Mapping[str, Any]], ScoreDraft]


class Calling:
    """Scores the messages of endpoints."""

    def __init__(self, service: RewardService, readers: Readers) -> None:
        self._service = service
        self._readers = readers
        self._shared: dict[tuple[TenantId, bytes], _Shared[Any]] = {}
        self._refused: dict[tuple[str, ...], int] = {}
        """Samples refused since the last one that was scored, by tenant, form, pipeline, task."""

    async def answer(self, request: Request, form: Form, adjust: Adjust) -> Answer:
        """Score the message of a call and wait; the work is cancelled when the caller is gone.

        A sample that comes alone and is refused is no error where others were scored before: one
        bad row ends no run. `REFUSED_MAX` of them in a row are a mistake of the caller.

        Raises:
            InvalidRequest, TooLarge, NotFound, Saturated, DeadlinePassed: nothing is left behind.
        """
        reading = await read_message(request, self._readers, form)
        asked, context = reading.score, json.loads(reading.context or "{}")

        def key() -> tuple[str, ...]:
            draft = adjust(asked, context)
            return (tenant().tenant_id, form.value, draft.pipeline, draft.task_id)

        try:
            answer = await while_connected(request, self._scored(reading, adjust))
        except (InvalidRequest, TooLarge) as error:
            if not error.field.startswith("requests[0]") or context.get("count", 1) != 1:
                raise
            refused = self._refused.get(key(), REFUSED_MAX)
            if refused >= REFUSED_MAX:
                raise
            self._refused[key()] = refused + 1
            return Answer(context=context, results={}, refusal=error.message)
        if any(one.reward is not None for one in answer.results.values()):
            self._refused.pop(key(), None)  # to the end of the order in which they are forgotten
            self._refused[key()] = 0
            if len(self._refused) > KNOWN_MAX:
                del self._refused[next(iter(self._refused))]
        return answer

    async def answer_once(
        self,
        request: Request,
        form: Form,
        adjust: Adjust,
        finish: Callable[[Answer], Coroutine[Any, Any, T]],
    ) -> T:
        """As `answer`, then `finish`; calls with the same body at the same time are one call."""
        body = await read_pieces(request)
        tenant = current_call().tenant.tenant_id
        digest = hashlib.sha256(form.value.encode())
        for piece in body:
            digest.update(piece)
        key = (tenant, digest.digest())
        shared = self._shared.get(key)
        if shared is None:

            async def work() -> T:
                reading = await self._readers.read(form, body, tenant)
                return await finish(await self._scored(reading, adjust))

            shared = self._shared[key] = _Shared(work(), lambda ended: self._forget(key, ended))
        return await while_connected(request, shared.joined())

    def _forget(self, key: tuple[TenantId, bytes], ended: _Shared[Any]) -> None:
        """Later calls begin again; what has begun since for the same call stays."""
        if self._shared.get(key) is ended:
            del self._shared[key]

    async def score_texts(
        self,
        whose: Tenant,
        *,
        pipeline: str,
        settings: Mapping[str, Any],
        reference: Mapping[str, Any],
        texts: Sequence[str],
    ) -> Answer:
        """Score responses to one question as a group; `r0`, `r1` ... in the answer.

        Raises:
            AssayError: nothing was accepted, or there was no result in time.
        """
        body = {
            "pipeline": pipeline,
            "settings": dict(settings),
            "requests": [
                {
                    "request_id": f"r{at}",
                    "group_id": "group",
                    "response": text,
                    "reference": reference,
                }
                for at, text in enumerate(texts)
            ],
        }
        # As a message of its own: a large one is read and checked apart from the door.
        message = [json.dumps(body).encode()]
        reading = await self._readers.read(Form.SCORE_JSON, message, whose.tenant_id)
        with closing(reading):
            scored = await self._service.score(
                whose, reading.score, reading.requests, stored=lambda: None
            )
        results = {str(result.request_id): result for result in scored.results}
        return Answer(context={}, results=results)

    async def submit_one(self, request: Request, form: Form, *, pipeline: str, task: str) -> str:
        """Accept the message's one request in a batch of its own, and name that.

        Raises:
            InvalidRequest, TooLarge, NotFound, Saturated: nothing was accepted.
        """
        whose = tenant()
        reading = await read_message(request, self._readers, form)
        with closing(reading):
            task_id = task or f"{form.value.lower()}-{pipeline}"
            if not task:
                draft = TaskDraft(task_id=task_id, pipeline=pipeline)
                await self._service.register_task(whose, draft)
            timeout_s = float(json.loads(reading.context)["timeout_s"])
            opening = BatchDraft(
                task_id=task_id,
                size=1,
                deadline_ms=max(1, int(timeout_s * 1000)),
                of_pipeline=pipeline,
            )
            batch, _ = await self._service.open_batch(whose, opening)
            try:
                await self._service.submit(whose, batch.batch_id, reading.requests)
            except BaseException:
                await self._service.cancel_batch(whose, batch.batch_id)
                raise
            return batch.batch_id

    async def _scored(self, reading: Reading, adjust: Adjust) -> Answer:
        with closing(reading):
            call = current_call()
            context = json.loads(reading.context or "{}")
            draft = adjust(reading.score, context)
            scored = await self._service.score(
                call.tenant, draft, reading.requests, stored=call.load.release
            )
            results = {str(result.request_id): result for result in scored.results}
            return Answer(context=context, results=results)


class _Shared(asyncio.Future[T]):
    """Work that several callers wait for; it is cancelled with the last of them."""

    def __init__(
        self, work: Coroutine[Any, Any, T], on_end: Callable[[_Shared[T]], object]
    ) -> None:
        super().__init__()
        self._waiting = 0
        self._on_end = on_end
        heard(self)
        self._work = asyncio.ensure_future(work)
        self._work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Future[T]) -> None:
        self._on_end(self)
        if work.cancelled():
            self.cancel()
        elif (error := work.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(work.result())

    async def joined(self) -> T:
        """Wait for the result."""
        self._waiting += 1
        try:
            return await joined(self)
        finally:
            self._waiting -= 1
            if not self._waiting and not self._work.done():
                self._on_end(self)
                self._work.cancel()


async def read_pieces(request: Request) -> list[bytes]:
    """The body of a call, in pieces.

    Raises:
        InvalidRequest: it is not JSON by its own words.
    """
    if not request.headers.get("content-type", "").lower().startswith(JSON):
        raise InvalidRequest(f"content-type: expected {JSON}", field="body")
    # Not `request.body()`, which would join it, and keep it for the duration of the call.
    return [piece async for piece in request.stream()]


async def read_message(request: Request, readers: Readers, form: Form) -> Reading:
    """Have the body of a call read.

    Raises:
        InvalidRequest, TooLarge, Saturated: it cannot be read.
    """
    body = await read_pieces(request)
    return await readers.read(form, body, tenant().tenant_id)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, but cancel it when the caller disconnects."""
    working = heard(asyncio.ensure_future(work))
    hanging_up = heard(asyncio.ensure_future(request.receive()))
    try:
        await asyncio.wait((working, hanging_up), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise asyncio.CancelledError
        return working.result()
    finally:
        working.cancel()
        hanging_up.cancel()
        await asyncio.wait((working, hanging_up))


def tenant() -> Tenant:
    """Whose call this is."""
    return current_call().tenant


def unscored(cause: str) -> DependencyDown:
    """The error of a call whose system has no other word for a response without a verdict."""
    return DependencyDown(f"the response was not judged: {cause}", retry_after_s=1.0)
