"""What a row of `score`, `rescore` or `check` says about its judgement, read exactly.

Invariant: a reference and settings reach the service as the file has them, or the row is bad. Plain
`json` would take the last of two values of one key, and numbers that are not in the file. Anything
else in a row (a response, a transcript, columns that are not read) may hold what JSON allows.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.core.errors import InvalidRequest
from assay.verifiers.intake import INT_EXACT_MAX, finite_float


class _Twice(dict[str, Any]):
    """An object with two values of one key."""

    key = ""


class _Inexact(float):
    """A number that is not the one in the file."""

    error = ""


def row_value(raw: bytes, judged: Iterable[str]) -> object:
    """Return the value of a row's JSON; `refuse_inexact` finds what is not as in the file.

    Args:
        raw: the row.
        judged: its keys with values that have to be exact.

    Raises:
        ValueError, RecursionError: it is not JSON in UTF-8.
    """
    text = raw.decode("utf-8")
    value = json.loads(text, object_pairs_hook=_object)
    if isinstance(value, dict) and any(_may_be_inexact(value.get(key)) for key in judged):
        return json.loads(
            text, object_pairs_hook=_object, parse_float=_number, parse_constant=_constant
        )
    return value


def _may_be_inexact(value: object) -> bool:
    """Whether it holds a number that some other number is read as, or a key twice."""
    left: list[Any] = [value]
    for one in left:
        kind = type(one)
        if kind is dict:
            left += one.values()
        elif kind is list:
            left += one
        elif kind is float:
            if not 0 < abs(one) < INT_EXACT_MAX:
                return True
        elif kind is _Twice or kind is _Inexact:
            return True
    return False


def _parts(value: object, place: str) -> Iterator[tuple[object, str]]:
    """The value, and all that it holds, with their places."""
    left = [(value, place)]
    while left:
        one, at = left.pop()
        yield one, at
        if isinstance(one, dict):
            left += [(inner, f"{at}.{key}") for key, inner in one.items()]
        elif isinstance(one, list):
            left += [(inner, f"{at}[{index}]") for index, inner in enumerate(one)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    left = dict.fromkeys(found, 1)
    twice = _Twice(found)
    twice.key = next(key for key, _ in pairs if left.pop(key, None) is None)
    return twice


def _number(digits: str) -> float:
    try:
        return finite_float(digits)
    except ValueError as error:
        return _marked(float(digits), str(error))


def _constant(word: str) -> float:
    return _marked(float(word), f"{word} is not JSON")


def _marked(value: float, error: str) -> float:
    inexact = _Inexact(value)
    inexact.error = error
    return inexact


def refuse_twice(value: object, place: str) -> None:
    """Refuse an object that gives one of its own keys two values.

    Raises:
        InvalidRequest: it does.
    """
    if isinstance(value, _Twice):
        message = f"key {value.key[:80]!r} occurs twice in one object"
        raise InvalidRequest(message, field=place)


def refuse_inexact(value: object, place: str) -> None:
    """Refuse a value that is not as in the file, or holds one that is not.

    Raises:
        InvalidRequest: `field` is its place.
    """
    for one, at in _parts(value, place) if _may_be_inexact(value) else ():
        refuse_twice(one, at)
        if isinstance(one, _Inexact):
            raise InvalidRequest(one.error, field=at)


def reference_of(value: object, place: str) -> Mapping[str, Any]:
    """Return a row's reference: what is no object is the one right answer, or the right answers.

    Raises:
        InvalidRequest: it is neither; or something in it is not as in the file.
    """
    refuse_inexact(value, place)
    if isinstance(value, dict):
        return value
    answers = value if isinstance(value, list) else [value]
    for answer in answers:
        if not isinstance(answer, str | int | float):
            message = (
                "must be an object; or a text or a number that is the answer, or a list of them"
            )
            raise InvalidRequest(message, field=place)
    return {"answers": [str(answer) for answer in answers]}
