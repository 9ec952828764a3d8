"""Values that JSON does not have, as Python literals: tuples, sets, bytes, inf, linked nodes.

A reference with `"values": "python"` gives arguments and results as text. The grammar is that of
`repr`: literals, signs, sums of a number and an imaginary one, `inf` and `nan`, and calls of the
types in a fixed table, whose arguments are such values again. Nothing is evaluated; no other name
has a meaning. `ListNode([1, 2])` is a linked list, `TreeNode([1, None, 2])` a binary tree in level
order, as LeetCode writes them.
"""

import ast
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from assay.verifiers.code.referee.values import (
    LINKED,
    Encoder,
    Linked,
    Malformed,
    WireForm,
)

_INF: Final = float("inf")
_NAN: Final = float("nan")
_NAMES: Final = {
    "inf": _INF,
    "nan": _NAN,
    "infj": complex(0, _INF),
    "nanj": complex(0, _NAN),
    "Ellipsis": ...,
}
_ITEMS: Final = (list, tuple, set, frozenset, dict, str)
"""What containers are made of; no range and no number, which could ask for any amount of memory."""
_MADE: Final[dict[str, tuple[Callable[..., Any], tuple[type, ...]]]] = {
    **{kind.__name__: (kind, _ITEMS) for kind in (set, frozenset, dict)},
    **{kind.__name__: (kind, _ITEMS) for kind in (deque, Counter, OrderedDict)},
    **{name: (lambda items=(), name=name: Linked(name, items), (list,)) for name in LINKED},
    "float": (float, (str, int, float)),
    "complex": (complex, (str, int, float)),
    "bytearray": (bytearray, (bytes,)),
    "Decimal": (Decimal, (str, int)),
    "Fraction": (Fraction, (int,)),
}


def literal(text: str) -> Any:  # noqa: ANN401 - any value
    """Return the value of a Python literal.

    Raises:
        ValueError: the text does not fit this grammar.

    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - syntax, depth, or arguments that a type refuses
        raise ValueError(f"not a Python literal: {type(error).__name__}") from None


def form_of(text: str) -> WireForm:
    """Return the wire form of a Python literal; see `referee.values`.

    Raises:
        ValueError: the text does not fit this grammar, or nests too deeply.
    """
    try:
        return Encoder(_foreign).encode(literal(text))
    except Malformed as error:
        raise ValueError(str(error)) from None


def _foreign(value: object) -> WireForm:
    raise Malformed(f"a {type(value).__name__} cannot be sent")


def _value(node: ast.expr) -> Any:  # noqa: ANN401 - any value
    match node:
        case ast.Constant(value):
            return value
        case ast.Tuple(items):
            return tuple(_value(item) for item in items)
        case ast.List(items):
            return [_value(item) for item in items]
        case ast.Set(items):
            return {_value(item) for item in items}
        case ast.Dict(keys, items):
            return {_key(key): _value(item) for key, item in zip(keys, items, strict=True)}
        case ast.UnaryOp(ast.USub(), operand):
            return -_number(operand)
        case ast.UnaryOp(ast.UAdd(), operand):
            return _number(operand)
        case ast.BinOp(left, ast.Add(), right):
            return _number(left) + _number(right)
        case ast.BinOp(left, ast.Sub(), right):
            return _number(left) - _number(right)
        case ast.Name(name) if name in _NAMES:
            return _NAMES[name]
        case ast.Call(ast.Name(name), arguments, []) if name in _MADE:
            return _made(name, [_value(argument) for argument in arguments])
    raise ValueError(f"not a Python literal: {ast.unparse(node)[:80]}")


def _key(node: ast.expr | None) -> Any:  # noqa: ANN401 - any value
    if node is None:
        raise ValueError("not a Python literal: ** in a dict")
    return _value(node)


def _number(node: ast.expr) -> Any:  # noqa: ANN401 - any number
    value = _value(node)
    if type(value) in (int, float, complex):
        return value
    raise ValueError(f"not a number: {ast.unparse(node)[:80]}")


def _made(name: str, arguments: list[Any]) -> Any:  # noqa: ANN401 - any value
    make, allowed = _MADE[name]
    if not all(type(argument) in allowed for argument in arguments):
        raise ValueError(f"not a Python literal: other arguments of {name}")
    return make(*arguments)
