r"""Statements of a value with another one behind it: a comment, a part, a case, a result.

Of two different values, `{v}` stands first. Which of them is stated, the template says.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

STATED: Final = (
    "{v} because {w} is too small",
    "{v}, since {w} does not fit",
    "{v}, but many get {w}",
    "{v} (many students get {w})",
    "{v} (4 red and {w} green)",
    "{v}, although {w} seems plausible",
    "{v}, while {w} is what others get",
    "{v}, one more than {w}",
    "{v}, less than {w}",
    "{v}, instead of the expected {w}",
    "{v}, compared to {w} before",
    "{v} (see equation {w})",
    "{v} (from step {w})",
    "{v}, by theorem {w}",
    "{v}, rounded from {w}",
    "{v}, down from {w}",
    "{v}, not to be confused with {w}",
    "{v} [confidence: {w}%]",
    "{v} | Score: {w}",
    "{v} apples, of which {w} are red",
    "{v}; note that {w} does not work",
)
"""`{v}` is stated, and something is said about `{w}`."""
NEITHER: Final = (
    "{v} and there are {w} steps",
    "{v} apples and {w} pears",
    "{v} apples, {w} pears",
    "{v} apples plus {w} pears",
    "{v} for n = {w}",
    "{v} when x = {w}",
    "{v} at t = {w}",
    "{v} \\text{ if } n = {w}",
    "{v} per {w} people",
    "{v} for every {w} people",
    "{v} with remainder {w}",
    "{v} divided by {w}",
    "{v} after {w} years",
    "{v} out of the {w}",
    "{v} modulo {w} of them",
    "{v}; if n is odd, {w}",
    "{v}, otherwise {w}",
    "{v}, maybe {w}",
    "{v} or {w}",
    "roughly {v} to {w}",
    "between {v} and {w}",
)
"""A part of an answer, an answer in one case, or a doubt."""
CONCLUDED: Final = (
    "{v} apples at 3 dollars each, so {w}",
    "{v} times 3 and thus {w}",
    "{v} rows with 3 seats, which makes {w}",
    "{v} and 3, for a total of {w}",
)
CARRIERS: Final = (
    "The answer is %s.",
    "Answer: %s",
    "<answer>%s</answer>",
    "We add them up.\n\nThe final answer is %s.",
)


def comment_case(rng: random.Random) -> Case:
    """A statement of one of two values, of none of them, or of the other one."""
    kind = one_of(rng, {"stated": 4, "neither": 3, "concluded": 1})
    template = rng.choice({"stated": STATED, "neither": NEITHER, "concluded": CONCLUDED}[kind])
    first, second = rng.sample(range(12, 999), 2)
    said = template.replace("{v}", str(first)).replace("{w}", str(second))
    asked = rng.choice((first, second))
    is_right = kind != "neither" and (asked == first) is (kind == "stated")
    return Case(
        pipeline="math",
        kind=f"comment: {kind}",
        response=rng.choice(CARRIERS).replace("%s", said),
        reference={"answers": [str(asked)]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )
