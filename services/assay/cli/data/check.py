"""`assay check`: the references of a data set, audited before anything is trained on them."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from assay.cli.console import (
    EXIT_UNSOUND,
    EXIT_WITHOUT_REWARD,
    AsJson,
    DataDir,
    ReferenceField,
    SettingsOption,
    Url,
    print_json,
    settings_object,
)
from assay.cli.data.audit import Auditor, AuditReport, distinct, prepare, row_reader
from assay.cli.data.records import Read, read_records
from assay.cli.files import output_file
from assay.cli.platform.attached import service
from assay.cli.printed import err, out
from assay.client import Client
from assay.edge.clock import Clock
from assay.verifiers.registry import load_pipelines


def check(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="One JSON object per line.")
    ],
    pipeline: Annotated[str, typer.Option(help="Default: each row's own `pipeline`.")] = "",
    settings: SettingsOption = "{}",
    output: Annotated[Path | None, typer.Option("--out", help="File for the report.")] = None,
    url: Url = "",
    data_dir: DataDir = None,
    reference_field: ReferenceField = "reference",
    *,
    as_json: AsJson = False,
) -> None:
    """Try each distinct reference with responses of known verdict, before training."""
    if output is not None:
        output = output_file(output, inputs=[file])
    rows = _with_bar(file, reference_field)
    report = distinct(
        rows, key=reference_field, pipeline=pipeline, settings=settings_object(settings)
    )
    prepare(report.references, load_pipelines())
    clock = Clock()
    started_ns = clock.monotonic_ns()
    if any(one.controls for one in report.references):
        asyncio.run(_audit(report, url, data_dir, clock))
    report.elapsed_s = (clock.monotonic_ns() - started_ns) / 1e9
    if output is not None:
        output.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json(report.as_json())
    else:
        out.print(_table(report))
    if report.bad_rows or report.states["refused"]:
        raise typer.Exit(EXIT_UNSOUND)
    if report.states["not_judged"]:
        raise typer.Exit(EXIT_WITHOUT_REWARD)


async def _audit(report: AuditReport, url: str, data_dir: Path | None, clock: Clock) -> None:
    total = sum(len(one.controls) for one in report.references)
    pipelines = [one.pipeline for one in report.references]
    async with (
        service(url, data_dir, clock, pipelines=pipelines) as address,
        Client(address) as client,
    ):
        with _progress() as progress:
            bar = progress.add_task("controls", total=total)
            await Auditor(client, lambda n: progress.advance(bar, n)).run(report.references)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
    )


def _with_bar(path: Path, key: str) -> Iterator[Read]:
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), console=err
    ) as progress:
        bar = progress.add_task(f"reading {path.name}", total=1.0)
        for read in read_records(path, row_reader(key)):
            yield read
            progress.update(bar, completed=read.done)


def _table(report: AuditReport) -> Table:
    plain, states = report.as_json(), report.states
    table = Table(title="References", title_justify="left", show_header=False)
    table.add_row("rows", f"{report.rows:,}", "")
    if report.bad_rows:
        first = "\n".join(f"line {line}: {error}" for line, error in report.bad_rows[:5])
        table.add_row("bad rows", f"{len(report.bad_rows):,}", first, style="red")
    table.add_row("distinct references", f"{len(report.references):,}", "")
    for state in ("sound", "refused", "not_judged", "without_controls"):
        style = "" if state == "sound" or not states[state] else "yellow"
        table.add_row(state.replace("_", " "), f"{states[state]:,}", "", style=style)
    for reason, count, examples in report.reasons():
        table.add_row(f"  {reason}", f"{count:,}", "\n".join(examples), style="yellow")
    table.add_row("controls judged", f"{plain['controls']:,}", "")
    table.add_row("elapsed", f"{report.elapsed_s:.1f} s", "with the start of a platform of its own")
    per_reference = f"{plain['cpu_s_per_reference']:.3g} s"
    table.add_row("CPU time", f"{report.cpu_s:.1f} s", f"{per_reference} per distinct reference")
    return table
