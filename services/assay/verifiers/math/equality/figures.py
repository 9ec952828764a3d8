r"""Segments, lines, angles named by their points: `AB`, `BA`, `segment AB` for `\overline{AB}`.

Only for a gold that says what it is: the gold `AB` may be a product. `\overline{AB}` is read as a
segment, so golds of Boolean algebra (a complement) are to be written as `A' + B'` or with `\lnot`.
"""

import re
from typing import Final

from assay.verifiers.math.grammar import Answer, Element, Prose, Words

_FIGURE: Final = re.compile(
    r"(?a)\\(?P<kind>overline|overleftrightarrow|angle|triangle)\s?\{?\s?(?P<points>[A-Z]{2,3})\s?\}?"
)
_POINTS: Final = {"overline": 2, "overleftrightarrow": 2, "angle": 3, "triangle": 3}
_SAID: Final = {
    "overline": r"(?:\\overline|(?:the)?(?:line)?segment)?",
    "overleftrightarrow": r"(?:\\overleftrightarrow|(?:the)?line)?",
    "angle": r"(?:\\angle|(?:the)?angle)?",
    "triangle": r"(?:\\triangle|(?:the)?triangle)?",
}
_BLANK: Final = re.compile(r"[\s{}$]|\\text")


def same(gold: Answer, answer: Answer) -> bool:
    """Whether the gold is such a figure, and the answer names it by its points."""
    if not (isinstance(gold, Element | Prose) and isinstance(answer, Element | Words | Prose)):
        return False
    figure = _FIGURE.fullmatch(gold.text.strip())
    if figure is None or len(figure["points"]) != _POINTS[figure["kind"]]:
        return False
    kind, points = figure["kind"], figure["points"]
    said = re.fullmatch(
        rf"(?i:{_SAID[kind]})(?P<points>[A-Z]{{2,3}})", _BLANK.sub("", answer.form or answer.text)
    )
    turned = points if kind == "triangle" else points[::-1]
    return said is not None and said["points"] in (points, turned)
