"""`assay status | pipelines | dlq | pool`: look at a platform and mend it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from assay.cli.console import AsJson, DataDir, out, print_json, settings_with
from assay.cli.operate.snapshot import render
from assay.cli.operate.status_client import observe, resize_pool
from assay.cli.platform.local import planner_address, running
from assay.config.settings import Settings
from assay.core.errors import NotFound
from assay.core.ids import JobId, StageName
from assay.core.records import DeadLetter
from assay.edge.clock import Clock
from assay.store.port import Store
from assay.store.valkey import open_store
from assay.verifiers.registry import load_pipelines

LETTERS_MAX = 1_000

dlq = typer.Typer(help="Dead letters: requests that ran out of attempts.", no_args_is_help=True)
pool = typer.Typer(help="Worker pools.", no_args_is_help=True)


@asynccontextmanager
async def open_running_store(settings: Settings) -> AsyncIterator[Store]:
    """The store of the platform that runs here.

    Raises:
        NotFound: none does.
    """
    if not settings.store.url:
        running(settings)  # says so when the embedded store is not up
    store = open_store(settings.store, data_dir=settings.data_dir)
    try:
        yield store
    finally:
        await store.close()


def status(data_dir: DataDir = None, *, as_json: AsJson = False) -> None:
    """Queues, slots and batches as of now."""
    asyncio.run(_status(settings_with(data_dir), as_json=as_json))


async def _status(settings: Settings, *, as_json: bool) -> None:
    async with open_running_store(settings) as store:
        snapshot = await observe(
            store, _control(settings), clock=Clock(), planner=planner_address(settings)
        )
    if as_json:
        print_json(snapshot.as_json())
    else:
        out.print(render(snapshot))


def _control(settings: Settings) -> str:
    """Of this machine's worker host, or where it would listen."""
    try:
        return running(settings).control
    except NotFound:
        return f"{settings.worker.control_host}:{settings.worker.control_port}"


def pipelines(*, as_json: AsJson = False) -> None:
    """What can be judged, and in which form."""
    known = sorted(load_pipelines().values(), key=lambda each: each.spec.name)
    if as_json:
        print_json(
            [
                {
                    **asdict(each.spec),
                    "settings_schema": each.settings.model_json_schema(),
                    "reference_schema": each.reference.model_json_schema(),
                    "example_reference": dict(each.example_reference),
                }
                for each in known
            ]
        )
        return
    table = Table("pipeline", "stages", "what it judges", title="Pipelines", title_justify="left")
    for each in known:
        table.add_row(each.spec.name, " > ".join(each.spec.stages), each.spec.description)
    out.print(table)


@dlq.command("list")
def dlq_list(
    data_dir: DataDir = None,
    stage: Annotated[str, typer.Option(help="Of this stage only.")] = "",
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
            letter.request_id,
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
    job_ids: Annotated[list[str] | None, typer.Argument(help="Ids of `dlq list`.")] = None,
    data_dir: DataDir = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
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


@pool.command("resize")
def pool_resize(
    stage: Annotated[str, typer.Argument(help="A stage of `assay status`.")],
    slots: Annotated[int, typer.Argument(min=0, help="Worker slots wanted.")],
    data_dir: DataDir = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Set the size of a stage's pool on this machine's worker host."""
    control = _control(settings_with(data_dir))
    resized = asyncio.run(resize_pool(control, stage=stage, slots=slots))
    if as_json:
        print_json(asdict(resized))
    else:
        out.print(
            f"{resized.stage}: {resized.slots_desired} slots wanted, "
            f"{resized.slots_ready} ready, {resized.slots_busy} busy"
        )
