"""Audits references: each distinct one of a file is tried with responses of known verdict.

Always true: a reference is counted once however many rows bring it; it is sound only when every
control was judged and had the expected verdict; references that were not judged are reported as
such.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay.cli.data.records import NO_OBJECT, Parsed, Read
from assay.cli.rows import reference_of, refuse_inexact, refuse_twice, row_value
from assay.client import Client, Request, Result
from assay.core.errors import AssayError, InvalidRequest
from assay.core.ids import PipelineName
from assay.datasets.port import Refused
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.port import Control, PipelineDefinition

LINES_MAX: Final = 1_000
"""Lines that a report names per reference."""
EXAMPLES_MAX: Final = 5
_BATCH_BYTES: Final = 64 * 1024**2
_BATCH_REQUESTS: Final = 1_024
_BATCHES_AT_ONCE: Final = 2
_KNOWN_VERDICTS: Final = {
    "reward_pass": 1.0,
    "reward_fail": 0.0,
    "reward_resource_limit": 0.0,
    "reference_audit": "off",
}
"""Settings under which a reward says whether a control passed; the audit itself is done here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A fault of a reference."""

    reason: str
    details: str
    field: str = ""
    """Where, when the reference is malformed."""
    control: str = ""
    """Which control went wrong, otherwise."""


@dataclass(slots=True, kw_only=True)
class Audited:
    """A distinct reference and what is known about it."""

    pipeline: str
    settings: Mapping[str, Any]
    reference: Mapping[str, Any]
    rows: int = 0
    lines: list[int] = field(default_factory=list)
    controls: Sequence[Control] = ()
    judged: int = 0
    problems: list[Problem] = field(default_factory=list)
    unjudged: list[Problem] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def state(self) -> str:
        """`refused`, `not_judged`, `without_controls` or `sound`."""
        if self.problems:
            return "refused"
        if self.unjudged or self.judged < len(self.controls):
            return "not_judged"
        return "sound" if self.controls else "without_controls"


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What the audit of a file found."""

    rows: int = 0
    bad_rows: list[tuple[int, str]] = field(default_factory=list)
    references: list[Audited] = field(default_factory=list)
    elapsed_s: float = 0.0

    @property
    def states(self) -> Counter[str]:
        """References by state."""
        return Counter(one.state for one in self.references)

    @property
    def cpu_s(self) -> float:
        """CPU time of all controls."""
        return sum(one.cpu_s for one in self.references)

    def reasons(self) -> Iterator[tuple[str, int, Sequence[str]]]:
        """Each kind of problem, how many references have it, and examples with their lines."""
        counts: Counter[str] = Counter()
        examples: dict[str, list[str]] = {}
        for one in self.references:
            for problem in (*one.problems, *one.unjudged):
                counts[problem.reason] += 1
                named = examples.setdefault(problem.reason, [])
                if len(named) < EXAMPLES_MAX:
                    named.append(f"line {one.lines[0]}: {problem.details}"[:300])
        for reason, count in counts.most_common():
            yield reason, count, examples[reason]

    def as_json(self) -> dict[str, Any]:
        """Plain data: the counts, and every reference that is not sound."""
        count = max(1, len(self.references))
        return {
            "rows": self.rows,
            "bad_rows": [{"line": line, "error": error} for line, error in self.bad_rows],
            "references": len(self.references),
            **{
                state: self.states[state]
                for state in ("sound", "refused", "not_judged", "without_controls")
            },
            "controls": sum(one.judged for one in self.references),
            "elapsed_s": self.elapsed_s,
            "cpu_s": self.cpu_s,
            "cpu_s_per_reference": self.cpu_s / count,
            "elapsed_s_per_reference": self.elapsed_s / count,
            "reasons": [
                {"reason": reason, "references": number, "examples": list(examples)}
                for reason, number, examples in self.reasons()
            ],
            "unsound": [_unsound(one) for one in self.references if one.problems or one.unjudged],
        }


def _unsound(one: Audited) -> dict[str, Any]:
    problems = [
        {"reason": p.reason, "field": p.field, "control": p.control, "details": p.details}
        for p in (*one.problems, *one.unjudged)
    ]
    return {"lines": one.lines, "rows": one.rows, "state": one.state, "problems": problems}


def distinct(
    rows: Iterable[Read], *, key: str, pipeline: str, settings: Mapping[str, Any]
) -> AuditReport:
    """Gather the distinct references of a file.

    Args:
        rows: the file.
        key: under which a row has its reference.
        pipeline: judges all rows; empty: each row names its own under `pipeline`.
        settings: go before those of a row.
    """
    report = AuditReport()
    found: dict[str, Audited] = {}
    for read in rows:
        report.rows += 1
        try:
            one = _of_row(read, key, pipeline, settings)
        except Refused as problem:
            report.bad_rows.append((read.line, str(problem)))
            continue
        audited = found.setdefault(_digest(one), one)
        audited.rows += 1
        if len(audited.lines) < LINES_MAX:
            audited.lines.append(read.line)
    report.references = list(found.values())
    return report


def row_reader(key: str) -> Callable[[bytes], Parsed]:
    """Reads rows as `assay score` does: what they are not judged by may be any JSON.

    Args:
        key: under which a row has its reference.
    """

    def read(text: bytes) -> Parsed:
        try:
            value = row_value(text, (key, "settings"))
            refuse_twice(value, "record")
        except (ValueError, RecursionError) as error:
            return Refused("malformed JSON", f"record is not valid JSON: {error}")
        except InvalidRequest as error:
            return Refused("malformed JSON", f"{error.field}: {error.message}")
        return value if isinstance(value, dict) else Refused(NO_OBJECT)

    return read


def _of_row(read: Read, key: str, pipeline: str, settings: Mapping[str, Any]) -> Audited:
    row = read.record
    if isinstance(row, Refused):
        raise row
    if key not in row:
        raise Refused(f"no `{key}`")
    own = row.get("settings") or {}
    name = pipeline or row.get("pipeline")
    if not isinstance(name, str) or not name:
        raise Refused("no `pipeline`, and none was named")
    if not isinstance(own, dict):
        raise Refused("`settings` is not an object")
    try:
        refuse_inexact(own, "settings")
        reference = reference_of(row[key], key)
    except InvalidRequest as error:
        raise Refused(f"{error.field}: {error.message}") from None
    return Audited(pipeline=name, settings={**own, **settings}, reference=reference)


def _digest(one: Audited) -> str:
    content = json.dumps([one.pipeline, one.settings, one.reference], sort_keys=True)
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def prepare(
    references: Iterable[Audited], pipelines: Mapping[PipelineName, PipelineDefinition]
) -> None:
    """Validate each reference as the service will, and make its controls."""
    for one in references:
        definition = pipelines.get(PipelineName(one.pipeline))
        if definition is None:
            details = f"{one.pipeline!r}; `assay pipelines` lists them"
            one.problems.append(Problem(reason="no such pipeline", details=details))
            continue
        try:
            reference = parse_reference(definition, json.dumps(one.reference).encode())
            settings = parse_settings(definition, json.dumps(one.settings).encode())
        except InvalidRequest as error:
            reason = f"malformed: {_general(error.field)}"
            one.problems.append(Problem(reason=reason, details=error.message, field=error.field))
            continue
        one.controls = definition.controls(reference, settings)


def _general(path: str) -> str:
    """The same for each element of a list."""
    parts = path.split("[")
    return parts[0] + "".join(f"[]{part.partition(']')[2]}" for part in parts[1:])


class Auditor:
    """Submits the controls to a service and compares the verdicts."""

    def __init__(self, client: Client, advance: Callable[[int], None]) -> None:
        """Use `client`; `advance` gets the number of finished controls."""
        self._client = client
        self._advance = advance

    async def run(self, references: Sequence[Audited]) -> None:
        """Judge all controls.

        Raises:
            AssayError: the service is gone for good.
        """
        pieces = iter(list(_pieces(references)))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_BATCHES_AT_ONCE):
                    group.create_task(self._work(pieces))
        except* AssayError as errors:
            raise errors.exceptions[0] from None

    async def _work(self, pieces: Iterator[Sequence[Audited]]) -> None:
        for piece in pieces:
            await self._judge(list(piece))

    async def _judge(self, piece: list[Audited]) -> None:
        """Judge one batch; a reference that the service refuses is left out and the rest sent
        again, which ends because each time there is one less."""
        first = piece[0]
        settings = {**first.settings, **_KNOWN_VERDICTS}
        task = await self._client.register_task(
            _task_name(first.pipeline, settings), pipeline=first.pipeline, settings=settings
        )
        while piece:
            requests = [_request(one, at, control) for one, at, control in _numbered(piece)]
            batch = await self._client.open_batch(task, size=len(requests))
            try:
                await batch.submit(requests)
            except InvalidRequest as error:
                await batch.cancel()
                self._leave_out(piece, error)
                continue
            async for result in batch.results():
                self._take(piece, result)
            return

    def _leave_out(self, piece: list[Audited], error: InvalidRequest) -> None:
        index = error.field.partition("]")[0].removeprefix("requests[")
        if not index.isdigit():
            raise error
        owners = [one for one, _, _ in _numbered(piece)]
        one = owners[int(index)]
        problem = Problem(reason="refused by the service", details=error.message, field=error.field)
        one.problems.append(problem)
        piece.remove(one)
        self._advance(len(one.controls))

    def _take(self, piece: Sequence[Audited], result: Result) -> None:
        number, _, at = result.request_id.partition("/")
        one = piece[int(number)]
        control = one.controls[int(at)]
        one.cpu_s += result.resource_use.cpu_s
        self._advance(1)
        told = f"{result.evidence.verdict} {result.evidence.error}".strip()[:300]
        if result.reward is None:
            reason = f"not judged: {result.outcome.value}"
            details = f"{control.name}: {told}"
            one.unjudged.append(Problem(reason=reason, details=details, control=control.name))
            return
        one.judged += 1
        if (result.reward >= 1.0) != control.passes:
            verb = "does not pass" if control.passes else "passes"
            reason = f"{control.name} {verb}"
            details = told if control.passes else f"accepted: {control.response.strip()[:120]!r}"
            one.problems.append(Problem(reason=reason, details=details, control=control.name))


def _numbered(piece: Sequence[Audited]) -> Iterator[tuple[Audited, str, Control]]:
    for number, one in enumerate(piece):
        for at, control in enumerate(one.controls):
            yield one, f"{number}/{at}", control


def _request(one: Audited, request_id: str, control: Control) -> Request:
    return Request(request_id=request_id, response=control.response, reference=one.reference)


def _pieces(references: Sequence[Audited]) -> Iterator[Sequence[Audited]]:
    """References of one pipeline and the same settings, as many as make a batch."""
    groups: dict[str, list[Audited]] = {}
    for one in references:
        if one.controls and not one.problems:
            key = json.dumps([one.pipeline, one.settings], sort_keys=True)
            groups.setdefault(key, []).append(one)
    for group in groups.values():
        piece: list[Audited] = []
        requests = size = 0
        for one in group:
            piece.append(one)
            requests += len(one.controls)
            size += len(one.controls) * len(json.dumps(one.reference))
            if requests >= _BATCH_REQUESTS or size >= _BATCH_BYTES:
                yield piece
                piece, requests, size = [], 0, 0
        if piece:
            yield piece


def _task_name(pipeline: str, settings: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    return f"check-{pipeline}-{digest}"
