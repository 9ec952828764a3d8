"""The stage `match`: exact text, multiple choice, regular expression, JSON schema.

Runs in a confined process that the worker kills when a pattern or schema takes too long. Every
response gets a verdict. Each reference is checked once per tenant, when it is first seen. One that
cannot judge (out of CPU time or an exception for a trivial response) is refused, and so is one that
fails its own controls, unless the setting `reference_audit` says otherwise.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from assay.core.outcome import Outcome
from assay.core.tools.lru import TenantCache
from assay.core.verdict import TEXT_CHARS_MAX, Ended, Evidence, ResourceUse, StageVerdict
from assay.verifiers.options import Strategy
from assay.verifiers.port import (
    Control,
    HandlerContext,
    PipelineSettings,
    Reference,
    ReferenceAudit,
    Work,
    resource_limited,
    scored,
)
from assay.verifiers.text import denials
from assay.verifiers.text.abroad.english import announced_in_english, in_english
from assay.verifiers.text.announcements import corrections
from assay.verifiers.text.answers import extract
from assay.verifiers.text.around import layout, marks, remarks, unreal, withdrawn
from assay.verifiers.text.bounds import OutOfTime, cpu_time
from assay.verifiers.text.choice import read_choice
from assay.verifiers.text.definition import (
    CONTROL_CPU_SHARE,
    CONTROL_TRIES,
    CONTROLS,
    ChoiceReference,
    ChoiceSettings,
    ExactReference,
    ExactSettings,
    JsonSchemaReference,
    JsonSchemaSettings,
    RegexFlag,
    RegexReference,
    TextReference,
)
from assay.verifiers.text.json_schema import LIMIT_VERDICTS, fault_of, judge_is_json, judge_json
from assay.verifiers.text.json_text import fenced, told, unwrapped
from assay.verifiers.text.thoughts import answer_part, end_of

_INVALID_REFERENCE: Final = "invalid_reference"
_CPU_LIMIT: Final = "cpu_limit"
_OUT_OF_TIME: Final = "out of CPU time"
_REFERENCES_REMEMBERED_MAX: Final = 1_024
_RE_FLAGS: Final = {
    RegexFlag.IGNORECASE: re.IGNORECASE,
    RegexFlag.MULTILINE: re.MULTILINE,
    RegexFlag.DOTALL: re.DOTALL,
}
_TRIVIAL: Final = ("", "a", "0", " \n")
"""Responses that any pattern must decide in time."""


class MatchHandler:
    """Selects the judge by the type of the reference."""

    def __init__(self, context: HandlerContext) -> None:
        """Read the operator's bounds."""
        self._response_chars_max = context.verifiers.response_chars_max
        self._cpu_s = context.verifiers.match_cpu_s
        self._control_cpu_s = CONTROL_CPU_SHARE * context.verifiers.match_cpu_s
        self._broken: TenantCache[tuple[str, str], str] = TenantCache(
            weight_max=_REFERENCES_REMEMBERED_MAX
        )
        self._failed: TenantCache[tuple[str, str, str], str] = TenantCache(
            weight_max=_REFERENCES_REMEMBERED_MAX
        )

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [self._one(work) for work in works]

    def fault(self, work: Work) -> str:
        """See `FaultFindingHandler.fault`."""
        return "" if self._cannot_judge(work) else self._failed_control(work)

    def close(self) -> None:
        """Nothing to release."""

    def _one(self, work: Work) -> StageVerdict:
        read = work.response
        if len(read) > self._response_chars_max:
            read = _part_read(work, self._response_chars_max)
        if len(read) > self._response_chars_max:
            error = f"response has {len(read)} characters"
            evidence = Evidence(verdict="too_long", error=error)
            return resource_limited(settings=work.settings, evidence=evidence)
        if not isinstance(work.reference, JsonSchemaReference):  # its judge asks what stands before
            work = replace(work, response=read)
        began_s = time.process_time()
        broken, failed = self._faults_of(work)
        if broken or (failed and work.settings.reference_audit is ReferenceAudit.REFUSE):
            evidence = Evidence(verdict=_INVALID_REFERENCE, error=broken or failed)
            use = ResourceUse(cpu_s=time.process_time() - began_s)
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, use=use)
        evidence = self._judged(work)
        if failed:
            evidence = replace(evidence, error=f"{failed}; {evidence.error}".rstrip("; "))
        use = ResourceUse(cpu_s=time.process_time() - began_s)
        if evidence.verdict in (_CPU_LIMIT, *LIMIT_VERDICTS):
            return resource_limited(settings=work.settings, evidence=evidence, use=use)
        passed = evidence.verdict == "pass"
        return scored(passed=passed, settings=work.settings, evidence=evidence, use=use)

    def _judged(self, work: Work) -> Evidence:
        judge = _JUDGES[type(work.reference)]
        if isinstance(work.reference, JsonSchemaReference):
            return judge(work)  # on a stack of its own, where no signal ends it: the worker does
        try:
            with cpu_time(self._cpu_s):
                return judge(work)
        except OutOfTime:
            return Evidence(verdict=_CPU_LIMIT, error=f"more than {self._cpu_s} s of CPU time")

    # -- references ----------------------------------------------------------------------------
    def _faults_of(self, work: Work) -> tuple[str, str]:
        """Why the reference cannot judge, and which of its controls fail; empty if neither."""
        settings: PipelineSettings = work.settings
        broken = self._cannot_judge(work)
        if broken or settings.reference_audit is ReferenceAudit.OFF:
            return broken, ""
        if work.fault is not None:
            return "", work.fault
        reference: TextReference = work.reference
        key = (type(reference).__name__, reference.digest, settings.model_dump_json())
        failed = self._failed.get(work.tenant, key)
        if failed is None:
            failed = self._failed_control(work)
            self._failed.put(work.tenant, key, failed)
        return "", failed

    def _cannot_judge(self, work: Work) -> str:
        """Asked in each process: it also brings the reference into the caches of its libraries."""
        reference: TextReference = work.reference
        key = (type(reference).__name__, reference.digest)
        broken = self._broken.get(work.tenant, key)
        if broken is None:
            broken = _cannot_judge(reference, self._control_cpu_s)
            self._broken.put(work.tenant, key, broken)
        return broken

    def _failed_control(self, work: Work) -> str:
        controls: Sequence[Control] = CONTROLS[type(work.reference)](work.reference, work.settings)
        judge = _JUDGES[type(work.reference)]
        for control in controls:
            tried = partial(judge, replace(work, response=control.response))
            verdict = _in_time(tried, self._control_cpu_s / len(controls)).verdict
            if (verdict == "pass") is not control.passes:
                wanted = "pass" if control.passes else "not pass"
                return f"reference: its control {control.name!r} has to {wanted}: {verdict}"
        return ""


def _in_time(control: Callable[[], Evidence], cpu_s: float) -> Evidence:
    """What a control says within `cpu_s`, in the first or a later try."""
    for _ in range(CONTROL_TRIES):
        try:
            with cpu_time(cpu_s):
                return control()
        except OutOfTime:
            continue
    return Evidence(verdict=_OUT_OF_TIME)


def _cannot_judge(reference: Reference, cpu_s: float) -> str:
    if isinstance(reference, JsonSchemaReference):
        tried = _in_time(lambda: Evidence(verdict="", error=fault_of(reference.judge)), cpu_s)
        slow = f"reference.schema: more than {cpu_s} s of CPU time for a trivial value"
        return slow if tried.verdict == _OUT_OF_TIME else tried.error
    if isinstance(reference, RegexReference):
        try:
            tried = _in_time(lambda: _tried_on_trivial(reference), cpu_s)
        except (re.error, RecursionError, OverflowError, MemoryError) as error:
            return f"reference.pattern: cannot judge a trivial response: {error!r}"
        if tried.verdict == _OUT_OF_TIME:
            return f"reference.pattern: more than {cpu_s} s of CPU time for a trivial response"
    return ""


def _tried_on_trivial(reference: RegexReference) -> Evidence:
    for text in _TRIVIAL:
        _matched(reference, text)
    return Evidence(verdict="pass")


def _part_read(work: Work, chars_max: int) -> str:
    """The part of a long response that its judge reads: without thoughts, however long they are,
    and the end alone where an answer is looked for."""
    if isinstance(work.reference, RegexReference):
        return work.response
    if isinstance(work.reference, JsonSchemaReference):
        return told(work.response) if work.settings.fenced else work.response
    whole = work.settings.strategies == (Strategy.WHOLE,)
    if whole and isinstance(work.reference, ExactReference):
        return work.response
    return end_of(answer_part(work.response), chars_max)


# -- judges --------------------------------------------------------------------------------------
def _exact(work: Work) -> Evidence:
    settings: ExactSettings = work.settings
    reference: ExactReference = work.reference
    is_whole = settings.strategies == (Strategy.WHOLE,)
    said = work.response if is_whole else _plain(work.response, reference.answers)
    if said is None:
        return Evidence(verdict="no_answer", error=withdrawn.TAKEN_BACK)
    found = extract(said, settings.strategies)
    if found is None:
        empty_is_right = "" in {answer.strip() for answer in reference.answers}
        return Evidence(verdict="pass" if empty_is_right else "no_answer")

    def form(text: str) -> str:
        text = " ".join(text.split()) if settings.ignore_space else text.strip()
        return text.casefold() if settings.ignore_case else text

    right = {form(answer) for answer in reference.answers}
    if not is_whole:
        right |= {form(_as_found(answer, said)) for answer in reference.answers}

    # An answer with a remark of its own is compared with it.
    is_plain = not any(True for answer in reference.answers for _ in remarks.without(answer))

    def is_right(text: str) -> bool:
        if is_whole:
            return form(text) in right
        tried = [*marks.layers(text)]
        if is_plain:
            tried += [
                bare
                for one in tried
                for said in remarks.without(one)
                for bare in marks.layers(said)
            ]
        return any(form(one) in right for one in tried)

    corrects = not is_whole and not any(map(corrections.words_instead, reference.answers))
    instead = corrections.words_instead(said) if corrects else None
    if instead is not None and not is_right(found.text + instead):
        return _told(passed=is_right(instead), extracted=instead)
    again = bool(found.parts) and all(map(is_right, found.parts))
    return _told(passed=again or is_right(found.text), extracted=found.text)


def _plain(response: str, answers: Sequence[str]) -> str | None:
    """The response without thoughts, layout and what is struck through; `None`: it takes its answer
    back. Where an answer has what counts as layout elsewhere, nothing but thoughts is left out."""
    said = answer_part(response)
    alone = [f"Answer:\n{answer.strip()}" for answer in answers]
    if any(_without_layout(one) != one or withdrawn.is_withdrawn(one) for one in alone):
        return said
    said = _without_layout(said)
    return None if withdrawn.is_withdrawn(said) else said


def _without_layout(text: str) -> str:
    said = unreal.without(denials.without_struck(layout.plain(text)))
    return announced_in_english(in_english(said))


def _as_found(answer: str, said: str) -> str:
    """The answer without the marks that what finds it takes away, if these stand in `said`."""
    ended = answer.strip().removesuffix(".")
    bare = ended.strip("*_ ")
    is_marked = bool(bare) and said.rfind(answer.strip()) + answer.strip().find(bare) == said.rfind(
        bare
    )
    return bare if is_marked and answer.strip() in said else ended


def _choice(work: Work) -> Evidence:
    settings: ChoiceSettings = work.settings
    reference: ChoiceReference = work.reference
    reading = read_choice(work.response, reference.choices, settings.strategies)
    if reading.text is None:
        return Evidence(verdict="no_answer")
    if len(reading.labels) > 1:
        named = ", ".join(sorted(reading.labels))
        extracted = reading.text.strip()[:TEXT_CHARS_MAX]
        return Evidence(verdict="ambiguous", extracted=extracted, error=f"names {named}")
    passed = reading.labels == {reference.answer}
    return _told(passed=passed, extracted=reading.text.strip())


def _regex(work: Work) -> Evidence:
    reference: RegexReference = work.reference
    found = _matched(reference, work.response)
    if found is not None and reference.is_json:
        json = judge_is_json(unwrapped(work.response))
        if json.verdict != "pass":
            return json
    return _told(passed=found is not None, extracted=found[0] if found else "")


def _matched(reference: RegexReference, text: str) -> re.Match[str] | None:
    flags = re.NOFLAG
    for flag in reference.flags:
        flags |= _RE_FLAGS[flag]
    pattern = re.compile(reference.pattern, flags)
    return pattern.fullmatch(text) if reference.whole else pattern.search(text)


def _json_schema(work: Work) -> Evidence:
    settings: JsonSchemaSettings = work.settings
    reference: JsonSchemaReference = work.reference
    text = fenced(work.response) if settings.fenced else work.response
    return judge_json(text, reference.judge)


def _told(*, passed: bool, extracted: str) -> Evidence:
    verdict = "pass" if passed else "wrong_answer"
    return Evidence(verdict=verdict, extracted=extracted[:TEXT_CHARS_MAX])


_JUDGES: Final[dict[type[Reference], Callable[[Work], Evidence]]] = {
    ExactReference: _exact,
    ChoiceReference: _choice,
    RegexReference: _regex,
    JsonSchemaReference: _json_schema,
}
