"""`assay plan show | explain | what-if`: what the planner does, why, and what it would do."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.table import Table
from rich.text import Text

from assay.cli.console import AsJson, DataDir, print_json, settings_with
from assay.cli.operate.status_client import channel_to, operator_metadata
from assay.cli.platform.addresses import planner_address
from assay.cli.printed import out
from assay.core.errors import InvalidRequest, NotFound
from assay.v1 import planner_pb2, planner_pb2_grpc

CALL_S_MAX = 60.0
LEADER_TRIES = 8
"""Connections to one address until that of the leader is found: a Service has all planners."""
OF_ITS_OWN = (("grpc.use_local_subchannel_pool", 1),)
STANDS_BY = "standing by"

plan = typer.Typer(help="Show, explain and try out the planner's plan.", no_args_is_help=True)

AnswerT = TypeVar("AnswerT")
Number = TypeVar("Number", int, float)
PerStage = Annotated[list[str] | None, typer.Option(help="STAGE=N; repeatable.")]


@plan.command("show")
def plan_show(data_dir: DataDir = None, *, as_json: AsJson = False) -> None:
    """The present plan: slots by stage, and what it means for each open batch."""
    answer = asyncio.run(_call(data_dir, "GetPlan", planner_pb2.GetPlanRequest()))
    assert isinstance(answer, planner_pb2.GetPlanResponse)  # noqa: S101 - the method's own
    if as_json:
        print_json(as_dict(answer))
        return
    state = answer.planning_process
    process = "not running" if state == "down" else state
    out.print(f"{answer.why}; planning process {process}", highlight=False)
    for one in answer.conditions:
        out.print(f"{one.stage}: {one.condition}: {one.details}", highlight=False)
    if not answer.plan.made_ns:
        out.print("nothing to plan: all open work of its pools fits into the slots that stay warm")
        return
    show(answer.plan)


@plan.command("explain")
def plan_explain(
    batch: Annotated[str, typer.Argument(help="Id of an open or finished batch.")],
    data_dir: DataDir = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the batch.")] = "default",
    plot: Annotated[
        Path | None, typer.Option(help="Draw demand, plan and actual by stage (PNG, SVG).")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """What history was used, what was simulated, the bound, the gap, why so many slots."""
    request = planner_pb2.ExplainPlanRequest(batch_id=batch, tenant=tenant)
    answer = asyncio.run(_call(data_dir, "ExplainPlan", request))
    assert isinstance(answer, planner_pb2.ExplainPlanResponse)  # noqa: S101 - the method's own
    if plot is not None:
        draw(answer, plot, title=f"batch {batch}")
    if as_json:
        print_json(as_dict(answer))
        return
    for line in answer.explanation:
        out.print(line, highlight=False)
    if plot is not None:
        out.print(f"drawn: {plot}", highlight=False)


@plan.command("what-if")
def plan_what_if(
    data_dir: DataDir = None,
    delay_budget_s: Annotated[
        float | None, typer.Option(help="Delay budget of every task, in seconds.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Share of futures that may be late, 0 to 1.")
    ] = None,
    slots_max: PerStage = None,
    cost: PerStage = None,
    startup_s: PerStage = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the plan that other conditions would give now; pools keep their sizes."""
    request = planner_pb2.WhatIfRequest(
        delay_budget_s=delay_budget_s,
        epsilon=epsilon,
        slots_max=per_stage(slots_max, int, "--slots-max"),
        cost=per_stage(cost, float, "--cost"),
        startup_s=per_stage(startup_s, float, "--startup-s"),
    )
    answer = asyncio.run(_call(data_dir, "WhatIf", request))
    assert isinstance(answer, planner_pb2.WhatIfResponse)  # noqa: S101 - the method's own
    if as_json:
        print_json(as_dict(answer))
        return
    for title, one in (("as it is", answer.present), ("instead", answer.plan)):
        out.print(title, style="bold")
        show(one)


async def _call(data_dir: Path | None, method: str, request: Message) -> Message:
    """One call to the planner of this data directory.

    Raises:
        NotFound: none runs.
        grpc.aio.AioRpcError: what the planner answers.
    """
    address = planner_address(settings_with(data_dir))
    if not address:
        raise NotFound("no planner runs here; `assay up` starts one by default")
    token = operator_metadata()
    for left in reversed(range(LEADER_TRIES)):
        async with channel_to(address, OF_ITS_OWN) as channel:
            stub = planner_pb2_grpc.PlannerServiceStub(channel)
            present = await stub.GetPlan(
                planner_pb2.GetPlanRequest(), timeout=CALL_S_MAX, metadata=token
            )
            if left and not present.leading and present.why == STANDS_BY:
                continue
            if method == "GetPlan":
                return present
            answer: Message = await getattr(stub, method)(
                request, timeout=CALL_S_MAX, metadata=token
            )
            return answer
    raise AssertionError  # the last try answers


def per_stage(
    given: Sequence[str] | None, number: Callable[[str], Number], option: str
) -> dict[str, Number]:
    """`["cpp.run=4"]` -> `{"cpp.run": 4}`.

    Raises:
        InvalidRequest: not of that form.
    """
    found: dict[str, Number] = {}
    for text in given or ():
        stage, _, value = text.partition("=")
        try:
            found[stage] = number(value)
        except ValueError as error:
            raise InvalidRequest(f"{option}: {text!r} is not STAGE=NUMBER", field=option) from error
    return found


def as_dict(message: Message) -> dict[str, object]:
    """Plain data under the proto's names, zeros included."""
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def show(one: planner_pb2.Plan) -> None:
    """Two tables and a line."""
    stages = Table("stage", title="Stages", title_justify="left")
    for column in ("now", "warm", "peak", "wanted", "cap", "bound", "left (slot-s)", "planned"):
        stages.add_column(column, justify="right")
    for stage in one.stages:
        if not stage.slots_wanted and stage.slots == stage.slots_min:
            continue
        numbers = (stage.slots, stage.slots_min, stage.slots_peak, stage.slots_wanted)
        more = (stage.slots_max, stage.slots_bound or "-")
        work = (f"{stage.bound_s:,.1f}", f"{stage.planned_s:,.1f}")
        stages.add_row(stage.stage, *map(str, (*numbers, *more)), *work)
    batches = Table("batch", "task", title="Batches", title_justify="left")
    for column in ("ended", "arrived", "size", "d (s)", "D (s)", "late", "risk"):
        batches.add_column(column, justify="right")
    for batch in one.batches:
        batches.add_row(
            batch.batch_id or "(hinted)",
            batch.task_id,
            f"{batch.ended:,}",
            f"{batch.arrived:,}",
            f"{batch.size:,}" if batch.size else "?",
            f"{batch.delay_s:.2f}",
            f"{batch.delay_budget_s:.2f}",
            f"{batch.late_share:.0%}",
            Text("at risk" if batch.deadline_at_risk else "", style="red"),
        )
    out.print(stages)
    out.print(batches)
    out.print(
        f"{one.futures} futures, {one.simulations} simulations, {one.planning_s * 1e3:.0f} ms; "
        f"cost {one.cost:.2f} GPU-s, {f'{one.gap:.2f}' if one.gap else '?'} times the bound; "
        f"waiting {one.delay_cost:.2f}",
        highlight=False,
    )


def draw(answer: planner_pb2.ExplainPlanResponse, path: Path, *, title: str) -> None:
    """Demand, plan and actual.

    Raises:
        InvalidRequest: there is nothing to draw, or nothing to draw with.
    """
    try:
        from assay.cli.plan.plot import Point, plot_stages  # matplotlib, from the extra `sim`
    except ImportError as error:
        message = "drawing needs matplotlib: pip install 'assay[sim]'"
        raise InvalidRequest(message, field="--plot") from error
    points: dict[str, list[Point]] = {}
    for sample in answer.samples:
        points.setdefault(sample.stage, []).append(
            Point(
                at_s=(sample.at_ns - answer.samples[0].at_ns) / 1e9,
                demand=sample.slots_busy + sample.queued,
                planned=sample.slots_planned,
                actual=sample.slots_ready,
                busy=sample.slots_busy,
            )
        )
    if not points:
        raise InvalidRequest("no plan of this batch was kept: nothing to draw", field="--plot")
    plot_stages(points, path, title=title)
