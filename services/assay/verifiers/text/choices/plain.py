"""A text for matching labels in: its marks, and the words of other scripts that reject a label, as
single characters. Total, linear; every character stays where it is."""

import re
from typing import Final

_PLAIN: Final[dict[int, int | str]] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, '{}$*_`"\u201c\u201d\u00a0\t'), " "),
    0x2019: "'",
    0x2018: "'",
    0x3000: " ",
    0x3001: ",",
}
"""Full-width letters become plain ones; Markdown and LaTeX marks become spaces."""
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts without spaces or with endings: their letters next to a label are no part of it."""
_NOT_LABEL: Final = re.compile(
    "\u4e0d(?:\u662f|(?:\u80fd|\u5e94\u8be5|\u5e94|\u8be5|\u53ef\u4ee5|\u53ef|\u4f1a|\u8981|\u5b9c)?\u9009)?"
    "|\u5e76\u975e|\u975e|\u6392\u9664"
)
"""Chinese `not`, `do not choose`, `rule out`."""
_BUT_LABEL: Final = re.compile("\u9664\u4e86?")
"""Chinese `all but`."""
_THEN_LABEL: Final = re.compile("\u800c\u662f|\u9009")
"""Chinese `but`, `choose`: what follows is not part of a rejected list."""
_LABEL_NOT: Final = re.compile(
    "(?:\u3067\u306f?|\u3058\u3083)(?:\u306a|\u3042\u308a)|(?:\uac00|\uc774|\uc740|\ub294)?\\s?\uc544(?:\ub2c8|\ub2cc|\ub2d9|\ub2d8)"
    "|\u0928\u0939\u0940\u0902|de\u011fil"
    "|(?:\u9009?\u9879)?(?:\u662f)?(?:\u9519|\u4e0d\u5bf9|\u4e0d\u6b63\u786e)"
)
"""Japanese, Korean and Chinese `is not`, `is wrong`, after a label."""
_LATEX: Final = re.compile(r"\\(?:text\w{0,6}|math\w{1,6}|mbox|boxed|fbox)[ ]?\{|\\[()\[\],;!]")
_HIDDEN: Final = re.compile(
    r"~~[^~\n]+~~|<(s|del|strike)>[^<]*</\1>"
    r"|\\(?:[bx]?cancel|sout|h?phantom)[ ]?\{[^{}]*\}"
    r"|\w[\u0334-\u0338\u20d2\u20d3\u20e5\u20e6]",
    re.IGNORECASE,
)
"""Text that is struck through or invisible."""
_NOT_SIGN: Final = re.compile(r"\\(?:neq?|l?not|neg)(?![A-Za-z])|!=")
_MARKED: Final = ("\\", "!=", "~~", "</")
"""None of the three is in a text of ASCII without one of these."""
_QUOTE: Final = re.compile(r"(?<!\w)'|'(?!\w)")


def plain_text(text: str) -> str:
    """The text for matching: the same length, with Markdown and LaTeX marks as spaces."""
    blank = text
    if not text.isascii() or any(map(text.__contains__, _MARKED)):
        blank = _HIDDEN.sub(lambda match: " " * len(match[0]), text)
        blank = _NOT_SIGN.sub(lambda match: "\u2260".rjust(len(match[0])), blank)
        blank = _LATEX.sub(lambda match: " " * len(match[0]), blank)
    if not (blank := blank.translate(_PLAIN)).isascii():
        blank = _LABEL_NOT.sub(lambda match: "\u2717".ljust(len(match[0])), blank)
        blank = _NOT_LABEL.sub(lambda match: "\u2260".rjust(len(match[0])), blank)
        blank = _BUT_LABEL.sub(lambda match: "\u2216".rjust(len(match[0])), blank)
        blank = _THEN_LABEL.sub(lambda match: ";".ljust(len(match[0])), blank)
        blank = _UNSPACED.sub(" ", blank)
    return _QUOTE.sub(" ", blank) if "'" in blank else blank
