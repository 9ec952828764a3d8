"""From the grades of a task's steps to its verdict. Pure.

As in Harbor the reward is the mean over all graded steps, or that of the last one. Unlike in
Harbor, a step whose tests a response kept from writing a reward counts, with the reward for a wrong
response or a broken limit: left out of the mean, breaking the tests would pay. And each step has to
write the reward: of a name that is missing no one could tell whose fault it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from assay.core.outcome import Outcome
from assay.core.tools.rewards import mean
from assay.core.verdict import COMPONENTS_MAX, Component, Ended, Evidence, ResourceUse
from assay.verifiers.code.scoring import bounded_text
from assay.verifiers.harbor.task import ALONE

if TYPE_CHECKING:
    from assay.verifiers.harbor.definition import HarborSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGrade:
    """How a step was graded."""

    step: str
    """Its name; empty: the task has no steps."""
    reward: float | None = None
    """Also where its tests wrote none and the response is at fault; `None`: the reference is."""
    key: str = ""
    """The name of the reward among `rewards`."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """All numbers that its tests wrote, by name."""
    is_limit: bool = False
    verdict: str = ""
    """Why they wrote none."""
    stderr: str = ""
    error: str = ""
    use: ResourceUse = field(default_factory=ResourceUse)


def concluded(grades: Sequence[StepGrade], settings: "HarborSettings", *, by_final: bool) -> Ended:
    """The verdict of a task, from the grades of its graded steps, in their order.

    Args:
        grades: at least one; only the last one may have no reward.
        settings: of the task.
        by_final: the last step counts alone.
    """
    use = reduce(ResourceUse.plus, (one.use for one in grades))
    rewards = [one.reward for one in grades if one.reward is not None]
    if len(rewards) < len(grades):
        error = bounded_text(grades[-1].error)
        evidence = Evidence(verdict="invalid_reference", error=error)
        return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, use=use)
    reward = rewards[-1] if by_final else mean(rewards)
    passed = reward >= settings.reward_pass
    faults = [one for one in grades if one.verdict]
    verdict = faults[0].verdict if faults else "pass" if passed else "wrong_answer"
    error = "; ".join(f"{one.step}: {one.error}" if one.step else one.error for one in faults)
    return Ended(
        outcome=Outcome.RESOURCE_LIMIT if any(one.is_limit for one in grades) else Outcome.SCORED,
        reward=reward,
        evidence=Evidence(
            verdict=verdict,
            stderr_tail="" if passed else next((one.stderr for one in grades if one.stderr), ""),
            error=bounded_text(error),
        ),
        use=use,
        components=_components(grades, reward, settings.reward_key),
    )


def _components(grades: Sequence[StepGrade], reward: float, key: str) -> tuple[Component, ...]:
    """The reward, each step's, and the means of what else the tests wrote, 0 where a step did not;
    none where the only number has no name of its own."""
    if not grades[0].step:
        key = grades[0].key or key
    found = {key: reward}
    found |= {f"steps/{one.step}": one.reward or 0.0 for one in grades if one.step}
    for name in dict.fromkeys(name for one in grades for name in one.rewards if name != one.key):
        if name not in found:
            found[name] = mean([one.rewards.get(name, 0.0) for one in grades])
    if list(found) == [ALONE]:
        return ()
    return tuple(
        Component(name=name, value=value, weight=float(name == key))
        for name, value in list(found.items())[:COMPONENTS_MAX]
    )
