"""The stage `instructions`; in a confined process, because it reads hostile text."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from assay.core.outcome import Outcome
from assay.core.tools.rewards import between
from assay.core.verdict import Component, Ended, Evidence, StageVerdict
from assay.verifiers.instructions.definition import Reward
from assay.verifiers.instructions.rules import follows
from assay.verifiers.port import HandlerContext, Work
from assay.verifiers.text.around import chat
from assay.verifiers.text.thoughts import answer_part

if TYPE_CHECKING:
    from assay.verifiers.instructions.definition import InstructionsReference, InstructionsSettings


class InstructionsHandler:
    """Judges each instruction by itself."""

    def __init__(self, _context: HandlerContext) -> None:
        """Import what an instruction may need, before there are requests."""
        import_module("assay.verifiers.text.json_schema")

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [_one(work) for work in works]

    def close(self) -> None:
        """Nothing to release."""


def _one(work: Work) -> Ended:
    settings: InstructionsSettings = work.settings
    reference: InstructionsReference = work.reference
    asked = reference.instructions
    told = answer_part(chat.unended(work.response))
    kept = [follows(one.rule, one.arguments, told, loose=settings.loose) for one in asked]
    share = float(all(kept)) if settings.reward is Reward.ALL else sum(kept) / len(kept)
    failed = [one.id for one, followed in zip(asked, kept, strict=True) if not followed]
    weight = 1 / len(asked)
    return Ended(
        outcome=Outcome.SCORED,
        reward=between(settings.reward_fail, settings.reward_pass, share),
        evidence=Evidence(
            verdict="wrong_answer" if failed else "pass",
            error=f"not followed: {', '.join(failed)}"[:1_000] if failed else "",
        ),
        components=tuple(
            Component(name=f"{at}.{one.id}", value=float(followed), weight=weight)
            for at, (one, followed) in enumerate(zip(asked, kept, strict=True))
        ),
    )
