"""The stage `judge.lists`: all responses of a group in one question, best first.

Each shuffled order is asked forwards and backwards, so that a judge that prefers a place prefers no
response. A ranking counts as the comparisons that are in it; the reward is the share of them that
a response won, ties as half, between `reward_fail` and `reward_pass`. Equal responses are shown
once and tie.

A reply that leaves responses out is asked again. Those that no reply has placed are replaced by
empty ones: a judge that places these can place responses, so the ones left out are the last of
their list; otherwise the judge has failed, and there is no reward. So are those of which the judge
gives no verdict at all, while it gives one of empty responses.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from assay.core.outcome import Outcome
from assay.core.tools.rewards import between
from assay.core.verdict import Ended, Evidence, StageVerdict
from assay.verifiers.judge.asking import UNBLAMED, Judges, Manner, NoVerdict, question_of, shown
from assay.verifiers.judge.conversation import Unreadable, list_messages, read_ranking
from assay.verifiers.judge.pairs import ALONE, win_shares
from assay.verifiers.judge.provider import JudgeError
from assay.verifiers.port import GroupWork, HandlerContext, Work, resource_limited
from assay.verifiers.total import total

if TYPE_CHECKING:
    import random

    from assay.verifiers.judge.definition import ListSettings, PairReference

_CALLS_MAX: Final = 16
Ranking = Sequence[Sequence[int]]
"""Places of responses, best first; those of one rank together."""
Comparison = tuple[int, int, float]
"""First, second, and the first one's share."""


def lists_of(order: Sequence[int], longest: int) -> list[Sequence[int]]:
    """Cut an order into as few lists of at most `longest` as possible, of about equal length. Pure.

    Args:
        order: places of responses.
        longest: at least 3, so that each of four or more responses is in a list with another.
    """
    count = -(-len(order) // longest)
    edges = [len(order) * at // count for at in range(count + 1)] if count else [0]
    return [order[edges[at] : edges[at + 1]] for at in range(count)]


def comparisons(ranking: Ranking) -> list[Comparison]:
    """What a ranking says about each two of its responses. Pure."""
    ranked = [(at, rank) for rank, tied in enumerate(ranking) for at in tied]
    return [
        (one, other, 0.5 if rank == below else 1.0)
        for index, (one, rank) in enumerate(ranked)
        for other, below in ranked[index + 1 :]
    ]


def merged(rankings: Iterable[Ranking]) -> list[Comparison]:
    """What several rankings of one list say: each pair once, with its mean share. Pure."""
    shares: dict[tuple[int, int], list[float]] = {}
    for one, other, share in (each for ranking in rankings for each in comparisons(ranking)):
        key, value = ((one, other), share) if one < other else ((other, one), 1.0 - share)
        shares.setdefault(key, []).append(value)
    return [(*pair, sum(values) / len(values)) for pair, values in sorted(shares.items())]


def copies_of(responses: Sequence[str]) -> dict[int, list[int]]:
    """The place of each distinct response -> the places of all that are equal to it. Pure."""
    first: dict[str, int] = {}
    found: dict[int, list[int]] = {}
    for at, response in enumerate(responses):
        found.setdefault(first.setdefault(response, at), []).append(at)
    return found


class ListHandler:
    """Ranks the responses of groups."""

    def __init__(self, context: HandlerContext) -> None:
        self._judges = Judges(context)
        self._pool = ThreadPoolExecutor(max_workers=_CALLS_MAX, thread_name_prefix="judge")
        # No response may foresee which place it gets.
        self._random: random.Random = secrets.SystemRandom()

    def run_groups(self, groups: Sequence[GroupWork]) -> Sequence[Sequence[StageVerdict]]:
        """Judge each group by itself."""
        return [self._group(group.works) for group in groups]

    def close(self) -> None:
        """Wait for no call."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _group(self, works: Sequence[Work]) -> list[Ended]:
        settings: ListSettings = works[0].settings
        copies = copies_of([work.response for work in works])
        fitting = [at for at in copies if len(works[at].response) <= settings.response_chars_max]
        asked: list[Sequence[int]] = []
        for _ in range(settings.shuffles if len(fitting) > 1 else 0):
            order = self._random.sample(fitting, len(fitting))
            for one in lists_of(order, settings.list_max):
                asked += [one, one[::-1]]
        compared = [
            comparison
            for rankings in self._pool.map(lambda order: self._rankings(works, order), asked)
            for comparison in merged(_with_copies(ranking, copies) for ranking in rankings)
        ]
        shares = win_shares(len(works), compared)
        return [_ended(work, shares[at], is_alone=not asked) for at, work in enumerate(works)]

    def _rankings(self, works: Sequence[Work], order: Sequence[int]) -> Sequence[Ranking]:
        """One of all responses of the order, or several that together place all of them.

        Raises:
            JudgeError: there are none, and no response is at fault.
        """
        return total(
            lambda: self._placed(works, order),
            control=lambda: self._asked(works, order, order, []),
            at_fault=lambda _: [self._without_broken(works, order)],
            unblamed=UNBLAMED,
        )

    def _without_broken(self, works: Sequence[Work], order: Sequence[int]) -> Ranking:
        """A ranking in which those are last that keep the judge from one: each that does so beside
        empty ones, and, as long as the others do so together, the longest of them."""
        broken = [at for at in order if self._ranked_without(works, order, {*order} - {at}) is None]
        while len(broken) < len(order):
            ranking = self._ranked_without(works, order, set(broken))
            if ranking is not None:
                kept = [[at for at in tied if at not in broken] for tied in ranking]
                return [*filter(None, kept), broken]
            rest = [at for at in order if at not in broken]
            broken.append(max(rest, key=lambda at: len(works[at].response)))
        return [broken]

    def _ranked_without(
        self, works: Sequence[Work], order: Sequence[int], emptied: set[int]
    ) -> Ranking | None:
        try:
            return self._asked(works, order, emptied, [])
        except UNBLAMED:
            raise
        except JudgeError:
            return None

    def _placed(self, works: Sequence[Work], order: Sequence[int]) -> Sequence[Ranking]:
        """As `_rankings`, where each response lets the judge give a verdict."""
        partial: list[Ranking] = []
        try:
            return [self._asked(works, order, (), partial)]
        except NoVerdict:
            if not partial:
                raise
        left_out = sorted(set(order).difference(*(tied for one in partial for tied in one)))
        if not left_out:
            return partial
        self._asked(works, order, left_out, [])
        return [[*ranking, left_out] for ranking in partial]

    def _asked(
        self,
        works: Sequence[Work],
        order: Sequence[int],
        emptied: Iterable[int],
        partial: list[Ranking],
    ) -> Ranking:
        """Ask until all are placed; what places some is put into `partial`."""
        settings: ListSettings = works[0].settings
        reference: PairReference = works[0].reference
        responses = ["" if at in set(emptied) else shown(works[at].response) for at in order]

        def read(reply: str, nonce: str) -> Ranking:
            ranking = [
                [order[number] for number in tied]
                for tied in read_ranking(reply, len(order), nonce)
            ]
            placed = sum(map(len, ranking))
            if placed < len(order):
                if placed > 1:
                    partial.append(ranking)
                raise Unreadable(f"{placed} of {len(order)} responses are ranked")
            return ranking

        return self._judges.ask(
            settings.provider,
            works[0].tenant,
            Manner(
                temperature=settings.temperature,
                tokens_max=settings.tokens_max,
                json_mode=settings.json_mode,
                readings_max=settings.readings_max,
            ),
            lambda nonce: list_messages(
                question=shown(question_of(works[0], reference.question)),
                answer=reference.answer,
                responses=responses,
                criterion=settings.criterion,
                nonce=nonce,
            ),
            read,
        )


def _with_copies(ranking: Ranking, copies: Mapping[int, Sequence[int]]) -> Ranking:
    return [[copy for at in tied for copy in copies[at]] for tied in ranking]


def _ended(work: Work, share: float, *, is_alone: bool) -> Ended:
    settings: ListSettings = work.settings
    if len(work.response) > settings.response_chars_max:
        evidence = Evidence(verdict="too_long", error=f"{len(work.response)} characters")
        return resource_limited(settings=settings, evidence=evidence)
    return Ended(
        outcome=Outcome.SCORED,
        reward=between(settings.reward_fail, settings.reward_pass, share),
        evidence=Evidence(verdict="scored", error=ALONE if is_alone else ""),
        rescorable=False,
    )
