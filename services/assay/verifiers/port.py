"""The parts of a pipeline; users add pipelines by entry points in the group `assay.pipelines`.

A pipeline names its stages; a stage names a handler factory (`module:attribute`), imported only in
the worker processes that run it. Verifiers are plain Python. Exceptions are classified at one
boundary, in the worker: any exception is an infrastructure failure of that attempt. A fault of the
*response* is a return value (`Ended`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import Field

from assay.config.branch import Described
from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.outcome import Outcome
from assay.core.pipeline import PipelineSpec, StageSpec
from assay.core.tools.quick import quick
from assay.core.verdict import Ended, Evidence, ResourceUse, StageVerdict

ENTRY_POINT_GROUP = "assay.pipelines"


class ReferenceAudit(StrEnum):
    """What happens to a reference that fails its own controls (see `Control`)."""

    REFUSE = "refuse"
    """`REJECTED_INVALID`: it would give wrong rewards."""
    REPORT = "report"
    """Judge by it anyway; the evidence names the control that failed."""
    OFF = "off"
    """Do not check it."""


class PipelineSettings(Described):
    """Settings of every pipeline; a pipeline's own class adds to them."""

    reward_pass: float = Field(default=1.0)
    """Reward of a response judged right."""
    reward_fail: float = Field(default=0.0)
    """Reward of a response judged wrong."""
    reward_resource_limit: float = Field(default=0.0)
    """Reward of a response that broke a limit (time, memory, output, length)."""
    reference_audit: ReferenceAudit = ReferenceAudit.REFUSE
    """What happens to a reference that fails its own controls."""
    reuse_results: bool = False
    """Judge the same request once, where the pipeline is deterministic: its verdict is kept for a
    while, and what is judged at the moment is not judged beside it."""


class Reference(Described):
    """The reference of a request; a pipeline's own class defines its fields."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One request as a handler sees it."""

    response: str
    """Any text. Bytes that are not UTF-8 become lone surrogates U+DC80 to U+DCFF; encode with
    `surrogateescape` to get the original bytes."""
    reference: Any
    """An instance of the pipeline's reference model."""
    settings: Any
    """An instance of the pipeline's settings model."""
    handover: bytes = b""
    """`HandedOver.artifact` of the previous stage."""
    messages: Sequence[Mapping[str, Any]] = ()
    """The transcript, if the request has one. Without a response of its own, `response` is the text
    of its last message of the assistant."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    """Files that came with the request, by name; see `PipelineDefinition.takes_artifacts`."""
    tenant: str = ""
    """Whose request it is, for limits that a handler shares with others (`Permits`)."""
    fault: str | None = None
    """The control that the reference fails, found by another process (`FaultFindingHandler`); empty
    if none; `None`: the handler has to find out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """A group as the handler of a stage that gathers sees it."""

    works: Sequence[Work]
    """Its requests that reached this stage, in order of arrival; at least one. A request that ended
    earlier, was cancelled or could not be judged is not among them."""
    submitted: int
    """Requests of the group, with those that are not in `works`."""


class Artifacts(Protocol):
    """Content-addressed results that requests share (a compiled program), across workers."""

    def get_or_make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the artifact under `key`; concurrent callers make it at most once.

        Args:
            key: a hash of everything that `make` depends on.
            make: called if nothing is kept; its exceptions propagate and nothing is kept.
        """

    def get(self, key: str) -> bytes | None:
        """Return the artifact under `key`, or `None` if it was evicted."""


class Permits(Protocol):
    """Rate limits per tenant and provider, shared by all workers of a platform."""

    def take(self, tenant: str, provider: str, limits: "RateLimits", tokens: int) -> float:
        """Take leave for one call.

        Args:
            tenant: `Work.tenant`.
            provider: a name that the operator gave it.
            limits: what it allows each tenant.
            tokens: what the call may cost, for the limit of tokens.

        Returns:
            0, or the seconds to wait before asking again.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """What a provider allows a tenant; 0: any number."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """The environment that a worker process provides to its handler."""

    artifacts: Artifacts
    sandbox: SandboxSettings
    verifiers: VerifierSettings
    scratch: Path
    """A directory for this worker only."""
    shared: Path | None = None
    """A directory for all workers of this machine, kept when they end; `None`: there is none. What
    one puts there, others must be able to trust: no part of it comes from a response."""
    permits: Permits | None = None
    """Of the host; `None`: this process has no host."""
    computed: Path | None = None
    """Where a stage keeps what its next start would compute again (`assay.config.computed`)."""


class StageHandler(Protocol):
    """Judges requests in one worker process, from its main thread only."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge 1 to `StageSpec.batch_max` requests; one verdict each, in order.

        Raises:
            Exception: where the stage is confined, each request is judged alone then, and one that
                fails where a control does not is at fault (`assay.verifiers.total.judged`).
                Elsewhere an infrastructure failure: the requests count as failed attempts.
        """

    def close(self) -> None:
        """Release the handler's resources; called once, on drain."""


@runtime_checkable
class GroupHandler(Protocol):
    """Judges whole groups, for a stage that gathers (`StageSpec.gathers`); from the main thread of
    one worker process only."""

    def run_groups(self, groups: Sequence[GroupWork]) -> Sequence[Sequence[StageVerdict]]:
        """Judge 1 to `StageSpec.batch_max` groups: for each, one verdict per work, in order.

        A member that cannot be judged while the others can is `Ended` as `INFRA_FAILED` with its
        error in the evidence: it leaves the group without a reward.

        Raises:
            Exception: where the stage is confined, or has trusted members (`TrustingGroupHandler`),
                the worker finds out which members cause it, ends those, and has the others judged.
                Elsewhere an infrastructure failure, since a service may have failed: the whole
                group counts as a failed attempt and is judged again, all members together.
        """

    def close(self) -> None:
        """Release the handler's resources; called once, on drain."""


@runtime_checkable
class TrustingHandler(StageHandler, Protocol):
    """A handler that can say what a harmless request looks like."""

    def trusted(self, work: Work) -> Work:
        """As `TrustingGroupHandler.trusted`, for a request alone."""


@runtime_checkable
class TrustingGroupHandler(GroupHandler, Protocol):
    """A handler of groups that can say what a harmless member looks like."""

    def trusted(self, work: Work) -> Work:
        """`work` with a response and a hand-over that no candidate wrote, and that pass through
        everything which `work` passes through. If a group of it alone fails like the group of
        `work`, no response is at fault."""


@runtime_checkable
class AuditingHandler(StageHandler, Protocol):
    """A handler whose passing verdicts may depend on an audit of the reference
    (`Ended.unaudited`)."""

    def lets_pass(self, work: Work) -> bool | None:
        """Whether an empty response passes under the reference and settings of `work`, whose
        response is not used; `None` if that cannot be determined now."""


@runtime_checkable
class FaultFindingHandler(StageHandler, Protocol):
    """A handler that judges by no reference before it has tried the reference's controls."""

    def fault(self, work: Work) -> str:
        """The control that the reference of `work` fails under its settings, with the field's path;
        empty if none fails. The response is not used. The host gives the result to all works with
        that reference and these settings (`Work.fault`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDefinition:
    """A stage and its handler."""

    spec: StageSpec
    handler: str
    """`module:callable` taking a `HandlerContext` and returning a `StageHandler`; a `GroupHandler`
    where `spec.gathers`."""
    confined: bool = False
    """The worker process itself drops privileges, network and file access once warm, because the
    handler reads hostile text without running it. Such a handler is created once and inherited by
    all the stage's worker processes, so it may hold only memory: no files, threads or processes."""
    runs_untrusted_code: bool = False
    """A host without isolation refuses to serve the stage."""
    audits: bool = False
    """Its handler is an `AuditingHandler`."""
    finds_faults: bool = False
    """Its handler is a `FaultFindingHandler`."""
    artifacts: str = ""
    """`module:callable` taking a `Work` and returning what the keys of its artifacts begin with
    (`Artifacts`): a hash of what the response says. Pure; the host calls it, because a key that its
    slot chose may be that of another request's program. Other artifacts, and all artifacts of a
    stage without, are shared by requests with the same payload only."""
    trusts: bool = False
    """Its handler is a `TrustingGroupHandler`."""
    parts: "tuple[StageDefinition, ...]" = ()
    """Stages that run as this one, in order, if it was fused from some (`assay.verifiers.fusion`,
    which alone sets it); each has a handler of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a pipeline judges with beside its own code: part of its version."""

    programs: tuple[str, ...] = ()
    """Names of programs on `PATH`."""
    distributions: tuple[str, ...] = ()
    """Installed Python distributions."""
    folders: tuple[Path, ...] = ()
    """Directories of code that an operator provides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A response whose verdict is known in advance; it tests the reference, not the response."""

    name: str
    """Its kind: `gold`, `sign_flipped`, `digit_changed`, `empty_program` ..."""
    response: str
    passes: bool
    """Whether it must pass under a sound reference."""


def no_controls(_reference: Any, _settings: Any) -> Sequence[Control]:  # noqa: ANN401
    """Return nothing: the pipeline has no response with a known verdict."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDefinition:
    """A complete pipeline; entry points in `assay.pipelines` return it."""

    spec: PipelineSpec
    stages: tuple[StageDefinition, ...]
    settings: type[PipelineSettings] = PipelineSettings
    reference: type[Reference] = Reference
    example_reference: Mapping[str, Any] = field(default_factory=dict)
    controls: Callable[[Any, Any], Sequence[Control]] = no_controls
    """`(reference, settings)` -> responses with the verdict that a sound reference gives each. Pure
    and cheap: it creates text and judges nothing."""
    takes_artifacts: bool = False
    """Requests may come with artifacts; they are refused where no stage would read them."""
    deterministic: bool = False
    """The same request gets the same verdict by the same version, so that it may be judged once."""
    tools: Tools = Tools()
    """Part of the pipeline's version; see `assay.verifiers.version`."""
    beside: "Mapping[PipelineName, PipelineDefinition]" = field(
        default_factory=dict, repr=False, compare=False
    )
    """All pipelines that were loaded with this one: settings may name some of them. They are the
    context in which settings are validated; `load_pipelines` fills it."""

    @property
    def group_stage(self) -> StageName | None:
        """The stage that judges whole groups; at most one, `None`: each response by itself."""
        return next((stage.spec.name for stage in self.stages if stage.spec.gathers), None)


def scored(
    *, passed: bool, settings: PipelineSettings, evidence: Evidence, use: ResourceUse | None = None
) -> Ended:
    """End with the settings' reward for right or wrong."""
    reward = settings.reward_pass if passed else settings.reward_fail
    return Ended(outcome=Outcome.SCORED, reward=reward, evidence=evidence, use=use or ResourceUse())


def reward_at_limit(settings_json: bytes) -> float:
    """Return the reward that a task's settings, of any pipeline, give a response over a limit.

    Raises:
        ValueError: the settings are not JSON, or their reward is not a finite number.
    """
    return _own(settings_json, "reward_resource_limit").reward_resource_limit


def reward_at_fault(settings_json: bytes) -> float:
    """Return the reward that a task's settings, of any pipeline, give a wrong response.

    Raises:
        ValueError: the settings are not JSON, or their reward is not a finite number.
    """
    return _own(settings_json, "reward_fail").reward_fail


def _own(settings_json: bytes, name: str) -> PipelineSettings:
    told = json.loads(settings_json or b"{}")
    return PipelineSettings.model_validate({name: told[name]} if name in told else {})


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
