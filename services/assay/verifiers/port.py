"""What a pipeline is made of; a user adds one by an entry point in the group `assay.pipelines`.

A pipeline names its stages; a stage names a handler factory (`module:attribute`), imported only in
the worker processes that run it. Inside, verifiers are plain Python; what they raise is classified
at one boundary, in the worker: any exception is an infrastructure failure of that attempt. What the
*response* did wrong is a value (`Ended`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.outcome import Outcome
from assay.core.pipeline import PipelineSpec, StageSpec
from assay.core.verdict import Ended, Evidence, ResourceUse, StageVerdict

ENTRY_POINT_GROUP = "assay.pipelines"


class ReferenceAudit(StrEnum):
    """What happens to a reference that fails its own controls (see `Control`)."""

    REFUSE = "refuse"
    """`REJECTED_INVALID`: it would give wrong rewards."""
    REPORT = "report"
    """Judge by it all the same; the evidence names the control that failed."""
    OFF = "off"
    """Do not check it."""


class PipelineSettings(BaseModel):
    """Settings every pipeline has; a pipeline's own class adds to them."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    reward_pass: float = Field(default=1.0, allow_inf_nan=False)
    """Reward of a response judged right."""
    reward_fail: float = Field(default=0.0, allow_inf_nan=False)
    """Reward of a response judged wrong."""
    reward_resource_limit: float = Field(default=0.0, allow_inf_nan=False)
    """Reward of a response that broke a limit (time, memory, output, length)."""
    reference_audit: ReferenceAudit = ReferenceAudit.REFUSE
    """What happens to a reference that fails its own controls."""


class Reference(BaseModel):
    """What a response is judged by; a pipeline's own class says the form."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One request as a handler sees it."""

    response: str
    """Any text. Bytes that are not UTF-8 stand as lone surrogates U+DC80 to U+DCFF; encode with
    `surrogateescape` to have the very bytes."""
    reference: Any
    """An instance of the pipeline's reference model."""
    settings: Any
    """An instance of the pipeline's settings model."""
    handover: bytes = b""
    """`HandedOver.artifact` of the previous stage."""


class Artifacts(Protocol):
    """Content-addressed results that requests share (a compiled program), across workers."""

    def get_or_make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return what is kept under `key`, making it at most once however many ask at once.

        Args:
            key: a hash of everything that `make` depends on.
            make: called where nothing is kept; what it raises is raised here and nothing is kept.
        """

    def get(self, key: str) -> bytes | None:
        """Return what is kept under `key`, or `None` when it was evicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """What a worker process gives its handler."""

    artifacts: Artifacts
    sandbox: SandboxSettings
    verifiers: VerifierSettings
    scratch: Path
    """A directory of this worker's own."""


class StageHandler(Protocol):
    """Lives in one worker process; used from its main thread only."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge 1 to `StageSpec.batch_max` requests; one verdict each, in order.

        Raises:
            Exception: the infrastructure failed; all `works` of the call count as failed attempts.
        """

    def close(self) -> None:
        """Give back what the handler holds; called once, on drain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDefinition:
    """A stage and who runs it."""

    spec: StageSpec
    handler: str
    """`module:callable` taking a `HandlerContext` and returning a `StageHandler`."""
    confined: bool = False
    """The worker process itself gives up privileges, network and file access once warm, because the
    handler reads hostile text without running it. Such a handler is made once and inherited by all
    the stage's worker processes, so it holds memory only: no files, threads or processes."""
    runs_untrusted_code: bool = False
    """A host that cannot isolate refuses to serve it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A response whose verdict is known beforehand; it tests the reference, not the response."""

    name: str
    """What it is: `gold`, `sign_flipped`, `digit_changed`, `empty_program` ..."""
    response: str
    passes: bool
    """Whether a sound reference lets it pass."""


def no_controls(_reference: Any, _settings: Any) -> Sequence[Control]:  # noqa: ANN401
    """Return nothing: the pipeline knows no response with a known verdict."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDefinition:
    """Everything a pipeline is; what an entry point in `assay.pipelines` returns."""

    spec: PipelineSpec
    stages: tuple[StageDefinition, ...]
    settings: type[PipelineSettings] = PipelineSettings
    reference: type[Reference] = Reference
    example_reference: Mapping[str, Any] = field(default_factory=dict)
    controls: Callable[[Any, Any], Sequence[Control]] = no_controls
    """`(reference, settings)` -> responses that a sound reference judges as they say. Pure and
    cheap: it makes text, it judges nothing."""


def scored(
    *, passed: bool, settings: PipelineSettings, evidence: Evidence, use: ResourceUse | None = None
) -> Ended:
    """End with the settings' reward for right or wrong."""
    reward = settings.reward_pass if passed else settings.reward_fail
    return Ended(outcome=Outcome.SCORED, reward=reward, evidence=evidence, use=use or ResourceUse())


def reward_at_limit(settings_json: bytes) -> float:
    """Return what a task's settings, of whichever pipeline, give a response that broke a limit.

    Raises:
        ValueError: the settings are not JSON, or their reward is no finite number.
    """
    name = "reward_resource_limit"
    told = json.loads(settings_json or b"{}")
    given = {name: told[name]} if name in told else {}
    return PipelineSettings.model_validate(given).reward_resource_limit


def resource_limited(
    *, settings: PipelineSettings, evidence: Evidence, use: ResourceUse | None = None
) -> Ended:
    """End with the settings' reward for a response that broke a limit."""
    return Ended(
        outcome=Outcome.RESOURCE_LIMIT,
        reward=settings.reward_resource_limit,
        evidence=evidence,
        use=use or ResourceUse(),
    )
