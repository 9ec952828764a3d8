"""Runs seeds of the simulation in the given order (`python -m tests.mutation.seeds 3 5 1`).

Stops at the first finding. Prints one JSON line: the seed and the finding, or neither.
"""

import json
import sys

from assay.sim.platform.run import run_seed


def main() -> int:
    for word in sys.argv[1:]:
        finding = run_seed(int(word)).finding
        if finding:
            print(json.dumps({"seed": int(word), "finding": finding}))
            return 1
    print(json.dumps({"seed": None, "finding": ""}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
