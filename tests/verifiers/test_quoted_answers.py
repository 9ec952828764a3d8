"""A reference of several sentences or parts is found word for word, but not behind a guess."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import quoted_answer

REFERENCES = ("85; 140", "It rains on Monday. It is dry on Tuesday", "x > 1\nx < 5", "Case 1: 5")
STRATEGIES = MathSettings().strategies
ANNOUNCES = ("The answer is {}.", "The final answer is: {}", "#### {}", "Answer: {}")
GUESSES = st.sampled_from(["5", "1; 2", "snow", "It rains. It is wet", r"\frac{1}{2}"])


@given(
    wanted=st.sampled_from(REFERENCES),
    how=st.sampled_from(ANNOUNCES),
    guesses=st.lists(
        st.tuples(st.sampled_from((*ANNOUNCES, r"\boxed{{{}}}")), GUESSES), max_size=5
    ),
    again=st.booleans(),
)
def test_it_is_found_unless_something_else_is_announced_before(
    wanted: str, how: str, guesses: list[tuple[str, str]], again: bool
) -> None:
    lines = [announced.format(guess) for announced, guess in guesses]
    lines += ["#### " + wanted] * again + [how.format(wanted)]
    found = quoted_answer("Some work.\n" + "\n".join(lines), [wanted], STRATEGIES)
    assert (found is not None) == (not guesses)


@pytest.mark.parametrize("wanted", REFERENCES)
def test_the_reference_alone_is_an_answer(wanted: str) -> None:
    assert quoted_answer(f"{wanted}.", [wanted], STRATEGIES) is not None


@pytest.mark.parametrize("wanted", REFERENCES)
@pytest.mark.parametrize(
    "guess",
    [
        r"\fbox{5}",
        "\u041e\u0442\u0432\u0435\u0442: 5",
        "\uc815\ub2f5: 5",
        "\u7b54\u6848: 5",
        "Result: 5",
        "Answer - 5",
    ],
)
def test_a_guess_is_one_in_every_way_to_announce_it(wanted: str, guess: str) -> None:
    assert quoted_answer(f"{guess}\nThe answer is {wanted}.", [wanted], STRATEGIES) is None
