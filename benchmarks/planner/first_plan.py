"""The first plan of an installation, with and without machine code in its wheel.

    python -m benchmarks.planner.first_plan

Each line is a process with an empty cache that imports the planner and plans a synthetic batch
twice, as the planning process does before it is ready: seconds by the clock, and of CPU.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from assay.planner.process.code_cache import environment
from assay.planner.process.shipped_code import PLACE

FIRST = """
import os, sys, time
begin, cpu = time.perf_counter(), time.process_time()
import assay
from assay.planner.process.shipped_code import unpack
shipped = unpack([*assay.__path__, sys.argv[1]], os.environ)
from assay.config.planning import PlanSettings
from assay.planner.process.warm_up import warm_up
from assay.planner.session.session import Session
warm_up(Session(PlanSettings()), 15.0)
how = "with shipped code" if shipped else "without"
print(f"{how}: {time.perf_counter() - begin:.2f} s, {time.process_time() - cpu:.2f} s of CPU")
"""


def first_plan(root: Path) -> None:
    """Print one line; `root` may have shipped code."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    with tempfile.TemporaryDirectory() as home:
        found = environment({**given, "XDG_CACHE_HOME": home})
        subprocess.run([sys.executable, "-c", FIRST, str(root)], env=found, check=True)


def main() -> None:
    """Make what a wheel has, and measure."""
    with tempfile.TemporaryDirectory() as folder:
        module = "assay.planner.process.shipped_code"
        subprocess.run([sys.executable, "-m", module, str(Path(folder, PLACE))], check=True)
        first_plan(Path(folder))
        first_plan(Path(folder, "nothing"))


if __name__ == "__main__":
    main()
