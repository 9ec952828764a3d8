"""Letters that a problem uses, and that no response chooses: `P(B)`, `Let B be the midpoint`,
`Point B lies on the line`."""

import re
from typing import Final

SEARCHED_CHARS_MAX: Final = 60
"""Characters before a letter that are searched for its clause, and for what it is."""
_QUANTITY_BEFORE: Final = re.compile(
    r"\bP\($|\b(?:probability|chances?|odds|likelihood|value|area|volume|length|distance|measure|size"
    r"|radius|mass|weight|height|speed|age|price|cost|event|matrix|set|point|vector)\b[^.!?;,:\n]{0,24}$",
    re.IGNORECASE,
)
_VALUE_AFTER: Final = re.compile(
    r"[^.!?;,\n]{0,20}?(?:\b(?:is|was|equals?|has|be)\b|=)[^.!?;,\n]{0,20}?(?:[(\[]?-?\.?\d|\\frac"
    r"|\b(?:zero|one|two|three|half|empty)\b)",
    re.IGNORECASE,
)
_INTRODUCED: Final = re.compile(
    r"\b(?:let|define|denote(?:\s+by)?)\s+(?:[A-Z]\w?'?(?:\s*,\s*|\s+and\s+)){0,4}$", re.IGNORECASE
)
"""`Let A and B be points`, and not `Let me pick B`."""
_DEFINED_AFTER: Final = re.compile(
    r"\s*=\s*(?:[(\[|-]\s*)*(?:\d|\.\d|\\(?!text)[A-Za-z]|[A-Za-z](?![\w']))"
    r"|\s+(?:is|are|be)\s+(?:an?|the)\s+(?:[\w-]+\s+){0,2}?"
    r"(?:matri(?:x|ces)|(?:sub)?sets?|(?:mid)?points?|events?|vectors?|functions?|numbers?|integers?"
    r"|constants?|variables?|angles?|verte(?:x|ces)|circles?|lines?|segments?|planes?|sequences?"
    r"|polynomials?|cent(?:er|re)s?|(?:in|circum|ortho)cent(?:er|re)|foot|roots?|groups?|rings?"
    r"|digits?|coefficients?|amplitude|length|area|radius|intersection)\b",
    re.IGNORECASE,
)
"""`B = 0.5`, `B is a matrix`; not `B = correct`, `B is the best answer`."""
_OPTION_BEFORE: Final = re.compile(
    r"\b(?:options?|choices?|answers?|letter)\b[^.!?\n]{0,20}$", re.I
)
_WORD_BEFORE: Final = re.compile(r"(?a)(?<![\w'-])([A-Za-z][a-z]{2,20})[ ]{1,2}$")
_NO_OBJECTS: Final = frozenset(
    (  # noqa: SIM905 - a list of 90 strings is harder to read
        "answer answers option options choice choices letter letters statement statements "
        "alternative alternatives candidate candidates selection response item items label "
        "claim conclusion and but nor than then thus hence therefore either neither both "
        "only just also because since when where while whereas although though unless until "
        "whether that which what who this these those the its our your are was were being "
        "been not even still maybe perhaps again here with say says said think believe guess "
        "choose chose choosing chosen pick picked picking select selected selecting prefer "
        "keep take get gets got have has leave leaves leaving left mark marked circled gives "
        "give giving makes make leads points "
    ).split()
)
"""Words before a letter that do not make it the name of a thing, as `train` does."""
_VERB_NEXT: Final = re.compile(
    r"(?a)[ ]{1,2}(?!(?:is|was|as|this|its|us|thus|always|besides|perhaps|towards|versus|across"
    r"|unless|less|plus|yes|seems|looks|sounds|appears|fits|matches|works|makes|gives|describes"
    r"|states|says|does|fails|follows|holds|remains|stands|applies|satisfies|agrees|corresponds|answers|explains"
    r"|captures|reflects|needs)\b)(?:[a-z]{2,20}(?:s|ed)|lie|move|won|lost|left|began|ran|made|had|held"
    r"|took|gave|went)\b"
)
_ALONE_NEXT: Final = re.compile(
    r"(?a)[ ]{1,2}(?:lies|lie|intersects?|denotes?|represents?|coincides?|moves?|rotates?|commutes?"
    r"|bisects?)\b(?![^.!?\n]{0,40}\b(?:correct|right|true|answer|best)\b)"
)
_IS_PLACED: Final = re.compile(
    r"(?a)[ ]{1,2}(?:is|are|was|were)[ ](?:on|in|at|between|above|below|opposite|inside|outside"
    r"|near|tangent|parallel|perpendicular|orthogonal|collinear|concyclic|equidistant|congruent|moving"
    r"|connected|attached|placed|located|independent|dependent|disjoint|mutually|\d+)\b"
    r"(?![^.!?\n]{0,40}\b(?:correct|right|true|answer|best)\b)"
)
_PLACE_BEFORE: Final = re.compile(
    r"(?a)(?:\b(?:through|from|into|onto|between|along|around|inside|outside|solv\w{1,3}[ ]for)"
    r"|(?<!arrive )(?<!arrived )(?<!arriving )(?<!up )\bat|\bfrom[ ]\S{1,3}[ ]to"
    r"|\b(?:substitut\w{1,3}|plug\w{0,4}|insert\w{0,3}))[ ]{1,2}$",
    re.IGNORECASE,
)
"""`the line through B`, `from A to B`; `I arrive at B` chooses."""
_THING_BEFORE: Final = re.compile(
    r"(?a)\b(?:through|from|into|onto|between|along|around|inside|outside|at|on)[ ](?:the[ ])?"
    r"(?P<thing>[a-z]{3,20})[ ]{1,2}$",
    re.IGNORECASE,
)
"""`the force on block B`."""
_VARIES: Final = re.compile(
    r"(?a)[ ]{1,2}(?:depends|varies|increases|decreases|changes|grows|doubles)\b"
)
_SUM_AFTER: Final = re.compile(r"(?a)\s?[-+*/^]\s?\w{1,6}\s?=\s?-?\d")
"""`B + C = 10`."""


_JOINED_AFTER: Final = re.compile(r"(?a)(?:[ ]?(?:,|&|\b(?:and|or)\b){1,2}[ ]?[A-Z](?![\w'])){1,4}")
_AMOUNT_BEFORE: Final = re.compile(
    r"(?a)(?:=|(?<![\w'-])(?!(?:questions?|problems?|number|parts?|steps?|items?|exercises?|line)\b)[a-z]{2,20})"
    r"[ ]{1,2}-?\d{1,9}(?:\.\d{1,9})?[ ]$",
    re.IGNORECASE,
)
"""`The current is 3 A`: a unit."""


def is_a_quantity(text: str, start: int, end: int) -> bool:
    """`The probability of B is 0.5`: a letter that the problem uses, and no choice."""
    before = text[max(0, start - SEARCHED_CHARS_MAX) : start]
    if _OPTION_BEFORE.search(before) is not None:
        return False
    if _INTRODUCED.search(before) or _DEFINED_AFTER.match(text, end):
        return True
    if end - start == 1 and _is_a_thing(text, before, end):
        return True
    has_quantity = _QUANTITY_BEFORE.search(before) is not None
    return has_quantity and (_VALUE_AFTER.match(text, end) or _VARIES.match(text, end)) is not None


def _is_a_thing(text: str, before: str, end: int) -> bool:
    """`Train B leaves at noon`, `B lies on the circle`, `the line through B`."""
    if _PLACE_BEFORE.search(before) or _AMOUNT_BEFORE.search(before) or _SUM_AFTER.match(text, end):
        return True
    if (joined := _JOINED_AFTER.match(text, end)) is not None:
        end = joined.end()
    if _ALONE_NEXT.match(text, end) or _IS_PLACED.match(text, end):
        return True
    thing = _THING_BEFORE.search(before)
    if thing is not None and thing["thing"].lower() not in _NO_OBJECTS:
        return True
    word = _WORD_BEFORE.search(before)
    if word is None or word[1].lower() in _NO_OBJECTS or word[1].endswith("ly"):
        return False
    return _VERB_NEXT.match(text, end) is not None
