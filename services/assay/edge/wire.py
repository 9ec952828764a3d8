"""Conversion to the messages that more than one service sends: outcome, evidence, group summary."""

from typing import Final

from assay.core.group import GroupSummary
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.v1 import common_pb2, reward_pb2

OUTCOME: Final = {
    outcome: common_pb2.Outcome.Value(f"OUTCOME_{outcome.value}") for outcome in Outcome
}


def evidence(of: Evidence, *, error: str = "") -> common_pb2.Evidence:
    """The evidence of a reward; `error` stands where the evidence itself has none."""
    return common_pb2.Evidence(
        verdict=of.verdict,
        tests_passed=of.tests_passed,
        tests_total=of.tests_total,
        failed_test=of.failed_test,
        stderr_tail=of.stderr_tail,
        extracted=of.extracted,
        error=of.error or error,
    )


def group_summary(summary: GroupSummary) -> reward_pb2.GroupSummary:
    """The rewards of a group and their mean and standard deviation."""
    return reward_pb2.GroupSummary(
        group_id=summary.group_id,
        size=summary.size,
        rewards=summary.rewards,
        mean=summary.mean,
        std=summary.std,
        degenerate=summary.degenerate,
    )
