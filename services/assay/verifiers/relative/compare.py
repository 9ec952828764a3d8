"""The stage `relative.length`: compares the lengths of a group's responses."""

from collections.abc import Sequence
from dataclasses import replace

from assay.core.outcome import Outcome
from assay.core.tools.rewards import weighted_sum
from assay.core.verdict import Component, Ended, Evidence, StageVerdict
from assay.verifiers.port import GroupWork, HandlerContext, Work
from assay.verifiers.relative.measured import Measured, pack_measured, unpack_measured
from assay.verifiers.relative.shaping import length_terms


class CompareHandler:
    """Judges whole groups."""

    def __init__(self, _context: HandlerContext) -> None:
        """Nothing to set up."""

    def run_groups(self, groups: Sequence[GroupWork]) -> Sequence[Sequence[StageVerdict]]:
        """Reward right or wrong, and length beside the group's others."""
        return [_compared(group) for group in groups]

    def trusted(self, work: Work) -> Work:
        """A wrong and empty response, measured."""
        nothing = Measured(passed=False, length=0, evidence=Evidence(verdict="wrong_answer"))
        return replace(work, response="", messages=(), handover=pack_measured(nothing))

    def close(self) -> None:
        """Nothing to release."""


def _compared(group: GroupWork) -> list[StageVerdict]:
    settings = group.works[0].settings
    measured = [unpack_measured(work.handover) for work in group.works]
    terms = length_terms(
        [one.length for one in measured],
        [one.passed for one in measured],
        settings.length_spread,
    )
    verdicts: list[StageVerdict] = []
    for one, term in zip(measured, terms, strict=True):
        own = settings.reward_pass if one.passed else settings.reward_fail
        components = (
            Component(name="right", value=own),
            Component(name="length", value=term, weight=settings.length_weight),
        )
        verdicts.append(
            Ended(
                outcome=Outcome.SCORED,
                reward=weighted_sum([(1.0, own), (settings.length_weight, term)]),
                evidence=one.evidence,
                components=components,
                rescorable=False,  # the others of its group decided too
            )
        )
    return verdicts
