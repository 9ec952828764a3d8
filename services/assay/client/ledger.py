"""The requests of one batch that the service acknowledged, kept to be sent again. Pure.

A store keeps what it acknowledged, unless its operator chose otherwise (no log, a failover to a
replica that lags). Then the batch has fewer requests than were acknowledged to this client.
Requests are kept until the batch is complete, including those with a result, because a batch that
was rolled back needs all of them; at most `bytes_max` in total. Beyond that a loss is still
detected, but cannot be repaired.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from assay.client.types import GroupSummary, Page, Result
from assay.v1.reward_pb2 import RewardRequest

KEPT_BYTES_MAX: Final = 256 * 1024**2


class Ledger:
    """Acknowledged requests of one batch."""

    def __init__(self, *, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_left = bytes_max
        self._kept: dict[str, RewardRequest] = {}
        self._acknowledged: set[str] = set()
        self._answered: set[str] = set()

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged requests of the batch."""
        return len(self._acknowledged)

    @property
    def unanswered(self) -> int:
        """Number of acknowledged requests without a seen result."""
        return len(self._acknowledged - self._answered)

    def acknowledge(self, messages: Iterable[RewardRequest]) -> None:
        """Record that the service acknowledged these."""
        for message in messages:
            if message.request_id in self._acknowledged:
                continue
            self._acknowledged.add(message.request_id)
            self._bytes_left -= message.ByteSize()
            if self._bytes_left >= 0:
                self._kept[message.request_id] = message

    def answer(self, results: Iterable[Result]) -> None:
        """Record that these results were seen."""
        self._answered.update(result.request_id for result in results)

    def again(self) -> Sequence[RewardRequest] | None:
        """All requests of the batch, to be sent again; `None` if they were too large to keep."""
        return list(self._kept.values()) if len(self._kept) == len(self._acknowledged) else None

    def forget(self) -> None:
        """The batch is complete and every result was seen: drop all copies."""
        self._kept.clear()


class Handed:
    """What one reader of a batch's log received, so that reading it again repeats nothing."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[object, ...]] = {}
        self._groups: dict[str, GroupSummary] = {}

    def fresh(self, page: Page) -> Page:
        """The page without entries that were already yielded and are unchanged."""
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
