"""`assay history export`: finished batches as traces that the simulator replays."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import AsJson, DataDir, print_json, settings_with
from assay.cli.operate.connection import open_running_store
from assay.cli.printed import out
from assay.config.settings import Settings
from assay.core.records import BatchHistory, TaskRecord

TASKS_MAX = 10_000

history = typer.Typer(help="Export the history of finished batches.", no_args_is_help=True)


@history.command("export")
def history_export(
    file: Annotated[Path, typer.Argument(help="JSON lines, one batch per line.")],
    data_dir: DataDir = None,
    tenant: Annotated[str, typer.Option(help="Only batches of this tenant.")] = "",
    task: Annotated[str, typer.Option(help="Only batches of this task.")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Write traces; `python -m assay.sim --replay FILE` replays them under each policy."""
    settings = settings_with(data_dir)
    found = asyncio.run(_read(settings, tenant, task))
    batches = requests = 0
    with file.open("w", encoding="utf-8") as lines:
        for trace in traces(found, settings):
            lines.write(json.dumps(trace) + "\n")
            batches += 1
            requests += len(trace["requests"])  # type: ignore[arg-type]  # a list, by `to_trace`
    if as_json:
        print_json({"tasks": len(found), "batches": batches, "requests": requests})
    else:
        out.print(f"{batches} batches of {len(found)} tasks, {requests:,} requests: {file}")


async def _read(
    settings: Settings, tenant: str, task: str
) -> list[tuple[TaskRecord, Sequence[BatchHistory]]]:
    async with open_running_store(settings) as store:
        found = []
        for record in await store.tasks(tasks_max=TASKS_MAX):
            if record.tenant != (tenant or record.tenant) or record.task_id != (
                task or record.task_id
            ):
                continue
            kept = settings.store.history_batches
            batches = await store.history(record.tenant, record.task_id, batches_max=kept)
            if batches:
                found.append((record, batches))
        return found


def traces(
    found: Sequence[tuple[TaskRecord, Sequence[BatchHistory]]], settings: Settings
) -> Iterator[dict[str, object]]:
    """Yield one object per batch, oldest first, with what a replay needs of the task."""
    from assay.planner.session.past_batches import to_trace  # numpy
    from assay.verifiers.registry import load_pipelines, stages_of

    specs = {
        name: each.spec for name, each in stages_of(load_pipelines(settings.verifiers)).items()
    }
    for task, batches in found:
        timeouts = [specs[stage].timeout_s if stage in specs else None for stage in task.stages]
        cores = [
            specs[stage].resources.cpu_cores if stage in specs else None for stage in task.stages
        ]
        for record in reversed(batches):
            yield {
                "tenant": task.tenant,
                "task_id": task.task_id,
                "pipeline": task.pipeline,
                "timeouts_s": timeouts,
                "cores": cores,
                "delay_budget_ms": task.delay_budget_ms,
                "trainer_cost_rate": task.trainer_cost_rate,
                **to_trace(record, task.stages),
            }
