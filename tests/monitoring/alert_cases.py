"""For each alert: series under which it fires, and under which it does not.

A series is written as promtool writes it: `START+STEPxTIMES`, one sample per minute.
"""

from dataclasses import dataclass

BUCKET = "assay_store_call_seconds_bucket"
LAG = "assay_api_loop_lag_seconds_bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Series that make it fire at minute 20, and series that do not."""

    fires: dict[str, str]
    quiet: dict[str, str]


def one(series: str, fires: str, quiet: str) -> Case:
    return Case(fires={series: fires}, quiet={series: quiet})


def both(series: dict[str, tuple[str, str]]) -> Case:
    return Case(
        fires={name: fires for name, (fires, _) in series.items()},
        quiet={name: quiet for name, (_, quiet) in series.items()},
    )


def buckets(metric: str, labels: str, quick: str) -> Case:
    """All calls are between 0.025 s and 1 s; the quiet ones below 0.01 s."""
    more = f"{labels}, " if labels else ""
    return both(
        {
            f'{metric}{{{more}le="{quick}"}}': ("0+0x30", "0+100x30"),
            f'{metric}{{{more}le="1.0"}}': ("0+100x30", "0+100x30"),
            f'{metric}{{{more}le="+Inf"}}': ("0+100x30", "0+100x30"),
        }
    )


CASES = {
    "AssayBatchDeadlineMissed": one(
        'assay_batch_slack_seconds_bucket{tenant="a", le="0.0"}', "0x15 1+1x15", "3x30"
    ),
    "AssayBatchesAtRisk": one('assay_batches_at_risk_total{tenant="a"}', "0x15 1+1x15", "5x30"),
    "AssayStageNotServed": both(
        {
            'assay_queue_oldest_age_seconds{stage="s"}': ("0+60x30", "0+60x30"),
            'assay_running_requests{stage="s"}': ("0x30", "2x30"),
        }
    ),
    "AssayDeadLettersGrow": both(
        {
            'assay_attempts_total{stage="s", result="failed"}': ("0+1x30", "0+1x30"),
            'assay_dead_letters{stage="s"}': ("0+1x30", "0x30"),
        }
    ),
    "AssayRewardsMissing": both(
        {
            'assay_requests_total{tenant="a", outcome="SCORED"}': ("0+90x30", "0+900x30"),
            'assay_requests_total{tenant="a", outcome="INFRA_FAILED"}': ("0+10x30", "0+1x30"),
        }
    ),
    "AssayNoPlannerLeads": one('assay_planners{state="leading"}', "0x30", "1x30"),
    "AssayPlanningProcessLost": one(
        'assay_planning_lost_total{reason="died"}', "0+1x30", "0x15 1x15"
    ),
    "AssayPoolQuotaExhausted": one(
        'assay_pool_condition{stage="s", condition="QuotaExhausted"}', "1x30", "0 1 1 1 0x30"
    ),
    "AssayPoolInTrouble": one(
        'assay_pool_condition{stage="s", condition="ImagePullFailed"}', "1x30", "0x30"
    ),
    "AssayStoreUnfit": one("assay_store_fit", "0x30", "1x30"),
    "AssayStoreSlow": buckets(BUCKET, 'operation="submit"', "0.01"),
    "AssayLeasesLost": one(
        'assay_leases_lost_total{stage="s", seen_by="reaper"}', "0+2x30", "0x15 1x15"
    ),
    "AssayHostsDoubted": one('assay_hosts_doubted_total{stage="s"}', "0+1x30", "1x30"),
    "AssayPartsReplaced": one(
        'assay_parts_replaced_total{part="worker", reason="died"}', "0+1x30", "0x15 1x15"
    ),
    "AssayLoopLag": buckets(LAG, "", "0.01"),
    "AssayCodeUnisolated": both(
        {
            'assay_sandbox_info{mode="unisolated"}': ("1x30", "0x30"),
            'assay_sandbox_info{mode="namespaces"}': ("1x30", "1x30"),
        }
    ),
}

FIRST_OF_THEIR_KIND = {
    "AssayBatchDeadlineMissed": {
        'assay_batch_slack_seconds_bucket{tenant="new", le="0.0"}': "_x15 1x15"
    },
    "AssayBatchesAtRisk": {'assay_batches_at_risk_total{tenant="new"}': "_x15 1x15"},
    "AssayDeadLettersGrow": {
        'assay_attempts_total{stage="new", result="failed"}': "_x15 3x15",
        'assay_dead_letters{stage="new"}': "_x15 1x15",
    },
    "AssayPlanningProcessLost": {'assay_planning_lost_total{reason="new"}': "_x15 3x15"},
    "AssayHostsDoubted": {'assay_hosts_doubted_total{stage="new"}': "_x15 1x15"},
    "AssayPartsReplaced": {'assay_parts_replaced_total{part="new"}': "_x15 3x15"},
    "AssayLeasesLost": {'assay_leases_lost_total{stage="new", seen_by="reaper"}': "_x15 6x15"},
}
"""A counter with labels does not exist before the first event, so that event is no increase."""
