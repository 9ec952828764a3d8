"""The stage `instructions`; in a confined process, because it reads hostile text.

Keywords of IFEval may be regular expressions, and one of these can take hours on an ordinary
text. Such a reference is tried before its first response, on an ordinary text and on the letters of
its own keywords, and refused if that takes too long: no response is at fault then.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from assay.core.outcome import Outcome
from assay.core.tools.lru import TenantCache
from assay.core.tools.rewards import between
from assay.core.verdict import Component, Ended, Evidence, StageVerdict
from assay.verifiers.instructions.definition import CONTROL_CPU_SHARE, CONTROL_TRIES, Reward
from assay.verifiers.instructions.expressions import EXPRESSIONS
from assay.verifiers.instructions.rules import follows
from assay.verifiers.port import HandlerContext, Work, resource_limited
from assay.verifiers.text.around import chat
from assay.verifiers.text.bounds import OutOfTime, cpu_time
from assay.verifiers.text.thoughts import answer_span

if TYPE_CHECKING:
    from assay.verifiers.instructions.definition import (
        Instruction,
        InstructionsReference,
        InstructionsSettings,
    )

_REFERENCES_REMEMBERED_MAX: Final = 1_024
_REPEATS: Final = re.compile(r"[*+{]")
"""Without a repetition a keyword takes no longer than its text is long."""
_ESCAPES: Final = re.compile(r"\\.|[^\w]")
_APART: Final = re.compile(r"\A(?:[ \t\r\n]*\n|[ \t]+)")
_ORDINARY: Final = (
    "The quick brown fox jumps over the lazy dog, and no one minds; it is 12 o'clock.\n\n"
    "* First, we look at all of it (twice)!\n* Then - as usual - we write down what we saw.\n"
) * 4
_REPEATED_CHARS: Final = 64
_LETTERS_MAX: Final = 8


class InstructionsHandler:
    """Judges each instruction by itself."""

    def __init__(self, context: HandlerContext) -> None:
        """Import what an instruction may need, before there are requests."""
        import_module("assay.verifiers.text.json_schema")
        self._cpu_s = context.verifiers.match_cpu_s
        self._slow: TenantCache[str, str] = TenantCache(weight_max=_REFERENCES_REMEMBERED_MAX)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """Nothing to release."""

    def _why_slow(self, reference: "InstructionsReference", tenant: str) -> str:
        if not any(True for one in reference.instructions for _ in _expressions(one)):
            return ""
        key = _key(reference)
        slow = self._slow.get(tenant, key)
        if slow is None:
            slow = _slow_instruction(reference.instructions, CONTROL_CPU_SHARE * self._cpu_s)
            self._slow.put(tenant, key, slow)
        return slow

    def _one(self, work: Work) -> Ended:
        reference: InstructionsReference = work.reference
        slow = self._why_slow(reference, work.tenant)
        if slow:
            evidence = Evidence(verdict="invalid_reference", error=slow)
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)
        begun: list[Instruction] = []
        try:
            with cpu_time(self._cpu_s):
                return _judged(work, begun)
        except OutOfTime:
            error = f"{begun[-1].id if begun else ''}: more than {self._cpu_s} s of CPU time"
            evidence = Evidence(verdict="cpu_limit", error=error)
            return resource_limited(settings=work.settings, evidence=evidence)


def _key(reference: "InstructionsReference") -> str:
    return hashlib.sha256(reference.model_dump_json().encode()).hexdigest()


def _slow_instruction(asked: Sequence["Instruction"], cpu_s: float) -> str:
    """Why the instructions cannot judge trivial responses; empty if they can."""
    tried: list[int] = []
    for _ in range(CONTROL_TRIES):
        tried = []
        try:
            with cpu_time(cpu_s):
                for at, one in enumerate(asked):
                    tried.append(at)
                    for response in _controls(one):
                        follows(one.rule, one.arguments, response, loose=False)
        except OutOfTime:
            continue
        return ""
    what = f"more than {cpu_s} s of CPU time on an ordinary text"
    return f"reference.instructions[{tried[-1]}].kwargs: {asked[tried[-1]].id}: {what}"


def _controls(asked: "Instruction") -> Iterator[str]:
    """Texts on which its regular expressions, if it has any, may take long. Each has the plain
    keywords, without which the others are not looked for."""
    words = list(_expressions(asked))
    if not words:
        return
    plain = " ".join(_ESCAPES.sub(" ", word) for word in _words(asked) if word not in words)
    yield f"{plain}\n{_ORDINARY}"
    for word in words:
        letters = _ESCAPES.sub("", word)[:_LETTERS_MAX] or "a"
        for repeated in dict.fromkeys((letters, *letters)):
            yield f"{plain}\n{repeated * (_REPEATED_CHARS // len(repeated))}!"


def _expressions(asked: "Instruction") -> Iterator[str]:
    """Its keywords that repeat something."""
    if asked.id in EXPRESSIONS:
        yield from (word for word in _words(asked) if _REPEATS.search(word))


def _words(asked: "Instruction") -> Iterator[str]:
    return (word for value in asked.kwargs.values() for word in _texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        yield from (one for one in value if isinstance(one, str))


def _answer(response: str) -> str:
    """The response without thoughts, and without the white space that parts it from one."""
    begin, end = answer_span(response)
    told = response[begin:end]
    return _APART.sub("", told, count=1) if begin else told


def _judged(work: Work, begun: list["Instruction"]) -> Ended:
    """The verdict; `begun` gets each instruction whose turn has come."""

    settings: InstructionsSettings = work.settings
    reference: InstructionsReference = work.reference
    asked = reference.instructions
    told = _answer(chat.unended(work.response))
    kept = list[bool]()
    for one in asked:
        begun.append(one)
        kept.append(follows(one.rule, one.arguments, told, loose=settings.loose))
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
