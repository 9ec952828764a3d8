"""`python -m assay.planner`: size pools until a signal stops it."""

import os

# gRPC must not meddle with the fork of the planning process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from assay.config.extras import left_out, needed

with needed("server"), left_out("rich"):  # structlog would show tracebacks by it; logs do not
    import uvloop

    from assay.config.settings import load_settings
    from assay.edge import lifecycle, logs, tracing
    from assay.planner.build import build


async def serve() -> None:
    """Settings, build, run."""
    with lifecycle.starting():
        settings = load_settings()
    endpoint = settings.telemetry.otlp_endpoint
    tracer = tracing.tracer(service="assay-planner", endpoint=endpoint)
    logs.configure(settings.telemetry, tracer=tracer)
    try:
        with lifecycle.starting():
            service = build(settings, tracer=tracer if endpoint else None)
        await service.run()
    finally:
        tracer.close()


if __name__ == "__main__":
    lifecycle.run_service("planner", serve(), run=uvloop.run)
