"""`assay status`: queues, slots and batches of a running platform."""

import asyncio

from assay.cli.console import AsJson, DataDir, print_json, settings_with
from assay.cli.operate.connection import control_address, open_running_view
from assay.cli.operate.status_client import observe
from assay.cli.platform.addresses import planner_address
from assay.config.settings import Settings
from assay.edge.clock import Clock


def status(data_dir: DataDir = None, *, as_json: AsJson = False) -> None:
    """Show queues, slots and batches."""
    asyncio.run(_status(settings_with(data_dir), as_json=as_json))


async def _status(settings: Settings, *, as_json: bool) -> None:
    async with open_running_view(settings) as store:
        snapshot = await observe(
            store,
            control_address(settings),
            clock=Clock(),
            planner=planner_address(settings),
            all_stages_served=not settings.worker.stages,
        )
    if as_json:
        print_json(snapshot.as_json())
        return
    from assay.cli.operate.tables import render  # a tenth of the time, and JSON needs none of it
    from assay.cli.printed import out

    out.print(render(snapshot))
