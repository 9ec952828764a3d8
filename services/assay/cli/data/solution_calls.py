"""Runs in a box, as a program: calls a solution with each input, writes the results as JSON.

Standard library only. A tuple is written as a list, which every comparison takes for the same.
"""

import copy
import json
import math
import os
import sys


class NoJson(Exception):
    """A result that JSON does not have."""


def plain(value: object) -> object:
    """Return the value as JSON has it.

    Raises:
        NoJson: it does not.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if type(value) is dict and all(type(key) in (str, int) for key in value):
        return {key: plain(one) for key, one in value.items()}
    raise NoJson(f"a result that JSON does not have ({type(value).__name__})")


def main() -> None:
    """Read the order from stdin; whatever the solution prints goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    order = json.load(sys.stdin)
    import solution_module  # type: ignore[import-not-found]  # lies beside this file in the box

    function = getattr(solution_module, order["function"])
    results: list[object] = []
    for given in order["inputs"]:
        try:
            results.append(plain(function(*copy.deepcopy(given))))
        except NoJson as error:
            told: object = {"refused": str(error)}
            break
    else:
        told = {"results": results}
    with os.fdopen(answers, "w", encoding="ascii") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main()
