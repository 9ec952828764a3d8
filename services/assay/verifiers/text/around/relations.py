r"""Relations and brackets around a box: `x > \boxed{85}`, `[\boxed{85}, \infty)`.

No answer, but a part of it, is a side of `<`, `>`, `\ne` and the like with a name on the other
side; of `\le` and `\ge` if the other side is bounded twice (`0 \le x \le \boxed{5}`) or has a name
of the box in it (`\boxed{x^2} \le x^3`); a member of a tuple or interval, and an entry of a matrix.
An answer is the one bound that something reaches (`abc \le \boxed{729}`), what stands behind `=`
or `\in`, and a value of which a relation to a plain number says something (`\boxed{85} > 5`).
Total; looks at a bounded number of characters on either side.
"""

import re
from typing import Final

_CHARS_MAX: Final = 100
_STRICT: Final = (
    r"(?:\\(?:not\s?(?:=|<|>|\\(?:in|leq?|geq?|equal)(?![A-Za-z]))"
    r"|(?:[lg]t|neq?|ll|gg|n[lg]eq?|[lg]neqq?|prec|succ|notin|n?(?:sub|sup)set(?:eq|neq)?)(?![A-Za-z]))"
    r"|[\u2209\u2260\u2268-\u2271\u2282-\u228b]|!=|&[lg]t;"
    r"|<(?![/|!?<=-]|[A-Za-z][^<>\n]{0,40}>)|(?<![-=|>/\"'`])>(?![>=]))"
)
_WEAK: Final = (
    r"(?:\\[lg]eq?(?:q|slant)?(?![A-Za-z])|[\u2264-\u2267\u2a7d\u2a7e]|<=(?![=>])|(?<!=)>=)"
)
_GAP: Final = r"(?:[\s~*_&$]|\\[,;:! ()\[\]]|\\(?:q?quad|displaystyle|left|big)(?![a-z])|\{\})"
_BEFORE: Final = re.compile(rf"(?:(?P<strict>{_STRICT})|{_WEAK}){_GAP}{{0,6}}[({{]?\s?\Z")
_BEHIND: Final = re.compile(rf"[)}}]?(?:(?!\n){_GAP}){{0,6}}(?:(?P<strict>{_STRICT})|{_WEAK})")
_SIGN: Final = re.compile(rf"{_STRICT}|{_WEAK}")
_TAG: Final = re.compile(r"<[/|!?A-Za-z][^<>\n]{0,60}>\Z")
_QUOTED: Final = re.compile(r"(?:\A|\n)[\s>]*\Z")
"""A mark of Markdown."""
_ENDS: Final = tuple("$({*_&\\<>=; \n\u2209\u2260\u2264\u2265\u2a7d\u2a7eqtelg")
"""What a sign before a box, and marks between the two, may end with."""
_LEFT_BEGINS: Final = re.compile(
    r"\n|[.,;:!?](?:\s|\Z)|\\\\|\\[(\[]|\$\$?(?=[^$]*\Z)|[\u2192\u21d2\u27f9]|=>"
    r"|\\(?:(?:long)?rightarrow|(?:Long)?[Rr]ightarrow|implies|iff|to|text\s?\{[^{}]*\})(?![A-Za-z])"
)
_RIGHT_ENDS: Final = re.compile(
    r"\n|[.,;:!?](?:\s|\Z)|\\\\|\$|\\[)\]]|\s(?=\(?(?<!\\)[A-Za-z]{2,})|\\(?:text|mbox|end)\b"
)
_WORD: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}(?=[\s,;:])(?!\s*\Z)")
"""Before a formula."""
_GREEK: Final = re.compile(
    r"\\(?:alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|rho|sigma|tau"
    r"|phi|varphi|chi|psi|omega|ell)(?![A-Za-z])"
)
_COMMAND: Final = re.compile(r"\\(?:text|mathrm|mbox|textbf)\s?\{[^{}]*\}|\\[A-Za-z]+")
_NAME: Final = re.compile(r"(?<![A-Za-z.])[A-Za-z](?![A-Za-z'])|[\u03b1-\u03c9\ue000]")
_PRODUCT: Final = re.compile(r"(?<![A-Za-z])[b-hj-z]{2,3}(?![A-Za-z])(?=\s?[<>=+*/^)-]|\s*\Z)")
_CONSTANTS: Final = frozenset("eiI")
_OPENS: Final = re.compile(r"(?<!\\)[(\[]|\\\{|\\langle(?![a-z])")
_NO_INNER: Final = re.compile(r"[()\]\n]|\\\}|\\rangle")
_CLOSES: Final = re.compile(
    r"(?P<inner>[^()\[\]\n]{0,80}?)(?:\\right\s?)?(?:[)\]]|\\\}|\\rangle(?![a-z]))"
)
_MEMBER: Final = (
    r"(?:[-+\u2212]?\s?(?:\d[\d.]*|\\infty|\\?[A-Za-z](?![A-Za-z])|\\pi|\u221e|inf(?:inity)?\b"
    r"|\\(?:[dt]?frac|sqrt)\s?(?:\{[^{}]*\}){1,2})\s?(?:[-+*/^]\s?[\w{}\\]{1,12}\s?){0,3})"
)
_GLUE: Final = r"(?:[\s$~]|\\[,;:! ()])*"
_EARLIER: Final = re.compile(rf"{_GLUE}(?:{_MEMBER}{_GLUE}[,;]{_GLUE})+")
_LATER: Final = re.compile(rf"{_GLUE}(?:[,;]{_GLUE}{_MEMBER}{_GLUE})+")
_BOX: Final = re.compile(r"\\f?box(?:ed)?\s?\{[^{}]{0,40}\}")
_MATRIX_BEGINS: Final = re.compile(r"\\begin\s?\{[pbvBV]?(?:small)?matrix\*?\}")
_MATRIX_ENDS: Final = re.compile(r"\\end\s?\{[pbvBV]?(?:small)?matrix\*?\}")
_MATRIX_CHARS_MAX: Final = 400


def is_side(text: str, start: int, end: int) -> bool:
    """Whether `[start, end)` is a side of a relation that is the answer."""
    said = _letters(text[start:end][:_CHARS_MAX])
    return _is_right_side(text[max(0, start - _CHARS_MAX) : start], said) or _is_left_side(
        text, end, said
    )


def _is_right_side(before: str, said: frozenset[str]) -> bool:
    """A bound with nothing before it is one, too: `so it is > \\boxed{85}`."""
    sign = _BEFORE.search(before) if before.endswith(_ENDS) else None
    if sign is None:
        return False
    left = before[: sign.start()]
    if sign[0].startswith(">") and (_TAG.search(left + ">") or _QUOTED.search(left)):
        return False
    begun = list(_LEFT_BEGINS.finditer(left))
    side = left[begun[-1].end() :] if begun else left
    if words := list(_WORD.finditer(side)):
        side = side[words[-1].end() :]
    members = _SIGN.split(side)
    if sign["strict"]:
        return bool(_names(side)) or not _has_digit(side)
    return bool(_names(side) & said) or (len(members) > 1 and _is_closed(members[0]))


def _is_left_side(text: str, end: int, said: frozenset[str]) -> bool:
    sign = _BEHIND.match(text, end, end + _CHARS_MAX)
    if sign is None:
        return False
    rest = text[sign.end() : sign.end() + _CHARS_MAX].lstrip(" $&~")
    over = _RIGHT_ENDS.search(rest)
    side = rest[: over.start()] if over else rest
    if sign["strict"]:
        return bool(_names(side))
    members = _SIGN.split(side)
    return bool(_names(side) & said) or (len(members) > 1 and _is_closed(members[-1]))


def _names(side: str) -> frozenset[str]:
    r"""Letters that stand for something unknown: `x`, both of `ab`, `\theta`."""
    bare = _COMMAND.sub(" ", _GREEK.sub("\ue000", side))
    products = "".join(one[0] for one in _PRODUCT.finditer(bare))
    return frozenset([*(one[0] for one in _NAME.finditer(bare)), *products]) - _CONSTANTS


def _letters(formula: str) -> frozenset[str]:
    """As `_names`, of what is surely no word."""
    bare = _COMMAND.sub(" ", _GREEK.sub("\ue000", formula))
    return frozenset(re.findall(r"[A-Za-z\u03b1-\u03c9\ue000]", bare)) - _CONSTANTS


def _is_closed(side: str) -> bool:
    return _has_digit(side) and not _names(side)


def _has_digit(side: str) -> bool:
    return any(letter.isdigit() for letter in side)


def is_member(text: str, start: int, end: int) -> bool:
    r"""Whether it is one of several members between brackets, or an entry of a matrix.

    Where all of them are boxes, they are the answer together, unless brackets say more.
    """
    return _is_in_brackets(text, start, end) or _is_in_matrix(text, start, end)


def _is_in_brackets(text: str, start: int, end: int) -> bool:
    behind = _CLOSES.match(text, end, end + _CHARS_MAX)
    if behind is None:
        return False
    before = text[max(0, start - _CHARS_MAX) : start]
    opened = list(_OPENS.finditer(before))
    said = before[opened[-1].end() :] if opened else ""
    if not opened or _NO_INNER.search(said):
        return False
    earlier = _EARLIER.fullmatch(_BOX.sub("0", said))
    later = _LATER.fullmatch(_BOX.sub("0", behind["inner"]))
    is_first, is_last = not said.strip(" $~"), not behind["inner"].strip(" $~\\")
    if not (earlier or is_first) or not (later or is_last):
        return False
    if is_first and is_last:
        return False
    is_interval = "[" in opened[-1][0] or behind[0].endswith("]")
    return is_interval or any(map(str.isalnum, _BOX.sub("", said + behind["inner"])))


def _is_in_matrix(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - _MATRIX_CHARS_MAX) : start]
    at = before.rfind("\\begin")
    begun = None if at < 0 else _MATRIX_BEGINS.match(before, at)
    if begun is None or _MATRIX_ENDS.search(before, begun.end()):
        return False
    ended = _MATRIX_ENDS.search(text, end, end + _MATRIX_CHARS_MAX)
    if ended is None:
        return False
    others = _BOX.sub("", before[begun.end() :] + text[end : ended.start()])
    return any(letter.isalnum() for letter in others)
