"""Scores rows of a file: batches in, results out as they come.

Rows go in batches of `BATCH_ROWS`, `BATCHES_AT_ONCE` of them under way, so that a file of any
length neither fills a quota nor leaves the workers idle between two batches.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from assay.cli.rows import Row
from assay.client import Client, GroupSummary, Request, Result, Task
from assay.core.errors import AssayError, InvalidRequest

BATCH_ROWS = 2_048
BATCHES_AT_ONCE = 2


@dataclass(slots=True, kw_only=True)
class Summary:
    """What a run did."""

    rows: int
    resumed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    reward_sum: float = 0.0
    rewards: int = 0
    groups: int = 0
    groups_degenerate: int = 0
    elapsed_s: float = 0.0

    def add(self, result: Result) -> None:
        """Count one result."""
        self.outcomes[result.outcome.value] += 1
        if result.reward is not None:
            self.rewards += 1
            self.reward_sum += result.reward

    def add_group(self, group: GroupSummary) -> None:
        """Count one group."""
        self.groups += 1
        self.groups_degenerate += group.degenerate

    @property
    def without_reward(self) -> int:
        """Requests that a rerun will try again."""
        return self.outcomes.total() - self.rewards

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        mean = self.reward_sum / self.rewards if self.rewards else None
        rate = self.outcomes.total() / self.elapsed_s if self.elapsed_s else None
        return {
            "rows": self.rows,
            "resumed": self.resumed,
            "scored": self.outcomes.total(),
            "outcomes": dict(self.outcomes),
            "without_reward": self.without_reward,
            "reward_mean": mean,
            "groups": self.groups,
            "groups_degenerate": self.groups_degenerate,
            "elapsed_s": self.elapsed_s,
            "requests_per_s": rate,
        }


def task_name(pipeline: str, settings: Mapping[str, Any]) -> str:
    """The same pipeline with the same settings is the same task."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    return f"score-{pipeline}-{digest}"


def chunked(rows: Sequence[Row], rows_wanted: int) -> Iterator[Sequence[Row]]:
    """Cut into pieces of at least `rows_wanted` (the last may be shorter), no group in two."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        # A row without a group is one of its own; no group id holds a NUL.
        groups.setdefault(row.group_id or f"\0{row.request_id}", []).append(row)
    piece: list[Row] = []
    for group in groups.values():
        piece.extend(group)
        if len(piece) >= rows_wanted:
            yield piece
            piece = []
    if piece:
        yield piece


def output_line(result: Result) -> str:
    """One result as a line of JSON."""
    evidence = {name: value for name, value in asdict(result.evidence).items() if value}
    line = {
        "request_id": result.request_id,
        "group_id": result.group_id,
        "outcome": result.outcome.value,
        "reward": result.reward,
        "evidence": evidence,
        "resource_use": asdict(result.resource_use),
        "stages": [asdict(stage) for stage in result.stages],
        "attempts": result.attempts,
    }
    return json.dumps(line, ensure_ascii=False) + "\n"


class Scorer:
    """Scores rows of one task and writes results as they come."""

    def __init__(
        self,
        client: Client,
        task: Task,
        out: IO[str],
        summary: Summary,
        advance: Callable[[int], None],
    ) -> None:
        self._client = client
        self._task = task
        self._out = out
        self._summary = summary
        self._advance = advance

    async def run(self, rows: Sequence[Row]) -> None:
        """Score all rows.

        Raises:
            AssayError: the service refuses a row (`field` says which) or is gone for good.
        """
        chunks = iter(list(chunked(rows, BATCH_ROWS)))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(BATCHES_AT_ONCE):
                    group.create_task(self._work(chunks))
        except* AssayError as errors:
            raise errors.exceptions[0] from None

    async def _work(self, chunks: Iterator[Sequence[Row]]) -> None:
        for chunk in chunks:
            await self._score(chunk)

    async def _score(self, rows: Sequence[Row]) -> None:
        batch = await self._client.open_batch(self._task, size=len(rows))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._submit(batch.submit, rows))
                async for page in batch.pages():
                    self._write(page.results)
                    for summary in page.groups:
                        self._summary.add_group(summary)
        except* AssayError as errors:
            await batch.cancel()
            raise errors.exceptions[0] from None
        except* asyncio.CancelledError:
            await batch.cancel()
            raise

    async def _submit(
        self, submit: Callable[[Iterable[Request]], Awaitable[object]], rows: Sequence[Row]
    ) -> None:
        requests = [
            Request(
                request_id=row.request_id,
                group_id=row.group_id,
                response=row.response,
                reference=row.reference,
            )
            for row in rows
        ]
        try:
            await submit(requests)
        except AssayError as error:
            raise _of_line(error, rows) from error

    def _write(self, results: Sequence[Result]) -> None:
        self._out.write("".join(output_line(result) for result in results))
        self._out.flush()
        for result in results:
            self._summary.add(result)
        self._advance(len(results))


def _of_line(error: AssayError, rows: Sequence[Row]) -> AssayError:
    """`requests[3].reference` of a batch is the reference on line 17 of the file."""
    prefix, bracket, rest = error.field.partition("]")
    index = prefix.removeprefix("requests[")
    if not bracket or not index.isdigit() or int(index) >= len(rows):
        return error
    field_name = f"line {rows[int(index)].line}: {rest.removeprefix('.')}"
    if isinstance(error, InvalidRequest):
        return InvalidRequest(f"{field_name}: {error.message}", field=field_name)
    return error


def open_output(path: Path) -> IO[str]:
    """Append: what a former run finished is there already."""
    return path.open("a", encoding="utf-8")
