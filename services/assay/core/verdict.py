"""A stage's verdict on a request. Bad responses are data, not exceptions.

A stage that cannot judge (its tools broke, its host is faulty) raises; the worker turns that into a
failed attempt, never into a reward.
"""

from dataclasses import dataclass, field

from assay.core.outcome import Outcome
from assay.core.tools.quick import quick

TEXT_CHARS_MAX = 4_000
"""Longest text inside an `Evidence`."""
SECOND_JUDGE = "second judge: "
"""Prefix of `Evidence.error` when a second judge ran too; followed by `agrees`, `disagrees` or
`abstains`. Evidence and a metric, never a reward."""
MISSING_PACKAGE = "no package in the box: "
"""Prefix of `Evidence.error` of a program that failed because it imports a package which boxes do
not have; followed by its name."""

COMPONENTS_MAX = 64
"""Components of one result."""
COMPONENT_NAME_CHARS_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A named part of a reward, for a trainer's logs and its own weighing."""

    name: str
    """Unique in its result; printable."""
    value: float
    weight: float = 1.0
    """With what it counts in the reward; 0: for information only."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Explains a reward."""

    verdict: str = ""
    tests_passed: int = 0
    tests_total: int = 0
    failed_test: int | None = None
    stderr_tail: str = ""
    extracted: str = ""
    error: str = ""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """Resources that the request's own work used."""

    cpu_s: float = 0.0
    memory_bytes_peak: int = 0

    def plus(self, other: "ResourceUse") -> "ResourceUse":
        """CPU time adds up over stages; for memory the largest peak counts."""
        return ResourceUse(
            cpu_s=self.cpu_s + other.cpu_s,
            memory_bytes_peak=max(self.memory_bytes_peak, other.memory_bytes_peak),
        )


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The stage ends the request."""

    outcome: Outcome
    reward: float | None
    evidence: Evidence = field(default_factory=Evidence)
    use: ResourceUse = field(default_factory=ResourceUse)
    components: tuple[Component, ...] = ()
    """Named parts of the reward, if it has several."""
    rescorable: bool = True
    """It was made of the request and the task's settings alone, so that the same request may be
    judged again later, by this version of the pipeline or another. False: a state decided that may
    be gone by then (a session, a service whose answers differ from call to call)."""
    unaudited: bool = False
    """It holds only if an empty response fails under its reference, which the worker's host finds
    out (`assay.worker.audits`). For a `SCORED` response of a stage that audits."""

    def __post_init__(self) -> None:
        """Reject a reward where there must be none, and a missing one where it is required.

        Raises:
            ValueError: outcome and reward do not fit together.
        """
        if self.outcome.carries_reward != (self.reward is not None):
            message = f"{self.outcome} with reward {self.reward!r}"
            raise ValueError(message)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """The stage passes `artifact` (small; large data goes by content hash) to the next stage."""

    artifact: bytes
    use: ResourceUse = field(default_factory=ResourceUse)


StageVerdict = Ended | HandedOver
