"""`python -m assay.sim.rollout`: the same as `assay sim rollout`."""

import sys

import typer

from assay.config.extras import needed
from assay.core.errors import InvalidRequest
from assay.sim.rollout.command import rollout

if __name__ == "__main__":
    try:
        with needed("server,sim"):
            typer.run(rollout)
    except InvalidRequest as error:
        print(f"{error.field}: {error.message}", file=sys.stderr)
        sys.exit(2)
