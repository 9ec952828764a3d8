"""`python -m assay.worker`: serve stages until stopped."""

import sys
from collections.abc import Sequence

from assay.config.extras import left_out, needed
from assay.config.first_process import end_on_signals

end_on_signals()
with needed("server"), left_out("rich"):  # structlog would show tracebacks by it; logs do not
    import uvloop

    from assay.edge.lifecycle import end, run_service, serve
    from assay.worker.build import build


def main(given: Sequence[str] = ()) -> None:
    """Serve; `given` are arguments, which are refused."""
    run_service("worker", serve("worker", build), run=uvloop.run, given=given)


if __name__ == "__main__":
    main(sys.argv[1:])
    end()
