r"""Fenced blocks that the text around them takes back: for all who read an answer from a block.

A block is no answer if the words behind it withdraw it (`Wait, that is wrong.`, `Ignore the code
above.`), if a heading before it calls it wrong (`Wrong:`, `Do not do this:`), or if it is struck
through or hidden (`~~`, `<del>`, `<!--`). A response that ends by taking back what it says has no
block at all. A bare `that is wrong` counts directly behind its block or at the end, as it does for
values (`assay.verifiers.text.around.withdrawn`): elsewhere it may be said of anything. Words that
affirm the block again keep it. Total, linear.
"""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from assay.verifiers.text import denials
from assay.verifiers.text.abroad.english import in_english
from assay.verifiers.text.announcements import corrections
from assay.verifiers.text.around import foreign, withdrawn
from assay.verifiers.text.around.withdrawn import LEAD, NOT_SO


class BlockContent(Enum):
    """What blocks hold, and so what the words around them call it."""

    PROGRAM = (
        r"(?:code|program|script|function|class|method|implementation|quer(?:y|ies)|sql|cte"
        r"|kernel|model|select|solution|answer|snippet|block|version|attempt|draft|approach)"
    )
    JSON = (
        r"(?:json|object|array|output|response|solution|answer|snippet|block|version|attempt|draft)"
    )


BLOCKS_MAX: Final = 256
"""Of a response the last ones; what stands around more is not read."""
_HEADING_CHARS_MAX: Final = 160
_ENDS_CHARS_MAX: Final = 400
"""Of a text between blocks, at either end."""
_HINT: Final = re.compile(
    r"wrong|ncorrect|mistake|error|scratch|strike|gnore|sregard|scard|forget|wait|does|not|never|avoid|n['\u2019]t"
    r"|~~|<s|<del|<!--|bad|buggy|broken|false|nstead|rather|actually|oops|sorry|correct|no\b|edit|update|erratum|take|tract|withdraw"
    rf"|[^\x00-\u00ff]|{'|'.join(map(re.escape, foreign.PARTS))}",
    re.IGNORECASE,
)
"""No block is taken back without it."""
_SURPRISE: Final = (
    r"(?:(?:wait|oops|hold\son|hmm+|no|nope|actually|sorry|correction|oh|edit|on\ssecond\sthought)"
    r"[\s,.:!\u2026\u2014-]{1,4})"
)
_STARTS: Final = r"(?:^|[\n.!?;])[\s*_#>()\]-]{0,9}"
_NOT_ALWAYS: Final = r"(?![A-Za-z])(?!\s(?:unless|if|only|when|for|in|on|until|whenever)\b)"
_I_ERRED: Final = (
    r"i\s(?:(?:have\s|just\s|think\si\s)?(?:made|see\s(?:an?|the|my))\s(?:an?\s|the\s)?(?:\w+\s)?"
    r"(?:mistake|error)|was\s(?:wrong|mistaken)(?!\sabout))"
)
_DROPS: Final = r"(?:ignore|disregard|discard|forget|scratch|strike|(?:do\snot|don['\u2019]t)\suse)"
_DIRECT: Final = re.compile(
    r"[\s*_#>()\].,;!:-]{0,9}"
    rf"(?:{_SURPRISE}{{1,4}}{LEAD}(?:(?:that|this)\s(?:last\s)?(?:one|example|part|block)|that|this|it|which)(?:['\u2019]s|\s(?:still|just|also|clearly))?\s?(?:{NOT_SO}"
    rf"|(?:\w+ly\s|all\s)?(?:not\s(?:right|correct)|wrong|incorrect|an?\s(?:mistake|error))){_NOT_ALWAYS}"
    rf"|(?:which|and\s(?:that|this|it))\s{NOT_SO}{_NOT_ALWAYS}|{LEAD}{_I_ERRED}(?![A-Za-z])"
    rf"|{LEAD}(?:please\s)?{_DROPS}\s(?:that|this|it)(?:\s(?:one|last|block|code|query|json|version))?(?=\s*(?:[.!,;:\u2014-]|\n|$))"
    r"|(?:wait,?\sno|no,?\swait)(?![A-Za-z]))",
    re.IGNORECASE,
)
"""As the first words behind a block."""
_ALL: Final = re.compile(
    rf"{_STARTS}{LEAD}(?:please\s)?{_DROPS}\s(?:(?:all|everything|both)(?:\s(?:of\s)?(?:the\s|these\s)?"
    r"(?:above|that|them|blocks))?|(?:the|these|those)\sblocks(?:\sabove)?)(?![A-Za-z])",
    re.IGNORECASE,
)
_ONE: Final = re.compile(
    r"\b(?:that|this|the)\s(?:last\s|second\s)?(?:one|example|alternative|index)\s(?:above\s)?(?:is|was)\b"
    rf"|\b{_DROPS}\s(?:that|this|the)\s(?:last\s)?(?:second|latter|one|example|alternative|index)\b"
    r"|\b(?:that|this|the)\s(?:(?:above|last|previous)\s)?block\b",
    re.IGNORECASE,
)
"""With it, words at the end take back the last block and no other."""
_AFFIRMS: Final = re.compile(
    r"\b(?:it|that|this|which|everything|all|code|query|json|output|answer|solution|block|version|program)"
    r"(?:['\u2019]s\s|\s)(?:(?!not\b|never\b|no\b|un)\w{1,12}\s){0,3}"
    r"(?:right|correct|fine|valid|ok|okay|good|works?|holds?|matches|pass(?:es)?|stands?|handles)(?!\s*:)(?![A-Za-z])"
    r"|\bnever\s?mind\b|\bafter\sall\b|\bno\schanges?\b|\bas\sexpected\b|[\u2713\u2714\u2705]",
    re.IGNORECASE,
)
_LEADS_ON: Final = re.compile(r"(?<=[.!?\n])[^.!?\n]{1,160}\s{0,9}\Z|\A[^.!?\n]{1,160}:\s{0,9}\Z")
"""The last sentence before the next block, which is about that one."""
_IS_A_VALUE: Final = re.compile(
    rf"{_STARTS}(?:it|that|this)(?:['\u2019]s|\s(?:is|was))\s(?:\w+ly\s)?(?:false|invalid|not\s(?:true|valid))(?![A-Za-z])",
    re.IGNORECASE,
)
"""May repeat what the block says."""
_CALLED: Final = (
    r"(?:wrong|incorrect|bad|worst|invalid|mistaken|erroneous|discarded|rejected|buggy|broken"
    r"|faulty)"
)
_CROSSES: Final = "\u274c\u2717\u2718\u2716\u274e\U0001f6ab\u26d4"
_THE: Final = (
    r"(?:(?:the|an?|my|(?:this|that|here|the\sfollowing)\sis|this|here['\u2019]s|first|common"
    r"|typical|obvious(?:ly)?|clearly|example\sof|of)\s){0,5}"
)
_THIS: Final = (
    r"(?:(?:do|use|write|run|try|submit|send|return|copy|choose|answer)(?:\s(?:this|it|that|so|the\sfollowing|something"
    r"|code|quer(?:y|ies)|json))?(?:\slike\s(?:this|that))?|this)"
)
_MARKS: Final = r"[\s*_#>(\[\"'`:.!\u2014-]"
_COMMENT: Final = re.compile(
    rf"\s{{0,40}}(?:\#|//|--|/\*)+\s?[{_CROSSES}]?\ufe0f?\s?(?:(?:wrong|incorrect)(?:\s(?:answer|way|version|code|query|solution|approach))?"
    r"|do\snot\s(?:do|use)(?:\sthis)?|don['\u2019]t\s(?:do|use)(?:\sthis)?)\s{0,4}(?:[:!.\u2014-]|\*/|$)",
    re.IGNORECASE,
)
_STRIKES: Final = re.compile(
    r"(?P<open>(?<![^\s(*_])(?<!~)~~(?!~)(?=\S|[ \t]{0,9}(?:\r?\n|\Z)))"
    r"|(?<![~ \t])~~(?![^\s.,;:!?)*_])"
    r"|<(?P<end>/?)(?P<name>s|del|strike)(?:\s[^<>]{0,80})?>|(?P<hides><!--)|(?P<shows>-->)",
    re.IGNORECASE,
)
_GLUED: Final = re.compile(
    r"^([ \t]{0,12}(?:~~|<(?:s|del|strike)>|<!--))(?=```)"
    r"|^([ \t]{0,12}`{3,})(?=(?:~~|</(?:s|del|strike)>|-->)[ \t.,;:!]{0,9}\r?$)",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSES: Final = re.compile(r"(?<![~ \t])~~(?![^\s.,;:!?)*_])")
_BLOCK: Final = "\x01"


class _Words:
    """Expressions for one kind of block."""

    def __init__(self, noun: str) -> None:
        self.withdraws = re.compile(
            rf"{_STARTS}{LEAD}(?:"
            rf"(?:(?:this|that|my|the(?=\s(?:above|{noun}\s(?:above|block))))\s(?:(?:above|last|previous|first)\s)?{noun}"
            rf"(?:\s(?:above|block))?)\s{NOT_SO}{_NOT_ALWAYS}"
            rf"|(?:please\s)?{_DROPS}\s(?:(?:the|my|that|this)\s)?(?:(?:above|previous|last|first|earlier|second|latter)\s){{1,2}}(?:{noun}(?:\sblock)?(?![A-Za-z])|(?=[.!,;:\n]|$))"
            rf"|(?:please\s)?{_DROPS}\s(?:the|my|that|this)\s{noun}(?:\sblock)?(?:\sabove|(?=\s?(?:[.!,;:\n\u2014]|$)))"
            rf"|(?:please\s)?{_DROPS}\s(?:what\s(?:is|i\swrote|i\ssaid)\s)?(?:the\s)?above(?![A-Za-z]))",
            re.IGNORECASE,
        )
        thing = rf"(?:{noun}|way|usage|example|one|attempt|thing)"
        self.calls_wrong = re.compile(
            rf"{_MARKS}{{0,9}}(?:{denials.HEADING}|{foreign.WRONG_ANSWER}"
            rf"|{_CALLED}|{_THE}\(?{_CALLED}\)?\s(?:{thing}\s?){{1,2}}(?:(?:is|was|would\sbe|to\s\w+(?:\s\w+)?)\s?)?"
            rf"|{_THE}(?:{thing}\s){{1,2}}(?:that\s)?(?:is\s|was\s|would\sbe\s)?\(?{_CALLED}\)?"
            rf"|(?:(?:this|that|it|the\sfollowing|what\sfollows)\s(?:{thing}\s)?(?:is|was|would\sbe|will\sbe)\s(?:{_CALLED}|not\s(?:right|correct)))"
            rf"|(?:please\s)?(?:do\snot|don['\u2019]t|never|avoid)\s{_THIS}"
            rf"|{_THE}(?:(?:what|how|the\sway)\snot\sto(?:\s\w+){{1,3}}|what\sto\savoid)"
            r"|not\sthis|instead\sof(?:\sthis)?|rather\sthan(?:\sthis)?"
            rf"|{_THE}(?:common\s|typical\s)?(?:mistakes?|errors?|pitfalls?|traps?)(?:\s(?:is|are|would\sbe)(?:\sto\swrite)?)?"
            rf"){_MARKS}{{0,9}}\)?[\s*_:.]{{0,9}}",
            re.IGNORECASE,
        )


_WORDS: Final = {content: _Words(content.value) for content in BlockContent}


def unglued(text: str) -> str:
    """The text with marks that strike through a fence on a line of their own."""
    if "```" not in text or not _STRIKES.search(text):
        return text
    return _GLUED.sub(lambda mark: f"{mark[0]}\n", text)


def standing(around: Sequence[str], firsts: Sequence[str], content: BlockContent) -> list[bool]:
    """Which blocks are not taken back.

    Args:
        around: the texts before the first block, between two, and behind the last one; of at most
            `BLOCKS_MAX` blocks.
        firsts: the first line of each block.
        content: what the blocks hold.
    """
    count = len(firsts)
    stands = [True] * count
    around = [in_english(text, affirms=True) for text in around]
    if not any(map(_HINT.search, around)) and not any(map(_COMMENT.match, firsts)):
        return stands
    for at in range(count):
        behind = around[at + 1]
        is_last = at + 1 == count
        if _announced_wrong(around[at], content) or _COMMENT.match(firsts[at]):
            stands[at] = False
        if not _HINT.search(behind) or not _taken_back(behind, content, is_last=is_last):
            continue
        stands[at] = False
        if _ALL.search(behind) or (is_last and not _ONE.search(behind[-_ENDS_CHARS_MAX:])):
            stands[: at + 1] = [False] * (at + 1)
    for at in _struck(around):
        stands[at] = False
    return stands


def _announced_wrong(before: str, content: BlockContent) -> bool:
    """Whether the line before a block calls it wrong."""
    line = before[-_HEADING_CHARS_MAX:].rstrip().rpartition("\n")[2].strip()
    if line[:1] and (line.lstrip("*_#> -")[:1] or " ") in _CROSSES:
        return True
    said = re.split(r"(?<=[.!?])\s", line)[-1]
    return _WORDS[content].calls_wrong.fullmatch(said) is not None


def _taken_back(behind: str, content: BlockContent, *, is_last: bool) -> bool:
    """Whether the text behind a block, up to the next one, takes it back."""
    behind = _IS_A_VALUE.sub(" ", behind)
    if not is_last:
        if corrections.takes_back(behind, 0, len(behind)):
            return True
        lead = _LEADS_ON.search(behind)
        said = behind[: lead.start()] if lead else behind
        if withdrawn.is_withdrawn(said):
            return True
        behind = said if lead and lead[0].rstrip().rstrip("*_ ").endswith(":") else behind
    if withdrawn.is_withdrawn(behind):
        return True
    found = _DIRECT.match(behind) or _WORDS[content].withdraws.search(behind) or _ALL.search(behind)
    return found is not None and _AFFIRMS.search(behind, found.end()) is None


def _struck(around: Sequence[str]) -> list[int]:
    """Blocks between marks that strike through what they enclose, or hide it."""
    text = _BLOCK.join(one.replace(_BLOCK, " ") for one in around)
    places = [at for at, char in enumerate(text) if char == _BLOCK]
    opened: dict[str, int] = {}
    struck = list[tuple[int, int]]()
    for mark in _STRIKES.finditer(text):
        name = (mark["name"] or ("~~" if mark[0] == "~~" else "--")).casefold()
        closes = (
            mark["end"] or mark["shows"] or (name == "~~" and _CLOSES.match(text, mark.start()))
        )
        if closes and name in opened:
            begin = opened.pop(name)
            struck += [(begin, mark.start())] if _BLOCK in text[begin : mark.start()] else []
        elif mark["open"] or mark["hides"] or (mark["name"] and not mark["end"]):
            opened[name] = mark.end()
    return [at for at, place in enumerate(places) if any(a <= place < b for a, b in struck)]
