"""The stage `match`: exact text, multiple choice, regular expression, JSON schema.

Runs in a confined process that the worker kills when a pattern or schema takes too long.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NoReturn

from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from assay.core.outcome import Outcome
from assay.core.verdict import TEXT_CHARS_MAX, Ended, Evidence, ResourceUse, StageVerdict
from assay.verifiers.port import HandlerContext, Reference, Work, resource_limited, scored
from assay.verifiers.text.answers import extract
from assay.verifiers.text.definition import (
    ChoiceReference,
    ChoiceSettings,
    ExactReference,
    ExactSettings,
    JsonSchemaReference,
    JsonSchemaSettings,
    RegexFlag,
    RegexReference,
)

_FENCE: Final = re.compile(r"^[ \t]{0,3}```[^\n`]{0,100}\n(.*?)^[ \t]{0,3}```", re.M | re.DOTALL)
_NOT_A_WORD: Final = "(?! (?!or\\b|and\\b)[a-z])"
_INVALID_REFERENCE: Final = "invalid_reference"
_RE_FLAGS: Final = {
    RegexFlag.IGNORECASE: re.IGNORECASE,
    RegexFlag.MULTILINE: re.MULTILINE,
    RegexFlag.DOTALL: re.DOTALL,
}


class MatchHandler:
    """Judges by the type of the reference."""

    def __init__(self, context: HandlerContext) -> None:
        """Take the operator's bound on the length of a response."""
        self._response_chars_max = context.verifiers.response_chars_max

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """Nothing is held."""

    def _one(self, work: Work) -> StageVerdict:
        if len(work.response) > self._response_chars_max:
            error = f"response has {len(work.response)} characters"
            evidence = Evidence(verdict="too_long", error=error)
            return resource_limited(settings=work.settings, evidence=evidence)
        began_s = time.process_time()
        evidence = _JUDGES[type(work.reference)](work)
        use = ResourceUse(cpu_s=time.process_time() - began_s)
        if evidence.verdict == _INVALID_REFERENCE:
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, use=use)
        passed = evidence.verdict == "pass"
        return scored(passed=passed, settings=work.settings, evidence=evidence, use=use)


def _exact(work: Work) -> Evidence:
    settings: ExactSettings = work.settings
    reference: ExactReference = work.reference
    found = extract(work.response, settings.strategies)
    if found is None:
        empty_is_right = "" in {answer.strip() for answer in reference.answers}
        return Evidence(verdict="pass" if empty_is_right else "no_answer")

    def form(text: str) -> str:
        text = " ".join(text.split()) if settings.ignore_space else text.strip()
        return text.casefold() if settings.ignore_case else text

    equal = form(found.text) in {form(answer) for answer in reference.answers}
    return _told(passed=equal, extracted=found.text)


def _choice(work: Work) -> Evidence:
    settings: ChoiceSettings = work.settings
    reference: ChoiceReference = work.reference
    found = extract(work.response, settings.strategies)
    if found is None:
        return Evidence(verdict="no_answer")
    named = {match[0] for match in _labels(reference.choices).finditer(found.text)}
    if len(named) > 1:
        return Evidence(verdict="ambiguous", extracted=found.text[:TEXT_CHARS_MAX])
    return _told(passed=named == {reference.answer}, extracted=found.text)


@lru_cache(maxsize=256)
def _labels(choices: tuple[str, ...]) -> re.Pattern[str]:
    """A label that stands by itself: `B`, `(B)`, `B.`; not the article of `A dog`, nor `I`."""
    ordered = sorted(choices, key=len, reverse=True)
    words = "|".join(
        re.escape(choice) + (_NOT_A_WORD if choice in {"A", "I"} else "") for choice in ordered
    )
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w'-])")


def _regex(work: Work) -> Evidence:
    reference: RegexReference = work.reference
    flags = re.NOFLAG
    for flag in reference.flags:
        flags |= _RE_FLAGS[flag]
    pattern = re.compile(reference.pattern, flags)
    found = pattern.fullmatch(work.response) if reference.whole else pattern.search(work.response)
    return _told(passed=found is not None, extracted=found[0] if found else "")


def _json_schema(work: Work) -> Evidence:
    settings: JsonSchemaSettings = work.settings
    reference: JsonSchemaReference = work.reference
    text = _last_fenced(work.response) if settings.fenced else work.response
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return Evidence(verdict="not_json", error=str(error)[:500], extracted=text[:TEXT_CHARS_MAX])
    # An empty registry: a reference to another document is never fetched.
    validator = Draft202012Validator(reference.json_schema, registry=Registry())
    try:
        validator.validate(value)
    except ValidationError as error:
        return Evidence(
            verdict="wrong_answer",
            error=f"{error.json_path}: {error.message}"[:500],
            extracted=text[:TEXT_CHARS_MAX],
        )
    except (Unresolvable, RecursionError) as error:
        message = f"schema refers to what is not there, or to itself: {error}"
        return Evidence(verdict=_INVALID_REFERENCE, error=message[:500])
    return _told(passed=True, extracted=text)


def _last_fenced(response: str) -> str:
    last = response
    for match in _FENCE.finditer(response):
        last = match[1]
    return last


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _told(*, passed: bool, extracted: str) -> Evidence:
    verdict = "pass" if passed else "wrong_answer"
    return Evidence(verdict=verdict, extracted=extracted[:TEXT_CHARS_MAX])


_JUDGES: Final[dict[type[Reference], Callable[[Work], Evidence]]] = {
    ExactReference: _exact,
    ChoiceReference: _choice,
    RegexReference: _regex,
    JsonSchemaReference: _json_schema,
}
