"""Rubrics: what a judge is asked about a response, and what its answers are worth. Pure.

Two published forms are read: criteria of `verifiers` (name, text, choices, weight, drop) and items
of HealthBench (criterion, points, tags), whose negative points are for what a response must not do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, field_validator, model_validator

from assay.verifiers.port import Reference

CRITERIA_MAX: Final = 64
CHOICES_MAX: Final = 20
TEXT_CHARS_MAX: Final = 10_000
CHOICE_CHARS_MAX: Final = 100
_NUMBER_MAX: Final = 10**15
_MARKS: Final = " .!,;:*_`\"'()[]"
"""Around an answer, these say nothing."""
YES_NO: Final = ("no", "yes")
Choice = Annotated[str, Field(min_length=1, max_length=CHOICE_CHARS_MAX)]
Score = Annotated[float, Field(ge=-1_000, le=1_000)]


def folded(answer: str) -> str:
    """An answer without regard to case and space."""
    return " ".join(answer.split()).casefold()


class Criterion(Reference):
    """One question to the judge, in the form of `verifiers`."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.\- ]+$", max_length=100)
    """In the components of the result."""
    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)
    """The question."""
    choices: tuple[Choice, ...] | dict[Choice, Score] = YES_NO
    """Answers: a list from worst to best in equal steps from 0 to 1, or answer -> score."""
    weight: float = Field(default=1.0, ge=0, le=1_000)
    """With what its score counts."""
    drop: tuple[Choice, ...] = Field(default=(), max_length=CHOICES_MAX)
    """More answers, by which the criterion, or the sample, is not judged."""

    @model_validator(mode="after")
    def _distinct(self) -> "Criterion":
        names = [folded(one) for one in (*self.choices, *self.drop)]
        if not 2 <= len(self.choices) <= CHOICES_MAX:
            raise ValueError(f"choices: 2 to {CHOICES_MAX}")
        if len(set(names)) != len(names):
            raise ValueError("choices and drop: an answer occurs twice")
        return self

    def scores(self) -> Mapping[str, float]:
        """The score of each answer; without given ones, from 0 to 1 in equal steps."""
        if isinstance(self.choices, dict):
            return self.choices
        last = len(self.choices) - 1
        return {choice: at / last for at, choice in enumerate(self.choices)}


class HealthBenchItem(Reference):
    """One item of a rubric in HealthBench's form."""

    criterion: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)
    """What the response does."""
    points: float = Field(ge=-1_000, le=1_000)
    """For a response that does it; negative for what it must not do."""
    tags: tuple[str, ...] = Field(default=(), max_length=64)
    """Not read."""


class Rubric(Reference):
    """At most one of the two forms; neither: one question about the reference answer."""

    criteria: tuple[Criterion, ...] = Field(default=(), max_length=CRITERIA_MAX)
    """Questions in the form of `verifiers`."""
    rubrics: tuple[HealthBenchItem, ...] = Field(default=(), max_length=CRITERIA_MAX)
    """Items in HealthBench's form."""

    @field_validator("criteria", mode="after")
    @classmethod
    def _names(cls, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        names = [one.name for one in criteria]
        if len(set(names)) != len(names):
            raise ValueError("two criteria of one name")
        return criteria

    @model_validator(mode="after")
    def _one_form(self) -> "Rubric":
        if self.criteria and self.rubrics:
            raise ValueError("give criteria or rubrics, not both")
        if self.criteria and not any(one.weight for one in self.criteria):
            raise ValueError("criteria: one needs a weight")
        if self.rubrics and not any(one.points > 0 for one in self.rubrics):
            raise ValueError("rubrics: one needs positive points")
        return self

    @property
    def is_given(self) -> bool:
        """Whether the reference has criteria or rubrics."""
        return bool(self.criteria or self.rubrics)


AGREES: Final = Criterion(
    name="correct",
    text="Does the final answer of the response agree with the reference answer?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as the judge sees it."""

    key: str
    """Its name in the judge's reply."""
    name: str
    text: str
    scores: Mapping[str, float]
    weight: float
    drop: Sequence[str] = ()

    def answers(self) -> Sequence[str]:
        """All answers that may be given."""
        return (*self.scores, *self.drop)


def questions_of(rubric: Rubric) -> list[Question]:
    """The questions of a rubric."""
    if rubric.rubrics:
        return [
            Question(
                key=f"q{at}",
                name=f"item {at}",
                text=f"Does the response meet this criterion? {item.criterion}",
                scores={"no": 0.0, "yes": 1.0},
                weight=item.points,
            )
            for at, item in enumerate(rubric.rubrics)
        ]
    return [
        Question(
            key=f"q{at}",
            name=one.name,
            text=one.text,
            scores=one.scores(),
            weight=one.weight,
            drop=one.drop,
        )
        for at, one in enumerate(rubric.criteria or (AGREES,))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The answers of a judge."""

    score: float | None
    """`None`: no question is left, or the sample is void."""
    values: Mapping[str, float]
    """Name -> score of the questions that count."""
    weights: Mapping[str, float]
    dropped: Sequence[str]


def judged(
    questions: Sequence[Question], answers: Mapping[str, str], *, voids_sample: bool
) -> Judged:
    """What answers are worth: a weighted mean, or, with points, HealthBench's clipped share.

    Args:
        questions: all that were asked.
        answers: key -> one of the question's answers.
        voids_sample: whether a dropped answer voids the sample, or only its question.
    """
    counted = [one for one in questions if answers[one.key] not in one.drop]
    dropped = [one.name for one in questions if answers[one.key] in one.drop]
    values = {one.name: one.scores[answers[one.key]] for one in counted}
    weights = {one.name: one.weight for one in counted}
    positive = math.fsum(weight for weight in weights.values() if weight > 0)
    is_void = bool(dropped) and voids_sample
    score = None
    if positive > 0 and not is_void:
        score = math.fsum(values[name] * weights[name] for name in values) / positive
        if any(weight < 0 for weight in weights.values()):
            score = min(1.0, max(0.0, score))
    return Judged(score=score, values=values, weights=weights, dropped=dropped)


def chosen(question: Question, answer: Any) -> str | None:  # noqa: ANN401 - of a judge
    """Which of the question's answers a judge gave; `None`: none of them.

    Numbers and marks around a word are read: a judge that writes "yes." for one response and "no"
    for the next one, which is the control, would cost the first its reward.
    """
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    if isinstance(answer, int) or (isinstance(answer, float) and answer.is_integer()):
        answer = str(int(answer)) if abs(answer) < _NUMBER_MAX else ""
    if not isinstance(answer, str):
        return None
    exact = {folded(one): one for one in question.answers()}
    if folded(answer) in exact:
        return exact[folded(answer)]
    bare: dict[str, list[str]] = {}
    for one in question.answers():
        bare.setdefault(_without_marks(one), []).append(one)
    said = _without_marks(answer)
    found = bare.get(said, []) if said else []
    return found[0] if len(found) == 1 else None


def _without_marks(answer: str) -> str:
    return folded(answer).strip(_MARKS)
