"""The dashboards as data: which question each panel answers, in PromQL.

`$__rate_interval` is Grafana's; the tests put a fixed one in its place. Each board has the variable
`datasource`; nothing names a fixed one.
"""

from dataclasses import dataclass, field
from typing import Final

RATE: Final = "$__rate_interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart: legends and expressions."""

    title: str
    unit: str
    series: dict[str, str]
    """Expression by legend."""
    help: str
    rare: bool = False
    """It shows what may never happen: it can be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard of Grafana."""

    uid: str
    title: str
    panels: tuple[Panel, ...] = field(default=())
    of_rollouts: bool = False
    """It is of the rollout service, which not every installation runs."""


def quantiles(metric: str, by: str = "") -> dict[str, str]:
    """The median and the 99th percentile of a histogram."""
    labels = f"le, {by}" if by else "le"
    legend = "{{" + by + "}} " if by else ""
    return {
        f"{legend}p{share}": f"histogram_quantile(0.{share}, sum by ({labels}) (rate({metric}_bucket[{RATE}])))"
        for share in ("50", "99")
    }


OVERVIEW = Board(
    uid="assay-overview",
    title="Assay / Overview",
    panels=(
        Panel(
            title="Batches completed per minute", unit="short",
            series={"{{tenant}}": f"60 * sum by (tenant) (rate(assay_batch_slack_seconds_count[{RATE}]))"},
            help="By tenant.",
        ),
        Panel(
            title="Share of batches that missed their deadline", unit="percentunit",
            series={"{{tenant}}": f'sum by (tenant) (increase(assay_batch_slack_seconds_bucket{{le="0.0"}}[{RATE}])) / sum by (tenant) (increase(assay_batch_slack_seconds_count[{RATE}]))'},
            help="0 is the goal; otherwise `assay plan explain BATCH`.",
        ),
        Panel(
            title="Requests ended per second, by outcome", unit="reqps",
            series={"{{outcome}}": f"sum by (outcome) (rate(assay_requests_total[{RATE}]))"},
            help="Anything but SCORED and RESOURCE_LIMIT has no reward.",
        ),
        Panel(
            title="Worker slots held, and busy", unit="short",
            series={
                "held": "sum(assay_slots)",
                "requests running": "sum(assay_running_requests)",
            },
            help="The area between the two is what is paid for and not used.",
        ),
        Panel(
            title="Slot-seconds saved against a static peak", unit="percentunit",
            series={"saved": "1 - sum(avg_over_time(assay_slots[1h])) / sum(max_over_time(assay_slots[1h]))"},
            help="Of the last hour: a pool that never shrinks holds its peak all the time.",
        ),
        Panel(
            title="Is everything there", unit="short",
            series={"planners leading": 'sum(assay_planners{state="leading"})', "store fit": "min(assay_store_fit)"},
            help="Both are 1.",
        ),
    ),
)  # fmt: skip

PLANNER = Board(
    uid="assay-planner",
    title="Assay / Planner",
    panels=(
        Panel(
            title="Demand, plan and slots of each stage", unit="short",
            series={
                "{{stage}} waiting and running": "sum by (stage) (assay_queue_requests + assay_running_requests)",
                "{{stage}} planned": "max by (stage) (assay_planned_slots)",
                "{{stage}} slots": "sum by (stage) (assay_slots)",
            },
            help="Slots follow the plan; the plan precedes the demand.",
        ),
        Panel(
            title="Plans made per minute, by reason", unit="short",
            series={"{{reason}}": f"60 * sum by (reason) (rate(assay_planning_seconds_count[{RATE}]))"},
            help="",
        ),
        Panel(
            title="Time to make a plan", unit="s",
            series=quantiles("assay_planning_seconds"), help="",
        ),
        Panel(
            title="Planners by state", unit="short",
            series={"{{state}}": "sum by (state) (assay_planners)"},
            help="Exactly one leads.",
        ),
        Panel(
            title="Batches reported to be at risk", unit="short",
            series={"{{tenant}}": f"sum by (tenant) (increase(assay_batches_at_risk_total[{RATE}]))"},
            help="The caps are too low for the deadline.", rare=True,
        ),
        Panel(
            title="Planning processes lost", unit="short",
            series={"{{reason}}": f"sum by (reason) (increase(assay_planning_lost_total[{RATE}]))"},
            help="", rare=True,
        ),
        Panel(
            title="Hosts and pods found to end no work", unit="short",
            series={"{{stage}}": f"sum by (stage) (increase(assay_hosts_doubted_total[{RATE}]))"},
            help="Their slots are not counted, and others get them.", rare=True,
        ),
        Panel(
            title="Pools of pods: wanted, ready, busy", unit="short",
            series={"{{stage}} {{state}}": "max by (stage, state) (assay_pool_slots)"},
            help="With planner.scaler kubernetes or keda.", rare=True,
        ),
        Panel(
            title="Start-up times of pods", unit="s",
            series=quantiles("assay_pool_startup_seconds", "stage"),
            help="What the planner orders ahead.", rare=True,
        ),
        Panel(
            title="What is wrong with pools", unit="short",
            series={"{{stage}} {{condition}}": "max by (stage, condition) (assay_pool_condition)"},
            help="docs/kubernetes.md says what to do.", rare=True,
        ),
    ),
)  # fmt: skip

STAGES = Board(
    uid="assay-stages",
    title="Assay / Stages",
    panels=(
        Panel(title="Requests waiting", unit="short", series={"{{stage}}": "max by (stage) (assay_queue_requests)"}, help=""),
        Panel(title="Age of the oldest", unit="s", series={"{{stage}}": "max by (stage) (assay_queue_oldest_age_seconds)"}, help=""),
        Panel(title="Time waited for a slot", unit="s", series=quantiles("assay_wait_seconds", "stage"), help=""),
        Panel(title="Time in a slot", unit="s", series=quantiles("assay_service_seconds", "stage"), help=""),
        Panel(
            title="Utilisation", unit="percentunit",
            series={"{{stage}}": f"sum by (stage) (rate(assay_service_seconds_sum[{RATE}])) / sum by (stage) (avg_over_time(assay_slots[{RATE}]))"},
            help="Seconds in slots over seconds of slots.",
        ),
        Panel(
            title="Slots by state", unit="short",
            series={"{{stage}} {{state}}": "sum by (stage, state) (assay_slots)"}, help="",
        ),
        Panel(
            title="Attempts per second, by result", unit="short",
            series={"{{stage}} {{result}}": f"sum by (stage, result) (rate(assay_attempts_total[{RATE}]))"},
            help="`failed` is the platform's doing, never the response's.",
        ),
    ),
)  # fmt: skip

TENANTS = Board(
    uid="assay-tenants",
    title="Assay / Tenants",
    panels=(
        Panel(
            title="Requests ended per second", unit="reqps",
            series={"{{tenant}} {{pipeline}}": f"sum by (tenant, pipeline) (rate(assay_requests_total[{RATE}]))"}, help="",
        ),
        Panel(
            title="Share of all requests", unit="percentunit",
            series={"{{tenant}}": f"sum by (tenant) (rate(assay_requests_total[{RATE}])) / on() group_left sum(rate(assay_requests_total[{RATE}]))"},
            help="Under load it follows the tenants' weights.",
        ),
        Panel(
            title="Slack of batches", unit="s",
            series=quantiles("assay_batch_slack_seconds", "tenant"), help="Below 0: late.",
        ),
        Panel(
            title="Share of requests without a reward, by task", unit="percentunit",
            series={"{{tenant}} {{task_id}} {{cause}}": "sum by (tenant, task_id, cause) (assay_task_unjudged_total) / on (tenant, task_id) group_left sum by (tenant, task_id) (assay_task_requests_total)"},
            help="", rare=True,
        ),
        Panel(
            title="Calls per second, by result", unit="reqps",
            series={"{{reason}}": f"sum by (reason) (rate(assay_api_call_seconds_count[{RATE}]))"},
            help="`saturated`: a quota or a limit at the door.",
        ),
        Panel(title="Duration of calls", unit="s", series=quantiles("assay_api_call_seconds", "method"), help=""),
    ),
)  # fmt: skip

FAILURES = Board(
    uid="assay-failures",
    title="Assay / Sandbox and failures",
    panels=(
        Panel(title="Dead letters", unit="short", series={"{{stage}}": "max by (stage) (assay_dead_letters)"}, help="`assay dlq list`."),
        Panel(title="Isolation of untrusted code", unit="short", series={"{{mode}}": "sum by (mode) (assay_sandbox_info)"}, help="Hosts by mode; `unisolated` is an alarm."),
        Panel(title="Slots that ended", unit="short", series={"{{stage}} {{reason}}": f"sum by (stage, reason) (increase(assay_slots_ended_total[{RATE}]))"}, help="", rare=True),
        Panel(title="Leases lost", unit="short", series={"{{stage}} {{seen_by}}": f"sum by (stage, seen_by) (increase(assay_leases_lost_total[{RATE}]))"}, help="", rare=True),
        Panel(title="Parts started again", unit="short", series={"{{part}} {{reason}}": f"sum by (part, reason) (increase(assay_parts_replaced_total[{RATE}]))"}, help="", rare=True),
        Panel(title="Calls to the store", unit="s", series=quantiles("assay_store_call_seconds", "operation"), help=""),
        Panel(title="Lag of the API's event loop", unit="s", series=quantiles("assay_api_loop_lag_seconds"), help="5 ms is too much."),
        Panel(title="Second judge", unit="short", series={"{{pipeline}} {{result}}": f"sum by (pipeline, result) (increase(assay_second_judge_total[{RATE}]))"}, help="", rare=True),
    ),
)  # fmt: skip

ROLLOUTS = Board(
    uid="assay-rollouts",
    title="Assay / Rollouts",
    of_rollouts=True,
    panels=(
        Panel(title="Tokens per second", unit="short", series={"tokens": f"sum(rate(assay_rollout_tokens_total[{RATE}]))"}, help=""),
        Panel(title="Rollouts by state", unit="short", series={"{{state}}": "sum by (state) (assay_rollouts)"}, help=""),
        Panel(title="Groups by state", unit="short", series={"{{state}}": "sum by (state) (assay_rollout_groups)"}, help=""),
        Panel(title="Free credits", unit="short", series={"{{limit}}": "sum by (limit) (assay_rollout_credits)"}, help="0: that limit holds the engine back."),
        Panel(title="Groups read", unit="short", series={"{{result}}": f"sum by (result) (rate(assay_rollout_groups_read_total[{RATE}]))"}, help="`degenerate`: all rewards equal, no gradient."),
        Panel(title="Staleness of groups", unit="short", series=quantiles("assay_rollout_staleness_versions"), help="In versions of the policy."),
        Panel(title="Time of a push of weights", unit="s", series=quantiles("assay_weights_stage_seconds", "kind"), help=""),
        Panel(title="Pause of an activation", unit="s", series=quantiles("assay_weights_pause_seconds"), help=""),
        Panel(title="Turns of agents", unit="short", series={"{{how}}": f"sum by (how) (rate(assay_gateway_turns_total[{RATE}]))"}, help="Empty where no agents work.", rare=True),
    ),
)  # fmt: skip

BOARDS: Final = (OVERVIEW, PLANNER, STAGES, TENANTS, FAILURES, ROLLOUTS)
