"""`python -m assay.rollout`: serve rollouts of one model until told to stop."""

import asyncio

from assay.config.settings import load_settings
from assay.edge import lifecycle, logs
from assay.rollout.service.build import build


async def serve() -> None:
    """Settings, build, run."""
    with lifecycle.starting():
        settings = load_settings()
    logs.configure(settings.telemetry)
    with lifecycle.starting():
        api = build(settings)
    await api.run()


if __name__ == "__main__":
    lifecycle.run_service("rollout", serve(), run=asyncio.run)
