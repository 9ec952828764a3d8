"""The effect of a weak reference, which an empty response passes, on a response that passed. Pure.

Whether a reference is weak is audited once per tenant and distinct reference (`reference_key`): by
the worker's host (`assay.worker.auditing`), or by `assay.verifiers.local`.
"""

import hashlib
import json
from dataclasses import replace
from typing import Final

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence
from assay.verifiers.port import PipelineSettings, ReferenceAudit

REFERENCES_MAX: Final = 65_536
"""Number of references whose audit a process remembers."""
MESSAGE: Final = "empty_program passes: the tests do not tell programs apart"
_RULE: Final = "1"
"""Changes with the meaning of an audit, so that no result of an earlier rule is used."""


def reference_key(
    pipeline: str, settings_json: bytes, reference_json: bytes, tenant: str = ""
) -> str:
    """Whose it is, and everything that the result of an audit depends on, as a hash."""
    parts = (_RULE.encode(), pipeline.encode(), settings_json, reference_json, tenant.encode())
    sized = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(sized).hexdigest()


def audit_setting(settings_json: bytes) -> ReferenceAudit:
    """Return the setting `reference_audit` of any pipeline's settings.

    Raises:
        ValueError: the settings are not JSON, or the setting has no such value.
    """
    name = "reference_audit"
    told = json.loads(settings_json or b"{}")
    given = {name: told[name]} if name in told else {}
    return PipelineSettings.model_validate(given).reference_audit


def refused(ended: Ended, setting: ReferenceAudit) -> Ended:
    """Apply the setting to a response that passed by a reference that lets an empty one pass."""
    if setting is ReferenceAudit.OFF:
        return replace(ended, unaudited=False)
    if setting is ReferenceAudit.REPORT:
        evidence = replace(ended.evidence, error=MESSAGE)
        return replace(ended, evidence=evidence, unaudited=False)
    evidence = Evidence(
        verdict="invalid_reference", error=MESSAGE, tests_total=ended.evidence.tests_total
    )
    return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, use=ended.use)
