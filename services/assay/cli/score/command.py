"""`assay score`: the main job. Scores the rows of a file, with a progress bar; a second run
resumes.

Each row gives one line of output: a result, or the row's error. A bad row affects no other row.
When this process ends, for any reason, so do all that it started.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from gzip import GzipFile
from importlib.metadata import PackageNotFoundError, entry_points, version
from lzma import LZMAFile
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from assay.cli.console import (
    EXIT_BAD_ROWS,
    EXIT_STOPPED,
    EXIT_WITHOUT_REWARD,
    AsJson,
    DataDir,
    GroupField,
    IdField,
    PipelineOption,
    ReferenceField,
    ResponseField,
    SettingsField,
    SettingsOption,
    Url,
    print_json,
    settings_object,
)
from assay.cli.files import damage_told, opened, output_file
from assay.cli.platform.attached import begin_own, service
from assay.cli.platform.forks import PartForks
from assay.cli.printed import err, out
from assay.cli.score.jsonl import BadRow, Fields, basis_of
from assay.cli.score.scorer import Scorer, Tasks
from assay.cli.score.worklist import Worklist, first_of, superseded_of
from assay.client import Client, Result
from assay.core.errors import InvalidRequest
from assay.edge.clock import Clock
from assay.edge.lifecycle import stop_on_signals
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.registry import load_pipelines

BAD_ROWS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The rows to score, the pipeline, and the output file."""

    pipeline: str
    settings: Mapping[str, Any]
    output: Path
    url: str
    data_dir: Path | None
    strict: bool
    deadline_ns: int | None = None
    """When the rewards are needed, as Unix time; `None`: the service's estimate."""
    forks: PartForks | None = None
    """Of a platform of its own."""

    @property
    def basis(self) -> bytes:
        """What the digests of all rows have in common."""
        return basis_of(self.pipeline, _version(self.pipeline), self.settings)


@dataclass(slots=True, kw_only=True)
class Run:
    """What became of the rows, as it becomes."""

    work: Worklist
    strict: bool
    progress: Progress
    bar: Any = None
    scored: int = 0
    elapsed_s: float = 0.0
    summary: dict[str, Any] = field(default_factory=dict)
    """When it has ended."""
    bad_rows: list[BadRow] = field(default_factory=list)
    """The first of them, when it has ended."""

    def finish(self, results: Sequence[Result]) -> None:
        """See `ScoreLedger.finish`."""
        for result in results:
            self.work.finish(result.request_id, result.outcome, result.reward)
        self.scored += len(results)
        self._advance(len(results))

    def refuse(self, bad: BadRow) -> None:
        """See `ScoreLedger.refuse`."""
        if self.strict:
            raise _of_row(bad)
        self.work.refuse(bad.line, bad.request_id, bad.field, bad.error)
        self._advance(1)

    def _advance(self, rows: int) -> None:
        if self.bar is not None:
            self.progress.advance(self.bar, rows)

    def as_json(self) -> dict[str, Any]:
        """Of all rows of the file, those of former runs too; `scored` and the rate of this run."""
        outcomes = self.work.outcomes()
        rewards, mean = self.work.rewards()
        groups, degenerate = self.work.groups()
        return {
            "rows": self.work.rows,
            "bad_rows": self.work.bad_count,
            "resumed": self.work.resumed,
            "scored": self.scored,
            "outcomes": dict(outcomes),
            "without_reward": outcomes.total() - rewards,
            "reward_mean": mean,
            "groups": groups,
            "groups_degenerate": degenerate,
            "foreign": self.work.foreign,
            "superseded": self.work.superseded,
            "elapsed_s": self.elapsed_s,
            "requests_per_s": self.scored / self.elapsed_s if self.elapsed_s else None,
        }


def score(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="One JSON object per line.")
    ],
    pipeline: PipelineOption,
    output: Annotated[Path, typer.Option("--out", help="Output; a second run resumes it.")],
    settings: SettingsOption = "{}",
    url: Url = "",
    data_dir: DataDir = None,
    response_field: ResponseField = "response",
    reference_field: ReferenceField = "reference",
    id_field: IdField = "request_id",
    group_field: GroupField = "group_id",
    settings_field: SettingsField = "settings",
    deadline: Annotated[
        str, typer.Option(help="When the rewards are needed: 2026-12-01T08:00:00Z.")
    ] = "",
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a bad row, before anything is scored.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score a file of responses.

    Exit code: 0 every row has a reward; 2 nothing was done (bad arguments, no service, --strict and
    a bad row); 3 rows ended without a reward, and the same command tries them again; 5 rows are
    bad, and the output says what is wrong with each; 130 stopped by a signal.
    """
    fields = Fields(
        request_id=id_field,
        group_id=group_field,
        response=response_field,
        reference=reference_field,
        settings=settings_field,
    )
    target = output_file(output, inputs=[file])
    output_file(superseded_of(target), inputs=[file])
    job = Job(
        pipeline=pipeline,
        settings=settings_object(settings),
        output=target,
        url=url,
        data_dir=data_dir,
        strict=strict,
        deadline_ns=_instant_ns(deadline) if deadline else None,
        # A run that is resumed may have nothing left to do.
        forks=None if target.exists() else begin_own(url, data_dir),
    )
    with seekable(file) as rows:
        _tell(score_rows(job, rows, fields), job.output, as_json=as_json)


def _instant_ns(text: str) -> int:
    """Unix time of an instant with its offset.

    Raises:
        InvalidRequest: it is not a date and time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        message = (
            f"--deadline: {text!r} is not an instant with an offset such as 2026-12-01T08:00:00Z"
        )
        raise InvalidRequest(message, field="--deadline")
    return int(found.timestamp()) * 10**9


def score_rows(job: Job, rows: IO[bytes], fields: Fields) -> Run:
    """Score the rows of a seekable file into the job's output.

    Raises:
        typer.Exit: a signal came first.
        AssayError, OSError: nothing more can be done.
    """
    with closing(Worklist(rows, fields, job.basis)) as work:
        run = Run(work=work, strict=job.strict, progress=_progress())
        _read(job, work)
        asyncio.run(_until_stopped(job, run))
        run.summary = run.as_json()
        run.bad_rows = list(work.bad(BAD_ROWS_SHOWN))
    return run


@contextmanager
def seekable(path: Path) -> Iterator[IO[bytes]]:
    """The file; of a pipe or a compressed file, a copy.

    Raises:
        InvalidRequest: the compressed file is damaged.
    """
    with opened(path) as file:
        if file.seekable() and not isinstance(file, GzipFile | LZMAFile):
            yield file
            return
        with tempfile.TemporaryFile() as copy:
            with damage_told():
                shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield copy


def _version(pipeline: str) -> str:
    """Of what judges: the distribution that brings the pipeline, as installed here."""
    with suppress(PackageNotFoundError):
        for entry in entry_points(group="assay.pipelines"):
            if entry.name == pipeline and entry.dist is not None:
                return f"{entry.dist.name} {entry.dist.version}"
        return f"assay {version('assay')}"
    return ""


def _read(job: Job, work: Worklist) -> None:
    """Read the rows, and what a former run left.

    Raises:
        InvalidRequest: a row is bad, and the run is strict.
    """
    work.read()
    if job.strict:
        for bad in work.bad(1):
            raise _of_row(bad)
    work.resume(job.output)
    if job.strict:
        _check_references(job, work)


def _check_references(job: Job, work: Worklist) -> None:
    definition = next((p for p in load_pipelines().values() if p.spec.name == job.pipeline), None)
    if definition is None:
        return  # the service's own; it has the word
    before = b"", b""
    for row in work.todo():
        reference = json.dumps(row.reference).encode()
        settings = json.dumps({**row.settings, **job.settings}).encode()
        if (settings, reference) == before:
            continue
        before = settings, reference
        try:
            if row.settings:
                parse_settings(definition, settings)
            parse_reference(definition, reference)
        except InvalidRequest as error:
            message = error.message.removeprefix(f"{error.field}: ")
            bad = BadRow(line=row.line, request_id=row.request_id, field=error.field, error=message)
            raise _of_row(bad) from error


def _of_row(bad: BadRow) -> InvalidRequest:
    place = f"line {bad.line}: {bad.field}" if bad.field else f"line {bad.line}"
    return InvalidRequest(str(bad), field=place)


async def _until_stopped(job: Job, run: Run) -> None:
    """Score, and clean up however that ends.

    Raises:
        typer.Exit: a signal came first.
    """
    with stop_on_signals() as stop:
        working = asyncio.create_task(_score(job, run), name="score")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
                await asyncio.wait((working,))
                err.print("stopped; the same command goes on where this one ended")
                raise typer.Exit(EXIT_STOPPED)
            working.result()
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)


async def _score(job: Job, run: Run) -> None:
    clock = Clock()
    if not run.work.left:
        run.work.begin()
        _write_bad(job, run)
        return
    async with (
        service(job.url, job.data_dir, clock, pipelines=[job.pipeline], forks=job.forks) as address,
        Client(address) as client,
    ):
        started_ns = clock.monotonic_ns()
        tasks = Tasks(client, job.pipeline, job.settings)
        await _check_job(tasks, run.work)
        run.work.begin()
        _write_bad(job, run)
        with (
            run.progress as progress,
            _naming(job.output),
            job.output.open("a", encoding="utf-8") as file,
        ):
            run.bar = progress.add_task(job.pipeline, total=run.work.left)
            scorer = Scorer(
                client, tasks, file, basis=job.basis, ledger=run, deadline_ns=job.deadline_ns
            )
            await scorer.run(run.work.todo())
        run.elapsed_s = (clock.monotonic_ns() - started_ns) / 1e9


async def _check_job(tasks: Tasks, work: Worklist) -> None:
    """Wrong settings and an unknown pipeline end the run before anything is written.

    Where rows have settings of their own, those of the job may be incomplete without them.

    Raises:
        InvalidRequest, NotFound: the service takes no row of this job.
    """
    try:
        await tasks.of({})
    except InvalidRequest:
        if not work.has_own_settings:
            raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in an error of writing to it: a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def _write_bad(job: Job, run: Run) -> None:
    with _naming(job.output), job.output.open("a", encoding="utf-8") as file:
        for bad in run.work.bad():
            file.write(bad.output_line())


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=err,
    )


def _tell(run: Run, output: Path, *, as_json: bool) -> None:
    """Print what became of the rows; the exit code says the same.

    Raises:
        typer.Exit: not every row has a reward.
    """
    summary = run.summary
    if as_json:
        print_json(summary)
    else:
        out.print(_table(summary))
    if summary["foreign"]:
        err.print(f"{summary['foreign']:,} results in the output belong to no row; they stay there")
    if summary["superseded"]:
        number, place = summary["superseded"], superseded_of(output)
        err.print(f"{number:,} rewards of other settings or contents of rows are in {place}")
    if summary["without_reward"]:
        number = summary["without_reward"]
        err.print(f"{number:,} ended without a reward; the same command tries again")
    if summary["bad_rows"]:
        bad = run.bad_rows
        err.print(f"{summary['bad_rows']:,} rows are bad:", highlight=False)
        told = first_of(bad, summary["bad_rows"] - len(bad))
        err.print(told, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_BAD_ROWS)
    if summary["without_reward"]:
        raise typer.Exit(EXIT_WITHOUT_REWARD)


def _table(summary: Mapping[str, Any]) -> Table:
    table = Table(title="Rewards", title_justify="left", show_header=False)
    names = ("rows", "bad_rows", "resumed", "scored", "reward_mean", "groups", "groups_degenerate")
    for name in names:
        style = "yellow" if name == "bad_rows" and summary[name] else ""
        table.add_row(name.replace("_", " "), _text(summary[name]), style=style)
    for outcome, count in sorted(summary["outcomes"].items()):
        table.add_row(outcome, f"{count:,}", style="" if outcome == "SCORED" else "yellow")
    table.add_row("elapsed", f"{summary['elapsed_s']:.1f} s")
    table.add_row("requests/s", _text(summary["requests_per_s"]))
    return table


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
