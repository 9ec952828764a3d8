"""Answers that are marked in two or three different ways beside each other, with and without a
guess among them: the way in which an answer is marked never makes another one disappear."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics import answers

LISTED: Final = frozenset({"list", "list of fractions", "set", "roots", "interval", "tuple"})
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
_ANSWERS: Final = (
    *("Answer", "Final answer", "Correct Answer", "answer", "R\u00e9ponse", "Antwort", "Respuesta"),
    *(
        "Risposta",
        "Odpowied\u017a",
        "\u041e\u0442\u0432\u0435\u0442",
        "\u7b54\u6848",
        "\u7b54\u3048",
    ),
    *("\uc815\ub2f5", "\u0627\u0644\u0625\u062c\u0627\u0628\u0629", "Cevap"),
)
_RESULTS: Final = (
    *("Solution", "Result", "Final result", "Conclusion", "Final value", "Ergebnis", "Resultado"),
    "\u7ed3\u679c",
)
_JOINTS: Final = (
    *(
        "{word}: {{0}}",
        "**{word}:** {{0}}",
        "{word} = {{0}}",
        "{word} - {{0}}",
        "{word} \u2014 {{0}}",
    ),
    *("{word} -> {{0}}", "## {word}\n\n{{0}}", "**{word}**\n{{0}}", "| {word} | {{0}} |"),
    *("<{tag}>{{0}}</{tag}>", "[{word}] {{0}}", "\u3010{word}\u3011{{0}}"),
)
_SENTENCES: Final = (
    *("The answer equals {0}.", "The answer must be {0}.", "The answer to this question is {0}."),
    *("So {0} is the answer.", "Hence {0} is the correct answer.", "{0} is my final answer."),
    *("The final result is {0}.", "La r\u00e9ponse est {0}.", "Die Antwort lautet {0}."),
    *("La respuesta es {0}.", "\u041e\u0442\u0432\u0435\u0442 \u0440\u0430\u0432\u0435\u043d {0}."),
)


def _product(words: tuple[str, ...]) -> tuple[str, ...]:
    made = ((joint, word) for joint in _JOINTS for word in words)
    return tuple(joint.format(word=word, tag=word.replace(" ", "_")) for joint, word in made)


_NAMED: Final = _product(_ANSWERS)
_ANNOUNCED: Final = (*_SENTENCES, *_NAMED, *_product(_RESULTS))
"""What a step may arrive at announces one value only."""
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


def _is_one_value(said: str) -> bool:
    return any(map(str.isdecimal, said)) and not set(said) & set(",;({") and " or " not in said


def _joined(rng: random.Random, texts: list[str]) -> str:
    ways = rng.sample(_WAYS, len(texts))
    if rng.random() < 0.5 and not any(
        "=" in said for said in texts
    ):  # words that no strategy reads
        is_one = all(map(_is_one_value, texts))
        ways[rng.randrange(len(ways))] = rng.choice(_ANNOUNCED if is_one else _NAMED)
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
    agrees = agrees or answer.kind in LISTED
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
