"""The stage `math.measure`: judges a response as `math` does and measures its length.

What ends otherwise than by a judgement (a limit, an unsound reference) ends here, and is not part
of the comparison.
"""

from collections.abc import Sequence

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, HandedOver, StageVerdict
from assay.verifiers.fusion import FusedHandler
from assay.verifiers.math.extract import ExtractHandler
from assay.verifiers.math.verify import VerifyHandler
from assay.verifiers.port import HandlerContext, Work
from assay.verifiers.relative.measured import Measured, pack_measured


class MeasureHandler:
    """Both stages of `math`, one after the other."""

    def __init__(self, context: HandlerContext) -> None:
        """Warm up the handlers of `math`."""
        self._math = FusedHandler((ExtractHandler(context), VerifyHandler(context)))

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge and measure each response."""
        verdicts = self._math.run(works)
        return [_handed_over(*pair) for pair in zip(verdicts, works, strict=True)]

    def trusted(self, work: Work) -> Work:
        """See `TrustingHandler.trusted`."""
        return self._math.trusted(work)

    def close(self) -> None:
        """Stop watching imports."""
        self._math.close()


def _handed_over(verdict: StageVerdict, work: Work) -> StageVerdict:
    if not isinstance(verdict, Ended) or verdict.outcome is not Outcome.SCORED:
        return verdict
    measured = Measured(
        passed=verdict.reward == work.settings.reward_pass,
        length=len(work.response),
        evidence=verdict.evidence,
    )
    return HandedOver(artifact=pack_measured(measured), use=verdict.use)
