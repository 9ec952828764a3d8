"""What the adapters' tests share: a platform that fails on request, and the baseline that all keep.

API and store are real; what judges is a function of the response's text, so that a response can be
one that the platform fails to judge.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.core.codec import pack_body
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, Finish
from assay.core.verdict import Evidence, ResourceUse

RIGHT, WRONG, FAILS, LIMIT = "so \\boxed{5}", "so \\boxed{6}", "the host fails", "takes too long"
BASELINE = (RIGHT, FAILS, WRONG, WRONG)
"""Rewards [1, 1, 0, 0], the second of which no judge saw."""
DEADLINE_S = 500.0
"""Of a step: no estimate of the service comes near it."""
ADVANTAGES = (2 / 3, -1 / 3, -1 / 3)
"""Of those that were scored; with a zero for the second they would be 3/4, -1/4, -1/4, and with its
vote as a one 1/2, -1/2, -1/2."""


@dataclass(slots=True)
class Judge:
    """A stand-in for the verifier; remembers what it saw."""

    claims: list[Claim] = field(default_factory=list)

    def __call__(self, claim: Claim) -> Finish:
        self.claims.append(claim)
        text = claim.response.decode("utf-8", "replace")
        outcome = Outcome.SCORED
        reward: float | None = float("boxed{5}" in text)
        if FAILS in text:
            outcome, reward = Outcome.INFRA_FAILED, None
        elif LIMIT in text:
            outcome, reward = Outcome.RESOURCE_LIMIT, 0.0
        evidence = Evidence(verdict="", error="the slot died" if reward is None else "")
        return EndRequest(outcome=outcome, reward=reward, body=pack_body(evidence, ResourceUse()))

    @property
    def groups(self) -> set[str]:
        """Groups that requests came in; a request without one is a mistake."""
        found = {str(claim.group_id) for claim in self.claims}
        assert "" not in found
        return found

    @property
    def budgets_s(self) -> set[float]:
        """How long after its arrival each request was due, to a hundred seconds."""
        return {round((claim.deadline_ns - claim.enqueued_ns) / 1e9, -2) for claim in self.claims}

    @property
    def batches(self) -> set[str]:
        """Batches that requests came in."""
        return {str(claim.batch_id) for claim in self.claims}


def injected(groups: int, size: int, share: float, seed: int = 7) -> list[list[str]]:
    """Groups of responses; each response fails to be judged with probability `share`."""
    draw = random.Random(seed)
    return [
        [FAILS if draw.random() < share else draw.choice((RIGHT, WRONG)) for _ in range(size)]
        for _ in range(groups)
    ]


def honest_advantages(texts: Sequence[str]) -> list[float | None]:
    """Reward minus mean over what was judged: what an unbiased baseline gives."""
    rewards = [None if text == FAILS else float(text == RIGHT) for text in texts]
    present = [reward for reward in rewards if reward is not None]
    mean = sum(present) / max(1, len(present))
    return [None if reward is None else reward - mean for reward in rewards]
