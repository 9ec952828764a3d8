"""The stage `judge.pairs`: the responses of a group, compared two at a time and in both orders.

A pair counts as a tie where the judge prefers whichever stands first (or last). The reward is the
share of comparisons won, ties as half, between `reward_fail` and `reward_pass`.

A pair that the judge cannot compare, while it can compare trivial responses, is lost by the one
that it cannot compare with a trivial response either: no response costs its group the verdict.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from assay.core.outcome import Outcome
from assay.core.tools.rewards import between
from assay.core.verdict import Ended, Evidence, StageVerdict
from assay.verifiers.judge.asking import TRIVIAL, UNBLAMED, Judges, Manner, question_of, shown
from assay.verifiers.judge.conversation import RESPONSE_CHARS_MAX, pair_messages, read_better
from assay.verifiers.judge.provider import JudgeError
from assay.verifiers.port import GroupWork, HandlerContext, Work
from assay.verifiers.total import total

if TYPE_CHECKING:
    from assay.verifiers.judge.definition import PairReference, PairSettings

ALONE: Final = "compared with no other response"
"""Evidence of a response that no comparison reached."""
_CALLS_MAX: Final = 16


def opponents(size: int, each: int) -> list[tuple[int, int]]:
    """Pairs in which each of `size` responses meets `each` others, or all of them. Pure.

    A response meets its next neighbours on a circle, so that all meet equally many.
    """
    pairs = set()
    for step in range(1, max(1, (each + 1) // 2) + 1):
        for at in range(size):
            other = (at + step) % size
            if other != at:
                pairs.add((min(at, other), max(at, other)))
    return sorted(pairs)


def win_shares(size: int, results: Sequence[tuple[int, int, float]]) -> list[float]:
    """Share of comparisons that each won; a half where it has none. Pure.

    Args:
        size: number of responses.
        results: first, second, and the first one's share of that comparison.
    """
    won, met = [0.0] * size, [0] * size
    for first, second, share in results:
        won[first] += share
        won[second] += 1.0 - share
        met[first] += 1
        met[second] += 1
    return [won[at] / met[at] if met[at] else 0.5 for at in range(size)]


class PairHandler:
    """Compares the responses of groups."""

    def __init__(self, context: HandlerContext) -> None:
        self._judges = Judges(context)
        self._pool = ThreadPoolExecutor(max_workers=_CALLS_MAX, thread_name_prefix="judge")

    def run_groups(self, groups: Sequence[GroupWork]) -> Sequence[Sequence[StageVerdict]]:
        """Judge each group by itself."""
        return [self._group(group.works) for group in groups]

    def close(self) -> None:
        """Wait for no call."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _group(self, works: Sequence[Work]) -> list[Ended]:
        settings: PairSettings = works[0].settings
        fitting = [at for at, one in enumerate(works) if len(one.response) <= RESPONSE_CHARS_MAX]
        pairs = [
            (fitting[one], fitting[other])
            for one, other in opponents(len(fitting), settings.opponents_max)
        ]
        compared = list(self._pool.map(lambda pair: self._pair(works, *pair), pairs))
        shares = win_shares(len(works), compared)
        of_fitting = [shares[at] if at in set(fitting) else 0.0 for at in range(len(works))]
        met = {at for pair in pairs for at in pair}
        return [
            Ended(
                outcome=Outcome.SCORED,
                reward=between(settings.reward_fail, settings.reward_pass, of_fitting[at]),
                evidence=Evidence(
                    verdict="scored" if at in set(fitting) else "too_long",
                    error="" if at in met else ALONE,
                ),
                rescorable=False,
            )
            for at in range(len(works))
        ]

    def _pair(self, works: Sequence[Work], one: int, other: int) -> tuple[int, int, float]:
        trivial = replace(works[one], response=TRIVIAL)
        share = total(
            lambda: self._both_orders(works[one], works[other]),
            control=lambda: self._asked(trivial, trivial),
            at_fault=lambda _: self._blamed(works[one], works[other], trivial),
            unblamed=UNBLAMED,
        )
        return one, other, share

    def _both_orders(self, one: Work, other: Work) -> float:
        there = self._asked(one, other)
        back = 1.0 - self._asked(other, one)
        return (there + back) / 2

    def _blamed(self, one: Work, other: Work, trivial: Work) -> float:
        """The first one's share of a pair that cannot be compared."""
        return (
            0.5 + (self._can_be_compared(one, trivial) - self._can_be_compared(other, trivial)) / 2
        )

    def _can_be_compared(self, work: Work, trivial: Work) -> bool:
        try:
            self._asked(work, trivial)
        except UNBLAMED:
            raise
        except JudgeError:
            return False
        return True

    def _asked(self, first: Work, second: Work) -> float:
        settings: PairSettings = first.settings
        reference: PairReference = first.reference
        manner = Manner(
            temperature=settings.temperature,
            tokens_max=settings.tokens_max,
            json_mode=settings.json_mode,
            readings_max=settings.readings_max,
        )
        return self._judges.ask(
            settings.provider,
            first.tenant,
            manner,
            lambda nonce: pair_messages(
                question=shown(question_of(first, reference.question)),
                answer=reference.answer,
                first=shown(first.response),
                second=shown(second.response),
                criterion=settings.criterion,
                nonce=nonce,
            ),
            read_better,
        )
