"""`python -m assay.reward`: serve the reward API until a signal stops it."""

import gc
import os
import sys
from typing import Final

# Anyone who reaches the port could make gRPC write its own log lines without end.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from assay.config.extras import left_out, needed
from assay.config.first_process import end_on_signals

end_on_signals()
with needed("server"), left_out("rich"):  # structlog would show tracebacks by it; logs do not
    import uvloop

    from assay.config.settings import load_settings
    from assay.edge import lifecycle, logs, tracing
    from assay.reward.build import build

SWITCH_S: Final = 0.0005
"""Most time that another thread computes while a call waits."""


async def serve() -> None:
    """Settings, build, run."""
    with lifecycle.starting():
        settings = load_settings()
    tracer = tracing.tracer(service="assay-reward", endpoint=settings.telemetry.otlp_endpoint)
    logs.configure(settings.telemetry, tracer=tracer)
    lifecycle.warn_of_service_links()
    try:
        with lifecycle.starting():
            api = build(settings, tracer=tracer)
        # Exempt permanent objects from collection: a full collection would pause all calls.
        gc.freeze()
        # A thread that hashes or converts returns the interpreter after this time, not 5 ms.
        sys.setswitchinterval(SWITCH_S)
        await api.run()
    finally:
        tracer.close()


if __name__ == "__main__":
    lifecycle.run_service("reward", serve(), run=uvloop.run, given=sys.argv[1:])
    lifecycle.end()
