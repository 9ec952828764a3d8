r"""Equations whose sides are different things: `a = b = c`, `x = y = 3`, `\frac x2 = \frac y3`.

Such a chain says that all its sides are equal, so it is not the equation of its ends: `a = c` says
less. It is read as the classes of sides that it makes equal; lists of equations that make the same
classes say the same (`x = 3, y = 3`). A derivation (`x = \sqrt{12} = 2\sqrt3`, `S = \pi r^2 =
25\pi`) names one thing, so it is not such a chain.
"""

import random
import re
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final

from assay.verifiers.math import grammar, notation, numeric
from assay.verifiers.math.grammar import Answer, Chain, Element, Items, Named, Number

Same = Callable[[Answer, Answer], bool]
_SIDES_MAX: Final = 32
_PLAIN: Final = re.compile(
    r"(?a)(?:\\angle\s*)?(?:\\[A-Za-z]+|[A-Za-z]{1,3})(?:_\{?\w+\}?)?'{0,3}(?:\([A-Za-z]\))?"
)
_UNKNOWN: Final = re.compile(
    r"(?a)\\(?P<command>[A-Za-z]+)|(?P<letter>[A-Za-z](?:_\{?\w+\}?)?)(?!\()"
)
_GREEK: Final = frozenset(
    {"alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta"}
    | {"iota", "kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "phi", "varphi", "chi"}
    | {"psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Sigma", "Phi", "Psi", "Omega"}
)
_CONSTANTS: Final = frozenset("ei")


def is_system(answer: Answer) -> bool:
    """Whether it is a chain about two or more things."""
    sides = _chained(answer)
    if len(sides) < 3:
        return False
    if sum(_is_plain(side) and "(" not in _form(side) for side in sides) >= 2:
        return True  # `y = f(x) = 2x` says what `y` is
    rest = sides[1:] if _is_plain(sides[0]) else sides
    found = [unknowns for side in rest if (unknowns := _unknowns(side))]
    return any(one.isdisjoint(other) for one, other in combinations(found, 2))


def equal(gold: Answer, answer: Answer, same: Same) -> bool | None:
    """Whether they say the same, where one of them is a system; `None`: another rule decides.

    `same` compares two sides, the gold's first.
    """
    if is_system(gold):
        equations = _equations(answer)
        if equations:
            return _same_classes(_equations(gold), equations, same) or _is_multiple(gold, answer)
        return _is_the_value(_chained(gold), answer, same)
    if isinstance(gold, Items) and is_system(answer):
        is_same = _same_classes(_equations(gold), _equations(answer), same)
        return is_same or _is_the_value(_chained(answer), gold, lambda one, two: same(two, one))
    return None


def _chained(answer: Answer) -> tuple[Answer, ...]:
    """The sides of a chain that claims equality; empty for anything else."""
    chain = answer.value if isinstance(answer, Named) else answer
    if not isinstance(chain, Chain) or not chain.is_claimed or any(chain.rounds):
        return ()
    named = (Element(answer.name),) if isinstance(answer, Named) else ()
    return (*named, *chain.sides)


def _equations(answer: Answer) -> list[tuple[Answer, ...]]:
    """The sides of each equation that it states; empty if a part of it is no equation."""
    if sides := _chained(answer):
        return [sides]
    match answer:
        case Named(name=name, value=Number() | Element() as value):
            return [(Element(name), value)]
        case Element(text=text):
            parts = [part.strip() for part in notation.split(text, frozenset({"="}))]
            sides = tuple(grammar.read(part) for part in parts if part)
            is_one = len(sides) == len(parts) > 1
            return [sides] if is_one and len(sides) <= _SIDES_MAX else []
        case Items(kind="list", items=items) if answer.joined != "or":
            found = [_equations(item) for item in items]
            return [one for each in found for one in each] if all(found) else []
    return []


def _is_the_value(sides: Sequence[Answer], answer: Answer, same: Same) -> bool:
    """The value that several names have, once or for each name."""
    values = [side for side in sides if not _is_plain(side)]
    if len(values) != 1 or (isinstance(answer, Items) and answer.joined == "or"):
        return False
    given = answer.items if isinstance(answer, Items) else (answer,)
    counts = (1, len(sides) - 1) if not isinstance(answer, Items) else (len(sides) - 1,)
    return len(given) in counts and all(same(values[0], one) for one in given)


def _is_multiple(gold: Answer, answer: Answer) -> bool:
    """Whether all sides are those of the gold times one number: `x/2 = y/3` and `3x = 2y`."""
    left, right = _chained(gold), _chained(answer)
    if len(left) != len(right) or any(map(_is_plain, left)):
        return False
    try:
        trees = [[numeric.leaf(side) for side in sides] for sides in (left, right)]
        names = sorted(set().union(*(tree.names for sides in trees for tree in sides)))
        draw = random.Random(len(names))  # noqa: S311 - points, not secrets
        factors: list[complex] = []
        for _ in range(numeric.POINTS):
            scope = {name: complex(draw.uniform(0.3, 2.7)) for name in names}
            one, other = ([tree.tree(scope) for tree in sides] for sides in trees)
            factors += [there / here for here, there in zip(one, other, strict=True)]
    except (numeric.Unread, ArithmeticError, ValueError, RecursionError):
        return False
    return bool(factors) and all(numeric.near(factors[0], factor) for factor in factors)


def _same_classes(
    gold: Sequence[tuple[Answer, ...]], answer: Sequence[tuple[Answer, ...]], same: Same
) -> bool:
    if sum(map(len, (*gold, *answer))) > _SIDES_MAX:
        return False
    left, right = _classes(gold, same), _classes(answer, same)
    return len(left) == len(right) and all(
        any(_same_class(one, other, same) for other in right) for one in left
    )


def _same_class(one: Sequence[Answer], other: Sequence[Answer], same: Same) -> bool:
    return len(one) == len(other) and all(
        any(_are(left, right, same) for right in other) for left in one
    )


def _classes(equations: Sequence[tuple[Answer, ...]], same: Same) -> list[list[Answer]]:
    """Sides that are equal by these equations; a side that is written twice counts once."""
    found: list[list[Answer]] = []
    for sides in equations:
        joined: list[Answer] = []
        for side in sides:
            met = [one for one in found if any(_are(side, other, same) for other in one)]
            for one in met:
                found.remove(one)
                joined += one
            if not any(_are(side, other, same) for other in joined):
                joined.append(side)
        found.append(joined)
    return found


def _are(one: Answer, other: Answer, same: Same) -> bool:
    """Two names are one thing only if they are written alike."""
    if _is_plain(one) or _is_plain(other):
        return _form(one) == _form(other)
    return same(one, other)


def _form(side: Answer) -> str:
    return notation.form(side.text) if isinstance(side, Element) else side.form


def _is_plain(side: Answer) -> bool:
    return (
        isinstance(side, Element)
        and _PLAIN.fullmatch(side.text.strip()) is not None
        and bool(_unknowns(side))
    )


def _unknowns(side: Answer) -> frozenset[str]:
    if not isinstance(side, Element):
        return frozenset()
    found = (
        match["letter"] or match["command"]
        for match in _UNKNOWN.finditer(side.text)
        if match["letter"] or match["command"] in _GREEK
    )
    return frozenset(found) - _CONSTANTS
