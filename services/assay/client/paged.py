"""What a batch gives besides its pages, for event loops; the same over gRPC and over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import aclosing
from typing import TYPE_CHECKING

from assay.client.types import GroupSummary, Page, Result, Scores

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Paged(ABC):
    """A batch whose results come in pages."""

    @abstractmethod
    def pages(self, *, cursor: int = 0) -> AsyncGenerator[Page, None]:
        """Yield results and group summaries as they arrive, until the batch is complete."""

    async def results(self, *, cursor: int = 0) -> AsyncGenerator[Result, None]:
        """Yield results in the order in which requests end, until the batch is complete.

        A request whose dead letter was replayed comes twice; the later result counts.
        """
        async with aclosing(self.pages(cursor=cursor)) as pages:
            async for page in pages:
                for result in page.results:
                    yield result

    async def groups(self, *, cursor: int = 0) -> AsyncGenerator[GroupSummary, None]:
        """Yield each group's summary once all its requests have ended."""
        async with aclosing(self.pages(cursor=cursor)) as pages:
            async for page in pages:
                for group in page.groups:
                    yield group

    async def collect(self) -> Scores:
        """Wait for the whole batch."""
        results: dict[str, Result] = {}
        groups: dict[str, GroupSummary] = {}
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                results.update((result.request_id, result) for result in page.results)
                groups.update((group.group_id, group) for group in page.groups)
        return Scores(results=list(results.values()), groups=list(groups.values()))
