"""The stage `judge.rubric`: many calls at a time, one verdict per response.

A call that fails, or replies that cannot be read, fail the attempt of that response alone, unless
the judge can judge a trivial response at that time: then this one keeps it from a verdict, and is
wrong. What the judge says is not reproducible, so its results are not rescorable.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from assay.core.outcome import Outcome
from assay.core.tools.rewards import between
from assay.core.verdict import COMPONENTS_MAX, Component, Ended, Evidence, StageVerdict
from assay.verifiers.code.scoring import bounded_text
from assay.verifiers.judge.asking import TRIVIAL, UNBLAMED, Judges, Manner, question_of, shown
from assay.verifiers.judge.conversation import RESPONSE_CHARS_MAX, read_answers, rubric_messages
from assay.verifiers.judge.definition import BATCH_MAX, JudgeReference, JudgeSettings, OnDrop
from assay.verifiers.judge.rubric import Judged, judged, questions_of
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.total import total

_CALLS_MAX: Final = 2 * BATCH_MAX


class JudgeHandler:
    """Judges responses by rubrics."""

    def __init__(self, context: HandlerContext) -> None:
        self._judges = Judges(context)
        self._pool = ThreadPoolExecutor(max_workers=_CALLS_MAX, thread_name_prefix="judge")

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge all at once; if one fails, the others of the call are judged again alone."""
        return list(self._pool.map(self._one, works))

    def close(self) -> None:
        """Wait for no call."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _one(self, work: Work) -> Ended:
        settings: JudgeSettings = work.settings
        if len(work.response) > RESPONSE_CHARS_MAX:
            evidence = Evidence(verdict="too_long", error=f"{len(work.response)} characters")
            return resource_limited(settings=settings, evidence=evidence)
        return total(
            lambda: self._voted(work),
            control=lambda: self._vote(replace(work, response=TRIVIAL)),
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

    def _voted(self, work: Work) -> Ended:
        settings: JudgeSettings = work.settings
        found = [self._vote(work) for _ in range(settings.votes)]
        scores = [one.score for one in found if one.score is not None]
        if not scores:
            names = ", ".join(found[0].dropped)
            evidence = Evidence(
                verdict="void", error=bounded_text(f"dropped by the judge: {names}")
            )
            return Ended(
                outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, rescorable=False
            )
        score = sum(scores) / len(scores)
        reward = between(settings.reward_fail, settings.reward_pass, score)
        return Ended(
            outcome=Outcome.SCORED,
            reward=reward,
            evidence=Evidence(verdict="scored", error=_dropped(found)),
            components=_components(found),
            rescorable=False,
        )

    def _vote(self, work: Work) -> Judged:
        settings: JudgeSettings = work.settings
        reference: JudgeReference = work.reference
        questions = questions_of(reference if reference.is_given else settings.rubric)
        manner = Manner(
            temperature=settings.temperature,
            tokens_max=settings.tokens_max,
            json_mode=settings.json_mode,
            readings_max=settings.readings_max,
        )
        answers = self._judges.ask(
            settings.provider,
            work.tenant,
            manner,
            lambda nonce: rubric_messages(
                question=shown(question_of(work, reference.question)),
                answer=reference.answer,
                response=shown(work.response),
                questions=questions,
                nonce=nonce,
                instructions=settings.instructions,
            ),
            lambda reply, nonce: read_answers(reply, questions, nonce),
        )
        return judged(questions, answers, voids_sample=settings.on_drop is OnDrop.SAMPLE)


def _dropped(found: Sequence[Judged]) -> str:
    names = {name for one in found for name in one.dropped}
    return bounded_text(f"dropped by the judge: {', '.join(sorted(names))}") if names else ""


def _components(found: Sequence[Judged]) -> tuple[Component, ...]:
    """Means over the votes."""
    names = list(dict.fromkeys(name for one in found for name in one.values))[:COMPONENTS_MAX]
    parts = []
    for name in names:
        values = [one.values[name] for one in found if name in one.values]
        weight = next(one.weights[name] for one in found if name in one.weights)
        parts.append(Component(name=name, value=sum(values) / len(values), weight=weight))
    return tuple(parts)
