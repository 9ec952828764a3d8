"""Programs in Markdown: fences of all kinds, marks around them, and other blocks beside them."""

import random
from collections.abc import Callable
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

_PROGRAM: Final = "n = int(input())\nprint(n * {} + {})\n"
_NAMES: Final = (
    *("python", "py", "Python", "python3", "PYTHON", 'python title="a.py"', "{.python}", ""),
    *("python {.numberLines}", "python,ignore", "python:main.py", "Python3 ", "python-3", "py3"),
    *("language-python", 'python linenums="1"', "python|a.py", "solution.py", "{python}"),
    "python #1",
)
_FENCES: Final = ("```", "~~~", "````", "~~~~~")
_BEFORE: Final = (
    *("", "Here is the code:\n\n", "1. First:\n\n", "### Solution\n", "- Code:\n\n", "> note\n\n"),
    *("We use `n` and `input()`.\n\n", "<p>Code</p>\n\n", "Use ```inline``` code.\n\n"),
)
_BEHIND: Final = (
    *("", "\n\nThis works in O(1).", "\n\n### Explanation\nIt multiplies.", "\n\n---\n", "\n</s>"),
    *("\n\nExample:\n```text\n3\n```\n", "\n\nRun it:\n```bash\npython a.py\n```", "<|im_end|>"),
)
_SAID: Final = ("Better:", "The final program:", "That is wrong. Corrected:", "## Final code", "")
_TAGS: Final = (
    *('<pre><code class="language-python">{}</code></pre>', "<pre>\n{}</pre>"),
    *("<answer>\n```python\n{}```\n</answer>", "[CODE]\n```python\n{}```\n[/CODE]"),
    "<solution>\n```python\n{}```\n</solution>",
)


def _indented(text: str, by: str) -> str:
    return "".join(by + line if line.strip() else line for line in text.splitlines(keepends=True))


def _plain(rng: random.Random, program: str, _other: str) -> str:
    fence = rng.choice(_FENCES)
    return f"{fence}{rng.choice(_NAMES)}\n{program}{fence}"


def _in_item(rng: random.Random, program: str, other: str) -> str:
    by = rng.choice(("  ", "   ", " ", "\t", "    "))
    return "1. Print:\n\n" + _indented(_plain(rng, program, other) + "\n", by)


def _quoted(rng: random.Random, program: str, other: str) -> str:
    return _indented(f"Code:\n\n{_plain(rng, program, other)}\n", "> ")


def _two(rng: random.Random, program: str, other: str) -> str:
    fence = rng.choice(_FENCES)
    said = rng.choice(_SAID)
    return f"First:\n{fence}python\n{other}{fence}\n\n{said}\n\n{fence}python\n{program}{fence}"


def _glued(_rng: random.Random, program: str, other: str) -> str:
    return f"```python\n{other}``````python\n{program}```"


def _cut(rng: random.Random, program: str, _other: str) -> str:
    return f"```python\n{program}" + rng.choice(("", "`", "``", "`\n"))


def _with_fence_in_string(rng: random.Random, program: str, _other: str) -> str:
    marks = rng.choice(('"""', "'''"))
    inner = rng.choice(("```\n3\n```", "```\n3\n```\n\n```\n4\n```", "~~~\n3\n~~~"))
    return f"```python\n{marks}\nExample:\n{inner}\n{marks}\n{program}```"


def _behind_words(_rng: random.Random, program: str, _other: str) -> str:
    return f"Here it is: ```python\n{program}```"


def _with_crlf(rng: random.Random, program: str, other: str) -> str:
    return _plain(rng, program, other).replace("\n", "\r\n")


def _tagged(rng: random.Random, program: str, _other: str) -> str:
    return rng.choice(_TAGS).format(program)


_KINDS: Final[tuple[Callable[[random.Random, str, str], str], ...]] = (
    *(_plain, _in_item, _quoted, _two, _glued, _cut, _with_fence_in_string, _behind_words),
    *(_with_crlf, _tagged),
)
_OPEN_ENDED: Final = (_cut, _tagged)
"""Nothing follows: what does would be in the block, or the tag says where the program ends."""


def fence_case(rng: random.Random) -> Case:
    """A right or a wrong program in one layout; an earlier block has the other one."""
    factor, is_right = rng.randint(2, 90), rng.random() < 0.6
    right, wrong = _PROGRAM.format(factor, 1), _PROGRAM.format(factor, 2)
    program, other = (right, wrong) if is_right else (wrong, right)
    made = rng.choice(_KINDS)
    behind = "" if made in _OPEN_ENDED else rng.choice(_BEHIND)
    return Case(
        pipeline="code.python",
        kind=f"fences: {made.__name__.strip('_')}",
        response=rng.choice(_BEFORE) + made(rng, program, other) + behind,
        reference={"tests": [{"stdin": "3\n", "stdout": f"{3 * factor + 1}\n"}]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )
