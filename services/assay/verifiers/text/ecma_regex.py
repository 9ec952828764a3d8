"""Translates regular expressions of JSON Schema (ECMA-262, Unicode mode) to Python's `re`.

Exact or refused. Syntax with the same meaning in both is copied; syntax with a different meaning
(`\\d`, `\\w`, `\\s`, `\\b`, `.`, `$`, classes, names, `\\p{...}`, `\\u{...}`) is rewritten. Syntax
that Python cannot express (scripts, look-behind of variable length, captures that a repetition
resets) or that is not ECMA-262 (`\\A`, `\\Z`, `(?i)`, `a++`) raises. Rules: ECMA-262, "Patterns"
and its Annex B, from which lone `]`, `{` and `}` and escaped ASCII punctuation are accepted (as
literals).
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple


class Untranslatable(ValueError):
    """The pattern is malformed, or Python's `re` cannot express it."""


Ranges = tuple[tuple[int, int], ...]
"""Sorted, disjoint, inclusive ranges of code points."""

_LAST: Final = sys.maxunicode
_DIGIT: Final[Ranges] = ((48, 57),)
_WORD: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_LINE_ENDS: Final[Ranges] = ((10, 10), (13, 13), (0x2028, 0x2029))
_SPACE: Final[Ranges] = (
    (9, 13),
    (32, 32),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
_SETS: Final[dict[str, Ranges]] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(\d{1,9})(?:(,)(\d{1,9})?)?\})\??")
_GROUP_NAME: Final = re.compile(r"<([A-Za-z_$][A-Za-z0-9_$]{0,60})>")
_PROPERTY: Final = re.compile(r"\{(?:([A-Za-z_]{1,40})=)?([A-Za-z0-9_]{1,60})\}")
_CATEGORIES: Final = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M",
    "Combining_Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me",
    "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl",
    "Other_Number": "No", "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe",
    "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
    "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk",
    "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf",
    "Surrogate": "Cs", "Private_Use": "Co", "Unassigned": "Cn",
}  # fmt: skip
_SHORT_CATEGORIES: Final = frozenset(
    name for long in _CATEGORIES.values() for name in (long, long[0])
)


class _Group(NamedTuple):
    number: int
    """Number of the group; 0 if it does not capture."""
    is_look: bool


def translate(pattern: str, *, serial: int = 0) -> str:
    """Return the pattern for `re.search`, with the meaning of ECMA-262.

    Args:
        pattern: the pattern of the schema.
        serial: makes the names of groups unique if patterns are joined into one.

    Raises:
        Untranslatable: it is malformed, or `re` cannot express it.
    """
    translated = _Translation(pattern, serial).run()
    try:
        re.compile(translated)
    except (re.error, RecursionError, OverflowError) as error:
        raise Untranslatable(f"{error}, for Python's re") from None
    return translated


class _Translation:
    def __init__(self, pattern: str, serial: int) -> None:
        self._pattern = pattern
        self._prefix = f"g{serial}_"
        self._at = 0
        self._out: list[str] = []
        self._open: list[_Group] = []
        self._closed: set[int] = set()
        self._names: dict[str, int] = {}
        self._groups = 0
        self._is_atom = False
        """Whether the last term may be repeated."""
        self._last_group: _Group | None = None
        self._repeats_capture = False
        self._refers_back = False

    def run(self) -> str:
        while self._at < len(self._pattern):
            self._term()
        if self._open:
            raise Untranslatable("a group is not closed")
        if self._refers_back and self._repeats_capture:
            raise Untranslatable("a back-reference in a pattern that repeats groups")
        return "".join(self._out)

    def _term(self) -> None:
        char = self._pattern[self._at]
        act = _TERMS.get(char)
        if act is not None:
            self._at += 1
            act(self)
        elif (found := _QUANTIFIER.match(self._pattern, self._at)) is not None:
            self._quantifier(found)
        else:
            self._at += 1
            self._atom(re.escape(char))
            if char == "{" and self._pattern.startswith(",", self._at):
                raise Untranslatable("'{,' is not a repetition in ECMA-262")

    def _atom(self, text: str, *, may_repeat: bool = True) -> None:
        self._out.append(text)
        self._is_atom = may_repeat
        self._last_group = None

    def _quantifier(self, found: re.Match[str]) -> None:
        if not self._is_atom:
            raise Untranslatable(f"nothing to repeat at {self._at}")
        least, _, most = found.groups()
        if most is not None and int(most) < int(least):
            raise Untranslatable(f"a repetition out of order at {self._at}")
        if self._last_group is not None and self._groups:
            self._repeats_capture = True
        self._at = found.end()
        self._atom(found[0], may_repeat=False)

    # -- terms ---------------------------------------------------------------------------------
    def _dot(self) -> None:
        self._atom(_class_of(_complement(_LINE_ENDS)))

    def _dollar(self) -> None:
        self._atom(r"\Z", may_repeat=False)

    def _caret(self) -> None:
        self._atom("^", may_repeat=False)

    def _bar(self) -> None:
        self._atom("|", may_repeat=False)

    def _open_group(self) -> None:
        rest = self._pattern
        for text in ("?:", "?=", "?!", "?<=", "?<!"):
            if rest.startswith(text, self._at):
                self._at += len(text)
                self._open.append(_Group(0, is_look=text != "?:"))
                self._atom(f"({text}", may_repeat=False)
                return
        name = None
        if rest.startswith("?", self._at):
            found = _GROUP_NAME.match(rest, self._at + 1)
            if found is None:
                raise Untranslatable(f"a group of an unknown kind at {self._at - 1}")
            name = found[1]
            self._at = found.end()
        self._groups += 1
        if name is not None and self._names.setdefault(name, self._groups) != self._groups:
            raise Untranslatable(f"two groups are named {name}")
        self._open.append(_Group(self._groups, is_look=False))
        self._atom(f"(?P<{self._prefix}{self._groups}>", may_repeat=False)

    def _close_group(self) -> None:
        if not self._open:
            raise Untranslatable(f"an unmatched ) at {self._at - 1}")
        group = self._open.pop()
        self._closed.add(group.number)
        self._atom(")", may_repeat=not group.is_look)
        self._last_group = group

    def _escape(self) -> None:
        if self._at == len(self._pattern):
            raise Untranslatable("it ends with a backslash")
        char = self._pattern[self._at]
        if char in "bB":
            self._at += 1
            self._atom(_BOUNDARY[char], may_repeat=False)
        elif char in "123456789":
            found = re.compile(r"\d{1,4}").match(self._pattern, self._at)
            assert found is not None  # noqa: S101 for the checker: the first is a digit
            self._at = found.end()
            self._refer(int(found[0]))
        elif char == "k":
            found = _GROUP_NAME.match(self._pattern, self._at + 1)
            if found is None or found[1] not in self._names:
                raise Untranslatable(r"\k without the name of a group before it")
            self._at = found.end()
            self._refer(self._names[found[1]])
        else:
            self._atom(_class_of(self._escaped_set()))

    def _refer(self, number: int) -> None:
        """A group that did not participate matches the empty text in ECMA-262."""
        if number not in self._closed:
            raise Untranslatable(f"a reference to group {number} before its end")
        self._refers_back = True
        name = f"{self._prefix}{number}"
        self._atom(f"(?:(?({name})(?P={name})|))")

    # -- classes -------------------------------------------------------------------------------
    def _class(self) -> None:
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        found: list[tuple[int, int]] = []
        while not self._pattern.startswith("]", self._at):
            first = self._class_atom()
            if self._begins_range():
                self._at += 1
                last = self._class_atom()
                found.append(_range(first, last))
            else:
                found += first
        self._at += 1
        merged = _merged(found)
        self._atom(_class_of(_complement(merged) if negated else merged))

    def _begins_range(self) -> bool:
        dash = self._pattern.startswith("-", self._at)
        return dash and not self._pattern.startswith("]", self._at + 1)

    def _class_atom(self) -> Ranges:
        if self._at >= len(self._pattern):
            raise Untranslatable("a class is not closed")
        char = self._pattern[self._at]
        self._at += 1
        if char != "\\":
            return ((ord(char), ord(char)),)
        if self._pattern.startswith("b", self._at):
            self._at += 1
            return ((8, 8),)
        if self._pattern.startswith("-", self._at):
            self._at += 1
            return ((45, 45),)
        return self._escaped_set()

    def _escaped_set(self) -> Ranges:
        """The escape after a backslash at `_at`, as the characters that it matches."""
        char = self._pattern[self._at : self._at + 1]
        self._at += 1
        if char.lower() in _SETS and char:
            found = _SETS[char.lower()]
            return found if char.islower() else _complement(found)
        if char in ("p", "P"):
            return self._property(negated=char == "P")
        code = self._code(char)
        return ((code, code),)

    def _code(self, char: str) -> int:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char and char.isascii() and char.isprintable() and not char.isalnum():
            return ord(char)
        if char == "0" and not self._pattern[self._at : self._at + 1].isdigit():
            return 0
        if char == "c":
            return self._hex(re.compile("([A-Za-z])"), lambda text: ord(text) % 32)
        if char == "x":
            return self._hex(re.compile("([0-9A-Fa-f]{2})"))
        if char == "u":
            return self._unicode()
        raise Untranslatable(f"\\{char} is not an escape of ECMA-262")

    def _unicode(self) -> int:
        if self._pattern.startswith("{", self._at):
            code = self._hex(re.compile(r"\{0*([0-9A-Fa-f]{1,6})\}"))
            if code > _LAST:
                raise Untranslatable("a code point beyond U+10FFFF")
            return code
        code = self._hex(re.compile("([0-9A-Fa-f]{4})"))
        low = re.compile(r"\\u(D[C-F][0-9A-F]{2})", re.IGNORECASE).match(self._pattern, self._at)
        if 0xD800 <= code <= 0xDBFF and low is not None:
            self._at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return code

    def _hex(
        self, form: re.Pattern[str], read: Callable[[str], int] = lambda text: int(text, 16)
    ) -> int:
        found = form.match(self._pattern, self._at)
        if found is None:
            raise Untranslatable(f"a malformed escape at {self._at - 1}")
        self._at = found.end()
        return read(found[1])

    def _property(self, *, negated: bool) -> Ranges:
        found = _PROPERTY.match(self._pattern, self._at)
        if found is None:
            raise Untranslatable(f"a malformed property at {self._at}")
        self._at = found.end()
        ranges = _property_ranges(found[1], found[2])
        return _complement(ranges) if negated else ranges


_TERMS: Final[dict[str, Callable[[_Translation], None]]] = {
    ".": _Translation._dot,  # noqa: SLF001 - the table of this class
    "$": _Translation._dollar,  # noqa: SLF001
    "^": _Translation._caret,  # noqa: SLF001
    "|": _Translation._bar,  # noqa: SLF001
    "(": _Translation._open_group,  # noqa: SLF001
    ")": _Translation._close_group,  # noqa: SLF001
    "[": _Translation._class,  # noqa: SLF001
    "\\": _Translation._escape,  # noqa: SLF001
}


# -- sets of characters --------------------------------------------------------------------------
def _range(first: Ranges, last: Ranges) -> tuple[int, int]:
    if not (
        len(first) == len(last) == 1 and first[0][0] == first[0][1] and last[0][0] == last[0][1]
    ):
        raise Untranslatable("a range whose end is a set")
    if first[0][0] > last[0][0]:
        raise Untranslatable("a range out of order")
    return (first[0][0], last[0][0])


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _complement(ranges: Ranges) -> Ranges:
    gaps = []
    begin = 0
    for first, last in ranges:
        if first > begin:
            gaps.append((begin, first - 1))
        begin = last + 1
    if begin <= _LAST:
        gaps.append((begin, _LAST))
    return tuple(gaps)


def _class_of(ranges: Ranges) -> str:
    """The shorter of the set and of its negated complement."""
    if not ranges:
        return "(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    other = _complement(ranges)
    if len(other) < len(ranges):
        return f"[^{''.join(_members(other))}]" if other else r"[\s\S]"
    return f"[{''.join(_members(ranges))}]"


def _members(ranges: Ranges) -> Iterator[str]:
    for first, last in ranges:
        yield _member(first) if first == last else f"{_member(first)}-{_member(last)}"


def _member(code: int) -> str:
    return chr(code) if chr(code).isalnum() and code < 128 else f"\\U{code:08x}"


@lru_cache(maxsize=64)
def _property_ranges(name: str | None, value: str) -> Ranges:
    if name is None and value in _BINARY:
        return _BINARY[value]
    category = _CATEGORIES.get(value, value)
    if name in (None, "General_Category", "gc") and category in _SHORT_CATEGORIES:
        wanted = ("Lu", "Ll", "Lt") if category == "LC" else (category,)
        return _merged(
            (code, code)
            for code in range(_LAST + 1)
            if unicodedata.category(chr(code)).startswith(wanted)
        )
    raise Untranslatable(f"the property {value}, for which Python has no table")


_WORD_CLASS: Final = _class_of(_WORD)
_BOUNDARY: Final = {
    "b": f"(?:(?<={_WORD_CLASS})(?!{_WORD_CLASS})|(?<!{_WORD_CLASS})(?={_WORD_CLASS}))",
    "B": f"(?:(?<={_WORD_CLASS})(?={_WORD_CLASS})|(?<!{_WORD_CLASS})(?!{_WORD_CLASS}))",
}
_BINARY: Final[dict[str, Ranges]] = {
    "Any": ((0, _LAST),),
    "ASCII": ((0, 127),),
    "ASCII_Hex_Digit": ((48, 57), (65, 70), (97, 102)),
    "AHex": ((48, 57), (65, 70), (97, 102)),
}
