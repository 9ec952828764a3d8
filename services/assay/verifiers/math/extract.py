"""The stage `extract`: the answer out of the response, in time linear in its length."""

import re
from collections.abc import Sequence
from typing import Final

from assay.core.verdict import Ended, Evidence, HandedOver, StageVerdict
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.text.answers import Extracted, extract

_PLAIN_WORDS: Final = re.compile(r"^[^\\{}$]*[A-Za-z]{3}[^\\{}$]*$")


class ExtractHandler:
    """Hands the answer on as UTF-8, or ends the request where there is none."""

    def __init__(self, context: HandlerContext) -> None:
        """Take the operator's bound on the length of a response."""
        self._response_chars_max = context.verifiers.response_chars_max

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Extract from each response by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """Nothing is held."""

    def _one(self, work: Work) -> StageVerdict:
        settings: MathSettings = work.settings
        if len(work.response) > self._response_chars_max:
            return _too_long(settings, f"response has {len(work.response)} characters")
        found = extract(work.response, settings.strategies)
        if found is None:
            return scored(passed=False, settings=settings, evidence=Evidence(verdict="no_answer"))
        if len(found.text) > settings.answer_chars_max and found.strategy != "whole":
            return _too_long(settings, f"answer has {len(found.text)} characters")
        return HandedOver(artifact=_as_latex(found).encode("utf-8", "replace"))


def _as_latex(found: Extracted) -> str:
    """A boxed answer stays boxed, so that it is read as LaTeX; one in plain words is not LaTeX."""
    if not found.boxes or (len(found.boxes) == 1 and _PLAIN_WORDS.search(found.text)):
        return found.text
    boxes = ",".join(f"\\boxed{{{box}}}" for box in found.boxes)
    return f"${boxes}$"


def _too_long(settings: MathSettings, error: str) -> Ended:
    return resource_limited(settings=settings, evidence=Evidence(verdict="too_long", error=error))
