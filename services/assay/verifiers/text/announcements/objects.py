r"""The answer in an object of JSON that ends a response: `{"answer": [1, 2], "confidence": 0.9}`.

Its members say what they are. A list is several values, one answer together; other members that are
named as an answer state other ones; the rest says nothing. Quotes may be single ones or miss around
names, and backslashes of LaTeX need no other before them, as models write them. Total; the text is
parsed at most `_BEGINS_MAX` times.
"""

import json
import re
from itertools import accumulate
from typing import Final, NamedTuple, cast

from assay.verifiers.text.announcements.search import is_value
from assay.verifiers.text.announcements.words import ANSWERS, OPTIONS, RESULTS

_CHARS_MAX: Final = 4_000
_BEGINS_MAX: Final = 16
_DEPTH_MAX: Final = 32
_ITEMS_MAX: Final = 16
_FENCE: Final = re.compile(r"\s*(?:`{3,}|~{3,})?[\s.]*\Z")
_BEGIN: Final = re.compile(r"\{(?=\s*[\"'A-Za-z_])")
_BACKSLASH: Final = re.compile(r"\\(?![\"'])")
_BACKSLASHES: Final = re.compile(r"\\+")
_SINGLE_QUOTED: Final = re.compile(r"(?<=[{\[,:\s])'((?:[^'\\\n]|\\.){0,400})'(?=\s*[,:}\]])")
_BARE_NAME: Final = re.compile(r"([{,]\s*)([A-Za-z_][\w ]{0,30}?)(\s*:)")
_LAST_COMMA: Final = re.compile(r",(?=\s*[}\]])")
_LITERALS: Final = (("True", "true"), ("False", "false"), ("None", "null"))
_BRACKETS: Final = re.compile(r"[\[{]|[\]}]")
_LABEL: Final = re.compile(r"\(?[A-Ja-j]\)?\.?")
_NAMES: Final = re.compile(rf"(?:(?:my|the|final|correct) ){{0,2}}(?:{'|'.join(ANSWERS)})s?")
"""`final_answer`, but not `answer_type`."""
_OTHER_NAMES: Final = re.compile(
    r"(?:(?:my|the|final|correct|other|second|possible|backup|alternative) )?"
    rf"(?:{'|'.join((*ANSWERS, *RESULTS, *OPTIONS))}|final|value|output)s?(?: ?\d{{1,2}}| [a-h])?"
)


class Stated(NamedTuple):
    """What an object states."""

    text: str
    parts: tuple[str, ...] = ()
    """If it is more than one value."""


class _Members(tuple[tuple[str, object], ...]):
    """In their order; a name may come twice."""

    __slots__ = ()


def last(response: str) -> Stated | None:
    """What the object that a response ends with states; `None` if there is none that says so."""
    members = _last_members(response)
    if members is None:
        return None
    own = [_stated(value) for name, value in members if _NAMES.fullmatch(_words(name))]
    beside = [_stated(value) for name, value in members if _is_beside(_words(name))]
    said = [one for one in own if one is not None]
    others = [one for one in beside if one is not None]
    if not said:
        said, others = others, []
    if said and not _LABEL.fullmatch(said[0].text):
        said += [one for one in others if is_value(one.text)]
    if not said:
        return None
    texts = tuple(dict.fromkeys(part for one in said for part in one.parts or (one.text,)))
    text = said[0].text if len(said) == 1 else ", ".join(texts)
    return Stated(text, texts if len(texts) > 1 else ())


def _words(name: str) -> str:
    return name.lower().replace("_", " ").replace("-", " ").strip()


def _is_beside(name: str) -> bool:
    return _OTHER_NAMES.fullmatch(name) is not None and _NAMES.fullmatch(name) is None


def _is_value_name(name: str) -> bool:
    return name == "value" or _NAMES.fullmatch(name) is not None


def _stated(value: object) -> Stated | None:
    if isinstance(value, str):
        return Stated(_unescaped(value.strip())) if value.strip() else None
    if isinstance(value, _Members):
        return _of_members(value)
    if not isinstance(value, list) or not value or len(value) > _ITEMS_MAX:
        return None
    items = cast("list[object]", value)
    texts = [_unescaped(item.strip()) for item in items if isinstance(item, str)]
    if len(texts) != len(items) or not all(texts):
        return Stated(_written(items))
    return Stated(texts[0]) if len(texts) == 1 else Stated(_written(items), tuple(texts))


def _unescaped(text: str) -> str:
    """What JSON says, if each backslash in it has the other that JSON wants."""
    is_escaped = all(len(run) % 2 == 0 for run in _BACKSLASHES.findall(text))
    return text.replace("\\\\", "\\") if is_escaped else text


def _of_members(members: _Members) -> Stated | None:
    """`{"value": 85, "unit": "cm"}` or `{"x": 1, "y": 2}`."""
    named = [value for name, value in members if _is_value_name(_words(name))]
    if len(named) == 1:
        return _stated(named[0])
    if not members or not all(isinstance(value, str) for _, value in members):
        return None
    return Stated(", ".join(f"{name} = {value}" for name, value in members))


def _written(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, cast('list[object]', value)))}]"
    return value if isinstance(value, str) else ""


def _last_members(response: str) -> _Members | None:
    end = response.rfind("}") + 1
    if not end or _FENCE.fullmatch(response, end) is None:
        return None
    begin = max(0, end - _CHARS_MAX)
    begins = [found.start() for found in _BEGIN.finditer(response, begin, end)]
    for at in begins[:_BEGINS_MAX]:
        text = response[at:end]
        if _depth(text) > _DEPTH_MAX:
            return None
        if (members := _parsed(text)) is not None:
            return members
    return None


def _depth(text: str) -> int:
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKETS.findall(text))
    return max(accumulate(steps), default=0)


def _parsed(text: str) -> _Members | None:
    raw = _BACKSLASH.sub(r"\\\\", text)
    found = _loaded(raw)
    return found if found is not None else _loaded(_strict(raw))


def _strict(text: str) -> str:
    """What Python and JavaScript write, as JSON."""
    text = _SINGLE_QUOTED.sub(lambda one: json.dumps(one[1].replace("\\\\", "\\")), text)
    text = _LAST_COMMA.sub("", _BARE_NAME.sub(r'\1"\2"\3', text))
    for theirs, ours in _LITERALS:
        text = re.sub(rf"(?<=[\s:,\[]){theirs}(?=\s*[,}}\]])", ours, text)
    return text


def _loaded(text: str) -> _Members | None:
    """Numbers keep their digits; `true` and `null` are no answers."""
    try:
        found: object = json.loads(
            text,
            object_pairs_hook=lambda pairs: _Members(pairs),
            parse_int=str,
            parse_float=str,
            parse_constant=lambda _: None,
        )
    except ValueError:
        return None
    return found if isinstance(found, _Members) else None
