"""Scripts of simulated requests: what a request does to its slot, and how it must end.

A response says in plain text what the slot that judges it does: `score 120 40 7` takes 120 ms at
the first stage and 40 ms at the second, with reward 0.07. Both the slot that runs a request and the
check of its result derive the outcome from it, so a reward that belongs to another request is
detected. Some requests say it in the last message of a transcript instead, and something else in
an earlier one.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from assay.core.ids import PipelineName, StageName
from assay.core.outcome import Outcome
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.verifiers.intake import last_answer, parse_messages
from assay.verifiers.port import PipelineDefinition, StageDefinition

FIRST: Final = StageName("sim.first")
SECOND: Final = StageName("sim.second")
GROUPS: Final = StageName("sim.groups")
"""Judges whole groups."""
GROUPED: Final = PipelineName("sim.grouped")
STAGES: Final = (FIRST, SECOND)
LEASE_S: Final = 6.0
CPU_S_MAX: Final = 1.5
TIMEOUT_S: Final = 4.0
GROUP_CPU_S_MAX: Final = 9.0
BATCH_MAX: Final = 4


class Deed(StrEnum):
    """What the slot does."""

    SCORE = "score"
    LIMIT = "limit"
    """The handler reports a broken limit."""
    FLAKY = "flaky"
    """The handler raises on the first attempt."""
    RAISE = "raise"
    """The handler always raises."""
    POISON = "poison"
    """The slot crashes."""
    GARBAGE = "garbage"
    """The slot breaks the protocol."""
    BURN = "burn"
    """It computes forever."""
    SLEEP = "sleep"
    """It sleeps forever."""
    RETIRE = "retire"
    """A slot that has run other requests cannot run it; a fresh one can."""
    SHARED = "shared"
    """It needs an artifact that others need, too."""
    SPOIL = "spoil"
    """With it in a group the handler raises; alone it is wrong."""
    CRASH = "crash"
    """With it in a group the slot crashes; alone it is wrong."""
    HOG = "hog"
    """With it in a group the handler computes forever."""


NEVER_JUDGED: Final = frozenset({Deed.RAISE, Deed.POISON, Deed.GARBAGE})
FAILING: Final = frozenset({*NEVER_JUDGED, Deed.FLAKY})
"""An attempt of it may fail without any other fault."""
OVER_LIMIT: Final = frozenset({Deed.LIMIT, Deed.BURN, Deed.SLEEP, Deed.HOG})
WRONG: Final = frozenset({Deed.SPOIL, Deed.CRASH})
CULPRITS: Final = frozenset({*WRONG, Deed.HOG})
"""A group's stage fails with one of them. None of it reaches the group's others."""


@dataclass(frozen=True, slots=True)
class SlotScript:
    """A parsed response."""

    deed: Deed
    first_ms: int
    second_ms: int
    points: int

    @property
    def is_sound(self) -> bool:
        """No attempt of it fails without faults."""
        return self.deed not in FAILING

    @property
    def outcome(self) -> Outcome:
        """Its outcome without faults."""
        if self.deed in NEVER_JUDGED:
            return Outcome.INFRA_FAILED
        return Outcome.RESOURCE_LIMIT if self.deed in OVER_LIMIT else Outcome.SCORED

    @property
    def reward(self) -> float | None:
        """Its reward without faults."""
        if self.outcome is Outcome.SCORED:
            return 0.0 if self.deed in WRONG else self.points / 100
        return 0.0 if self.outcome is Outcome.RESOURCE_LIMIT else None

    def service_s(self, stage: StageName) -> float:
        """Duration of the stage."""
        return (self.first_ms if stage == FIRST else self.second_ms) / 1000

    def holds_s(self, stage: StageName) -> float:
        """How long it holds its slot there, when nothing else goes wrong."""
        if self.deed is Deed.BURN:
            return CPU_S_MAX
        return TIMEOUT_S if self.deed is Deed.SLEEP else self.service_s(stage)

    def packed(self) -> bytes:
        """Encode as a response."""
        return f"{self.deed} {self.first_ms} {self.second_ms} {self.points}".encode()


class SlotSaid(Protocol):
    """A request, as a draft, a record, or on its way to a slot."""

    @property
    def response(self) -> bytes:
        """Empty where a transcript ends with it."""
        ...

    @property
    def messages(self) -> bytes:
        """The transcript; may be empty."""
        ...


def script_of(said: SlotSaid) -> SlotScript:
    """Parse the response, which may be the last message of a transcript."""
    text = said.response.decode() or last_answer(parse_messages(said.messages, "messages"))
    deed, first_ms, second_ms, points = text.split()[:4]
    return SlotScript(Deed(deed), int(first_ms), int(second_ms), int(points))


def _groups() -> StageDefinition:
    return StageDefinition(
        spec=StageSpec(
            name=GROUPS,
            resources=Resources(cpu_cores=1.0),
            timeout_s=2 * TIMEOUT_S,
            cpu_s_max=GROUP_CPU_S_MAX,
            lease_s=LEASE_S,
            gathers=True,
        ),
        handler="assay.sim.platform:none",
        confined=True,
    )


def pipelines(
    *, together: bool = False, groups: bool = False
) -> dict[PipelineName, PipelineDefinition]:
    """One pipeline with one stage and one with two; they share the first stage.

    `together`: the slots of the first stage judge a batch at once, so that no one can say which
    request ended a slot. Such a stage has no limit on CPU time. `groups`: a third pipeline's last
    stage judges whole groups.
    """
    first = StageDefinition(
        spec=StageSpec(
            name=FIRST,
            resources=Resources(cpu_cores=1.0),
            timeout_s=TIMEOUT_S,
            cpu_s_max=None if together else CPU_S_MAX,
            lease_s=LEASE_S,
            batch_max=BATCH_MAX,
        ),
        handler="assay.sim.platform:none",
        confined=True,
    )
    second = StageDefinition(
        spec=StageSpec(
            name=SECOND,
            resources=Resources(cpu_cores=1.0),
            timeout_s=2 * TIMEOUT_S,
            lease_s=LEASE_S,
        ),
        handler="assay.sim.platform:none",
        runs_untrusted_code=True,
    )
    one = PipelineSpec(name=PipelineName("sim.one"), description="One stage.", stages=(FIRST,))
    two = PipelineSpec(name=PipelineName("sim.two"), description="Two stages.", stages=STAGES)
    found = {
        one.name: PipelineDefinition(spec=one, stages=(first,)),
        two.name: PipelineDefinition(spec=two, stages=(first, second)),
    }
    if groups:
        grouped = PipelineSpec(name=GROUPED, description="Whole groups.", stages=(FIRST, GROUPS))
        found[grouped.name] = PipelineDefinition(spec=grouped, stages=(first, _groups()))
    return found
