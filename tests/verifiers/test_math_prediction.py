"""A parser that was given what another has learnt reads answers as one that learnt it itself."""

import subprocess
import sys
from pathlib import Path

from assay.verifiers.math.warm import prediction
from assay.verifiers.math.warm.pairs import PAIRS

CHILD = """
import sys
from pathlib import Path
from assay.verifiers.math.warm import prediction
from assay.verifiers.math.warm.pairs import PAIRS
from latex2sympy2_extended import latex2sympy

def read(text):
    try:
        return repr(latex2sympy(text, is_real=False))
    except Exception as error:
        return type(error).__name__

MORE = [
    r"\\frac{\\sqrt{3}}{2}+\\sin(x)^2", r"\\log_{3}(27)\\cdot 5", r"x<3", r"\\{1,2,3\\}",
    r"(1,\\infty)", r"\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}", r"3!+\\binom{5}{2}",
    r"\\int_0^1 x^2 dx", "+", "((", "x^",
]
folder = None if sys.argv[1] == "-" else Path(sys.argv[1])
with prediction.kept(folder):
    began = prediction.states()
    first = [read(text) for pair in PAIRS for text in pair]
said = first + [read(text) for text in MORE]
print(began, prediction.states())
print("\\n".join(said))
print(prediction.extract() == prediction.Learnt(*__import__("marshal").loads(
    __import__("marshal").dumps(tuple(prediction.extract())))))
"""


def child(folder: str) -> tuple[int, int, str]:
    """States at the beginning and at the end; what was read."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, folder],
        check=True,
        capture_output=True,
        text=True,
    )
    head, _, rest = done.stdout.partition("\n")
    began, ended = head.split()
    return int(began), int(ended), rest


def test_answers_are_read_the_same_with_it(tmp_path: Path) -> None:
    nothing, alone, said = child("-")
    assert (nothing, said.endswith("True\n")) == (0, True)
    assert child(str(tmp_path)) == (0, alone, said)
    began, ended, again = child(str(tmp_path))
    assert began > 100
    assert (ended, again) == (alone, said)


def test_the_states_are_those_that_were_learnt() -> None:
    _read("{" * 60 + "x" + "}" * 60)
    prediction.install(prediction.Learnt((), ()))
    assert prediction.states() == 0
    for pair in PAIRS:
        for text in pair:
            _read(text)
    before = prediction.extract()
    prediction.install(before)
    assert prediction.extract() == before
    assert prediction.states() == sum(len(decision[3]) for decision in before.decisions)
    learnt = prediction.states()
    for pair in PAIRS:  # nothing is learnt twice
        for text in pair:
            _read(text)
    assert prediction.states() == learnt


def test_what_a_parser_learnt_by_itself_is_not_written(tmp_path: Path) -> None:
    _read("x^2")
    with prediction.kept(tmp_path):
        _read("\\frac{1}{2}+\\sqrt[3]{y_1}")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_learnt_again(tmp_path: Path) -> None:
    (tmp_path / prediction.FILE).write_bytes(b"damaged")
    began, ended, _ = child(str(tmp_path))
    assert began == 0
    assert child(str(tmp_path))[0] > 0
    assert ended > 100


def _read(text: str) -> None:
    from latex2sympy2_extended import latex2sympy

    try:
        latex2sympy(text, is_real=False)
    except Exception:  # noqa: BLE001 - of the library, on text that is no LaTeX
        return
