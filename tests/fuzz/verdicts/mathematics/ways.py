"""Answers that are marked in two or three different ways beside each other, with and without a
guess among them: the way in which an answer is marked never makes another one disappear."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics import answers

_LISTED: Final = frozenset({"list", "list of fractions", "set", "roots", "interval", "tuple"})
"""Kinds of which a wrong answer and the gold may be the gold as one list."""
_WAYS: Final = (
    "The answer is {0}.",
    "The final answer is: {0}",
    "the correct answer is {0}",
    "Answer: {0}",
    "**Answer:** {0}",
    "Final Answer: {0}",
    "So my answer is: {0}",
    "Ans: {0}",
    "answer = {0}",
    "#### {0}",
    "\\boxed{{{0}}}",
    "$\\boxed{{{0}}}$",
    "\\[\\boxed{{{0}}}\\]",
    "The answer is $\\boxed{{{0}}}$.",
    "<answer>{0}</answer>",
    "\u7b54\u6848\u662f{0}\u3002",
    "\u7b54\u6848\uff1a{0}",
    "\u041e\u0442\u0432\u0435\u0442: {0}",
    "\uc815\ub2f5\uc740 {0}",
)
_BETWEEN: Final = (
    "\n",
    "\n\n",
    "\n\n---\n\n",
    "\n\nIn summary:\n",
    "\n\nTherefore,\n",
    "\nor\n",
    "\n\nTo conclude,\n\n",
)
_LETTERS: Final = "ABCD"


def _joined(rng: random.Random, texts: list[str]) -> str:
    ways = rng.sample(_WAYS, len(texts))
    between = rng.choice(_BETWEEN)
    begin = rng.choice(("", "", "Some steps: 1 + 1 = 2.\n", "We think about it.\n\n"))
    return begin + between.join(way.format(said) for way, said in zip(ways, texts, strict=True))


def way_case(rng: random.Random) -> Case:
    """All agree, or one is a guess, which is often not the last."""
    count, agrees = rng.choice((2, 2, 3)), rng.random() < 0.5
    if rng.random() < 0.3:
        gold, guess = rng.sample(_LETTERS, 2)
        said = [gold] * count
        if not agrees:
            said[rng.randrange(count)] = guess
        return Case(
            pipeline="choice",
            kind="ways: " + ("again" if agrees else "guess"),
            response=_joined(rng, said),
            reference={"answer": gold, "choices": list(_LETTERS)},
            expected=Expected.RIGHT if agrees else Expected.WRONG,
        )
    answer = answers.any_answer(rng)
    agrees = agrees or answer.kind in _LISTED
    said = [rng.choice((answer.gold, *answer.same)) for _ in range(count)]
    if not agrees:
        said[rng.randrange(count)] = rng.choice(answer.other)
    return Case(
        pipeline="math",
        kind=f"{answer.kind} in ways: " + ("again" if agrees else "guess"),
        response=_joined(rng, said),
        reference={"answers": [answer.gold]},
        expected=Expected.RIGHT if agrees else Expected.WRONG,
    )
