"""Last lines that give one name several values: `x = 5`, then `x = 85`.

Each of them may be the answer. A longer row of such lines is a trace, whose last value counts.
"""

import re
from typing import Final

_CHARS_MAX: Final = 250
_LINES_MAX: Final = 3
_LINE: Final = re.compile(
    r"[ \t>*_$\\(\[-]*(?P<label>[^\W\d](?:[\w ]{0,30}\w)?)[ \t*_]*[=:][ \t*_$]*"
    r"(?P<value>[-+\u2212]?[$\u20ac\u00a3]?\d[\d,]*(?:\.\d+)?(?:[ ]?[A-Za-z%\u00b0]{1,12})?)"
    r"[ \t*_$.,;\\)\]]*"
)


def values(text: str) -> list[str]:
    """The values of the last lines, if they are two or three of one name; otherwise none."""
    said: list[str] = []
    label = ""
    for line in reversed(text[-_CHARS_MAX:].split("\n")):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line)
        if found is None or (label and found["label"] != label):
            break
        label = found["label"]
        said.insert(0, found["value"])
    return said if 1 < len(said) <= _LINES_MAX else []
