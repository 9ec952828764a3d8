"""Sentences behind a value: `85. So, we are done.` comments on it, `85. Wait, no.` takes it back.

Pure and linear. What states a value of its own is neither: other rules read it.
"""

import re
from typing import Final

from assay.verifiers.text.around.arithmetic import NUMBER_WORD

CHARS_MAX: Final = 300
"""A longer text is not divided."""
_DIVIDES: Final = re.compile(
    r"(?<=[\w)\]}$%])[.!](?:[*_]{1,2})?\s+(?:[*_]{1,2})?(?:(?=[A-Z](?:[a-z]+|'[a-z]+)?[\s,])(?!\w\.)"
    r"|(?=(?i:nah|nope|no|not|wait|sorry|oops|hmm|maybe|perhaps)[.!]{0,3}\Z))"
)
_VALUES: Final = re.compile(r"(?a)[\d=<>$]|\\[A-Za-z]|(?<![A-Za-z'])[B-HJ-Zb-z](?![A-Za-z'])")
"""Digits, signs, commands of LaTeX, and letters that stand alone."""
_SPELLED: Final = re.compile(rf"(?ai)(?<![a-z]){NUMBER_WORD}(?![a-z])")
_CONCLUDES: Final = re.compile(
    r"(?ai)(?:so|hence|thus|therefore|then|or|rather|actually|instead|no|wait|sorry|oops)(?![a-z])"
)
_LEADS: Final = (
    r"(?:but|oh|hmm|however|actually|wait|hold on|sorry|oops|nope|nah|no|correction|scratch that"
    r"|strike that|ignore that|my (?:mistake|bad)|on second thought)(?![a-z])"
)
_IT: Final = r"(?:that|this|it)"
_TAKES_BACK: Final = re.compile(
    rf"(?ai)(?:(?:{_LEADS}[,.!\s-]*)+\Z|(?:{_LEADS}[,.!]?\s+)*(?:"
    r"not (?:really|quite|so|sure)|not\W*\Z|or|maybe|perhaps|possibly|alternatively"
    rf"|{_IT}(?:'s| is| was| may be| might be| could be)"
    r" (?:not (?:right|correct|true)|wrong|incorrect|false|unlikely|an? (?:mistake|error))"
    rf"|{_IT} (?:may|might|could) (?:also )?be (?:more|less|different|other|another)"
    r"|i (?:was wrong|made an? (?:mistake|error)|doubt|take (?:that|it) back)"
    r"|i (?:may|might|could) be wrong|i(?:'m| am) (?:not |un)(?:sure|certain))(?![a-z]))"
)
"""Words that only lead to a correction comment on nothing else: `Sorry, for the length.`"""


def divided(text: str) -> tuple[str, str]:
    """The text before its first further sentence, and the sentences from there on ('' = none)."""
    found = _DIVIDES.search(text) if len(text) <= CHARS_MAX else None
    if found is None:
        return text, ""
    return text[: found.start()], text[found.end() :]


def states(said: str) -> bool:
    """Whether sentences may state a value of their own."""
    return _VALUES.search(said) is not None or _SPELLED.search(said) is not None


def takes_back(said: str) -> bool:
    """Whether sentences deny or doubt what stands before them, or conclude another number."""
    if _TAKES_BACK.match(said):
        return not _VALUES.search(said)
    return _CONCLUDES.match(said) is not None and _SPELLED.search(said) is not None
