"""`python -m assay.worker`: serve stages until stopped."""

from assay.config.extras import left_out, needed

with needed("server"), left_out("rich"):  # structlog would show tracebacks by it; logs do not
    import uvloop

    from assay.config.settings import load_settings
    from assay.edge import lifecycle, logs, tracing
    from assay.worker.build import build


async def serve() -> None:
    """Load the settings, build the host, run it."""
    with lifecycle.starting():
        settings = load_settings()
    endpoint = settings.telemetry.otlp_endpoint
    tracer = tracing.tracer(service="assay-worker", endpoint=endpoint)
    logs.configure(settings.telemetry, tracer=tracer)
    try:
        with lifecycle.starting():
            service = build(settings, tracer=tracer if endpoint else None)
        await service.run()
    finally:
        tracer.close()


if __name__ == "__main__":
    lifecycle.run_service("worker", serve(), run=uvloop.run)
