"""`python -m assay.reward`: serve the reward API until told to stop."""

import uvloop

from assay.config.settings import load_settings
from assay.edge import logs, tracing
from assay.reward.build import build


async def serve() -> None:
    """Settings, build, run."""
    settings = load_settings()
    tracer = tracing.tracer(service="assay-reward", endpoint=settings.telemetry.otlp_endpoint)
    logs.configure(settings.telemetry, tracer=tracer)
    try:
        await build(settings, tracer=tracer).run()
    finally:
        tracer.close()


if __name__ == "__main__":
    uvloop.run(serve())
