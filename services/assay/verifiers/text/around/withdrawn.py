r"""Responses that end by taking their answer back: `\boxed{5}`, then `Wait, this is wrong.`

Only the last sentences count, and only if nothing behind that one states, computes or affirms
something: what goes on may have found the same answer again. Total, linear.
"""

import re
from collections import deque
from functools import cache
from typing import Final

TAKEN_BACK: Final = "the response takes its answer back"
CHARS_MAX: Final = 400
"""From the end."""
_MARKS: Final = "\n.!?;$})*> _(]"
_ANSWER: Final = r"(?:answer|result|solution|value|calculation|reasoning|work)s?"
_ALL: Final = (
    r"(?:(?:(?:all|everything|most)\s(?:of\s)?)?(?:the|that)?\s?above|(?:all|everything|what)\s(?:of\s)?(?:that\s)?"
    r"i\s(?:said|wrote|did|have\s(?:said|written))(?:\s(?:above|so\sfar|before))?)"
)
_SUBJECT: Final = (
    rf"(?:(?:{_ALL}|that|this|it|these|those|(?:my|this|that|the(?=\s(?:above|last|previous)))\s(?:(?:above|final|last|previous)\s)?"
    rf"{_ANSWER}(?:\s(?:above|here))?)"
    r"(?:\s(?:still|just|also|clearly|obviously|actually))?)"
)
NOT_SO: Final = (
    r"(?:(?:is|was|are|were|seems|looks|must\sbe|has\sto\sbe|appears\sto\sbe)\s(?:\w+ly\s|all\s|completely\s)?"
    r"(?:wrong|incorrect|mistaken|false|invalid|an?\s(?:mistake|error)|not\s(?:right|correct|true|valid|the\sanswer))"
    r"|(?:(?:is|was|are|were)n['\u2019]t|can(?:not|['\u2019]t|\snot)\sbe)\s(?:right|correct|true|valid|the\sanswer|it)"
    r"|does(?:n['\u2019]t|\snot)\s(?:work|hold|make\ssense))"
)
LEAD: Final = (
    r"(?:(?:but|oh|ah|ugh|hmm+|wait|no|nope|nah|actually|sorry|oops|whoops|hold\son|hang\son|correction|edit|update|on\ssecond\sthought"
    r"|i\s(?:think|believe|realized?|see|notice|am\safraid)(?:\sthat)?|unfortunately|however|ups"
    r"|(?:on|upon|after|when)\s(?:\w+ly\s)?(?:re-?)?(?:check|verif|inspect|reflect|review|substitut|test|consider)\w*(?:\s\w+){0,3}"
    r")[\s,.:!\u2026\u2013\u2014-]{1,4}){0,4}"
)
_SO: Final = r"(?:(?:so|thus|hence|therefore|which\smeans|and)(?:\sthat)?,?\s)"
_CLAUSE: Final = r"[^.!?\n;\d$\\]"
_IT: Final = (
    rf"(?:(?:the|my|this|that)\s(?:(?:above|final|previous|last)\s)?answer(?:\sabove)?|{_ALL}"
    r"|(?:the|my)\s(?:above|previous|last)|that|this|it)"
)
_NO_FIT: Final = (
    r"does(?:n['\u2019]t|\snot)\s(?:satisfy|match|fit|meet|agree)(?:\s[a-z]{1,12}){0,6}"
)
_WITHDRAWS: Final = (
    r"(?:^|[\n.!?;$})*>])[\s*_(\]]{0,9}"
    rf"(?:{LEAD}(?P<bare>(?:{_SUBJECT}|that['\u2019]s)\s{NOT_SO})"
    rf"|{LEAD}(?:{_IT}|(?:the|my|this)\s{_ANSWER})\s{_NO_FIT}"
    rf"|{LEAD}(?:that|it|this)['\u2019]s\s(?:not\s(?:right|correct|true)|wrong|incorrect|an?\s(?:mistake|error))"
    rf"|{LEAD}(?:please\s)?(?:ignore|disregard|scratch|strike|discard|forget|do\snot\suse|don['\u2019]t\suse)\s{_IT}"
    rf"|{LEAD}{_IT}\s(?:should|must)\sbe\s(?:ignored|disregarded|discarded)"
    rf"|{LEAD}i\s(?:(?:have\sto|must|would\slike\sto|want\sto|hereby)\s)?(?:take\s{_IT}\sback|take\sback\s{_IT}|(?:retract|withdraw|revoke|reject)\s{_IT})"
    rf"|{LEAD}i\s(?:have\s)?(?:made|was)\s(?:an?\s(?:\w+\s)?(?:mistake|error)|wrong|mistaken)"
    r"|(?:wait|no|nope|nah|oops|hmm+)[\s,.!\u2026\u2014-]{1,4}(?:(?:all|totally|completely|clearly)\s)?(?:wrong|incorrect|not\s(?:right|correct))"
    r"|wrong(?=!)|wait,?\sno|no,?\swait)(?![A-Za-z])"
    rf"|(?:^|[\n.!?;$}})*>])(?={_CLAUSE}{{1,120}},\s{_SO})(?:(?!if\s){_CLAUSE}){{1,120}},\s{_SO}"
    rf"(?:{_IT}|(?:the|my|this)\s{_ANSWER})\s(?:{NOT_SO}|{_NO_FIT})(?![A-Za-z])"
)
_HINTS: Final = (
    *("wrong", "incorrect", "mistake", "error", "false", "invalid", "not", "n't", "n\u2019t"),
    *("ignore", "disregard", "scratch", "strike", "discard", "forget", "take", "retract"),
    *("withdraw", "revoke", "reject", "wait"),
)
"""Whatever takes an answer back has one of these in it."""
_SAYS_NOTHING: Final = (
    r"(?:[\s.,!:;\u2026*_$)\]}-]|(?<![A-Za-z])(?:i|me|we|my|need|have|want|should|must|to|let|go|going|back|think|look"
    r"|check|recheck|redo|recompute|recalculate|reconsider|again|sorry|apologies|mistake|bad|the|for|confusion|this|that|it"
    r"|about|oh|well|hmm+|not|sure|anymore|now|no|wait|please|ignore|above|step|steps)(?![A-Za-z]))*\Z"
)
"""What may follow; anything else may state, compute or affirm something."""
_REASON_WORDS_MIN: Final = 3
"""Fewer may be what is right."""
_REASON: Final = (
    r"(?:,?\s(?:because|since|as|in\s(?:step|line|part)|somewhere|with|car|parce|puisque|porque|pois|perch\u00e9|omdat|want|karena)\s"
    r"|\s?[,:\u2014\uff0c]\s?|\s-\s)[^.!?\n$\\=]{1,160}"
)
"""Why it is wrong, up to the end of the sentence."""
_STATES: Final = (
    r"\d|(?-i:(?<![A-Za-z])[B-HJ-Z](?![A-Za-z]))|(?<![A-Za-z])(?:if|unless|only|right|correct|fine|good|ok|okay|works?|holds?|equals|answer|yes|nevermind"
    r"|never\smind|but|instead|better|fits|choose|pick|after\sall|sollte|deve|debe|doit|richtig|korrekt|correcte?|correct[oa]|corrett[oa]|should|must)(?![A-Za-z])"
    r"|\u6b63\u786e|\u5e94\u8be5|\u6b63\u3057\u3044|\ub9de|\u043f\u0440\u0430\u0432\u0438\u043b\u044c\u043d\u043e|\u0432\u0435\u0440\u043d\u043e"
)
"""A reason with one of these may state, affirm or limit something."""
_SAYS_IS: Final = (
    r"(?<![A-Za-z])(?:(?:it|that|this|one|value|result)\s(?:is|was)|it['\u2019]s)(?![A-Za-z])"
)
_BECAUSE: Final = r",?\s(?!with)[^\W\d_]"
"""A reason that begins with a word for it may say what something is."""
_PLACE: Final = r"\b(?:step|line|part|case|row|equation|section)\s\(?\d{1,2}\b"
_OTHERS_SAY: Final = (
    r"(?<!\w)(?:manche|viele|einige|certains|beaucoup|algunos|muchos|alguns|muitos|alcuni|molti"
    r"|sommigen?|veel|niekt\u00f3rzy|wielu|\u043d\u0435\u043a\u043e\u0442\u043e\u0440\u044b\u0435|\u043c\u043d\u043e\u0433\u0438\u0435"
    r"|\u6709\u4eba|\u6709\u4e9b\u4eba|\u5f88\u591a\u4eba|\u591a\u304f\u306e\u4eba)[^.!?\n\u3002]{1,160}[.!?\u3002]?[\s*_(]{0,9}\Z|"
    r"(?<![A-Za-z])(?:some|many|most|other|few)\s(?:people|students|beginners|solvers|texts|books|authors|solutions|of\sthem)"
    r"\s[^.!?\n]{1,160}[.!?]?[\s*_(]{0,9}\Z|(?<![A-Za-z])(?:(?:some|many|most|others|people|students|beginners)\s(?:(?:may|might|could|would|can|often)\s|(?:people|students|others|beginners)\s){0,2}"
    r"|(?:one|you)\s(?:may|might|could|would)\s|it\s(?:may|might|would|could)?\s?)"
    r"(?:be\s(?:tempt\w+|easy)|is\s(?:tempting|easy)|gets?|says?|said|thinks?|thought|claims?|claimed|believed?|answer|guess|expect|writes?|wrote"
    r"|choose|chose|forgets?|forgot|overlook|miss|assume|sum|use|divide|multiply|count|try)(?![A-Za-z])[^.!?\n]{0,160}[.!?]?[\s*_(]{0,9}\Z"
)
"""The sentence before a bare `That is wrong.`, if it is about others."""
_VALUE: Final = (
    r"(?:that|this|it)(?:['\u2019]s|\s(?:is|was))\s(?:\w+ly\s)?"
    r"(?:false|incorrect|wrong|invalid|not\s(?:true|correct|valid|right))\Z"
)
"""May be an answer itself."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """At first use: definitions of pipelines import this module, and judge nothing."""
    return re.compile(pattern, re.IGNORECASE)


def is_withdrawn(text: str, *, states: bool = True) -> bool:
    """Whether `text` ends by taking back what it states.

    Args:
        text: a response, or its end.
        states: whether an answer is marked in it; otherwise `This is false.` may be the answer.
    """
    end = text[-CHARS_MAX:]
    last = _last(end)
    if last is None:
        return False
    bare = last["bare"] is not None and last[0].lstrip(_MARKS).startswith(last["bare"])
    if bare and not states and _compiled(_VALUE).match(last["bare"]):
        return False
    if bare and _compiled(_OTHERS_SAY).search(end, 0, last.start("bare")):
        return False
    at = last.end()
    return _compiled(_SAYS_NOTHING).match(end, at + len(_reason(end, at))) is not None


def may_be_inside(text: str) -> bool:
    """Whether some part of `text` may take an answer back: cheap, and never wrongly false."""
    if text.isascii():
        folded = text.lower()
        return any(map(folded.__contains__, _HINTS))
    return _compiled("|".join(_HINTS)).search(text) is not None  # some letters have other forms


def reason(text: str) -> str:
    """Why it is wrong, as the sentence says that takes back what `text` states, or nothing."""
    end = text[-CHARS_MAX:]
    last = _last(end)
    return "" if last is None else _reason(end, last.end())


def _last(end: str) -> re.Match[str] | None:
    """The last sentence that takes something back."""
    if not may_be_inside(end):
        return None
    return next(iter(deque(_compiled(_WITHDRAWS).finditer(end), maxlen=1)), None)


def _reason(end: str, at: int) -> str:
    found = _compiled(_REASON).match(end, at)
    if found is None or len(found[0].split()) < _REASON_WORDS_MIN:
        return ""
    is_other = _compiled(_STATES).search(_compiled(_PLACE).sub(" ", found[0])) or (
        not _compiled(_BECAUSE).match(found[0]) and _compiled(_SAYS_IS).search(found[0])
    )
    return "" if is_other else found[0]
