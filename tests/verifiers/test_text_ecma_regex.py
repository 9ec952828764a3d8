"""Patterns of JSON Schema mean in Python what ECMA-262 says, or are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.text.ecma_regex import Untranslatable, translate


def _matches(pattern: str, text: str) -> bool:
    return re.search(translate(pattern), text) is not None


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"^\d$", "07", "\u0660\u096b"),
        (r"^\D$", "a\u0660", "0"),
        (r"^\w$", "aZ_9", "\u00e9-"),
        (r"^\W$", "\u00e9-", "a"),
        (r"^\s$", " \t\n\v\f\r\u00a0\u2028\u2029\ufeff\u3000", "\u200b\x1ca"),
        (r"^\S$", "\u200b\x1ca", " \u00a0"),
        (r"^.$", "a\v\u0085", "\n\r\u2028\u2029"),
        (r"^\p{L}$", "a\u00e9\u4e2d", "1 "),
        (r"^\p{Letter}$", "a\u00e9", "1"),
        (r"^\P{gc=Lu}$", "a1", "A"),
        (r"^\p{Script_Extensions}$|^x$", "", ""),
        (r"^[\p{Nd}_-]$", "1\u0660_-", "a"),
        (r"^[^\d]$", "a\u0660", "1"),
        (r"^[\b]$", "\b", "b"),
        (r"^[^]$", "a\n", ""),
        (r"^[]$", "", "a"),
        (r"^\cJ$", "\n", "J"),
        (r"^\x41\u0042?$", "A", "B"),
        (r"^\u{1F432}$", "\N{DRAGON FACE}", "a"),
        (r"^\ud83d\udc32$", "\N{DRAGON FACE}", "a"),
        (r"^\$\.\/$", "", "$"),
        (r"^[[a]$", "[a", "b"),
        (r"^a{2}$|^\{$", "{", "a"),
        (r"^]$", "]", "a"),
        (r"^[a\-z]$", "a-z", "b"),
        (r"^\@$|^\-$|^\_$", "@-_", "a"),
    ],
)
def test_single_characters(pattern: str, matching: str, others: str) -> None:
    if "Script" in pattern:
        with pytest.raises(Untranslatable):
            translate(pattern)
        return
    assert [char for char in matching if not _matches(pattern, char)] == []
    assert [char for char in others if _matches(pattern, char)] == []


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a\n", False),
        (r"\bcaf\b", "caf\u00e9", True),
        (r"\Bx", "\u00e9x", False),
        (r"^(?<y>\d{4})-\k<y>$", "2024-2024", True),
        (r"^(?<y>\d{4})-\k<y>$", "2024-2025", False),
        (r"^(?:a|(b))c\1$", "ac", True),
        (r"^(?:a|(b))c\1$", "bcb", True),
        (r"^(?:a|(b))c\1$", "bc", False),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "Passw0rdx", True),
        (r"(?<!a)b", "ab", False),
        (r"^(['\"]).*\1$", "'x\"", False),
        ("^$", "", True),
    ],
)
def test_texts(pattern: str, text: str, found: bool) -> None:
    assert _matches(pattern, text) is found


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"\a",
            r"\A",
            r"\Z",
            r"\z",
            r"\e",
            r"\Q",
            r"\1",
            r"(\1)",
            r"\k<no>",
            r"\u{110000}",
            r"\c1",
        ),
        *(
            "(?i)a",
            "(?P<n>a)",
            "(?#c)a",
            "(?>a)",
            "(?(1)a)",
            "a++",
            "a{2}{3}",
            "*a",
            "a**",
            "{2}",
            "x{,3}",
        ),
        *(
            "(",
            ")",
            "[",
            "[b-a]",
            r"[\d-x]",
            "a{3,2}",
            "\\",
            r"\p{Script=Greek}",
            r"\p",
            r"\p{No_Such}",
        ),
        *("(?<=a+)b", r"(a|b)*\1", "(?<n>a)(?<n>b)", r"^a|*"),
    ],
)
def test_what_is_malformed_or_cannot_be_said_is_refused(pattern: str) -> None:
    with pytest.raises(Untranslatable):
        translate(pattern)


@given(st.text(alphabet="ab01\\[](){}*+?.^$|-dwsbpuxk<>=!:,PL\n\u00e9", max_size=14))
def test_any_pattern_is_translated_or_refused(pattern: str) -> None:
    try:
        translated = translate(pattern)
    except Untranslatable:
        return
    re.compile(translated)


@given(
    st.lists(st.sampled_from([r"(a)", r"(?<n>b)", r"x|y", r"\d", r"(?:c)"]), min_size=2, max_size=4)
)
def test_patterns_may_be_joined_into_one(patterns: list[str]) -> None:
    """As the library does with the names in `patternProperties`."""
    joined = "|".join(translate(pattern, serial=at) for at, pattern in enumerate(patterns))
    assert re.compile(joined)
