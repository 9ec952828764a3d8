"""`python -m assay.rollout`: serve rollouts of one model until stopped by a signal."""

import gc
import sys

from assay.config.extras import needed
from assay.config.first_process import end_on_signals

end_on_signals()
with needed("demo"):
    import uvloop

    from assay.config.settings import load_settings
    from assay.edge import lifecycle, logs
    from assay.rollout.gateway.build import beside
    from assay.rollout.service.build import build


async def serve() -> None:
    """Load the settings, build the service and run it."""
    with lifecycle.starting():
        settings = load_settings()
    logs.configure(settings.telemetry)
    lifecycle.warn_of_service_links()
    with lifecycle.starting():
        api = build(settings, beside=beside)
        gc.freeze()  # what lives as long as the process: collections need not visit it
    await api.run()


if __name__ == "__main__":
    lifecycle.run_service("rollout", serve(), run=uvloop.run, given=sys.argv[1:])
