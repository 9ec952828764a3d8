"""Every reader of responses is linear in the length of the text, or refuses a long one.

A text of 20,000 characters costs a linear reader some milliseconds; a quadratic one exceeds the
limit of CPU time by a factor of ten and more. So the machine's load does not matter.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from assay.config.settings import VerifierSettings
from assay.core.outcome import Outcome
from assay.verifiers.code.source.choices import PYTHON, BlockChoice, Extraction
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.local import LocalPipelines
from assay.verifiers.math import grammar, notation, reading
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.options import Strategy
from assay.verifiers.text import json_text
from assay.verifiers.text.answers import extract
from assay.verifiers.text.around import chat, marks
from assay.verifiers.text.bounds import cpu_time
from assay.verifiers.text.choice import read_choice

CHARS = 20_000
CPU_S = 2.5
CHOICE = (*(set(Strategy) - {Strategy.TAIL, Strategy.HASHES, Strategy.LAST_NUMBER}),)
REPEATED = (
    *("1", "0.", "1 ", "\u0660", "\u00b2", "\u00bd", "\n", " ", "\t", ".", "...", "-", "~~", "$"),
    *("{", "}", "[", "(", "<", "#", "```", "\\", "^", "_", "A?", "A) ", "B or ", "not ", "~~a"),
    *("answer is ", "Answer:", "#### 1\n", "\\boxed{", "\\boxed{1} and ", "<answer>", "<s>"),
    *("<!--", "<!-- ", "Result: 1\n", "| Answer | ", "\\boxed{1} or 1\n", "3 + \\boxed{1}"),
    *("1, I mean ", "Result\n|", "\\boxed{1}. Wait, ", "\\boxed{1} if x, ", "\\boxed{1} could be "),
    *(
        f"\\boxed{{{'a' * 99}1}} or ",
        f"\\boxed{{1}}{' ' * 99}",
        f"\\boxed{{1}}{' $' * 60}",
        '"a": 1, ',
    ),
    *(f"\\boxed{{A}}{' a' * 60}", f"\\boxed{{{'a-' * 50}}}", f"\\boxed{{1}}{' if or' * 20}"),
    *(
        f"\\boxed{{(1,2)}} ({'a,' * 44}b\n",
        f"\\boxed{{x}} {'=> ' * 40}\n",
        '{"answer": ',
        "{a: ' ,",
    ),
    *("5 or \\boxed{85}\n", "'a': '", "{'a'  , "),
    *("\\begin{cases}=", "\\text{", "\\frac", "\\sqrt(", "1\\dot", "0.1\\overline{", "\\degree"),
    *("1 to ", "1 and ", "is wrong 1 ", "Wait, ", "if the answer is A, ", "```json\n", "$1"),
)
AFTER = (("Answer:", " "), ("0.", "1"), ("1", "."), ("x=", "1"), ("\\(", "1"), ("#### ", "\n"))
TEXTS = [text for one in REPEATED for text in (one, (one * CHARS)[:CHARS])] + [
    text for head, one in AFTER for text in (head + one * CHARS, one * CHARS + head)
]
READERS: dict[str, Callable[[str], object]] = {
    **{f"extract {one}": partial(extract, strategies=[one]) for one in Strategy},
    "final_answer": lambda text: final_answer(text, MathSettings()),
    "read_choice": lambda text: read_choice(text, tuple("ABCDE"), CHOICE),
    "tidy": notation.tidy,
    "form": notation.form,
    "grammar": grammar.read,
    "read_answer": reading.read_answer,
    "fenced": json_text.fenced,
    "unwrapped": json_text.unwrapped,
    "marks": lambda text: list(marks.layers(text)),
    "marks in a command": lambda text: list(marks.layers(f"\\text{{{text}}}")),
    "chat": chat.unended,
    "program_of": lambda text: program_of(text, Extraction.AUTO, BlockChoice.LAST, PYTHON),
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_is_linear(name: str) -> None:
    for text in TEXTS:
        with cpu_time(CPU_S):
            READERS[name](text)


@pytest.mark.parametrize("unit", ["\n", "```\n", "```python\nx\n", "    "])
def test_a_program_is_found_in_a_million_characters(unit: str) -> None:
    with cpu_time(4 * CPU_S):
        program_of(unit * (1_000_000 // len(unit)), Extraction.AUTO, BlockChoice.LAST, PYTHON)


@pytest.mark.parametrize(
    ("pipeline", "reference"),
    [
        ("math", {"answers": ["1"]}),
        ("exact", {"answers": ["1"]}),
        ("choice", {"answer": "A"}),
        ("regex", {"pattern": "(a|a)*b"}),
        ("json_schema", {"schema": {}}),
    ],
)
def test_no_reader_sees_a_million_characters(
    pipeline: str, reference: dict[str, object], tmp_path: Path
) -> None:
    with LocalPipelines(scratch=tmp_path, verifiers=VerifierSettings()) as pipelines:
        ended = pipelines.judge(pipeline, "1" * 1_000_000, reference)
    found = (ended.outcome, ended.reward, ended.evidence.verdict)
    if pipeline in {"math", "choice"}:  # their answers stand at the end, which alone is read
        assert found[:2] == (Outcome.SCORED, 0.0)
    else:
        assert found == (Outcome.RESOURCE_LIMIT, 0.0, "too_long")
