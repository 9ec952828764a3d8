"""Remarks behind words that are an answer: `Paris (see above)`, `Paris, as required`, `Paris, since
it is the capital`.

For answers that are compared word for word, by what counts as a remark for values
(`assay.verifiers.math.grammar.remarks`). A remark says where the answer comes from, that it is the
answer, or which other one it is not. Words that doubt, deny or offer another answer are no remark,
and neither is a description in brackets, which may be part of a name. Total, linear.
"""

import re
from collections.abc import Iterator
from typing import Final

_CHARS_MAX: Final = 300
"""A longer text is compared as it is."""
_PLACES_MAX: Final = 8
_PLACE: Final = (
    r"(?:above|below|earlier|before|here|text|passage|context|section|step|part|line|paragraph|figure"
    r"|table|equation|page|chapter|appendix|note|sources?|references?|documents?|article|quote)"
)
_REFERS: Final = (
    rf"(?:(?:see|cf\.?|compare|refer\sto|per|from|according\sto|in|by)\s(?:also\s)?(?:the\s|my\s|this\s)?(?:\w+\s){{0,2}}{_PLACE}s?"
    rf"|(?:as\s)?(?:shown|seen|derived|explained|described|computed|calculated|stated|noted|discussed|mentioned|found|proved|given)"
    rf"(?:\s(?:in|by|from|on|at))?(?:\s(?:the|my|this))?\s(?:\w+\s)?{_PLACE}s?|(?:as\s)?above)(?:\s?\[?(?:\d{{1,4}}|[a-z]|[ivx]{{1,4}})(?![a-z])[\].]?){{0,3}}"
)
_AFFIRMS: Final = (
    r"(?:as\s(?:required|desired|expected|needed|claimed|requested|asked|stated|shown|explained|described)"
    r"|(?:this\sis\s|that\sis\s|which\sis\s)?(?:the\s|my\s|our\s)?(?:final\s|correct\s|right\s|only\s)?answer|(?:which\sis\s)?correct"
    r"|q\.?e\.?d\.?|done|verified|checked|exact(?:ly)?|(?:and\s)?we(?:'re|\sare)\s(?:done|finished))"
)
_REMARK: Final = re.compile(
    rf"\s{{0,4}}(?:(?P<open>[(\[])|[,;\u2013\u2014]|\s-(?=\s)|(?=\sbecause\b))\s{{0,4}}"
    rf"(?:(?P<says>(?:{_REFERS}|{_AFFIRMS}|(?<=\[)\^?\d{{1,3}})[\s.]*)|(?P<why>(?:because|since)\s\S[^\n]*)"
    r"|(?P<not>(?:and\s|but\s)?(?:not|rather\sthan|instead\sof)\s(?:the\s)?)(?P<other>\S[^\n]*))",
    re.IGNORECASE,
)
_MARKS: Final = re.compile(r"\A\W+|\W+\Z")
_DOUBTS: Final = re.compile(
    r"(?<![a-z])(?:or|if|else|otherwise|but|maybe|perhaps|possibly|either|neither|wrong|actually"
    r"|incorrect|false|untrue|impossible|invalid|unless|except|versus|vs|alternatively|also|wait"
    r"|should|could|might|so|thus|hence|therefore|then|however|although|though|answer|sure|guess"
    r"|unsure|doubt|probably|likely|correction|sorry|mistake|instead|both)(?![a-z])|[?!;]|\.\s+\S",
    re.IGNORECASE,
)
"""Words and marks with which a remark does more than affirm."""


def without(text: str) -> Iterator[str]:
    """What is left of `text` without a remark behind it."""
    if len(text) > _CHARS_MAX:
        return
    ended = text.rstrip(" .")
    for number, found in enumerate(_REMARK.finditer(ended)):
        if number == _PLACES_MAX:
            return
        said, closes = (
            ended[: found.start()].rstrip(),
            {"(": ")", "[": "]", None: ""}[found["open"]],
        )
        rest = ended[found.end() :]
        if found["says"]:
            is_remark = rest.strip() == closes
        else:
            clause = (found["why"] or found["other"]).rstrip()
            is_remark = clause.endswith(closes) and not _DOUBTS.search(clause)
            is_remark = is_remark and _is_another(clause.removesuffix(closes), said, found["not"])
        if said and is_remark:
            yield said
            if (bare := said.rstrip("*_`")) != said and bare:  # the marks before it are taken off
                yield bare


def _is_another(other: str, said: str, rejects: str | None) -> bool:
    """Whether what is rejected, if anything is, is not the answer itself."""
    return rejects is None or _MARKS.sub("", said).casefold() not in other.casefold()
