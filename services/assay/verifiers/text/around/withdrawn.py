r"""Responses that end by taking their answer back: `\boxed{5}`, then `Wait, this is wrong.`

Only the last sentences count, and only if nothing behind that one states, computes or affirms
something: what goes on may have found the same answer again. Total, linear.
"""

import re
from collections import deque
from typing import Final

TAKEN_BACK: Final = "the response takes its answer back"
CHARS_MAX: Final = 400
"""From the end."""
_SUBJECT: Final = (
    r"(?:(?:that|this|it|these|those|(?:my|this|that|the(?=\s(?:above|last|previous)))\s(?:(?:above|final|last|previous)\s)?"
    r"(?:answer|result|solution|value|calculation|reasoning)s?(?:\s(?:above|here))?)"
    r"(?:\s(?:still|just|also|clearly|obviously|actually))?)"
)
NOT_SO: Final = (
    r"(?:(?:is|was|are|were|seems|looks|must\sbe|appears\sto\sbe)\s(?:\w+ly\s|all\s|completely\s)?"
    r"(?:wrong|incorrect|mistaken|false|invalid|an?\s(?:mistake|error)|not\s(?:right|correct|true|valid|the\sanswer))"
    r"|(?:(?:is|was|are|were)n['\u2019]t|can(?:not|['\u2019]t|\snot)\sbe)\s(?:right|correct|true|valid|the\sanswer|it)"
    r"|does(?:n['\u2019]t|\snot)\s(?:work|hold|make\ssense))"
)
LEAD: Final = (
    r"(?:(?:but|oh|hmm+|wait|no|nope|actually|sorry|oops|hold\son|correction|edit|update|on\ssecond\sthought"
    r"|i\s(?:think|believe|realized?|see)(?:\sthat)?|unfortunately|however)[\s,.:!\u2026-]{1,4}){0,4}"
)
_WITHDRAWS: Final = re.compile(
    r"(?:^|[\n.!?;$})*>])[\s*_(\]]{0,9}"
    rf"(?:{LEAD}(?:{_SUBJECT}|that['\u2019]s)\s{NOT_SO}"
    rf"|{LEAD}(?:that|it|this)['\u2019]s\s(?:not\s(?:right|correct|true)|wrong|incorrect|an?\s(?:mistake|error))"
    rf"|{LEAD}(?:please\s)?(?:ignore|disregard|scratch|strike|discard)\s(?:that|this|it|(?:the|my)\s(?:above|previous|last)(?:\sanswer)?|(?:the|my)\s(?:above\s)?answer)"
    rf"|{LEAD}i\s(?:have\s)?(?:made|was)\s(?:an?\s(?:\w+\s)?(?:mistake|error)|wrong|mistaken)"
    r"|wait,?\sno|no,?\swait)(?![A-Za-z])",
    re.IGNORECASE,
)
_SAYS_NOTHING: Final = re.compile(
    r"(?:[\s.,!:;\u2026*_$)\]}-]|(?<![A-Za-z])(?:i|me|we|my|need|have|want|should|must|to|let|go|going|back|think|look"
    r"|check|recheck|redo|recompute|recalculate|reconsider|again|sorry|apologies|mistake|bad|the|for|confusion|this|that|it"
    r"|about|oh|well|hmm+|not|sure|anymore|now|no|wait|please|ignore|above|step|steps)(?![A-Za-z]))*\Z",
    re.IGNORECASE,
)
"""What may follow; anything else may state, compute or affirm something."""


def is_withdrawn(text: str) -> bool:
    """Whether `text` ends by taking back what it states."""
    end = text[-CHARS_MAX:]
    last = next(iter(deque(_WITHDRAWS.finditer(end), maxlen=1)), None)
    if last is None:
        return False
    return _SAYS_NOTHING.match(end, last.end()) is not None
