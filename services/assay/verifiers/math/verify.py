"""The stage `math.verify`: parses and compares, in a warm process that the worker may kill.

A timer of CPU time bounds a comparison (`judge_in_time`): an answer that cannot be told equal by
then is not equal. The worker counts CPU time from outside too, for steps that no timer interrupts,
and ends those requests as RESOURCE_LIMIT. The alarm of math-verify, which counts the time that
others use, is off. Invariants: every response ends with a reward; an exception that it causes is a
wrong answer. A reference that fails its own controls is refused
(`assay.verifiers.math.audit`). The process is confined once warm; all modules that a comparison may
import are loaded before that.
"""

import hashlib
import logging
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final, NamedTuple

from assay.core.outcome import Outcome
from assay.core.tools.lru import TenantCache
from assay.core.verdict import (
    SECOND_JUDGE,
    TEXT_CHARS_MAX,
    Ended,
    Evidence,
    ResourceUse,
    StageVerdict,
)
from assay.verifiers.math import algebra, memory, notation, numeric
from assay.verifiers.math.audit import Audits
from assay.verifiers.math.definition import ANSWER_CPU_S_MAX, MathReference, MathSettings
from assay.verifiers.math.equality import binomials, families, residues
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.math.extract import pack, unpack
from assay.verifiers.math.grammar import Prose
from assay.verifiers.math.lexicon import typefaces
from assay.verifiers.math.reading import (
    Read,
    forget,
    is_label,
    read_answer,
    read_gold,
    read_labelled,
)
from assay.verifiers.math.warm import modules, prediction
from assay.verifiers.math.warm.pairs import FORMS, PAIRS
from assay.verifiers.options import Strategy
from assay.verifiers.port import HandlerContext, ReferenceAudit, Work, scored
from assay.verifiers.text.answers import Extracted, is_decimal, is_sentence_with
from assay.verifiers.text.bounds import OutOfTime, cpu_time
from assay.verifiers.total import HostAtFault

_log = logging.getLogger(__name__)


_SENTENCES: Final = frozenset({Strategy.ANSWER_IS, Strategy.ANSWER_COLON, Strategy.TAIL})
"""Strategies whose answer may end with an exclamation mark that is not a factorial, and with the
marks of bold type before it."""


_DOTS_AT_END: Final = re.compile(r"(?:\.{3}|\u2026|\\[lc]?dots)[\s$.})\]]{0,9}$")
_REMEMBERED_MAX: Final = 2_048
_REPEATED_CHARS_MAX: Final = 400
"""Of the answers together. Longer ones are judged each time: hardly two responses give the same."""


UNDECIDED: Final = f"not decided within {ANSWER_CPU_S_MAX:g} s of CPU time"


class Judged(NamedTuple):
    """The result of the comparison."""

    passed: bool | None
    """Whether the answer passes; `None` if no reference answer can be read."""
    answer: Read
    gold: Read | None
    """The gold answer that it equals, otherwise the first."""
    error: str


def judge(golds: Sequence[str], text: str, settings: MathSettings) -> Judged:
    """Compare one extracted answer with the golds; total, except for out of memory."""
    answer = read_answer(text, settings.option_strings)
    peeled = notation.peel(text)
    labelled = None if settings.option_strings else read_labelled(text)
    told = (answer, labelled)
    read = [(said, read_gold(said, settings.option_strings)) for said in golds]
    known = [(said, gold) for said, gold in read if gold is not None]
    for said, gold in known:
        if notation.peel(said) == peeled and _goes_on(said) == _goes_on(text):
            # the same words, whatever they mean
            return Judged(passed=True, answer=answer, gold=gold, error="")
    error = ""
    for said, gold in known:
        passed, failed = _equal(gold, answer, settings)
        if not passed and labelled is not None:
            label, rest = labelled
            passed, failed = _equal(gold, label if is_label(gold) else rest, settings)
        if not passed and not settings.option_strings:
            passed = (
                _same_choice(said, told, settings)
                or _same_binomial(said, text, settings)
                or _same_vector(said, text, settings)
            )
        error = error or failed
        if passed:
            return Judged(passed=True, answer=answer, gold=gold, error=error)
    first = known[0][1] if known else None
    return Judged(passed=False if known else None, answer=answer, gold=first, error=error)


def judge_in_time(golds: Sequence[str], text: str, settings: MathSettings) -> Judged:
    """As `judge`, within `ANSWER_CPU_S_MAX`; what is not decided by then is not equal."""
    try:
        with cpu_time(ANSWER_CPU_S_MAX):
            return judge(golds, text, settings)
    except OutOfTime:
        algebra.forget()
        return Judged(passed=False, answer=Read(text, Prose(text)), gold=None, error=UNDECIDED)


Judge = Callable[[Sequence[str], str, MathSettings], Judged]


class LateImports:
    """Records every import of a module that is not loaded; changes nothing."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Record `name` and leave the search to the other finders."""
        if name.partition(".")[0] in modules.PACKAGES:
            self._names.add(name)
        return None

    def failed(self) -> list[str]:
        """Names searched since the last `take_failed` that are still not loaded."""
        return sorted(name for name in self._names if name not in sys.modules)

    def take_failed(self) -> list[str]:
        """As `failed`, and forget them."""
        failed = self.failed()
        self._names.clear()
        return failed


class VerifyHandler:
    """Compares answers with references, gold first: the comparison is not symmetric."""

    def __init__(self, context: HandlerContext | None) -> None:
        """Load and exercise everything that a comparison may need.

        Args:
            context: where what that has computed is kept; `None`: it is computed again.
        """
        logging.getLogger("math_verify").setLevel(logging.ERROR)
        modules.import_all()
        settings = MathSettings()
        computed = None if context is None else context.computed
        with modules.without_optional(), prediction.kept(computed) as learnt:
            for gold, answer in PAIRS if learnt else (*PAIRS, *FORMS):
                judge((gold,), answer, settings)
        self._judged_before: TenantCache[tuple[tuple[str, ...], str, MathSettings], Judged] = (
            TenantCache(weight_max=_REMEMBERED_MAX)
        )
        self._audits = Audits(self._passes)
        self._late_imports = LateImports()
        sys.meta_path.insert(0, self._late_imports)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Compare each answer by itself."""
        with modules.without_optional():
            return [self._one(work) for work in works]

    def fault(self, work: Work) -> str:
        """See `FaultFindingHandler.fault`."""
        memory.serve(work.tenant)
        with modules.without_optional():
            return self._audits.fault(work.reference, work.settings, work.tenant)

    def trusted(self, work: Work) -> Work:
        """See `TrustingHandler.trusted`."""
        return replace(work, handover=pack(Extracted("0", Strategy.BOXED)))

    def close(self) -> None:
        """Stop watching imports."""
        sys.meta_path.remove(self._late_imports)

    def _one(self, work: Work) -> Ended:
        settings: MathSettings = work.settings
        reference: MathReference = work.reference
        memory.serve(work.tenant)
        began_s = time.process_time()
        fault = ""
        if settings.reference_audit is not ReferenceAudit.OFF:
            known = work.fault
            fault = self._audits.fault(reference, settings, work.tenant) if known is None else known
        if fault and settings.reference_audit is ReferenceAudit.REFUSE:
            return _invalid(fault, ResourceUse(cpu_s=time.process_time() - began_s))
        ended = self._judged(work, fault)
        return replace(ended, use=ResourceUse(cpu_s=time.process_time() - began_s))

    def _judged(self, work: Work, fault: str) -> Ended:
        settings: MathSettings = work.settings
        found = unpack(work.handover)
        said = self._judge_all(work, found)
        self._check_imports(said)
        if said.passed is None:
            return _invalid("no reference answer can be read", ResourceUse())
        evidence = Evidence(
            verdict="pass" if said.passed else "wrong_answer",
            extracted=found.text[:TEXT_CHARS_MAX],
            error=_second_opinion(said, settings) or fault or said.error,
        )
        return scored(passed=said.passed, settings=settings, evidence=evidence)

    def _judge_all(self, work: Work, found: Extracted) -> Judged:
        """Parts are one answer together, or each of them is the answer again."""
        if not found.parts:
            return self._judge_stated(work, found.text, found.strategy)
        until_s = time.process_time() + ANSWER_CPU_S_MAX
        judged: list[Judged] = []
        for part in found.parts:
            judged.append(self._judge_stated(work, part, Strategy.ANSWER_IS))
            if time.process_time() > until_s:
                return judged[-1]._replace(passed=False, error=UNDECIDED)
        if not any(said.passed for said in judged):
            said = self._judge_stated(work, found.text, found.strategy)
            listed = ", ".join(found.parts)
            if said.passed is not False or listed == found.text:
                return said
            return self._judge_stated(work, listed, found.strategy)
        right = [part for part, said in zip(found.parts, judged, strict=True) if said.passed]
        others = (part for part in found.parts if part not in right)
        if all(is_sentence_with(part, right) or self._rounds(work, right, part) for part in others):
            return next(said for said in judged if said.passed)
        return next(said for said in judged if not said.passed)

    def _rounds(self, work: Work, right: Sequence[str], part: str) -> bool:
        """Whether `part` is a right answer again: `\\frac{1}{3}`, `0.333`; `85 cm`, `0.85 m`."""
        return any(
            self._judge_stated(work, f"{one} or {part}", Strategy.ANSWER_IS).passed is True
            for one in right
            if is_decimal(one) != is_decimal(part) or _has_unit(one, part)
        )

    def _judge_stated(self, work: Work, text: str, strategy: Strategy) -> Judged:
        golds, settings = work.reference.answers, work.settings
        said = self._judge(golds, text, settings, work.tenant)
        if said.passed is False and strategy in _SENTENCES and text.endswith("!"):
            return self._judge(golds, text.rstrip("!*_ "), settings, work.tenant)
        return said

    def _judge(
        self,
        golds: tuple[str, ...],
        text: str,
        settings: MathSettings,
        tenant: str,
        by: Judge = judge_in_time,
    ) -> Judged:
        """As `by`: the responses of a group often give the same answer.

        Per tenant: the CPU time of a result would tell what others have sent.
        """
        if len(text) + sum(map(len, golds)) > _REPEATED_CHARS_MAX:
            return by(golds, text, settings)
        said = self._judged_before.get(tenant, (golds, text, settings))
        if said is None:
            said = by(golds, text, settings)
            # A failure of this machine is not remembered as what the answer is worth.
            if said.error in ("", UNDECIDED) and not self._late_imports.failed():
                self._judged_before.put(tenant, (golds, text, settings), said)
        return said

    def _passes(
        self, reference: MathReference, text: str, settings: MathSettings, tenant: str
    ) -> bool | None:
        """For the audit, which has a timer of its own."""
        return self._judge(reference.answers, text, settings, tenant, judge).passed

    def _check_imports(self, said: Judged) -> None:
        """A module that is missing for the gold itself is an infrastructure failure.

        Raises:
            HostAtFault: the gold cannot be compared with itself either.
        """
        failed = self._late_imports.take_failed()
        if not failed or said.gold is None:
            return
        Comparison(MathSettings()).control(said.gold.answer)
        if again := self._late_imports.take_failed():
            message = f"confined process could not import {again}"
            forget()  # what was read without it is not what it says
            raise HostAtFault(message)
        _log.warning("a response made sympy look for %s", failed)


def _has_unit(*texts: str) -> bool:
    """Whether a letter ends each of them."""
    return all(text.rstrip("$)} ")[-1:].isalpha() for text in texts)


def _goes_on(text: str) -> bool:
    """Whether it ends with dots: `0.333...` is not `0.333`, and `1, 2, ...` not `1, 2`."""
    return _DOTS_AT_END.search(text) is not None


def _same_choice(
    said: str, told: tuple[Read, tuple[Read, Read] | None], settings: MathSettings
) -> bool:
    """Whether a gold that is a label with its value is answered by its label, its value or both."""
    gold = read_labelled(said)
    if gold is None:
        return False
    answer, labelled = told
    if labelled is not None:
        return all(_equal(*pair, settings)[0] for pair in zip(gold, labelled, strict=True))
    return _equal(gold[0] if is_label(answer) else gold[1], answer, settings)[0]


def _same_binomial(said: str, text: str, settings: MathSettings) -> bool:
    """Whether they are equal once `C(n, k)` is read as a binomial coefficient.

    A gold `C(3, 2)` is a point unless the answer says `\\binom`.
    """
    ours, theirs = binomials.stated(said), binomials.stated(text)
    gold = read_gold(ours)
    if gold is None or (ours, theirs) == (said, text):
        return False
    if ours != said and "\\binom" not in text and binomials.is_point(said):
        return False
    return _equal(gold, read_answer(theirs), settings)[0]


def _same_vector(said: str, text: str, settings: MathSettings) -> bool:
    """Whether they are equal once bold letters are vectors, where the other side says that."""
    both = typefaces.alike(said, text)
    gold = None if both is None else read_gold(both[0])
    if both is None or gold is None:
        return False
    return _equal(gold, read_answer(both[1]), settings)[0]


def _equal(gold: Read, answer: Read, settings: MathSettings) -> tuple[bool, str]:
    if gold.form and gold.form == answer.form:
        return True, ""
    if gold.condition and answer.condition and gold.condition != answer.condition:
        return False, ""
    comparison = Comparison(settings, has_names=bool(gold.condition or answer.condition))
    try:
        same_class = residues.same(gold, answer)
        if same_class is not None:
            return same_class, ""
        passed = comparison.equal(gold.answer, answer.answer)
        return passed or families.same(gold, answer, comparison), comparison.error
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the response is hostile text and at fault for its errors
        return False, f"{type(error).__name__} while comparing"


def _second_opinion(said: Judged, settings: MathSettings) -> str:
    """The second judge's result, if the answer is in the sample; evidence only."""
    if said.gold is None or not settings.second_judge_share:
        return ""
    seed = f"{said.gold.form}\n{said.answer.form}"
    drawn = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "replace")).digest()[:4], "big")
    if drawn >= settings.second_judge_share * 2**32:
        return ""
    opinion = numeric.judge(said.gold.answer, said.answer.answer, seed)
    if opinion is None:
        return f"{SECOND_JUDGE}abstains"
    return SECOND_JUDGE + ("agrees" if opinion == said.passed else "disagrees")


def _invalid(error: str, use: ResourceUse) -> Ended:
    evidence = Evidence(verdict="invalid_reference", error=error[:TEXT_CHARS_MAX])
    return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, use=use)
