"""What the service acknowledged to this client for one batch, so that it can be sent again. Pure.

A store keeps what it acknowledged, unless its operator chose otherwise (no log, a failover to a
replica that lags). Then the batch knows of fewer requests than were acknowledged here. Requests are
kept until the batch is over, those with a result too, for a batch that was rolled back needs all to
be complete; at most `bytes_max` of them, beyond which a loss is still noticed, but not made good.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from assay.client.types import GroupSummary, Page, Result
from assay.v1.reward_pb2 import RewardRequest

KEPT_BYTES_MAX: Final = 256 * 1024**2


class Ledger:
    """Of one batch."""

    def __init__(self, *, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_left = bytes_max
        self._kept: dict[str, RewardRequest] = {}
        self._acknowledged: set[str] = set()
        self._answered: set[str] = set()

    @property
    def acknowledged(self) -> int:
        """How many requests of the batch were."""
        return len(self._acknowledged)

    @property
    def unanswered(self) -> int:
        """How many of those have no result that was seen."""
        return len(self._acknowledged - self._answered)

    def acknowledge(self, messages: Iterable[RewardRequest]) -> None:
        """Note that these are the service's now."""
        for message in messages:
            if message.request_id in self._acknowledged:
                continue
            self._acknowledged.add(message.request_id)
            self._bytes_left -= message.ByteSize()
            if self._bytes_left >= 0:
                self._kept[message.request_id] = message

    def answer(self, results: Iterable[Result]) -> None:
        """Note that these were seen."""
        self._answered.update(result.request_id for result in results)

    def again(self) -> Sequence[RewardRequest] | None:
        """All of the batch, to be sent again; `None` where it was too much to keep."""
        return list(self._kept.values()) if len(self._kept) == len(self._acknowledged) else None

    def forget(self) -> None:
        """The batch is over and every result was seen: nothing will be sent again."""
        self._kept.clear()


class Handed:
    """What one reader of a batch's log was given, so that reading it again repeats nothing."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[object, ...]] = {}
        self._groups: dict[str, GroupSummary] = {}

    def fresh(self, page: Page) -> Page:
        """The page without what was handed out before, and is no other now."""
        results = [result for result in page.results if self._is_fresh(result)]
        groups = [group for group in page.groups if self._groups.get(group.group_id) != group]
        self._groups.update((group.group_id, group) for group in groups)
        return Page(results=results, groups=groups, cursor=page.cursor, batch=page.batch)

    def _is_fresh(self, result: Result) -> bool:
        told = (result.outcome, result.reward)
        if self._results.get(result.request_id) == told:
            return False
        self._results[result.request_id] = told
        return True
