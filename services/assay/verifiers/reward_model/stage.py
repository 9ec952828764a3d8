"""The stage `reward_model.score`: one call for all responses to one prompt that wait together.

The server forms its own batches of calls; responses of one question share a call, so that it can
share their prompt. Scores of a served model may change with it: results are not rescorable.
"""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from assay.core.outcome import Outcome
from assay.core.tools.rewards import weighted_sum
from assay.core.verdict import Component, Ended, Evidence, StageVerdict
from assay.verifiers.code.scoring import bounded_text
from assay.verifiers.judge.asking import TRIVIAL, UNBLAMED, Judges, question_of, shown
from assay.verifiers.judge.provider import ReplyBroken
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.reward_model.calls import UnreadableScores, body_of, scores_of
from assay.verifiers.reward_model.definition import (
    TEXT_CHARS_MAX,
    RewardModelReference,
    RewardModelSettings,
)
from assay.verifiers.total import total

if TYPE_CHECKING:
    from assay.config.settings import VerifierSettings

_CALLS_MAX: Final = 16


class RewardModelHandler:
    """Asks reward models."""

    def __init__(self, context: HandlerContext) -> None:
        self._judges = Judges(context)
        self._settings: VerifierSettings = context.verifiers
        self._pool = ThreadPoolExecutor(max_workers=_CALLS_MAX, thread_name_prefix="reward-model")

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Score all; responses to the same question in one call."""
        calls: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for at, work in enumerate(works):
            settings: RewardModelSettings = work.settings
            reference: RewardModelReference = work.reference
            question = shown(question_of(work, reference.question))
            calls[(work.tenant, settings.model_dump_json(), question)].append(at)
        verdicts: dict[int, StageVerdict] = {}
        scored = self._pool.map(
            lambda call: self._call(call[0][2], [works[at] for at in call[1]]), calls.items()
        )
        for (_, places), found in zip(calls.items(), scored, strict=True):
            verdicts |= zip(places, found, strict=True)
        return [verdicts[at] for at in range(len(works))]

    def close(self) -> None:
        """Wait for no call."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, question: str, works: Sequence[Work]) -> list[Ended]:
        settings: RewardModelSettings = works[0].settings
        fitting = [one for one in works if len(one.response) <= TEXT_CHARS_MAX]
        if len(works) == 1 and fitting:  # after a call that failed, each is judged alone
            return [self._alone(question, works[0])]
        scores = iter(self._scores(question, fitting) if fitting else [])
        return [
            _ended(settings, next(scores))
            if len(one.response) <= TEXT_CHARS_MAX
            else resource_limited(settings=settings, evidence=Evidence(verdict="too_long"))
            for one in works
        ]

    def _alone(self, question: str, work: Work) -> Ended:
        """A response that the server refuses, while it scores a trivial one, is at fault."""
        settings: RewardModelSettings = work.settings
        return total(
            lambda: _ended(settings, self._scores(question, [work])[0]),
            control=lambda: self._scores(question, [replace(work, response=TRIVIAL)]),
            at_fault=lambda error: replace(
                scored(
                    passed=False,
                    settings=settings,
                    evidence=Evidence(verdict="broke_the_run", error=bounded_text(str(error))),
                ),
                rescorable=False,
            ),
            unblamed=UNBLAMED,
        )

    def _scores(self, question: str, works: Sequence[Work]) -> list[float]:
        """Scores of the responses.

        Raises:
            JudgeError: the server gives none.
        """
        settings: RewardModelSettings = works[0].settings
        provider = self._judges.provider(settings.provider)
        model = self._settings.judges[settings.provider].model
        responses = [shown(one.response) for one in works]
        body = body_of(settings, model, question, responses)
        tokens = sum(map(len, responses)) // 4 + len(question) // 4

        def read(reply: object) -> list[float]:
            try:
                return scores_of(settings, reply, len(responses))
            except UnreadableScores as error:
                raise ReplyBroken(f"{settings.provider}: {error}") from None

        return provider.post(f"/{settings.route.value}", body, works[0].tenant, tokens, read)


def _ended(settings: RewardModelSettings, score: float) -> Ended:
    return Ended(
        outcome=Outcome.SCORED,
        reward=weighted_sum([(settings.scale, score), (1.0, settings.offset)]),
        evidence=Evidence(verdict="scored"),
        components=(Component(name="score", value=score),),
        rescorable=False,
    )
