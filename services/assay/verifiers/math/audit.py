"""Tests each distinct reference once, with its own controls, when it is first seen.

A timer bounds the test, because a slow gold must not use up the response's CPU time. A gold with
which a single control uses up half of that time cannot judge responses within theirs, and is
refused; controls that many others left no time for are not tried. It is the only timer of the
process, is off while responses are judged, and counts the process's CPU time.

Most of a test is to look for the gold in each carrier. Where it is a number, its digits do not
change what is found there, so numbers of one shape (`18` and `25`) are looked for once.
"""

import hashlib
import re
import time
from collections.abc import Callable
from typing import Final

from assay.core.tools.lru import TenantCache
from assay.verifiers.math import algebra
from assay.verifiers.math.controls import controls
from assay.verifiers.math.definition import AUDIT_CPU_S_MAX, MathReference, MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.port import Control
from assay.verifiers.text.bounds import OutOfTime, cpu_time

REMEMBERED_MAX: Final = 8_192
"""Number of references whose result is cached."""
CONTROLS_MAX: Final = 256
SHAPES_MAX: Final = 1_024
"""Number of carriers with a number of some shape that are known to be found."""
_DIGIT: Final = re.compile(r"[0-9]")
_NUMBER: Final = re.compile(r"-?[0-9]{1,12}(?:,[0-9]{3}){0,4}(?:\.[0-9]{1,6})?")
_RESERVE_S: Final = 0.05
_SLOW_CPU_S: Final = AUDIT_CPU_S_MAX / 2

Judge = Callable[[MathReference, str, MathSettings, str], bool | None]
"""Of a reference, an answer, settings and the tenant whose they are."""


class Audits:
    """Results by content of reference and settings, per tenant. One instance per process."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._trying = ("", 0.0)
        """The control that is tried, and the CPU time at its beginning."""
        self._known: TenantCache[bytes, str] = TenantCache(weight_max=REMEMBERED_MAX)
        self._shapes: TenantCache[tuple[str, bool, MathSettings], bool] = TenantCache(
            weight_max=SHAPES_MAX
        )

    def fault(self, reference: MathReference, settings: MathSettings, tenant: str) -> str:
        """The control that fails, with the field's path; empty if none fails."""
        key = _key(reference, settings)
        fault = self._known.get(tenant, key)
        if fault is None:
            fault = self._audit(reference, settings, tenant)
            self._known.put(tenant, key, fault)
        return fault

    def _audit(self, reference: MathReference, settings: MathSettings, tenant: str) -> str:
        try:
            with cpu_time(AUDIT_CPU_S_MAX - _RESERVE_S):
                return self._first_fault(reference, settings, tenant)
        except OutOfTime:
            algebra.forget()
            name, began_s = self._trying
            if time.process_time() - began_s < _SLOW_CPU_S:
                return ""
            return f"reference.{name}: more than {_SLOW_CPU_S} s of CPU time for one comparison"
        except RecursionError:
            return "reference.answers cannot be read: nested too deep"
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a reference is at fault for the errors of its test
            return f"reference.answers cannot be tested: {type(error).__name__}"

    def _first_fault(self, reference: MathReference, settings: MathSettings, tenant: str) -> str:
        for at, text in enumerate(reference.answers):
            if not text.strip():
                return f"reference.answers[{at}] is empty"
        self._trying = ("answers", time.process_time())
        for control in controls(reference, settings)[:CONTROLS_MAX]:
            self._trying = (control.name, time.process_time())
            found = self._found(control, reference, settings, tenant)
            passed = found is not None and self._judge(reference, found, settings, tenant)
            if bool(passed) != control.passes:
                said = "passes" if passed else "does not pass"
                return f"reference.{control.name}: {control.response[:200]!r} {said}"
        return ""

    def _found(
        self, control: Control, reference: MathReference, settings: MathSettings, tenant: str
    ) -> str | None:
        """The answer of the control's response; a number of a known shape without a search."""
        number = number_of(control.response, reference)
        shape = (_DIGIT.sub("0", control.response), control.passes, settings)
        if number is not None and self._shapes.get(tenant, shape):
            return number
        found = final_answer(control.response, settings, reference.answers)
        if isinstance(found, str):
            return None
        if found.text == number and not found.parts:
            self._shapes.put(tenant, shape, value=True)
        return found.text


def number_of(response: str, reference: MathReference) -> str | None:
    """The one number in the carrier of a gold that is a plain number, or of its mutant."""
    if len(reference.answers) > 1 or not _NUMBER.fullmatch(reference.answers[0]):
        return None
    said = _NUMBER.findall(response)
    return said[0] if len(said) == 1 else None


def _key(reference: MathReference, settings: MathSettings) -> bytes:
    said = f"{reference.model_dump_json()}\n{settings.model_dump_json()}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
