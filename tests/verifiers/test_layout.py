r"""How an answer is laid out says nothing about it; a response may take its answer back.

The product of layouts, typefaces and kinds of answers is drawn by the fuzzer (`wrappings`,
`wrapped_labels`, `fences`). Here are the cases by which each rule is known, with the ones next to
it that stay as they are.
"""

import time
from collections.abc import Callable

import pytest

from assay.core.verdict import Ended
from assay.verifiers.code.source.blocks import blocks_of
from assay.verifiers.text.around import layout, withdrawn

Judge = Callable[..., Ended]

RIGHT = (
    ("85", r"$\therefore 85$"),
    ("x", "Answer (exact): x"),
    ("1/3", "Answer (in simplest form): 1/3"),
    ("x^2", "<b>Final Answer</b><br><b>x^2</b>"),
    ("x", "Answer: x<br/>Thanks"),
    ("3/4", "<sup>3</sup>/<sub>4</sub>"),
    ("11/4", "Answer: 2<sup>3</sup>/<sub>4</sub>"),
    ("-85", "Answer:\n- 85"),
    ("3, 5", "Answer:\n- 3\n- 5"),
    ("3, 5", "Answer:\n1. 3\n2. 5"),
    ("85", "Answer:\n1. 85"),
    ("5", "<answer>\n- x = 5\n</answer>"),
    ("-5", "<answer>\n- -5\n</answer>"),
    ("x^2", "\\begin{answer}x^2\\end{answer}"),
    ("7", r"\boxed{7\text{ (mod }12)}"),
    (r"\sin 2x", r"\boxed{\sin 2x} = 2 \sin x \cos x"),
    ("6", r"So 10 - \boxed{4}"),
    ("500", "The answer is 5 hundred"),
    ("x^{12}", "Answer: x ** 12"),
    ("85", "#### 85, unique"),
    ("85", "85. Hence x."),
    (r"x \ge 5", "\u7b54\u6848\uff1ax\u4e0d\u5c0f\u4e8e5"),
    (r"x < 5", "\u7b54\u6848\uff1ax\u5c0f\u4e8e5"),
    (r"y = 2x", "Answer: **$y = 2x$**."),
    ("10, 15", "Answer => 10, 15"),
    ("x^2", "\\boxed{x^2}\nx^2"),
    ("[1, 4]", "Answer: $[1, 4]$\n```"),
    ("4, 39", '{"answer": "4, 39"}\n\nHope this helps!'),
    ("1:8", "So the answer is **1:8** \u220e"),
    ("27", r"After some work we get \boxed{27}. I hope this helps!"),
    ("False", "The answer is False."),
    ("85", "\\boxed{85}\n\nWait, this is wrong? No: 80 + 5 is 85, as it has to be."),
)
WRONG = (
    ("85", "Answer:\n- 85"),
    ("-3, -5", "Answer:\n- 3\n- 5"),
    ("3", "Answer:\n1. 3\n2. 5"),
    ("5", "<answer>\n- -5\n</answer>"),
    ("4", r"So 10 - \boxed{4}"),
    (r"\sin 2x", r"\boxed{\sin 2x} = \cos 2x"),
    ("5", r"\boxed{5\text{ hundred}}"),
    ("7", r"\boxed{8\text{ (mod }12)}"),
    ("85", "\u7b54\u6848\uff1a\u81f3\u5c1185"),
    ("3/4", "Answer: <sup>4</sup>/<sub>3</sub>"),
    ("x^2", "\\boxed{x^2}\nx^3"),
    ("85", "\\boxed{85}\n\nActually, this is wrong."),
    ("[1, 4]", "Answer: $[1, 4]$\n\nWait, this is wrong.\n\nHope this helps!"),
    ("85", "The answer is 85.\n\nNo, that cannot be right. Let me recheck."),
    ("85", "The answer is 85.\n\nI made a mistake."),
    (r"\frac{1}{2}", r"\cancel{\boxed{\frac{1}{2}}}"),
    (r"\{1, 2\}", r"\sout{\boxed{\{1, 2\}}}"),
    ("85", "<del>Answer: <u>85</u></del>"),
    ("85 m", "Answer: ~~$85~m$~~"),
    ("5", "The answer is not x = 5."),
    ("(1, 2)", "The answer is not ***(x, y) = (1, 2)***."),
    ("5", r"The answer is not \textbf{$5$}."),
    ("5", r"Wrong answer: \mathbf{5}"),
    ("[1, 2)", r"Wrong answer: \[[1, 2)\]"),
    ("5", r"It isn't \boxed{b=5}."),
    ("84%", r"\boxed{84\%} is not the answer."),
)


@pytest.mark.parametrize(("gold", "response"), RIGHT)
def test_what_an_answer_is_laid_out_in_is_no_part_of_it(
    judge: Judge, gold: str, response: str
) -> None:
    assert judge("math", response, {"answers": [gold]}).reward == 1.0


@pytest.mark.parametrize(("gold", "response"), WRONG)
def test_what_is_taken_back_or_another_value_stays_wrong(
    judge: Judge, gold: str, response: str
) -> None:
    assert judge("math", response, {"answers": [gold]}).reward == 0.0


@pytest.mark.parametrize(
    "response",
    [
        "Answer: B\n\nWait, this is wrong.",
        "\\boxed{B}\n\nActually, this is wrong.",
        "\\cancel{\\boxed{\\text{B}}}",
        "<!-- Answer: B -->",
        "The answer is not <i>(B)</i>.",
        "I doubt that the answer is $\\displaystyle (B)$.",
        "Answer: **(B)**\nEdit: C",
    ],
)
def test_a_label_that_is_taken_back_is_not_chosen(judge: Judge, response: str) -> None:
    assert judge("choice", response, {"answer": "B", "choices": list("ABCD")}).reward == 0.0


@pytest.mark.parametrize(
    "response",
    ["The answer is C. No wait, B.", "A? That is wrong. The answer is B.", "<b>Answer:</b> (B)"],
)
def test_a_label_behind_what_is_taken_back_is_chosen(judge: Judge, response: str) -> None:
    assert judge("choice", response, {"answer": "B", "choices": list("ABCD")}).reward == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "$a<b$ and $b>c$",
        "if x<i>2 holds",
        "~~~\ncode\n~~~",
        "<answer>5</answer>",
        "Let me know the answer if 3 < x.",
    ],
)
def test_what_is_no_layout_stays(text: str) -> None:
    assert layout.plain(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "This is wrong. The answer is 5.",
        "Is this wrong? No, it is fine.",
        "I made a mistake in step 2, but the answer stands.",
        "The answer is wrong.",
        "That is incorrect. Paris.",
    ],
)
def test_a_text_that_goes_on_takes_nothing_back(text: str) -> None:
    assert not withdrawn.is_withdrawn(text)


PROGRAM = "print(1)\n"
PYTHON = frozenset({"python", "py"})


@pytest.mark.parametrize(
    ("response", "last"),
    [
        (f"```python\nprint(0)\n``````python\n{PROGRAM}```", PROGRAM),
        (f"```python\n{PROGRAM}``", PROGRAM),
        (f"```{{.python}}\n{PROGRAM}```\n\n```\n7\n```", PROGRAM),
        (f"> ~~~code\n> {PROGRAM}> ~~~\n", PROGRAM),
        (
            f'```python\n"""\n```\n3\n```\n"""\n{PROGRAM}```\n\n```\n7\n```',
            f'"""\n```\n3\n```\n"""\n{PROGRAM}',
        ),
        (f"```python\ns = '''\n```\n\n```python\n{PROGRAM}```", PROGRAM),
    ],
)
def test_the_last_block_of_a_program_is_found(response: str, last: str) -> None:
    named = [one.text for one in blocks_of(response, PYTHON) if one.language not in {"", "text"}]
    assert named[-1] == last


@pytest.mark.parametrize(
    "response",
    [
        '```python\n"""\n' + "```\n" * 100_000,
        ('```python\n"""\n' + "```\n" * 150 + '"""\n```\n') * 600,
        "``````python\n" * 30_000,
    ],
)
def test_strings_with_fences_take_linear_time(response: str) -> None:
    began_s = time.thread_time()
    blocks_of(response, PYTHON)
    assert time.thread_time() - began_s < 5.0


@pytest.mark.parametrize(
    "unit",
    [
        "<b>",
        "<sup>",
        "</s>",
        "\n",
        "thanks\n",
        "\\begin{answer}",
        "wait, no ",
        "this is ",
        "\u220e",
    ],
)
def test_layout_takes_linear_time(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    began_s = time.thread_time()
    withdrawn.is_withdrawn(layout.plain(text))
    assert time.thread_time() - began_s < 3.0
