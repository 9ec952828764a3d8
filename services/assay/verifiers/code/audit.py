"""The cheapest control of a reference, in the stage itself: an empty program must not pass.

It runs only when a response passes, once per distinct reference and settings in a worker process.
Results of the `REFERENCES_MAX` most recently used references are kept. `assay check` runs all
controls.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence
from assay.verifiers.code.controls import EMPTY, empty_program
from assay.verifiers.code.definition import CodeSettings
from assay.verifiers.port import Reference, ReferenceAudit, Work

REFERENCES_MAX: Final = 4_096
_PASS: Final = "pass"  # noqa: S105 - a verdict
_MESSAGE: Final = f"{EMPTY} passes: the tests do not tell programs apart"


class EmptyProgramAudit:
    """Finds references that let an empty program pass."""

    def __init__(self) -> None:
        self._lets_pass: OrderedDict[bytes, bool] = OrderedDict()

    def checked(self, work: Work, ended: Ended, judge: Callable[[Work], Ended]) -> Ended:
        """Return `ended`, or another end according to the setting `reference_audit`.

        Args:
            work: the request that ended.
            ended: how it ended.
            judge: judges any work as `work` was.
        """
        settings: CodeSettings = work.settings
        if settings.reference_audit is ReferenceAudit.OFF or ended.evidence.verdict != _PASS:
            return ended
        digest = _digest(work.reference, settings)
        if digest not in self._lets_pass:
            control = judge(replace(work, response=empty_program(settings)))
            ended = replace(ended, use=ended.use.plus(control.use))
            if control.reward is None:
                return ended  # it is no evidence about the reference
            self._keep(digest, lets_pass=control.evidence.verdict == _PASS)
        self._lets_pass.move_to_end(digest)
        return _told(ended, settings) if self._lets_pass[digest] else ended

    def _keep(self, digest: bytes, *, lets_pass: bool) -> None:
        self._lets_pass[digest] = lets_pass
        while len(self._lets_pass) > REFERENCES_MAX:
            self._lets_pass.popitem(last=False)


def _digest(reference: Reference, settings: CodeSettings) -> bytes:
    content = f"{reference.model_dump_json()}\0{settings.model_dump_json()}"
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()


def _told(ended: Ended, settings: CodeSettings) -> Ended:
    if settings.reference_audit is ReferenceAudit.REPORT:
        return replace(ended, evidence=replace(ended.evidence, error=_MESSAGE))
    evidence = Evidence(
        verdict="invalid_reference", error=_MESSAGE, tests_total=ended.evidence.tests_total
    )
    return replace(ended, outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)
