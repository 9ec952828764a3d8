"""`assay batch`: describes one batch (stages, plan, failures), or cancels parts of it."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import quantiles
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from assay.cli.console import AsJson, DataDir, print_json, settings_with
from assay.cli.operate.connection import open_running_store
from assay.cli.operate.live import line_of
from assay.cli.operate.snapshot import batch_json
from assay.cli.platform.addresses import running
from assay.cli.printed import out
from assay.client import Backoff, Client
from assay.config.settings import Settings
from assay.core.codec import unpack_body
from assay.core.ids import BatchId, TenantId
from assay.core.records import BatchRecord, ResultRecord
from assay.edge.clock import Clock
from assay.planner.service.narrate import narrate
from assay.planner.session.plan_view import unpack_record
from assay.store.operations.viewing import open_viewing

RESULTS_MAX: Final = 1_000
"""The last results, from which the times of stages are taken."""
FAILURES_MAX: Final = 10
REACH_S_MAX: Final = 5.0

batch = typer.Typer(help="One batch: describe it, cancel it.", no_args_is_help=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What is known of a batch."""

    batch: BatchRecord
    at_ns: int
    results: Sequence[ResultRecord]
    """The newest first, at most `RESULTS_MAX`."""
    explanation: Sequence[str]
    """Of its plans."""

    @property
    def failures(self) -> Sequence[ResultRecord]:
        """The newest results without a judge."""
        return [one for one in self.results if not one.outcome.carries_reward][:FAILURES_MAX]

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "batch": batch_json(self.batch),
            "results_examined": len(self.results),
            "stages": stage_times(self.results),
            "explanation": list(self.explanation),
            "failures": [
                {
                    "request_id": one.request_id,
                    "outcome": one.outcome.value,
                    "attempts": one.attempts,
                    "error": error_of(one),
                }
                for one in self.failures
            ],
        }


@batch.command("describe")
def batch_describe(
    batch_id: Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch.")],
    data_dir: DataDir = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the batch.")] = "default",
    *,
    as_json: AsJson = False,
) -> None:
    """Show its state, the times of its stages, why pools had their sizes, and what failed."""
    found = asyncio.run(_describe(settings_with(data_dir), TenantId(tenant), BatchId(batch_id)))
    if as_json:
        print_json(found.as_json())
        return
    out.print(line_of(found.batch, found.at_ns), highlight=False)
    if found.batch.unjudged:
        causes = ", ".join(f"{cause} {part:.1%}" for cause, part in found.batch.unjudged.items())
        out.print(f"no judge saw: {causes}; bias avoided {found.batch.bias_avoided:.3f}")
    out.print(_stages(found))
    for line in found.explanation:
        out.print(line, highlight=False)
    for one in found.failures:
        said = f"{one.request_id}: {one.outcome.value}: {error_of(one)}"
        out.print(said, highlight=False)


@batch.command("cancel")
def batch_cancel(
    batch_id: Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch.")],
    requests: Annotated[
        list[str] | None, typer.Option("--request", help="Cancel only this request; repeatable.")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", help="Cancel only this group; repeatable.")
    ] = None,
    url: Annotated[str, typer.Option(help="host:port; default: the running one.")] = "",
    data_dir: DataDir = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Cancel what has not ended: the whole batch, or only the named requests and groups.

    The batch is that of the tenant whose token is ASSAY_TOKEN.
    """
    address = url or running(settings_with(data_dir)).grpc
    cancelled = asyncio.run(_cancel(address, batch_id, requests or [], groups or []))
    if as_json:
        print_json({"cancelled": cancelled})
    else:
        out.print(f"{cancelled} cancelled")


async def _cancel(
    address: str, batch_id: str, requests: Sequence[str], groups: Sequence[str]
) -> int:
    async with Client(address, backoff=Backoff(total_s=REACH_S_MAX)) as client:
        found = client.batch(batch_id)
        if not requests and not groups:
            return await found.cancel()
        return await found.cancel_requests(requests, group_ids=groups)


async def _describe(settings: Settings, tenant: TenantId, batch_id: BatchId) -> Description:
    async with open_running_store(settings) as store, AsyncExitStack() as stack:
        viewing = open_viewing(settings.store, data_dir=settings.data_dir)
        stack.push_async_callback(viewing.close)
        record = await store.get_batch(tenant, batch_id)
        results, _ = await viewing.results_before(
            tenant,
            batch_id,
            await viewing.log_length(tenant, batch_id),
            wanted=lambda _: True,
            results_max=RESULTS_MAX,
            entries_max=2 * RESULTS_MAX,
        )
        plans = [unpack_record(body) for body in await store.plans(tenant, batch_id)]
    return Description(
        batch=record,
        at_ns=Clock().now_ns(),
        results=results,
        explanation=narrate([one for one in plans if one is not None]),
    )


def stage_times(results: Sequence[ResultRecord]) -> list[dict[str, Any]]:
    """Per stage, in the order in which requests pass them: seconds in the queue and on a worker,
    of the middle request and of the slowest twentieth's first."""
    waits: dict[str, list[float]] = {}
    runs: dict[str, list[float]] = {}
    attempts: dict[str, int] = {}
    for result in reversed(results):
        for timing in result.stages:
            waited_ns, held_ns = (
                timing.claimed_ns - timing.enqueued_ns,
                timing.released_ns - timing.claimed_ns,
            )
            waits.setdefault(timing.stage, []).append(waited_ns / 1e9)
            runs.setdefault(timing.stage, []).append(held_ns / 1e9)
            attempts[timing.stage] = attempts.get(timing.stage, 0) + timing.attempts
    return [
        {
            "stage": stage,
            "requests": len(waits[stage]),
            "attempts": attempts[stage],
            "wait_s_p50": percentile(waits[stage], 50),
            "wait_s_p95": percentile(waits[stage], 95),
            "held_s_p50": percentile(runs[stage], 50),
            "held_s_p95": percentile(runs[stage], 95),
        }
        for stage in waits
    ]


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which `percent` of the values lie, interpolated; `values` is not empty."""
    if len(values) == 1:
        return values[0]
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def error_of(result: ResultRecord) -> str:
    """Why no judge saw it."""
    return result.error or unpack_body(result.body).evidence.error


def _stages(found: Description) -> Table:
    title = f"Stages of the last {len(found.results):,} results, seconds"
    table = Table("stage", title=title, title_justify="left")
    for column in ("requests", "attempts", "wait p50", "p95", "held p50", "p95"):
        table.add_column(column, justify="right")
    for one in stage_times(found.results):
        times = (one[name] for name in ("wait_s_p50", "wait_s_p95", "held_s_p50", "held_s_p95"))
        counts = (f"{one['requests']:,}", f"{one['attempts']:,}")
        table.add_row(one["stage"], *counts, *(f"{seconds:.3f}" for seconds in times))
    return table
