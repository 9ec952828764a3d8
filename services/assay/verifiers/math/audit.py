"""Tests each distinct reference once, with its own controls, when it is first seen.

A timer bounds the test, because a slow gold must not use up the response's CPU time. A gold with
which a single control uses up half of that time cannot judge responses within theirs, and is
refused; controls that many others left no time for are not tried. It is the only timer of the
process, is off while responses are judged, and counts the process's CPU time.
"""

import hashlib
import time
from collections.abc import Callable
from typing import Final

from assay.core.tools.lru import TenantCache
from assay.verifiers.math import algebra
from assay.verifiers.math.controls import controls
from assay.verifiers.math.definition import AUDIT_CPU_S_MAX, MathReference, MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.text.bounds import OutOfTime, cpu_time

REMEMBERED_MAX: Final = 8_192
"""Number of references whose result is cached."""
CONTROLS_MAX: Final = 256
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
            found = final_answer(control.response, settings, reference.answers)
            passed = not isinstance(found, str) and self._judge(
                reference, found.text, settings, tenant
            )
            if bool(passed) != control.passes:
                said = "passes" if passed else "does not pass"
                return f"reference.{control.name}: {control.response[:200]!r} {said}"
        return ""


def _key(reference: MathReference, settings: MathSettings) -> bytes:
    said = f"{reference.model_dump_json()}\n{settings.model_dump_json()}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
