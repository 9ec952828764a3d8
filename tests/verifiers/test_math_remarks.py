"""Remarks behind a value and approximations beside it change nothing; hedges among them do."""

import random

import pytest
from tests.verifiers.test_math_disguises import passes

CARRIERS = ("\\boxed{%s}", "The answer is $%s$.", "#### %s", "<answer>%s</answer>")
RIGHT = {
    r"\pi": (
        r"\pi \approx 3.14",
        r"\pi\approx3.1416",
        r"\pi = 3.14159\ldots",
        r"3.14159 \approx \pi",
        r"\pi \; (\approx 3.14)",
        r"\pi \text{ (approximately } 3.14)",
        r"\pi \text{ or about } 3.14",
    ),
    r"\frac{1}{3}": (
        r"1/3 \approx 0.333",
        r"\frac{1}{3} = 0.333",
        "1/3 (or about 0.333)",
        r"\frac13 \text{ or } 0.333",
        r"P(A) = \frac{2}{6} = \frac{1}{3} \approx 0.333",
        r"\frac{1}{3} \approx 33.3\%",
        r"\frac{1}{3}, \text{ i.e. } 0.333",
        r"\dfrac{1}{3} \text{ (in simplest form)}",
    ),
    r"2\sqrt{3}": (
        r"\sqrt{12} = 2\sqrt{3} \approx 3.464",
        r"AB = 2\sqrt{3} \approx 3.46",
        r"2\sqrt{3} \text{ cm} \approx 3.46 \text{ cm}",
        r"2\sqrt{3} \text{ (approx. } 3.46)",
        r"d = \sqrt{4 + 8} = \sqrt{12} = 2\sqrt{3}",
        r"2\sqrt{3}, \text{ not } 3\sqrt{2}",
        r"\sqrt{12}, \text{ which simplifies to } 2\sqrt{3}",
        r"2\sqrt3 \text{ (about } 3.46\text{)}",
    ),
    r"\frac{\sqrt{3}}{2}": (r"\sin 60^\circ = \frac{\sqrt{3}}{2} \approx 0.866",),
    "78.54": (r"25\pi \approx 78.54", r"\pi r^2 = 25\pi \approx 78.54", r"x \approx 78.54"),
    "3/4": ("3/4 (75\\%)", r"\frac{3}{4} = 0.75 = 75\%", "0.75 (or 3/4)"),
    r"100\pi": (r"100\pi \approx 314",),
    r"25\pi \approx 78.54": ("78.54", r"25\pi"),
    "x^2+2x+1": (r"f(x) = (x+1)^2 = x^2+2x+1", r"x^2 + 2x + 1, \text{ as required}"),
    r"\frac{1}{3}, 2": (r"x = \frac{1}{3} \approx 0.333, y = 2", r"2, \frac13 = 0.333"),
    "5": (
        "5, as required",
        "5 (not 4)",
        r"5 \text{ (not } 4)",
        r"5 \text{, not } 4",
        "5 rather than 4",
        "5, since 4 is too small",
        r"5 \text{ since } 2 + 3 = 5",
        "5 (exact)",
        "5, which is prime",
        "x = 5 (not 4)",
        "2 + 3 = 5, as required",
        "5 cm (not 6 cm)",
        "5 \u2014 not 4",
        "5 but not 4",
        "5 is the answer",
        "5, by symmetry",
        r"5 \text{ apples, not } 4",
        "5 (rounded)",
    ),
    "yes": ("Yes, because 2 is even", "Yes (not no)"),
    "(1, 2)": ("(1,2), not (2,1)",),
    "Monday": ("Monday, not Tuesday", "Monday, since 7 days have passed"),
    "does not exist": ("does not exist",),
    "5e^{-2t}+C": ("5e^{-2t} + C, where C is a constant",),
}
WRONG = {
    r"\pi": (
        r"\pi \approx 3.15",
        "3.14",
        r"\pi \approx 4",
        r"\pi \approx 3.14 \approx 4",
        r"\pi \text{ or about } 4",
    ),
    r"\frac{1}{3}": (
        r"\frac{1}{3} \approx 0.35",
        r"\frac{1}{3} = 0.5",
        r"\frac{2}{3} \approx 0.333",
        "0.33",
        r"\frac13 \text{ or } \frac23",
        r"\frac{1}{3} \text{ (wrong)}",
        "1/3 or 0.5",
    ),
    r"2\sqrt{3}": (
        r"3\sqrt{2} = 2\sqrt{3}",
        r"x = 3\sqrt{2} = 2\sqrt{3}",
        r"\sqrt{13} = 2\sqrt{3}",
        "3.46",
        r"2\sqrt{3} \approx 4.24",
        r"3\sqrt{2} = 2\sqrt{3} \approx 4.24",
        r"3\sqrt{2} \approx 3.46",
        r"3\sqrt{2}, \text{ not } 2\sqrt{3}",
    ),
    "78.54": (r"25\pi \approx 78.5", r"24\pi \approx 75.40"),
    r"25\pi \approx 78.54": ("79.54", "78.5", "25"),
    "4.6": ("4.6 or 5", "4.6 \\approx 5"),
    "681": ("686 (about 681)", "686 or about 681", "686 \\approx 681"),
    "3": ("3 \\approx 2.9", "3 = 2.99", "x = 3 \\approx 3.1"),
    "x^2+2x+1": ("(x+1)^2 = x^2+2x+2", "x^2+2x, not x^2+2x+1"),
    r"\frac{1}{3}, 2": (r"x = \frac{1}{3} \approx 0.4, y = 2", r"\frac13 \approx 0.333"),
    "5": (
        "4 (not 5)",
        "4, not 5",
        "4 rather than 5",
        r"4 \text{ (not } 5)",
        "5, not 5",
        "5 (not 5.0)",
        "5 (or 4)",
        "5 (maybe 4)",
        "5, as required, or 6",
        "5, which is wrong",
        "5, not the answer",
        "5 (not the answer)",
        "5, because I guessed; otherwise 6",
        "5, actually 4",
        "5 is not correct",
        "4, since 5 is too large",
        "4 because 5 is too large",
        r"4 \approx 5",
        "4 (approximately 5)",
        "4, which is close to 5",
        "5 (not 4 or 6) or 7",
        "5, since the answer is 4",
        "5, so 6",
    ),
    "4": ("5 (not 4)", "5, not 4", "5 rather than 4", "5 people were there, not 4"),
    "yes": ("No, because 2 is even", "No (not yes)"),
    "Monday": ("Tuesday, not Monday", "Monday or Tuesday"),
}


def carried(text: str) -> list[str]:
    return [one.replace("%s", text) for one in CARRIERS if "$" not in one or "$" not in text]


@pytest.mark.parametrize("gold", RIGHT)
def test_a_remark_or_an_approximation_leaves_the_value(gold: str) -> None:
    for text in RIGHT[gold]:
        for response in carried(text):
            assert passes(gold, response), response


@pytest.mark.parametrize("gold", WRONG)
def test_a_remark_makes_no_other_value_right(gold: str) -> None:
    for text in WRONG[gold]:
        for response in carried(text):
            assert not passes(gold, response), response


def test_an_approximation_agrees_only_rounded_or_cut_off_at_its_last_place() -> None:
    rng = random.Random(20_261_122)
    for _ in range(40):
        places, whole = rng.randint(2, 5), rng.randint(2, 60)
        value = whole**0.5
        if value.is_integer():
            continue
        unit = 10.0**-places
        rounded, cut = round(value, places), int(value / unit) * unit
        gold = f"\\sqrt{{{whole}}}"
        for stated in (rounded, cut):
            assert passes(gold, f"\\boxed{{{gold} \\approx {stated:.{places}f}}}"), (gold, stated)
        for stated in (rounded + 1.6 * unit, cut - unit):
            assert not passes(gold, f"\\boxed{{{gold} \\approx {stated:.{places}f}}}"), (
                gold,
                stated,
            )


def test_a_box_or_tag_that_is_rejected_is_not_the_answer() -> None:
    for box in ("\\boxed{%s}", "$\\boxed{%s}$", "<answer>%s</answer>"):
        five, six = box.replace("%s", "5"), box.replace("%s", "6")
        for text in (f"{six}, not {five}", f"{six} rather than {five}", f"It is not {five}."):
            assert not passes("5", text), text
        for text in (f"{five}, not {six}", f"not {six} but {five}", f"Why not? {five}"):
            assert passes("5", text), text
