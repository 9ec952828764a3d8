"""The stage `math.verify`: math-verify in a warm process that the worker may kill at any time.

No timer runs in here. math-verify's own limit is an alarm signal that lands in arbitrary code and
turns a hang into "wrong"; the worker counts CPU time from outside instead and ends the request as
RESOURCE_LIMIT. The process is confined once warm: everything that math-verify imports lazily is
imported by then, and an import that fails later is an infrastructure failure, not a wrong answer.
"""

import logging
import re
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec
from itertools import product
from types import ModuleType
from typing import Any, Final

from math_verify import (  # type: ignore[import-untyped]  # ships no types
    ExprExtractionConfig,
    LatexExtractionConfig,
    StringExtractionConfig,
    parse,
    verify,
)

from assay.core.outcome import Outcome
from assay.core.verdict import TEXT_CHARS_MAX, Ended, Evidence, ResourceUse, StageVerdict
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.port import HandlerContext, Work, scored

_log = logging.getLogger(__name__)
_REQUIRED: Final = ("sympy", "mpmath", "latex2sympy2_extended", "math_verify", "antlr4")
_HAS_ENVIRONMENT: Final = re.compile(r"(?<!\\)\$|\\\(|\\\[|\\boxed")
_WORD: Final = re.compile(r"[A-Za-z]{3,}")
_NEEDS_LATEX: Final = re.compile(r"[A-Za-z^_{}|(\[]")
_WARM_UP: Final = (
    ("18", "18"),
    ("\\frac{1}{2}", "0.5"),
    ("x^2+2x+1", "(x+1)^2"),
    ("(1, 2)", "(1,2)"),
    ("\\{1, 2\\}", "\\{2, 1\\}"),
    ("(-\\infty, 2] \\cup [3, \\infty)", "x \\le 2 \\text{ or } x \\ge 3"),
    ("1 < x < 2", "(1,2)"),
    ("x = 5", "5"),
    ("x^2 = 4", "x^2 - 4 = 0"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\3&5\\end{pmatrix}"),
    ("\\sqrt{2}\\sin(\\pi/4)", "1"),
    ("\\int_0^1 x dx", "\\frac12"),
    ("\\sum_{k=1}^{10} k", "55"),
    ("\\lim_{x\\to 0} \\frac{\\sin x}{x}", "1"),
    ("\\binom{5}{2}", "10"),
    ("5!", "120"),
    ("3+4i", "4i+3"),
    ("50\\%", "0.5"),
    ("\\log_2 8", "3"),
    ("e^{i\\pi}", "-1"),
    ("|x|", "\\sqrt{x^2}"),
    ("\\lfloor 2.5 \\rfloor", "2"),
    ("f(x)=x+1", "f(x)=1+x"),
    ("90^\\circ", "90"),
    ("\\text{yes}", "\\text{no}"),
)


class LateImports:
    """Sees every import of a module that is not loaded; changes nothing."""

    def __init__(self) -> None:
        """Nothing seen."""
        self._names: set[str] = set()

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Note `name` and leave the finding to the others."""
        if name.partition(".")[0] in _REQUIRED:
            self._names.add(name)
        return None

    def take_failed(self) -> list[str]:
        """Names looked for since the last call that are still not there."""
        failed = sorted(name for name in self._names if name not in sys.modules)
        self._names.clear()
        return failed


class VerifyHandler:
    """Compares answers with references, gold first: the comparison is not symmetric."""

    def __init__(self, _context: HandlerContext) -> None:
        """Load and exercise everything that a comparison may need."""
        logging.getLogger("math_verify").setLevel(logging.ERROR)
        self._late_imports = LateImports()
        settings = MathSettings()
        for gold, answer in _WARM_UP:
            _equal((gold,), answer, settings)
        sys.meta_path.insert(0, self._late_imports)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Compare each answer by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """Stop watching imports."""
        sys.meta_path.remove(self._late_imports)

    def _one(self, work: Work) -> Ended:
        settings: MathSettings = work.settings
        reference: MathReference = work.reference
        answer = work.handover.decode("utf-8")
        began_s = time.process_time()
        passed = _equal(reference.answers, answer, settings)
        use = ResourceUse(cpu_s=time.process_time() - began_s)
        failed_imports = self._late_imports.take_failed()
        if failed_imports:
            message = f"confined process could not import {failed_imports}"
            raise ImportError(message)
        if passed is None:
            error = "no reference answer can be parsed"
            evidence = Evidence(verdict="invalid_reference", error=error)
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, use=use)
        verdict = "pass" if passed else "wrong_answer"
        evidence = Evidence(verdict=verdict, extracted=answer[:TEXT_CHARS_MAX])
        return scored(passed=passed, settings=settings, evidence=evidence, use=use)


def _equal(golds: Sequence[str], answer: str, settings: MathSettings) -> bool | None:
    """Tell whether `answer` equals one of `golds`; `None` where none of these can be read."""
    parsed = [_parse_gold(gold, settings.option_strings) for gold in golds]
    if not any(parsed):
        return None
    target = _parse(answer, settings.option_strings)
    return any(_verified(gold, target, settings) for gold in parsed if gold)


def _verified(gold: list[Any], target: list[Any], settings: MathSettings) -> bool:
    """What math-verify says of any pair; only that running out of memory is not "different"."""
    for pair in product(gold, target):
        try:
            if _pair_verified(pair, settings):
                return True
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - sympy raises anything, math-verify says "no"
            _log.debug("incomparable", exc_info=error)
    return False


def _pair_verified(pair: tuple[Any, Any], settings: MathSettings) -> bool:
    equal: bool = verify(
        pair[0],
        pair[1],
        float_rounding=settings.float_rounding,
        numeric_precision=settings.numeric_precision,
        strict=settings.strict,
        allow_set_relation_comp=settings.allow_set_relation_comp,
        timeout_seconds=None,
        raise_on_error=True,
    )
    return equal


@lru_cache(maxsize=1_024)
def _parse_gold(text: str, option_strings: tuple[str, ...]) -> list[Any]:
    """The K responses of a group share their reference, so it is parsed once."""
    return _parse(text, option_strings)


def _parse(text: str, option_strings: tuple[str, ...]) -> list[Any]:
    parsed: list[Any] = parse(
        _in_environment(text), extraction_config=_configs(option_strings), parsing_timeout=None
    )
    return parsed


@lru_cache(maxsize=64)
def _configs(option_strings: tuple[str, ...]) -> tuple[Any, ...]:
    found: tuple[Any, ...] = (LatexExtractionConfig(), ExprExtractionConfig())
    if option_strings:
        found = (StringExtractionConfig(strings=option_strings), *found)
    return found


def _in_environment(text: str) -> str:
    """Box what is LaTeX without an environment, which math-verify would not see as such.

    Plain numbers and sentences stay as they are.
    """
    if _HAS_ENVIRONMENT.search(text):
        return text
    is_latex = "\\" in text or (_NEEDS_LATEX.search(text) and not _WORD.search(text))
    return f"\\boxed{{{text}}}" if is_latex else text
