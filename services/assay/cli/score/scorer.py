"""Scores rows: batches in, results out as they come.

Rows go in batches of `BATCH_ROWS` or `BATCH_BYTES`, `BATCHES_AT_ONCE` of them in progress, so that
a file of any length neither fills a quota or our memory nor leaves the workers idle between two
batches. A row that the service refuses is reported and left out; the others of its message are sent
again: after each refusal in messages half as large, after each success twice as large, so that the
cost is linear in the number of rows however many are refused.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import IO, Any, Final, Protocol

from assay.cli.score.jsonl import BadRow, ScoreRow, digest_of
from assay.client import Batch, Client, Request, Result, Task
from assay.core.errors import (
    AssayError,
    Conflict,
    FailedPrecondition,
    InvalidRequest,
    TooLarge,
)

BATCH_ROWS: Final = 2_048
BATCH_BYTES: Final = 64 * 1024**2
BATCHES_AT_ONCE: Final = 2
GROUP_ROWS_MAX: Final = 8_192
"""A larger group is cut into several batches."""
PIECE_ROWS: Final = 512
_OF_REQUEST: Final = re.compile(r"requests\[(\d+)\]\.?(.*)", re.DOTALL)
_REFUSALS: Final = (InvalidRequest, TooLarge, Conflict, FailedPrecondition)


class ScoreLedger(Protocol):
    """Receives the fate of each row."""

    def finish(self, results: Sequence[Result]) -> None:
        """Take the results of rows that have ended."""

    def refuse(self, bad: BadRow) -> None:
        """The service does not take this one.

        Raises:
            InvalidRequest: that ends the run.
        """


def task_name(pipeline: str, settings: Mapping[str, Any]) -> str:
    """The same pipeline with the same settings is the same task."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    return f"score-{pipeline}-{digest}"


class Tasks:
    """One task per distinct settings, registered when it is first needed."""

    def __init__(self, client: Client, pipeline: str, settings: Mapping[str, Any]) -> None:
        """Register nothing yet; `settings` go before those of a row."""
        self._client = client
        self._pipeline = pipeline
        self._settings = settings
        self._known: dict[str, Task] = {}
        self._lock = asyncio.Lock()

    async def of(self, own: Mapping[str, Any]) -> Task:
        """Return the task of rows with these settings.

        Raises:
            InvalidRequest: the pipeline refuses them; `field` names the one that is wrong.
        """
        settings = {**own, **self._settings}
        name = task_name(self._pipeline, settings)
        async with self._lock:
            if name not in self._known:
                self._known[name] = await self._client.register_task(
                    name, pipeline=self._pipeline, settings=settings
                )
            return self._known[name]


def chunked(
    rows: Iterable[ScoreRow],
    *,
    rows_wanted: int = BATCH_ROWS,
    rows_max: int = GROUP_ROWS_MAX,
    bytes_max: int = BATCH_BYTES,
) -> Iterator[Sequence[ScoreRow]]:
    """Cut into pieces of at least `rows_wanted` rows (the last may be shorter).

    A group, whose rows stand together, is in one piece unless that would be larger than `rows_max`
    rows or `bytes_max` bytes, or its rows have different settings.
    """
    piece: list[ScoreRow] = []
    size = 0
    for row in rows:
        same_group = bool(piece) and row.group_id != "" and row.group_id == piece[-1].group_id
        full = len(piece) >= rows_max or size + row.size > bytes_max
        full = full or (bool(piece) and row.settings != piece[-1].settings)
        if piece and (full or (len(piece) >= rows_wanted and not same_group)):
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += row.size
    if piece:
        yield piece


def output_line(result: Result, *, line: int, digest: str) -> str:
    """One result as a line of JSON."""
    evidence = {name: value for name, value in asdict(result.evidence).items() if value}
    fields = {
        "request_id": result.request_id,
        "group_id": result.group_id,
        "line": line,
        "digest": digest,
        "outcome": result.outcome.value,
        "reward": result.reward,
        "evidence": evidence,
        "resource_use": asdict(result.resource_use),
        "stages": [asdict(stage) for stage in result.stages],
        "attempts": result.attempts,
        "components": [asdict(one) for one in result.components],
        "pipeline_version": result.pipeline_version,
        "rescorable": result.rescorable,
    }
    return json.dumps(fields, ensure_ascii=False) + "\n"


class Scorer:
    """Scores rows and writes results as they come."""

    def __init__(
        self,
        client: Client,
        tasks: Tasks,
        out: IO[str],
        *,
        basis: bytes,
        ledger: ScoreLedger,
        deadline_ns: int | None = None,
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._out = out
        self._basis = basis
        self._ledger = ledger
        self._deadline_ns = deadline_ns

    async def run(self, rows: Iterable[ScoreRow]) -> None:
        """Score all rows.

        Raises:
            AssayError: the service is gone for good, or a refusal ends the run.
        """
        chunks = chunked(rows)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(BATCHES_AT_ONCE):
                    group.create_task(self._work(chunks))
        except* (AssayError, OSError) as errors:
            raise _first(errors) from None

    async def _work(self, chunks: Iterator[Sequence[ScoreRow]]) -> None:
        for chunk in chunks:
            await self._score(chunk)

    async def _score(self, rows: Sequence[ScoreRow]) -> None:
        try:
            task = await self._tasks.of(rows[0].settings)
        except InvalidRequest as error:
            if not rows[0].settings:
                raise
            for row in rows:
                self._refuse(row, error.field, error.message.removeprefix(f"{error.field}: "))
            return
        batch = await self._client.open_batch(task, size=len(rows), deadline_ns=self._deadline_ns)
        places = {row.request_id: (row.line, digest_of(self._basis, row)) for row in rows}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._submit(batch, rows))
                async for page in batch.pages():
                    self._write(page.results, places)
        except* (AssayError, OSError) as errors:
            await _cancel(batch)
            raise _first(errors) from None
        except* asyncio.CancelledError:
            await _cancel(batch)
            raise

    async def _submit(self, batch: Batch, rows: Sequence[ScoreRow]) -> None:
        left = list(rows)
        first, piece, refused = 0, PIECE_ROWS, 0
        while first < len(left):
            part = left[first : first + piece]
            try:
                await batch.submit(_request(row) for row in part)
            except _REFUSALS as error:
                index, field = _place(error, len(part))
                if index is None:
                    piece = len(part) // 2  # the message as a whole: too large, say
                    continue
                row = left.pop(first + index)
                refused += 1
                message = error.message.removeprefix(f"{error.field}: ")
                self._refuse(row, field, message)
                piece = max(1, piece // 2)
            else:
                first += len(part)
                piece = min(PIECE_ROWS, piece * 2)
        if refused == len(rows):
            await batch.cancel()
        elif refused:
            await batch.seal()

    def _refuse(self, row: ScoreRow, field: str, message: str) -> None:
        bad = BadRow(line=row.line, request_id=row.request_id, field=field, error=message)
        self._ledger.refuse(bad)
        self._out.write(bad.output_line())
        self._out.flush()

    def _write(self, results: Sequence[Result], places: Mapping[str, tuple[int, str]]) -> None:
        lines = []
        for result in results:
            line, digest = places[result.request_id]
            lines.append(output_line(result, line=line, digest=digest))
        self._out.write("".join(lines))
        self._out.flush()
        self._ledger.finish(results)


def _request(row: ScoreRow) -> Request:
    return Request(
        request_id=row.request_id,
        group_id=row.group_id,
        response=row.response,
        reference=row.reference,
        messages=row.messages,
        artifacts=row.artifacts,
    )


def _place(error: AssayError, rows: int) -> tuple[int | None, str]:
    """Which row of the message is wrong, and in what.

    Raises:
        AssayError: none is; the error is about something else.
    """
    found = _OF_REQUEST.fullmatch(error.field)
    if found and int(found[1]) < rows:
        return int(found[1]), found[2]
    if not isinstance(error, (InvalidRequest, TooLarge)) or not rows:
        raise error
    return (0, error.field) if rows == 1 else (None, "")


async def _cancel(batch: Batch) -> None:
    """Best effort: the service itself may be gone."""
    try:
        await batch.cancel()
    except AssayError:
        return


def _first(errors: BaseExceptionGroup[Exception]) -> Exception:
    """What failed, out of groups in groups."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
