"""Runs in a box, as a program: calls a solution with each input, writes the results as literals.

Standard library only. The reader of the results checks that they are literals.
"""

import copy
import json
import os
import sys
from collections import Counter, OrderedDict, deque
from decimal import Decimal
from fractions import Fraction

_NAMES = {
    "inf": float("inf"),
    "nan": float("nan"),
    "infj": complex(0, float("inf")),
    **{kind.__name__: kind for kind in (Counter, OrderedDict, deque, Decimal, Fraction)},
}


def main() -> None:
    """Read the order from stdin; whatever the solution prints goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.set_int_max_str_digits(0)
    order = json.load(sys.stdin)
    import solution_module  # type: ignore[import-not-found]  # lies beside this file in the box

    function = getattr(solution_module, order["function"])
    results: list[str] = []
    for texts in order["inputs"]:
        given = [eval(text, dict(_NAMES)) for text in texts]  # noqa: S307 - literals, in a box
        results.append(repr(function(*copy.deepcopy(given))))
    with os.fdopen(answers, "w", encoding="ascii") as file:
        json.dump({"results": results}, file)


if __name__ == "__main__":
    main()
