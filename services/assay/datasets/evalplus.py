"""HumanEval+ and MBPP+ from EvalPlus: inputs, and a solution that computes the results.

The results are computed when the file is converted. Inputs of MBPP+ that were tuples, sets or
complex numbers are lists or text in the file. Their types are read from the calls in `assertion`,
and a problem that needs such types is refused, because JSON cannot represent them.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final

from assay.datasets.code_tests import PYTHON, call_tests
from assay.datasets.port import Outputs, Record, Refused, Row, Source, identity, text

_SPECIAL: Final = frozenset(
    {"find_zero", "are_equivalent", "sum_div", "check_str", "text_match_three"}
)
"""Functions whose results EvalPlus judges with a special checker."""
_TOLERANCE: Final = 1e-6
"""Tolerance for float results if the problem has none."""
_NO_JSON: Final = (ast.Tuple, ast.Set)


def convert(record: Record, line: int, pipeline: str) -> Outputs:
    """Return the calls to run and the function that creates the row."""
    function, prompt = text(record, "entry_point"), text(record, "prompt", empty=True)
    if function in _SPECIAL:
        raise Refused("judged by a special checker upstream", function)
    inputs = [*_inputs(record, "base_input"), *_inputs(record, "plus_input")]
    _refuse_types(record, function)
    program = _program(prompt, text(record, "canonical_solution"))
    name = identity(record, line, "evalplus", "task_id")

    def row(outputs: Sequence[Any]) -> Row:
        pairs = list(zip(inputs, outputs, strict=True))
        reference = call_tests(function, pairs, unwrapped=False)
        return Row(
            request_id=name,
            pipeline=pipeline,
            reference={**reference, "solution": program, "preamble": _imports(prompt)},
            prompt=prompt,
            settings=_tolerance(record.get("atol")),
        )

    return Outputs(program=program, function=function, inputs=inputs, row=row)


def _program(prompt: str, solution: str) -> str:
    """HumanEval's solutions continue the prompt; MBPP's are complete."""
    return prompt + solution if solution[:1] in {" ", "\t"} else f"{solution}\n"


def _imports(prompt: str) -> str:
    """A response may leave out the imports of the prompt."""
    lines = prompt.split("\n")
    return "\n".join(line for line in lines if line.startswith(("import ", "from ")))


def _inputs(record: Record, key: str) -> list[list[Any]]:
    value = record.get(key, [])
    if isinstance(value, dict) and not value:
        return []  # the file has none
    if not isinstance(value, list) or not all(isinstance(one, list) for one in value):
        raise Refused(f"`{key}` is not a list of lists of arguments")
    return value


def _refuse_types(record: Record, function: str) -> None:
    for call in _calls(record.get("assertion"), function):
        for node in (node for argument in call.args for node in ast.walk(argument)):
            is_complex = isinstance(node, ast.Constant) and isinstance(node.value, complex)
            if is_complex or isinstance(node, _NO_JSON):
                raise Refused("arguments of types that JSON cannot represent", function)


def _calls(assertion: object, function: str) -> Iterator[ast.Call]:
    if not isinstance(assertion, str):
        return
    try:
        tree = ast.parse(assertion)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function:
            yield node


def _tolerance(value: object) -> dict[str, Any]:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > _TOLERANCE:
        return {"value_float_tolerance": min(float(value), 1.0)}
    return {}


SOURCE: Final = Source(
    name="evalplus",
    about="HumanEval+ and MBPP+ from EvalPlus; results are computed in the sandbox.",
    convert=convert,
    pipelines=(PYTHON,),
)
