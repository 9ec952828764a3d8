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
    into = common_pb2.Evidence()
    put_evidence(into, of, error=error)
    return into


def put_evidence(into: common_pb2.Evidence, of: Evidence, *, error: str = "") -> None:
    """As `evidence`, into a message that is empty; most of its fields are, mostly."""
    into.verdict = of.verdict
    into.tests_passed = of.tests_passed
    into.tests_total = of.tests_total
    if of.failed_test is not None:
        into.failed_test = of.failed_test
    if of.stderr_tail:
        into.stderr_tail = of.stderr_tail
    if of.extracted:
        into.extracted = of.extracted
    if of.error or error:
        into.error = of.error or error


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
