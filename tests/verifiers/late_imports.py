"""Run by a test, in a fresh process: which modules a warm `math.verify` still imports.

Every form of the grammar and every function that the parser knows is compared with itself and with
others. Prints one JSON object.
"""

import itertools
import json
import random
import sys
import tempfile
from importlib.machinery import PathFinder
from pathlib import Path

from benchmarks.verdicts.generated_golds import golds

from assay.verifiers.local import LocalPipelines
from assay.verifiers.math import controls
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.math.reading import read_gold
from assay.verifiers.math.warm import modules
from assay.verifiers.options import Strategy

SEED = 20_261_122
FUNCTIONS = """
sin cos tan csc sec cot arcsin arccos arctan arccsc arcsec arccot sinh cosh tanh
arsinh arcosh artanh ln log lg exp sqrt gcd lcm floor ceil det
operatorname{rref} min max Gamma zeta Re Im arg
"""
ARGUMENTS = ("x^2+1", "12, 18")
FORMS = (
    "\\int_0^1 x^2 dx",
    "\\int \\frac{1}{1+x^2} dx",
    "\\sum_{k=1}^{n} k^2",
    "\\prod_{k=1}^{5} k",
    "\\lim_{x\\to\\infty} (1+1/x)^x",
    "\\Gamma(5)",
    "\\det\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
    "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}^{-1}",
    "\\frac{d}{dx} x^3",
    "\\log_3 81",
    "\\gcd(12, 18)",
    "17 \\bmod 5",
    "x^4 - 1 = 0",
    "|x - 2| < 3",
    "x \\equiv 3 \\pmod 7",
    "\\sqrt[3]{-8}",
    "\\arctan(1)",
    "\\csc x + \\coth x",
    "\\{x | x > 2\\}",
    "A \\cap B",
    "\\mathbb{R} \\setminus \\{0\\}",
    "e^{2\\pi i/3}",
    "\\binom{n}{2}",
    "\\max(1, 2)",
    "\\overline{AB}",
    "\\frac{\\partial f}{\\partial x}",
    "x \\in \\{1, 2\\}",
    "p \\land q",
    "\\bar{z}",
    "\\erf(x)",
    "\\lfloor x \\rfloor + \\lceil x \\rceil",
    "\\int_0^\\infty e^{-x^2} dx",
    "\\int \\sin(x) \\cos(x) dx",
    "\\int_1^2 \\ln x \\, dx",
    "\\lim_{n\\to\\infty} \\frac{n!}{n^n}",
    "\\sum_{n=1}^{\\infty} \\frac{1}{n^2}",
    "\\sum_{n=0}^{\\infty} \\frac{x^n}{n!}",
    "\\prod_{k=1}^{n} k",
    "x^2 + y^2 = r^2",
    "y = \\frac{2}{x-1}",
    "x^3 - 6x^2 + 11x - 6 < 0",
    "x \\neq 3",
    "2^{10} > 10^3",
    "\\begin{cases} x & x > 0 \\\\ -x & x \\le 0 \\end{cases}",
    "\\begin{bmatrix}1&0\\\\0&1\\end{bmatrix} \\cdot \\begin{bmatrix}2\\\\3\\end{bmatrix}",
    "\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}",
    "\\mathbb{Z}",
    "\\mathbb{N} \\cup \\{0\\}",
    "\\emptyset",
    "(0, 1) \\cap (1/2, 2)",
    "\\{2k+1 | k \\in \\mathbb{Z}\\}",
    "x \\in (-\\infty, 3) \\cup (3, \\infty)",
    "\\frac{1+\\sqrt{5}}{2}",
    "\\sqrt{3+2\\sqrt{2}}",
    "\\sqrt[5]{32x^{10}}",
    "(1+i)^8",
    "\\overline{3+4i}",
    "|3+4i|",
    "\\frac{dy}{dx} = y",
    "f'(x) = 2x",
    "a_n = 2a_{n-1} + 1",
    "\\binom{n}{k} k! (n-k)!",
    "n!!",
    "0.\\overline{3}",
    "3 \\frac{1}{2}",
    "10^{-300}",
    "2^{1000}",
    "\\log_{x} 2",
    "\\sin^{-1}(1/2)",
    "\\sin^2 x + \\cos^2 x",
    "\\vec{a} \\cdot \\vec{b}",
    "\\hat{i} + 2\\hat{j}",
    "\\angle ABC = 60^\\circ",
    "\\frac{x^2-1}{x-1}",
    "\\left| \\frac{x}{2} \\right| \\le 4",
    "y = \\pm \\sqrt{x}",
    "x = 2 + 3k, k \\in \\mathbb{Z}",
    "\\theta = \\frac{\\pi}{4} + n\\pi",
    "\\oint \\vec{F}",
    "A^{T}",
    "p \\lor \\neg q \\to r",
    "x \\oplus y",
    "1 < 2 < 3",
    "x^2 - 2x + 5 = 0",
    "2 + 2 = 4",
    "\\int_0^1 x dx = \\frac12",
    "(a + b)^2 = a^2 + 2ab + b^2",
    "i^{304} = 1^{76} = 1",
    "e^{x} = -1",
)


class Watch:
    """Notes every module that is not loaded and could be found."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def find_spec(self, name: str, path: object = None, _target: object = None) -> None:
        if PathFinder.find_spec(name, path) is not None:  # type: ignore[arg-type]  # as given
            self.found.add(name)


def _corpus(draw: random.Random) -> list[str]:
    made = golds(draw, 65)
    called = [f"\\{f}({x})" for f, x in itertools.product(FUNCTIONS.split(), ARGUMENTS)]
    return [*made, *FORMS, *called]


def main() -> None:
    """Warm up as a worker does, then compare."""
    with tempfile.TemporaryDirectory() as scratch, LocalPipelines(scratch=Path(scratch)) as local:
        local.judge("math", "1", {"answers": ["1"]})
        print(json.dumps(_watched(local)))


def _watched(local: LocalPipelines) -> dict[str, object]:
    optional = sorted({"numpy", "pytest", "matplotlib", "scipy"} & set(sys.modules))
    draw = random.Random(SEED)
    corpus = _corpus(draw)
    watch = Watch()
    sys.meta_path.insert(0, watch)
    compared = 0
    for gold in corpus:
        said = controls.carried(draw.choice(corpus), Strategy.BOXED)
        local.judge("math", said, {"answers": [gold]}, reference_audit="off")
        read = read_gold(gold)
        if read is not None:
            with modules.without_optional():
                Comparison(MathSettings()).control(read.answer)
        compared += 2
    sys.meta_path.remove(watch)
    found = sorted(watch.found)
    return {"compared": compared, "imported": found, "loaded_for_nothing": optional}


if __name__ == "__main__":
    main()
