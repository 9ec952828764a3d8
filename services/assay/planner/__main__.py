"""`python -m assay.planner`: size pools until a signal stops it."""

import os
import sys

# gRPC must not meddle with the fork of the planning process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from assay.config.extras import left_out, needed
from assay.config.first_process import end_on_signals

end_on_signals()
with needed("server"), left_out("rich"):  # structlog would show tracebacks by it; logs do not
    import uvloop

    from assay.edge.lifecycle import end, run_service, serve
    from assay.planner.build import build


if __name__ == "__main__":
    run_service("planner", serve("planner", build), run=uvloop.run, given=sys.argv[1:])
    end()
