"""`assay rescore`: judges again what was judged before, and says which rewards differ.

For a new version of a pipeline, other settings, or another machine: the rows of the file whose
result may be compared are scored into a new output, and the two outputs are compared row by row. A
row is refused whose former result says that a state beside the request decided (`rescorable` is
false), that no judge saw it, or that there is none.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Final, NamedTuple

import typer
from rich.table import Table

from assay.cli.console import (
    EXIT_DIFFERS,
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
from assay.cli.files import output_file
from assay.cli.printed import err, out
from assay.cli.score.command import Job, score_rows, seekable
from assay.cli.score.jsonl import Fields, parse_row, read_lines
from assay.cli.score.worklist import superseded_of
from assay.core.errors import InvalidRequest

CHANGES_SHOWN: Final = 20
NO_RESULT: Final = "no_result"
NOT_JUDGED: Final = "not_judged"
STATE_GONE: Final = "state_gone"
BAD_ROW: Final = "bad_row"


class Before(NamedTuple):
    """A result as a line of an output has it."""

    reward: float | None
    version: str
    rescorable: bool


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Rewards before and now."""

    refused: Counter[str] = field(default_factory=Counter)
    """Rows that were not judged again, by reason."""
    same: int = 0
    changed: list[tuple[str, float, float | None]] = field(default_factory=list)
    """Request, reward before and now (absent: no judge saw it this time)."""
    versions_before: Counter[str] = field(default_factory=Counter)
    versions_now: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """The whole comparison as plain data."""
        return {
            "refused": dict(self.refused),
            "same": self.same,
            "changed": len(self.changed),
            "versions_before": dict(self.versions_before),
            "versions_now": dict(self.versions_now),
            "changes": [
                {"request_id": name, "before": before, "now": now}
                for name, before, now in self.changed
            ],
        }


def rescore(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="The rows, as `score` read them.")
    ],
    results: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="The output of that `score`.")
    ],
    pipeline: PipelineOption,
    output: Annotated[Path, typer.Option("--out", help="Output: the new results.")],
    settings: SettingsOption = "{}",
    url: Url = "",
    data_dir: DataDir = None,
    response_field: ResponseField = "response",
    reference_field: ReferenceField = "reference",
    id_field: IdField = "request_id",
    group_field: GroupField = "group_id",
    settings_field: SettingsField = "settings",
    *,
    as_json: AsJson = False,
) -> None:
    """Judge scored rows again and say which rewards differ.

    Exit code: 0 every reward that could be compared is the same; 2 nothing was done (no row may be
    judged again, bad arguments, no service); 6 rewards differ.
    """
    fields = Fields(
        request_id=id_field,
        group_id=group_field,
        response=response_field,
        reference=reference_field,
        settings=settings_field,
    )
    target = output_file(output, inputs=[file, results])
    output_file(superseded_of(target), inputs=[file, results])
    before = read_results(results)
    comparison = Comparison()
    with tempfile.TemporaryFile() as rows, seekable(file) as all_rows:
        kept = _select(all_rows, fields, before, rows, comparison)
        job = Job(
            pipeline=pipeline,
            settings=settings_object(settings),
            output=target,
            url=url,
            data_dir=data_dir,
            strict=False,
        )
        score_rows(job, rows, fields)
    compare(before, read_results(target), kept, comparison)
    _tell(comparison, as_json=as_json)


def read_results(path: Path) -> dict[str, Before]:
    """The results of an output, by request; other lines are left out.

    Raises:
        OSError: it cannot be read.
    """
    found: dict[str, Before] = {}
    with seekable(path) as file:
        for _, _, raw in read_lines(file):
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if not isinstance(line, dict) or not isinstance(line.get("request_id"), str):
                continue
            reward = line.get("reward")
            found[line["request_id"]] = Before(
                reward=float(reward) if isinstance(reward, int | float) else None,
                version=str(line.get("pipeline_version") or ""),
                rescorable=line.get("rescorable") is True,
            )
    return found


def why_refused(before: Before | None) -> str:
    """Why a row is not judged again; empty: it is."""
    if before is None:
        return NO_RESULT
    if before.reward is None:
        return NOT_JUDGED
    return "" if before.rescorable else STATE_GONE


def _select(
    file: IO[bytes],
    fields: Fields,
    before: Mapping[str, Before],
    rows: IO[bytes],
    comparison: Comparison,
) -> list[str]:
    """Copy the rows that are judged again; returns their names.

    A row keeps its line number, by which one without an id is named.

    Raises:
        InvalidRequest: there are none.
    """
    kept: list[str] = []
    lines = 0
    for line, _, raw in read_lines(file):
        try:
            row = parse_row(line, raw, fields)
        except InvalidRequest:
            comparison.refused[BAD_ROW] += 1
            continue
        if why := why_refused(before.get(row.request_id)):
            comparison.refused[why] += 1
            continue
        rows.write(b"\n" * (line - 1 - lines) + raw.rstrip(b"\n") + b"\n")
        lines = line
        kept.append(row.request_id)
    if not kept:
        reasons = ", ".join(f"{count} {name}" for name, count in comparison.refused.items())
        message = f"no row may be judged again ({reasons or 'the file has none'})"
        raise InvalidRequest(message, field="results")
    rows.seek(0)
    return kept


def compare(
    before: Mapping[str, Before],
    now: Mapping[str, Before],
    names: list[str],
    comparison: Comparison,
) -> None:
    """Compare the rewards of these requests; equal means the same number."""
    for name in names:
        old, new = before[name], now.get(name)
        assert old.reward is not None  # noqa: S101 - `why_refused` leaves no other
        comparison.versions_before[old.version] += 1
        if new is not None:
            comparison.versions_now[new.version] += 1
        reward = None if new is None else new.reward
        if reward == old.reward:
            comparison.same += 1
        else:
            comparison.changed.append((name, old.reward, reward))


def _tell(comparison: Comparison, *, as_json: bool) -> None:
    """Print the comparison.

    Raises:
        typer.Exit: rewards differ.
    """
    if as_json:
        print_json(comparison.as_json())
    else:
        table = Table(title="Rewards before and now", title_justify="left", show_header=False)
        table.add_row("same", f"{comparison.same:,}")
        table.add_row("changed", f"{len(comparison.changed):,}")
        for reason, count in sorted(comparison.refused.items()):
            table.add_row(f"refused: {reason.replace('_', ' ')}", f"{count:,}")
        table.add_row("versions before", ", ".join(sorted(comparison.versions_before)))
        table.add_row("versions now", ", ".join(sorted(comparison.versions_now)))
        out.print(table)
        for name, before, now in comparison.changed[:CHANGES_SHOWN]:
            told = f"{name}: {before:g} -> {'no reward' if now is None else f'{now:g}'}"
            err.print(told, highlight=False, soft_wrap=True)
        if len(comparison.changed) > CHANGES_SHOWN:
            err.print(f"... and {len(comparison.changed) - CHANGES_SHOWN:,} more; see --json")
    if comparison.changed:
        raise typer.Exit(EXIT_DIFFERS)
