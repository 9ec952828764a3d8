"""Builds the console of a reward API."""

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi import FastAPI

from assay.config.ready_files import planner_of
from assay.config.settings import Settings
from assay.console import routes
from assay.console.feed import Feed
from assay.console.lookup import Lookup
from assay.console.plans import PlannerClient
from assay.core.ids import StageName
from assay.edge.auth import Operator
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.store.operations.viewing import Viewing, open_viewing
from assay.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The parts of a console, and their end."""

    feed: Feed
    lookup: Lookup
    guard: CallGuard
    viewing: Viewing
    planner: PlannerClient

    def install(self, app: FastAPI) -> None:
        """Serve it on an application."""
        routes.install(app, feed=self.feed, lookup=self.lookup, guard=self.guard)

    async def stop(self) -> None:
        """End its streams, so that the service can drain."""
        await self.feed.stop()

    async def close(self) -> None:
        """Close its connections."""
        await self.planner.close()
        await self.viewing.close()


def build(
    settings: Settings,
    *,
    store: Store,
    stages: Iterable[StageName],
    operator: Operator,
    guard: CallGuard,
    clock: Clock,
) -> Console:
    """Build the console beside a service; connects on first use.

    Args:
        settings: say where the store and the planner are.
        store: of the service.
        stages: of all pipelines.
        operator: whose token the planner asks for.
        guard: admits tenants and the operator (`viewer.ConsoleCallers`).
        clock: for the instants of readings.
    """
    viewing = open_viewing(settings.store, data_dir=settings.data_dir)
    planner = PlannerClient(
        lambda: planner_of(settings.data_dir, settings.reward.planner_address), operator
    )
    feed = Feed(
        viewing=viewing,
        store=store,
        planner=planner,
        stages=list(dict.fromkeys(stages)),
        clock=clock,
    )
    lookup = Lookup(viewing=viewing, store=store, planner=planner, clock=clock)
    return Console(feed=feed, lookup=lookup, guard=guard, viewing=viewing, planner=planner)
