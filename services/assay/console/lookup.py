"""What the console looks up on demand: one request's timeline, failures of a batch, dead letters.

Every method takes the viewer; what it may not see is answered as what does not exist.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final

from assay.console.look import batch_json
from assay.console.plans import PlannerClient
from assay.console.viewer import Viewer
from assay.core.codec import unpack_body
from assay.core.errors import InvalidRequest, NotFound, PermissionDenied
from assay.core.ids import NAME_FORM, REQUEST_FORM, BatchId, JobId, RequestId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import DeadLetter, ResultRecord
from assay.core.store_limits import no_batch
from assay.edge.clock import Clock
from assay.store.operations.viewing import SEARCHED_MAX, Viewing
from assay.store.port import Store

FAILURES_MAX: Final = 50
"""Results per page."""
ENTRIES_MAX: Final = 2_048
"""Entries of a batch's log that one call looks through."""
LETTERS_MAX: Final = 200
BEFORE_MAX: Final = 2**53
_JOB: Final = re.compile(r"g?[0-9]{15,16}")


def _unjudged(result: ResultRecord) -> bool:
    return not result.outcome.carries_reward


def _limited(result: ResultRecord) -> bool:
    return result.outcome is Outcome.RESOURCE_LIMIT


def _wrong(result: ResultRecord) -> bool:
    return result.outcome is Outcome.SCORED and not (result.reward or 0.0) > 0.0


def _failed(result: ResultRecord) -> bool:
    return _unjudged(result) or _limited(result) or _wrong(result)


def _any(_result: ResultRecord) -> bool:
    return True


KINDS: Final[Mapping[str, Callable[[ResultRecord], bool]]] = MappingProxyType(
    {
        "failed": _failed,
        "unjudged": _unjudged,
        "limited": _limited,
        "wrong": _wrong,
        "any": _any,
    }
)
"""Results to list: those without a reward above 0; without a judge; over a limit; judged with a
reward of at most 0; all."""


class Lookup:
    """Answers single questions."""

    def __init__(
        self, *, viewing: Viewing, store: Store, planner: PlannerClient, clock: Clock
    ) -> None:
        self._viewing = viewing
        self._store = store
        self._planner = planner
        self._clock = clock

    async def batch(self, viewer: Viewer, named: str, batch_id: str) -> dict[str, Any]:
        """The batch at present.

        Raises:
            NotFound: there is none that the viewer may see.
        """
        owner, batch = _batch_key(viewer, named, batch_id)
        record = await self._store.get_batch(owner, batch)
        return batch_json(record, self._clock.now_ns())

    async def plan(self, viewer: Viewer, named: str, batch_id: str) -> dict[str, Any]:
        """Why the pools had their sizes while the batch was open.

        Raises:
            PermissionDenied: the viewer is a tenant; pools are shared.
            NotFound: no such batch.
            DependencyDown: no planner answers.
        """
        owner, batch = _batch_key(viewer, named, batch_id)
        if viewer.tenant is not None:
            raise PermissionDenied("plan: pools are shared, so only the operator sees their plan")
        return await self._planner.explain(owner, batch)

    async def results(
        self, viewer: Viewer, named: str, batch_id: str, *, kind: str, before: int | None
    ) -> dict[str, Any]:
        """Results of the batch, the newest first, with their evidence.

        Raises:
            NotFound: no such batch.
            InvalidRequest: `kind` or `before` is wrong.
        """
        owner, batch = _batch_key(viewer, named, batch_id)
        if kind not in KINDS:
            raise InvalidRequest(f"kind: expected one of {', '.join(KINDS)}", field="kind")
        if before is not None and not 0 <= before <= BEFORE_MAX:
            raise InvalidRequest("before: not a place in the log", field="before")
        await self._store.get_batch(owner, batch)
        length = await self._viewing.log_length(owner, batch)
        found, left = await self._viewing.results_before(
            owner,
            batch,
            length if before is None else min(before, length),
            wanted=KINDS[kind],
            results_max=FAILURES_MAX,
            entries_max=ENTRIES_MAX,
        )
        return {"results": [result_json(one) for one in found], "before": left}

    async def request(
        self, viewer: Viewer, named: str, batch_id: str, request_id: str
    ) -> dict[str, Any]:
        """One request: its state, or how it ended, with the stages that it passed.

        Raises:
            NotFound: no such batch or request, or the batch is too large to look through.
            InvalidRequest: `request_id` is not the name of a request.
        """
        owner, batch = _batch_key(viewer, named, batch_id)
        if not REQUEST_FORM.fullmatch(request_id):
            raise InvalidRequest("request_id: not the name of a request", field="request_id")
        record = await self._store.get_batch(owner, batch)
        request = RequestId(request_id)
        waiting = await self._viewing.open_request(owner, batch, request)
        ended = await self._viewing.ended(owner, batch, request)
        if waiting is None and ended is None:
            more = f" among the last {SEARCHED_MAX}" if record.submitted > SEARCHED_MAX else ""
            raise NotFound(f"request_id: no such request{more}", field="request_id")
        return {
            "request_id": request_id,
            "batch": batch_json(record, self._clock.now_ns()),
            "open": None if waiting is None else asdict(waiting),
            "ended": None if ended is None else result_json(ended),
        }

    async def dead_letters(self, viewer: Viewer) -> dict[str, Any]:
        """The newest requests that ran out of attempts."""
        letters = await self._viewing.dead_letters(viewer.tenant, letters_max=LETTERS_MAX)
        return {
            "dead_letters": [letter_json(one) for one in letters],
            "is_cut": len(letters) == LETTERS_MAX,
        }

    async def replay(self, viewer: Viewer, job_id: str) -> dict[str, Any]:
        """Put a dead letter back in its queue with fresh attempts.

        Raises:
            NotFound: no such letter of the viewer's, or its batch is gone.
        """
        known = _JOB.fullmatch(job_id) is not None
        if not known or not await self._viewing.replay(JobId(job_id), viewer.tenant):
            raise NotFound("job_id: no such dead letter", field="job_id")
        return {"job_id": job_id, "replayed": True}


def _batch_key(viewer: Viewer, named: str, batch_id: str) -> tuple[TenantId, BatchId]:
    batch = BatchId(batch_id)
    owner = viewer.owner(named, batch)
    if not NAME_FORM.fullmatch(batch_id) or not NAME_FORM.fullmatch(owner):
        raise no_batch(batch)
    return owner, batch


def result_json(result: ResultRecord) -> dict[str, Any]:
    """A result with its evidence and the instants of its stages."""
    body = unpack_body(result.body)
    evidence = body.evidence
    return {
        "request_id": result.request_id,
        "group_id": result.group_id,
        "outcome": result.outcome.value,
        "reward": result.reward if _is_number(result.reward) else str(result.reward),
        "attempts": result.attempts,
        "evidence": {**asdict(evidence), "error": result.error or evidence.error},
        "cpu_s": body.use.cpu_s,
        "memory_bytes_peak": body.use.memory_bytes_peak,
        "components": [asdict(one) for one in body.components],
        "pipeline_version": body.pipeline_version,
        "stages": [asdict(timing) for timing in result.stages],
    }


def _is_number(reward: float | None) -> bool:
    """JSON has neither infinite numbers nor NaN."""
    return reward is None or abs(reward) < float("inf")


def letter_json(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter."""
    return asdict(letter)
