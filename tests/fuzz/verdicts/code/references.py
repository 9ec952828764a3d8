"""References of `code.python` for a problem, in every form that data sets use."""

import random
from typing import Any, Final

from tests.fuzz.verdicts.code.problems import Problem
from tests.fuzz.verdicts.code.python import reference

FORMS: Final = (
    "calls",
    "literals",
    "taco",
    "asserts",
    "asserts",
    "human_eval",
    "human_eval",
    "mbpp",
    "mbpp",
)
"""Names of the forms, by their share."""


def reference_of(
    rng: random.Random, problem: Problem, function: str, form: str, *, exact: bool = False
) -> dict[str, Any]:
    """A reference with one to four samples of the problem."""
    samples = [problem.draw(rng) for _ in range(rng.randint(1, 4))]
    if form == "literals":
        cases = [
            {"args": [repr(one) for one in sample], "expected": repr(problem.solve(*sample))}
            for sample in samples
        ]
        return {"calls": {"function": function, "cases": cases, "values": "python"}}
    if form == "taco":
        outputs = [problem.solve(*sample) for sample in samples]
        return {
            "fn_name": function,
            "inputs": [list(sample) for sample in samples],
            "outputs": [list(one) if isinstance(one, tuple) else one for one in outputs],
        }
    return reference(rng, problem, function, form=form, exact=exact)
