"""`assay dlq`: requests that ran out of attempts, listed and replayed."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from assay.cli.console import AsJson, DataDir, print_json, settings_with
from assay.cli.operate.connection import open_running_store
from assay.cli.printed import out
from assay.config.settings import Settings
from assay.core.ids import JobId, StageName
from assay.core.records import DeadLetter

LETTERS_MAX = 1_000

dlq = typer.Typer(help="Dead letters: requests that ran out of attempts.", no_args_is_help=True)


@dlq.command("list")
def dlq_list(
    data_dir: DataDir = None,
    stage: Annotated[str, typer.Option(help="Only dead letters of this stage.")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Requests that the platform failed to judge, newest first."""
    letters = asyncio.run(_letters(settings_with(data_dir), stage))
    if as_json:
        print_json([asdict(letter) for letter in letters])
        return
    table = Table(title=f"Dead letters ({len(letters)})", title_justify="left")
    for column in ("id", "stage", "tenant", "batch", "request", "attempts", "error"):
        table.add_column(column, overflow="fold")
    for letter in letters:
        table.add_row(
            letter.job_id,
            letter.stage,
            letter.tenant,
            letter.batch_id,
            letter.request_id or f"group {letter.group_id}",
            str(letter.attempts),
            letter.error,
        )
    out.print(table)


async def _letters(settings: Settings, stage: str) -> Sequence[DeadLetter]:
    async with open_running_store(settings) as store:
        return await store.dead_letters(
            stage=StageName(stage) if stage else None, letters_max=LETTERS_MAX
        )


@dlq.command("replay")
def dlq_replay(
    job_ids: Annotated[
        list[str] | None, typer.Argument(help="Ids, as `assay dlq list` prints them.")
    ] = None,
    data_dir: DataDir = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Replay all dead letters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put dead letters back in their queues with fresh attempts."""
    settings = settings_with(data_dir)
    wanted = list(job_ids or ())
    if everything:
        wanted = [letter.job_id for letter in asyncio.run(_letters(settings, ""))]
    replayed = asyncio.run(_replay(settings, wanted))
    if as_json:
        print_json(replayed)
    else:
        for job_id, done in replayed.items():
            out.print(f"{job_id}: {'replayed' if done else 'no such dead letter'}")
    if not all(replayed.values()):
        raise typer.Exit(1)


async def _replay(settings: Settings, job_ids: Sequence[str]) -> dict[str, bool]:
    async with open_running_store(settings) as store:
        return {job_id: await store.replay(JobId(job_id)) for job_id in job_ids}
