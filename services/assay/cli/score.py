"""`assay score`: the main job. Rows in, rewards out, a bar in between; a rerun resumes."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from assay.cli.console import (
    EXIT_WITHOUT_REWARD,
    AsJson,
    DataDir,
    err,
    out,
    print_json,
    settings_with,
)
from assay.cli.local_platform import LocalPlatform, running
from assay.cli.rows import Fields, Row, keep_finished, read_rows
from assay.cli.scorer import Scorer, Summary, open_output, task_name
from assay.client import Client
from assay.core.errors import InvalidRequest, NotFound
from assay.edge.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to score, by what, where to."""

    rows: Sequence[Row]
    pipeline: str
    settings: Mapping[str, Any]
    output: Path
    url: str
    data_dir: Path | None


def score(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="One JSON a line.")],
    pipeline: Annotated[str, typer.Option(help="`assay pipelines` lists them.")],
    output: Annotated[Path, typer.Option("--out", help="Where results go; a rerun resumes.")],
    settings: Annotated[str, typer.Option(help="The pipeline's settings, as JSON.")] = "{}",
    url: Annotated[str, typer.Option(help="host:port; default: the running one, or its own.")] = "",
    data_dir: DataDir = None,
    response_field: Annotated[str, typer.Option(help="Key of the response.")] = "response",
    reference_field: Annotated[str, typer.Option(help="Key of the reference.")] = "reference",
    id_field: Annotated[str, typer.Option(help="Key of the request id.")] = "request_id",
    group_field: Annotated[str, typer.Option(help="Key of the group id.")] = "group_id",
    *,
    as_json: AsJson = False,
) -> None:
    """Score a file of responses: the main job."""
    fields = Fields(
        request_id=id_field,
        group_id=group_field,
        response=response_field,
        reference=reference_field,
    )
    rows = read_rows(file, fields)
    finished = keep_finished(output)
    left = [row for row in rows if row.request_id not in finished]
    summary = Summary(rows=len(rows), resumed=len(rows) - len(left))
    if left:
        job = Job(
            rows=left,
            pipeline=pipeline,
            settings=_object(settings),
            output=output,
            url=url,
            data_dir=data_dir,
        )
        asyncio.run(_score(job, summary))
    if as_json:
        print_json(summary.as_json())
    else:
        out.print(_table(summary))
    if summary.without_reward:
        err.print(
            f"{summary.without_reward:,} ended without a reward; the same command tries again"
        )
        raise typer.Exit(EXIT_WITHOUT_REWARD)


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"settings: not JSON: {error}", field="settings") from error
    if not isinstance(value, dict):
        raise InvalidRequest("settings: not a JSON object", field="settings")
    return value


async def _score(job: Job, summary: Summary) -> None:
    clock = Clock()
    async with _service(job, clock) as address, Client(address) as client:
        started_ns = clock.monotonic_ns()
        task = await client.register_task(
            task_name(job.pipeline, job.settings), pipeline=job.pipeline, settings=job.settings
        )
        with _progress() as progress, open_output(job.output) as file:
            bar = progress.add_task(job.pipeline, total=len(job.rows))
            scorer = Scorer(client, task, file, summary, lambda n: progress.advance(bar, n))
            await scorer.run(job.rows)
        summary.elapsed_s = (clock.monotonic_ns() - started_ns) / 1e9


@asynccontextmanager
async def _service(job: Job, clock: Clock) -> AsyncIterator[str]:
    """The named service, the one that runs on the data directory, or one for this job alone."""
    address = job.url or _running(job)
    if address:
        yield address
        return
    with tempfile.TemporaryDirectory(prefix="assay-") as own:
        any_port = {
            f"ASSAY_{name}": "0"
            for name in ("REWARD__GRPC_PORT", "REWARD__HTTP_PORT", "WORKER__CONTROL_PORT")
        }
        # One job alone has all slots from the start: there is nothing to plan.
        overrides = {**any_port, "ASSAY_PLANNER__ENABLED": "false"}
        platform = LocalPlatform(settings_with(job.data_dir or Path(own), **overrides), clock=clock)
        with err.status("starting the platform"):
            addresses = await platform.start()
        try:
            async with platform.kept():
                yield addresses.grpc
        finally:
            await platform.stop()


def _running(job: Job) -> str:
    try:
        return running(settings_with(job.data_dir)).grpc
    except NotFound:
        return ""


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=err,
    )


def _table(summary: Summary) -> Table:
    plain = summary.as_json()
    table = Table(title="Rewards", title_justify="left", show_header=False)
    for name in ("rows", "resumed", "scored", "reward_mean", "groups", "groups_degenerate"):
        table.add_row(name.replace("_", " "), _text(plain[name]))
    for outcome, count in sorted(summary.outcomes.items()):
        table.add_row(outcome, f"{count:,}", style="" if outcome == "SCORED" else "yellow")
    table.add_row("elapsed", f"{summary.elapsed_s:.1f} s")
    table.add_row("requests/s", _text(plain["requests_per_s"]))
    return table


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
