"""Programs around which the prompt wrote the first mark, or that no fence is around at all.

A response is the program and a closing mark, the rest of a function, or a program in whose strings
there are fences; a draft in a thought has the other verdict.
"""

import random
from collections.abc import Mapping
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.code.problems import PROBLEMS, Problem

_MARKS: Final = (
    *("```", "```\n", "~~~", "````", "[DONE]", "[/PYTHON]\n", "</code>", "</answer>", "</python>"),
    *("</solution>", "</code>\n</answer>", "```\n</answer>", "```<|im_end|>", "[DONE]</s>"),
)
_BEHIND: Final = (
    *("", "", "\n\nThis is O(n).", "\n\nOutput:\n```\n7\n```", "\n### Why\n- It is `so`."),
    "\n\nFor example:\n```python\nprint({f}({x}))\n```\n",
)
_DOCUMENTED: Final = (
    "    ```\n    {f}({x})\n    ```",
    "```\n{f}({x})\n```",
    "    ```python\n    >>> {f}({x})\n    ```",
    "    ~~~\n    {f}({x})\n    ~~~",
    "    Example: ```{f}({x})```",
)
_BEFORE: Final = ("", "", "import math\n", "from math import gcd\n\n", "# {f}\n", "N = 10**9 + 7\n")
_SETTINGS: Final = {"cpu_s": 1.0, "memory_bytes": 256 << 20}


def opening_case(rng: random.Random) -> Case:
    """A right or a wrong program, in one of these layouts."""
    problem, name = rng.choice(PROBLEMS), rng.choice(("f", "solve", "get_it"))
    is_right = rng.random() < 0.6
    sample = problem.draw(rng)
    words = {"f": name, "x": ", ".join(map(repr, sample))}
    bodies = (problem.right, problem.wrong) if is_right else (problem.wrong, problem.right)
    body, other = rng.choice(bodies[0]), rng.choice(bodies[1])
    form = one_of(rng, {"calls": 2, "human_eval": 3, "mbpp": 1, "asserts": 1})
    layouts = {"closed": 4.0, "documented": 2.0, "draft": 2.0}
    if form == "human_eval":
        layouts |= {"continued": 2.0, "stripped": 2.0 if "\nclass" not in f"\n{body}" else 0.0}
        if body.startswith(("from ", "import ")):
            layouts["stripped"] = 0.0
    layout = one_of(rng, layouts)
    program = _whole(name, problem, body)
    if layout == "closed":
        program = rng.choice(_BEFORE).format(**words) + program
        response = _closed(rng, program, words)
    elif layout == "continued":
        response = _closed(rng, f"    {body}\n", words)
    elif layout == "stripped":
        response = rng.choice(("{}", "```python\n{}\n```", "{}\n", "\n{}")).format(body.strip())
    else:
        fences = rng.choice(_DOCUMENTED).format(**words)
        text = f'"""Do it.\n\n{fences}\n    """' if layout == "documented" else '"""Do it."""'
        response = _whole(name, problem, f"{text}\n    {body}")
        if rng.random() < 0.3:
            response += f"\n```{rng.choice(('', 'python', 'text'))}\n{name}({words['x']})\n```\n"
        if layout == "draft":
            draft = f"```python\n{_whole(name, problem, other)}```"
            response = f"<think>\nMaybe\n{draft}\nNo.\n</think>\n{response}"
    return Case(
        pipeline="code.python",
        kind=f"openings: {form}, {layout}",
        response=response,
        reference=_reference(name, problem, sample, form),
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings=_SETTINGS,
    )


def _whole(name: str, problem: Problem, body: str) -> str:
    return f"def {name}({problem.parameters}):\n    {body}\n"


def _closed(rng: random.Random, program: str, words: Mapping[str, str]) -> str:
    mark = rng.choice(_MARKS)
    is_fence = mark.strip("\n`~") == ""
    return program + mark + (rng.choice(_BEHIND).format(**words) if is_fence else "")


def _reference(name: str, problem: Problem, sample: tuple[Any, ...], form: str) -> dict[str, Any]:
    value = problem.solve(*sample)
    said = ", ".join(map(repr, sample))
    if form == "calls":
        expected = list(value) if isinstance(value, tuple) else value
        cases = [{"args": list(sample), "expected": expected}]
        return {"calls": {"function": name, "cases": cases}}
    if form == "human_eval":
        test = f"def check(candidate):\n    assert candidate({said}) == {value!r}\n"
        prompt = f'def {name}({problem.parameters}):\n    """Do it.\n\n    It is so.\n    """\n'
        return {"prompt": prompt, "entry_point": name, "test": test}
    code = [f"assert {name}({said}) == {value!r}"]
    return {"test_list": code} if form == "mbpp" else {"asserts": {"code": code}}
