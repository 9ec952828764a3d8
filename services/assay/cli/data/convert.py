"""`assay convert`: a data set as its authors publish it becomes rows for `check` and `score`."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from assay.cli.console import EXIT_BAD_INPUT, AsJson, print_json, settings_with
from assay.cli.data.records import Read, read_records
from assay.cli.data.solutions import Solutions
from assay.cli.files import output_file, partial_of
from assay.cli.printed import err, out
from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName
from assay.datasets.names import RowNames
from assay.datasets.port import DataRow, Outputs, Refused, Source
from assay.datasets.registry import ALIASES, SOURCES, source_named
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.registry import load_pipelines

EXAMPLES_MAX: Final = 5
"""Places that the report names per reason."""


@dataclass(slots=True)
class ConversionReport:
    """What became of the records."""

    records: int = 0
    rows: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def refuse(self, place: str, problem: Refused) -> None:
        """Count a record that gives no row."""
        self.refused[problem.reason] += 1
        named = self.examples.setdefault(problem.reason, [])
        if len(named) < EXAMPLES_MAX:
            named.append(f"{place}: {problem.details}" if problem.details else place)

    def as_json(self) -> dict[str, Any]:
        """The counts and examples as `--json` prints them."""
        reasons = [
            {"reason": reason, "records": count, "examples": self.examples[reason]}
            for reason, count in self.refused.most_common()
        ]
        return {"records": self.records, "rows": self.rows, "refused": reasons}


def convert(
    source: Annotated[str, typer.Argument(help=f"One of: {', '.join([*SOURCES, *ALIASES])}.")],
    files: Annotated[
        list[Path],
        typer.Argument(exists=True, dir_okay=False, help="A .jsonl, .json, .gz or .parquet file."),
    ],
    output: Annotated[Path, typer.Option("--out", help="Output: rows, one JSON object per line.")],
    pipeline: Annotated[
        str, typer.Option(help="Pipeline of the rows; default: the source's.")
    ] = "",
    *,
    strict: Annotated[bool, typer.Option(help="Stop at the first record without a row.")] = False,
    as_json: AsJson = False,
) -> None:
    """Convert a data set, as its authors publish it, to rows for `check` and `score`."""
    known = _source(source)
    converter = Converter(known, _pipeline(known, pipeline), strict=strict)
    output = output_file(output, inputs=files)
    partial = partial_of(output)
    try:
        with ExitStack() as stack, partial.open("w", encoding="utf-8") as file:
            converter.run(files, file, stack)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    report = converter.report
    if as_json:
        print_json(report.as_json())
    else:
        out.print(_table(report))
    if not report.rows:
        raise typer.Exit(EXIT_BAD_INPUT)


def _source(name: str) -> Source:
    found = source_named(name)
    if found is None:
        message = f"source: {name!r} is not one of {', '.join([*SOURCES, *ALIASES])}"
        raise InvalidRequest(message, field="source")
    return found


def _pipeline(source: Source, name: str) -> str:
    if name and name not in source.pipelines:
        message = f"pipeline: {source.name} is judged by {' or '.join(source.pipelines)}"
        raise InvalidRequest(message, field="pipeline")
    return name or source.pipelines[0]


class Converter:
    """Converts the files of one source."""

    def __init__(self, source: Source, pipeline: str, *, strict: bool) -> None:
        self._source = source
        self._pipeline = pipeline
        self._strict = strict
        self._definition = load_pipelines()[PipelineName(pipeline)]
        self._names = RowNames()
        self.report = ConversionReport()

    def run(self, files: Sequence[Path], output: IO[str], stack: ExitStack) -> None:
        """Write the rows of all files.

        Raises:
            InvalidRequest: with `strict`, a record gives no row; `field` is its place.
        """
        for path in files:
            for read in _with_bar(path):
                row = self._one(path, read, stack)
                if row is not None:
                    line = json.dumps(row, ensure_ascii=False)
                    output.write(f"{line}\n")

    def _one(self, path: Path, read: Read, stack: ExitStack) -> dict[str, Any] | None:
        self.report.records += 1
        place = f"{path.name} line {read.line}"
        try:
            row = self._row(read, stack)
            self._judge_by(row)
        except Refused as problem:
            if self._strict:
                raise InvalidRequest(f"{place}: {problem}", field=place) from None
            self.report.refuse(place, problem)
            return None
        self.report.rows += 1
        return self._named(row)

    def _row(self, read: Read, stack: ExitStack) -> DataRow:
        if isinstance(read.record, Refused):
            raise read.record
        row = self._source.convert(read.record, read.line, self._pipeline)
        if isinstance(row, Outputs):
            return row.row(self._solutions(stack).results(row))
        return row

    def _judge_by(self, row: DataRow) -> None:
        """A row that the pipeline would refuse is refused here, where its line is known."""
        try:
            parse_reference(self._definition, _encoded(dict(row.reference)))
            parse_settings(self._definition, _encoded(dict(row.settings)))
        except InvalidRequest as error:
            raise Refused(f"refused by {self._pipeline}", error.message) from None

    def _named(self, row: DataRow) -> dict[str, Any]:
        name = self._names.of(row.request_id)
        return {**row.as_json(), "request_id": name, "group_id": name}

    def _solutions(self, stack: ExitStack) -> Solutions:
        if "_runner" not in self.__dict__:
            stack.callback(self._runner.close)
        return self._runner

    @cached_property
    def _runner(self) -> Solutions:
        return Solutions(settings_with())


def _encoded(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, TypeError) as error:  # a lone surrogate; a value that parquet brought
        raise Refused("a value that JSON does not have", str(error)[:200]) from None


def _with_bar(path: Path) -> Iterator[Read]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[records]:,} records"), console=err) as bar:
        task = bar.add_task(path.name, total=1.0, records=0)
        for records, read in enumerate(read_records(path), 1):
            yield read
            bar.update(task, completed=read.done, records=records)


def _table(report: ConversionReport) -> Table:
    table = Table(title="Converted", title_justify="left", show_header=False)
    table.add_row("records", f"{report.records:,}", "")
    table.add_row("rows", f"{report.rows:,}", "")
    for reason, count in report.refused.most_common():
        table.add_row(reason, f"{count:,}", "\n".join(report.examples[reason]), style="yellow")
    return table
