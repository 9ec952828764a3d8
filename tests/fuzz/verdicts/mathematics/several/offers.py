"""A box or tag whose sentence offers another value in its place, or says its own value again."""

import random
import re
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics import answers
from tests.fuzz.verdicts.mathematics.several.ways import LISTED

_CARRIERS: Final = (
    ("\\boxed{{{}}}", "${}$"),
    ("$\\boxed{{{}}}$", "${}$"),
    ("\\(\\boxed{{{}}}\\)", "\\({}\\)"),
    ("**$\\boxed{{{}}}$**", "**${}$**"),
    ("$\\fbox{{{}}}$", "$\\fbox{{{}}}$"),
    ("<answer>{}</answer>", "${}$"),
)
_PLAIN: Final = ("{} or {}", "{}, or {}", "{} (or {})")
_OFFERS: Final = (
    *(*_PLAIN, "{} or maybe {}", "{} or it is {}", "{}; possibly {}"),
    *("{} or {} otherwise", "{} or {} if n < 0", "{} alternatively {}", "{}, perhaps {}"),
    *(
        "{} if $n > 0$, otherwise {}",
        "{} for $n > 0$, else {}",
        "{} unless n < 0, in which case {}",
    ),
    *("{} when n is even and {} when n is odd", "{} if n is even; {} if n is odd"),
    *("{}, but it could be {}", "{}. It might also be {}.", "{}, though {} might be right"),
    *("{}. Alternatively, {}.", "{}. If not, then {}.", "{} and/or {}", "{}, failing that {}"),
    *(
        "{} as well as {}",
        "{} or more likely {}",
        "{}, but most likely {}",
        "{}, though I think {}",
    ),
    *("{} (backup answer: {})", "{}. Another possible answer is {}.", "{}; {} is also possible"),
    *("{} (either that or {})", "{} or (b) {}", "{} xor {}", "{}, {} as well"),
    *("{}\\quad\\text{{or}}\\quad {}", "{} \\text{{ or }} {}"),
)
_BESIDE: Final = (
    *("{} | {}", "{} -> {}", "{} \u2192 {}", "{} & {}", "{}; {}", "{}, {}", "{} and {}", "{} ({})"),
    *("{} [{}]", "{} / {}", "{} \u2014 {}", "{} respectively {}", "{}. Or {}.", "{}\n\n{}"),
    *("{}\n- {}", "{}\n* {}", "{}\n> {}", "{}\n2. {}", "{} vs {}", "{} \\quad {}"),
    *(
        "{} (b) {}",
        "{}\n(ii) {}",
        "{} P.S. {}",
        "{}\nN.B. {}",
        "{}\nEdit: {}",
        "{}\nPart 2: {}",
    ),
    *("{}\n\\begin{{align*}}{}\\end{{align*}}", "{}\n<b>{}</b>", "{}<br>{}", "{}\n## {}"),
)
"""Nothing but a sign or a word stands between the two."""
_LETTERS: Final = "ABCD"


def offer_case(rng: random.Random) -> Case:
    """A right value with another one in its place or beside it, or with itself."""
    if rng.random() < 0.3:
        return _beside(rng)
    agrees = rng.random() < 0.4
    box, other = rng.choice(_CARRIERS)
    offer = rng.choice(_OFFERS)
    lead = rng.choice(("", "So ", "We work.\n\nThe final answer is ", "Hence, "))
    if rng.random() < 0.3:
        gold, guess = rng.sample(_LETTERS, 2)
        offer = rng.choice(_PLAIN) if agrees else offer  # a doubt is about every label
        said = offer.format(box.format(gold), other.format(gold if agrees else guess))
        return Case(
            pipeline="choice",
            kind="offers: " + ("again" if agrees else "another"),
            response=lead + said,
            reference={"answer": gold, "choices": list(_LETTERS)},
            expected=Expected.RIGHT if agrees else Expected.WRONG,
        )
    answer = answers.any_answer(rng)
    agrees = agrees or answer.kind in LISTED
    others = [one for one in answer.other if not one.startswith("not ")]  # denies, offers nothing
    agrees = agrees or not others
    value = rng.choice(answer.same if agrees else others)
    said = offer.format(box.format(answer.gold), other.format(value))
    return Case(
        pipeline="math",
        kind=f"{answer.kind} in offers: " + ("again" if agrees else "another"),
        response=lead + said,
        reference={"answers": [answer.gold]},
        expected=Expected.RIGHT if agrees else Expected.WRONG,
    )


def _beside(rng: random.Random) -> Case:
    """A right value and another one of its kind, alone on its line."""
    answer = answers.any_answer(rng)
    others = [one for one in answer.other if _is_one_of(one, answer.gold)]
    agrees = answer.kind in (*LISTED, "word") or not others or rng.random() < 0.4
    box, other = rng.choice(_CARRIERS)
    value = (
        rng.choice(answer.same) if agrees and answer.same else rng.choice(others or [answer.gold])
    )
    return Case(
        pipeline="math",
        kind=f"{answer.kind} beside: " + ("again" if agrees else "another"),
        response="We work.\n\nThe answer is "
        + rng.choice(_BESIDE).format(box.format(answer.gold), other.format(value)),
        reference={"answers": [answer.gold]},
        expected=Expected.RIGHT if agrees else Expected.WRONG,
    )


def _is_one_of(value: str, gold: str) -> bool:
    """Whether it is one value, written as the gold is."""
    has_name = [re.search("[a-z]", re.sub(r"\\[a-z]+", "", one)) for one in (value, gold)]
    alike = all((mark in value) is (mark in gold) for mark in (",", " or ", " and ", "not ", "="))
    return alike and (not has_name[1] or bool(has_name[0]))
