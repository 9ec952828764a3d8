"""HumanEval+ and MBPP+ from EvalPlus: inputs, and a solution that computes the results.

The results are computed when the file is converted. Inputs of MBPP+ that were tuples, sets or
complex numbers are lists or text in the file. Their types are those of the calls in `assertion`,
whose values have the shape of the inputs; a problem whose calls disagree on a type is refused.
Arguments and results are Python literals, and are compared as EvalPlus compares them: by `==`, with
a tolerance for floats.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from assay.datasets.code_tests import PYTHON, literal_tests
from assay.datasets.port import DataRecord, DataRow, Outputs, Refused, Source, identity, text
from assay.verifiers.code.literals import literal

_SPECIAL: Final = frozenset(
    {"find_zero", "are_equivalent", "sum_div", "check_str", "text_match_three"}
)
"""Functions whose results EvalPlus judges with a special checker."""
_AS_SETS: Final = frozenset(
    {
        "similar_elements",
        "find_char_long",
        "common_in_nested_lists",
        "extract_singly",
        "larg_nnum",
        "intersection_array",
        "find_dissimilar",
        "Diff",
    }
)
"""Functions of MBPP+ whose results EvalPlus compares as sets: their order is free."""
_TOLERANCE: Final = 1e-6
"""Tolerance for float results if the problem has none."""


def convert(record: DataRecord, line: int, pipeline: str) -> Outputs:
    """Return the calls to run and the function that creates the row."""
    function, prompt = text(record, "entry_point"), text(record, "prompt", empty=True)
    if function in _SPECIAL:
        raise Refused("judged by a special checker upstream", function)
    inputs = [*_inputs(record, "base_input"), *_inputs(record, "plus_input")]
    types = _types(record, function)
    texts = [_texts(given, types, function) for given in inputs]
    program = _program(prompt, text(record, "canonical_solution"))
    name = identity(record, line, "evalplus", "task_id")

    def row(outputs: Sequence[str]) -> DataRow:
        cases = zip(texts, outputs, strict=True)
        tests = _set_tests if function in _AS_SETS else literal_tests
        reference = tests(function, cases)
        return DataRow(
            request_id=name,
            pipeline=pipeline,
            reference={**reference, "solution": program, "preamble": _imports(prompt)},
            prompt=prompt,
            settings=_tolerance(record.get("atol")),
        )

    return Outputs(program=program, function=function, inputs=texts, row=row)


def _set_tests(function: str, cases: Iterable[tuple[Sequence[str], str]]) -> dict[str, Any]:
    """Assertions in place of calls, whose results have an order."""
    code = [f"assert set({function}({', '.join(given)})) == set({said})" for given, said in cases]
    return {"asserts": {"code": code, "functions": [function]}}


def _program(prompt: str, solution: str) -> str:
    """HumanEval's solutions continue the prompt; MBPP's are complete."""
    return prompt + solution if solution[:1] in {" ", "\t"} else f"{solution}\n"


def _imports(prompt: str) -> str:
    """A response may leave out the imports of the prompt."""
    lines = prompt.split("\n")
    return "\n".join(line for line in lines if line.startswith(("import ", "from ")))


def _inputs(record: DataRecord, key: str) -> list[list[Any]]:
    value = record.get(key, [])
    if isinstance(value, dict) and not value:
        return []  # the file has none
    if not isinstance(value, list) or not all(isinstance(one, list) for one in value):
        raise Refused(f"`{key}` is not a list of lists of arguments")
    return value


@dataclass(frozen=True, slots=True)
class _Type:
    """The type of a value in the shape of JSON: of a container with that of its items."""

    kind: type
    items: "_Type | None" = None
    each: "tuple[_Type, ...]" = ()
    """Types of the items by place, where they differ."""


_LISTS: Final = (list, tuple, set, frozenset)
"""Types that are a list in the file."""


def _types(record: DataRecord, function: str) -> Sequence[_Type]:
    """The types of the arguments, from the calls of the assertion; empty without any.

    Raises:
        Refused: two calls disagree.
    """
    found: Sequence[_Type] = []
    for call in _calls(record.get("assertion"), function):
        try:
            values = [literal(ast.unparse(argument)) for argument in call.args]
        except ValueError:
            continue  # computed by the assertion, so not of a type that the text shows
        types = [_type_of(value) for value in values]
        if len(found) not in (0, len(types)):
            continue  # arguments with defaults
        if found:
            types = [_joined(*pair, function) for pair in zip(found, types, strict=True)]
        found = types
    return found


def _type_of(value: object) -> _Type:
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise Refused("arguments with keys that are text in the file")
        return _Type(dict, _common([_type_of(item) for item in value.values()]))
    if not isinstance(value, _LISTS):
        return _Type(type(value))
    each = tuple(_type_of(item) for item in value)
    common = _common(each)
    return _Type(type(value), common, () if common is not None else each)


def _common(types: Sequence[_Type]) -> _Type | None:
    """The type of all of them; `None` if they differ in what JSON does not show."""
    if not types:
        return _Type(type(None))
    try:
        return reduce(lambda one, other: _joined(one, other, ""), types)
    except Refused:
        return None


def _joined(one: _Type, other: _Type, function: str) -> _Type:
    """What two values show of one type.

    Raises:
        Refused: they differ where JSON has one type for both.
    """
    if _is_open(one):
        return other
    if _is_open(other) or one == other:
        return one
    if one.kind is other.kind and one.items is not None and other.items is not None:
        return _Type(one.kind, _joined(one.items, other.items, function))
    if one.kind in _PLAIN and other.kind in _PLAIN:
        return _Type(str if str in (one.kind, other.kind) else one.kind)
    raise Refused("arguments of types that the file does not show", function)


_PLAIN: Final = (int, float, bool, str)
"""Types that JSON has."""


def _is_open(type_: _Type) -> bool:
    return type_.kind is type(None)


def _texts(given: Sequence[Any], types: Sequence[_Type], function: str) -> list[str]:
    """The arguments of a call as literals of these types."""
    if types and len(given) > len(types):
        raise Refused("more arguments than the assertion shows", function)
    padded = [*types, *[_Type(type(None))] * (len(given) - len(types))]
    try:
        return [repr(_as(value, type_)) for value, type_ in zip(given, padded, strict=False)]
    except (TypeError, ValueError) as error:
        raise Refused("arguments of other types than the assertion shows", str(error)) from None


def _as(value: Any, type_: _Type) -> Any:  # noqa: ANN401 - any JSON
    """The value of the file in the type that it had."""
    if type_.kind is complex:
        return complex(value)
    if isinstance(value, dict):
        return {key: _as(item, type_.items or _Type(type(None))) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if type_.kind not in _LISTS:
        return value
    if type_.items is None and len(value) != len(type_.each):
        raise ValueError("items of several types, in another number")
    types = type_.each if type_.items is None else [type_.items] * len(value)
    return type_.kind(_as(item, kind) for item, kind in zip(value, types, strict=True))


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
