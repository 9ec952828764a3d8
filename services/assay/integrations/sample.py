"""A sample of a trainer's step, as the platform's request. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.tools.labels import group_of, reference_of, response_text

__all__ = ["Sample", "group_of", "reference_of", "response_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One response of a trainer's step."""

    response: str | bytes
    reference: Mapping[str, Any] | bytes
    group_id: str = ""
    """Shared by the responses to one prompt; empty: unknown."""
