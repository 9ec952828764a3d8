r"""A response without its layout: HTML, environments, tokens of chat templates, greetings.

Only what says nothing is left out; what is struck through, a power or an index stays what it is.
Total; every pattern takes linear time.
"""

import re
from typing import Final

from assay.verifiers.text.around import chat

_CHAT_ENDS: Final = re.compile(rf"(?:\s{{0,9}}(?:{chat.MARK}|\[/?INST\]))+\s*\Z")
_HAS_HTML: Final = re.compile(r"<[A-Za-z/]")
_FACES: Final = (
    *("b", "i", "u", "q", "em", "tt", "strong", "code", "span", "font", "mark", "small", "big"),
    *("kbd", "var", "samp", "center", "math", "label", "section", "article", "body", "html"),
)
_BLOCKS: Final = (
    *("p", "div", "li", "ul", "ol", "td", "tr", "th", "dd", "dl", "dt", "table", "tbody", "thead"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "details", "summary"),
)
_TAG: Final = re.compile(
    rf"<(?P<end>/?)(?P<name>{'|'.join((*_FACES, *_BLOCKS))})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE
)
_CLOSED: Final = re.compile(r"</([A-Za-z]\w{0,11})>")
_BREAK: Final = re.compile(r"<(?:br|hr)\s?/?>", re.IGNORECASE)
_QUOTIENT: Final = re.compile(
    r"(?ai)(?P<whole>\d\s?)?<sup>\s?(?P<top>\d{1,9})\s?</sup>\s?(?:/|\u2044|&frasl;)\s?"
    r"<sub>\s?(?P<below>\d{1,9})\s?</sub>"
)
_ORDINAL: Final = re.compile(r"(?ai)(?<=\d)<sup>(st|nd|rd|th)</sup>")
_RAISED: Final = re.compile(r"(?i)(?<=[\w)}\]])<(su[pb])>([^<>{}]{1,40})</\1>")
_ENVIRONMENT: Final = re.compile(r"\\(begin|end)\s?\{\s?(?:final)?answer\*?\s?\}", re.IGNORECASE)
_STYLE: Final = re.compile(r"\\(?:display|text|script)style(?![A-Za-z])[ ]?")
_HEADING_IN_TEXT: Final = re.compile(
    r"^(?P<marks>[\s*_>#-]{0,9})\\(?:text(?:bf|it|rm|sf|sc)?|math(?:bf|rm)|emph|underline|mbox)\s?"
    r"\{\s?(?P<words>(?:(?:the|my|our|final|correct)\s){0,3}(?:answer|ans)(?:\sis)?\s?[:.]?)\s?\}",
    re.IGNORECASE | re.MULTILINE,
)
_ENDS_PROOF: Final = re.compile(
    r"[ \t]{0,9}(?:[\u220e\u25a0\u25fc]|\$?\\(?:blacksquare|qed(?:symbol)?)(?![A-Za-z])\$?)\s*$",
    re.MULTILINE,
)
_PROOF_ENDS: Final = ("\u220e", "\u25a0", "\u25fc", "\\blacksquare", "\\qed")
_PICTURE: Final = "[\u2705\u2714\u2728\u2b50\U0001f300-\U0001faff]"
_PICTURES: Final = re.compile(
    rf"^[ \t]{{0,9}}(?:{_PICTURE}\ufe0f?[ ]?)+|[ ]{{0,9}}(?:{_PICTURE}\ufe0f?[ ]?)+$", re.MULTILINE
)
_FENCE: Final = re.compile(r"^[ \t]{0,3}(?:`{3,}|~{3,})", re.MULTILINE)
_LAST_FENCE: Final = re.compile(r"\n[ \t]{0,3}(?:`{3,}|~{3,})\s*\Z")
_GREETING: Final = re.compile(
    r"[\s*_(]*(?:thanks?(?:[ ]you)?(?:[ ]for[ ](?:reading|asking))?"
    r"|(?:i[ ])?hope[ ](?:this|that|it)[ ](?:helps?|is[ ]helpful|makes[ ]sense)"
    r"|(?:please[ ])?(?:let[ ]me[ ]know|feel[ ]free[ ]to[ ]ask)(?:[ ]if[ ][a-z' ]{1,80})?"
    r"|done|q\.?e\.?d|(?:double[- ])?checked(?:[ ]twice)?|good[ ]luck|cheers"
    r"|this[ ]completes[ ]the[ ](?:solution|proof|problem|answer)"
    r"|have[ ]a[ ](?:nice|great|good)[ ]day"
    r"|i(?:[ ]am|'m)[ ](?:very[ ])?(?:confident|sure|certain)"
    r"(?:[ ](?:in|of|about)[ ](?:it|this|that))?"
    r"|&nbsp;|:-?\)|-{3,}|(?:\*[ ]?){3,})[\s.!*_)]*",
    re.IGNORECASE,
)
"""A line that says nothing about the answer, and no more than that."""
_GREETINGS_MAX: Final = 8
_GREETING_CHARS_MAX: Final = 120


def plain(text: str) -> str:
    """`text` without its layout."""
    if "<" in text and _HAS_HTML.search(text):
        text = _without_html(text)
    if "<s>" not in text and text.rstrip().endswith((">", "]")):  # `<s>5</s>` is struck through
        text = _CHAT_ENDS.sub("", text)
    if "\\" in text:
        text = _STYLE.sub("", _ENVIRONMENT.sub(_as_tag, text))
        text = _HEADING_IN_TEXT.sub(r"\g<marks>\g<words> ", text)
    if not text.isascii():
        text = _PICTURES.sub("", text)
    if any(map(text.__contains__, _PROOF_ENDS)):
        text = _ENDS_PROOF.sub("", text)
    text = _without_greetings(text)
    fences = len(_FENCE.findall(text)) if "```" in text or "~~~" in text else 0
    if fences % 2:  # nothing is in the block that the last one opens
        text = _LAST_FENCE.sub("", text)
    return text


def _without_html(text: str) -> str:
    closed = {name.casefold() for name in _CLOSED.findall(text)}
    text = _QUOTIENT.sub(
        lambda said: (
            f"{said['whole'] or ''}{' ' if said['whole'] else ''}{said['top']}/{said['below']}"
        ),
        text,
    )
    text = _RAISED.sub(_in_latex, _ORDINAL.sub(r"\1", text))
    text = _BREAK.sub("\n", text)

    def without(tag: re.Match[str]) -> str:
        name = tag["name"].casefold()
        if name not in closed:  # `a <b> c` is no type
            return tag[0]
        return "\n" if name in _BLOCKS else ""

    return _TAG.sub(without, text)


def _in_latex(said: re.Match[str]) -> str:
    return f"{'^' if said[1].casefold() == 'sup' else '_'}{{{said[2].strip()}}}"


def _as_tag(said: re.Match[str]) -> str:
    return "<answer>" if said[1].casefold() == "begin" else "</answer>"


def _without_greetings(text: str) -> str:
    """Without the last lines, as long as they only greet."""
    for _ in range(_GREETINGS_MAX):
        text = text.rstrip()
        begin = text.rfind("\n") + 1
        if not begin or len(text) - begin > _GREETING_CHARS_MAX:
            break
        if _GREETING.fullmatch(text, begin) is None:
            break
        text = text[:begin]
    return text
