"""What is decided early, because most answers are plain numbers, is what all rules say."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.verifiers.math import notation, reading
from assay.verifiers.math.grammar import Number
from assay.verifiers.text import endings

DIGITS = st.text("0123456789", max_size=22)
NEARLY = st.text("0123456789-+.,:/ $%eEx\\{}^", min_size=1, max_size=12)
PLAIN = st.from_regex(r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?", fullmatch=True)
TEXTS = st.text("ab1$*_`'\"\\.,{}() -", max_size=14)


@contextmanager
def all_rules() -> Iterator[None]:
    """Without the short ways of plain numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notation, "is_plain", lambda _: False)
        yield


@given(text=PLAIN | NEARLY | DIGITS, is_gold=st.booleans())
@example(text="0", is_gold=True)
@example(text="-0", is_gold=False)
@example(text="-0.0", is_gold=False)
@example(text="00", is_gold=True)
@example(text="1234", is_gold=True)
@example(text="20240131", is_gold=False)
@example(text="999999999999999999.5", is_gold=False)
@example(text="0.333333333333333333", is_gold=True)
def test_a_plain_number_is_read_as_by_all_rules(text: str, *, is_gold: bool) -> None:
    short = reading._read(text, (), is_gold=is_gold)
    tidy, labelled = notation.tidy(text), reading.read_labelled(text)
    with all_rules():
        assert repr(reading._read(text, (), is_gold=is_gold)) == repr(short)
        assert notation.tidy(text) == tidy
        assert reading.read_labelled(text) == labelled


@given(PLAIN.filter(lambda text: len(text) < 18))
def test_a_number_in_digits_is_plain(text: str) -> None:
    assert notation.is_plain(text)
    assert isinstance(reading._read(text, (), is_gold=True).answer, Number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "1.",
        ".5",
        "01",
        "1,000",
        "1e5",
        " 1",
        "1\n",
        "--1",
        "+1",
        "1.2.3",
        "\u0661",
        "1" * 19,
    ],
)
def test_other_numbers_are_not_plain(text: str) -> None:
    assert not notation.is_plain(text)


@given(TEXTS)
def test_what_has_no_wrapping_is_peeled_as_what_may_have_some(text: str) -> None:
    assert notation.peel(text) == notation.peel(f" {text} ")


@given(
    head=st.text("ab1 ", max_size=200),
    phrase=st.text("ab1 ", min_size=1, max_size=40),
    times=st.integers(1, 40),
    tail=st.text("ab1", max_size=1),
)
@example(head="", phrase="a", times=120, tail="")
@example(head="", phrase="ab1ab1ab1a", times=12, tail="")
@example(head="", phrase="ab1ab1ab1a", times=12, tail="b")
def test_repetition_is_found_as_by_its_definition(
    head: str, phrase: str, times: int, tail: str
) -> None:
    text = f"{head}{phrase * times}{tail}".rstrip()
    found = False
    for size in (len(text), len(text) // 4, len(text) // 16):
        part = text[::-1][:size]
        periods = range(1, size // endings.REPEATED_MIN + 1)
        repeated = any(part[period:] == part[: size - period] for period in periods)
        if size >= 120 and repeated:
            found = any(letter.isalnum() for letter in part)
            break
    assert endings.repeats(text) is found
