"""The stage `shape`; in a confined process, because it reads hostile text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.core.outcome import Outcome
from assay.core.verdict import Component, Ended, Evidence, StageVerdict
from assay.verifiers.port import HandlerContext, Work
from assay.verifiers.shaping.rules import (
    LengthUnit,
    ResponseForm,
    count,
    fault_of_form,
    overlong_penalty,
)

if TYPE_CHECKING:
    from assay.verifiers.shaping.definition import ShapeReference, ShapeSettings

_NO_LENGTH = "reference.length: needed where length_unit is `given`"


class ShapeHandler:
    """Judges form and length."""

    def __init__(self, _context: HandlerContext) -> None:
        """Nothing to set up."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [_one(work) for work in works]

    def close(self) -> None:
        """Nothing to release."""


def _one(work: Work) -> Ended:
    settings: ShapeSettings = work.settings
    reference: ShapeReference = work.reference
    reward, components, verdict, error = 0.0, list[Component](), "pass", ""
    if settings.form is not ResponseForm.NONE:
        error = fault_of_form(work.response, settings.form)
        reward = settings.reward_fail if error else settings.reward_pass
        verdict = "wrong_form" if error else "pass"
        components.append(Component(name="form", value=reward))
    if settings.length_max:
        length = reference.length
        if settings.length_unit is not LengthUnit.GIVEN:
            length = count(work.response, settings.length_unit)
        if length is None:
            evidence = Evidence(verdict="invalid_reference", error=_NO_LENGTH)
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)
        penalty = overlong_penalty(length, settings.length_max, settings.length_cache)
        reward += settings.length_weight * penalty
        components.append(Component(name="length", value=penalty, weight=settings.length_weight))
        if penalty < 0:
            error = f"{error}; length {length}".removeprefix("; ")
    return Ended(
        outcome=Outcome.SCORED,
        reward=reward,
        evidence=Evidence(verdict=verdict, error=error),
        components=tuple(components),
    )
