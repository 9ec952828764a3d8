"""A user's functions, good and bad, as `python_function` finds them in a directory."""

import math
import os
import socket
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any


def length(response: str, reference: Any) -> float:
    return len(response) / int(reference["per"])


def told(response: str, reference: Any) -> dict[str, Any]:
    return {"score": 0.5, "why": [response, reference]}


def looking(_response: str, _reference: Any) -> float:
    beside = Path(__file__).parent.parent / "conftest.py"
    # A checkout below /home is shown at its own path, and the folders above it are there.
    hosts = {Path("/home"), Path("/boot")}.difference(beside.parents)
    return float(beside.exists() or any(map(Path.exists, hosts)) or "PYTHONPATH" in os.environ)


def calling(_response: str, _reference: Any) -> float:
    try:
        socket.create_connection(("127.0.0.1", 80), 1)
    except OSError:
        return 0.0
    return 1.0


def looping(_response: str, _reference: Any) -> float:
    while True:
        pass


def raising(response: str, _reference: Any) -> float:
    raise KeyError(response)


def leaving(_response: str, _reference: Any) -> float:
    os._exit(0)


def nothing(_response: str, _reference: Any) -> None:
    return None


def infinite(_response: str, _reference: Any) -> float:
    return math.inf


def numbers(response: str, _reference: Any) -> Any:
    """A number of another type for each response, as a comparison or a library returns it."""
    found: dict[str, Any] = {
        "bool": True,
        "fraction": Fraction(1, 1),
        "decimal": Decimal(1),
        "index": _Index(),
    }
    return found.get(response, 0.0)


def no_numbers(response: str, _reference: Any) -> Any:
    """Other things than numbers, for the responses that name them."""
    found: dict[str, Any] = {
        "text": "1",
        "bytes": b"1",
        "huge": Decimal("1e999"),
        "signalling": Decimal("sNaN"),
        "complex": 1j,
        "list": [1],
        "hostile": _Raises(),
    }
    return found.get(response, 0.0)


class _Index:
    def __index__(self) -> int:
        return 1


class _Raises:
    def __float__(self) -> float:
        raise SystemExit("no number")

    def __str__(self) -> str:
        raise RuntimeError("no text")


def details(response: str, _reference: object) -> dict[Any, Any]:
    """Details that JSON cannot hold, for any response but the empty one."""
    words = response.split()
    circle: list[Any] = []
    circle.append(circle)
    found: dict[str, Any] = {
        "keys": Counter(pairwise(words)),
        "text": _Raises(),
        "circle": circle,
        "deep": {(1, 2): [{(3,): ({4.5: 6},)}]},
    }
    asked = words[0] if words else ""
    return {"score": 1.0, **({asked: found[asked]} if asked else {})}


def parts(response: str, _reference: object) -> dict[str, Any]:
    """Components of which some cannot be shown, named by the response."""
    named: dict[Any, Any] = {word: 1.0 for word in response.split("|") if response}
    return {"score": 1.0, "components": {**named, "last": True, 7: 1.0} if response else None}


def strict(response: str, reference: Any) -> float:
    """Raises for a response that is not a number."""
    return float(int(response) == int(reference["answer"]))


def in_parts(response: str, reference: object) -> dict[str, object]:
    return {"score": 0.75, "components": {"length": (1, 0.5), "is it polite?": 0.25}}


def bad_parts(response: str, reference: object) -> dict[str, object]:
    return {"score": 0.75, "components": {"length": float("nan")}}


def looks_at_all(
    response: str,
    reference: object,
    messages: list[dict[str, str]],
    *,
    artifacts: dict[str, bytes],
) -> float:
    same = messages[-1]["content"] == response
    return float(same) + len(messages) + artifacts["out/a.bin"].count(b"\xff") / 10


def beyond_doubles(_response: str, _reference: object) -> int:
    return 10**400


def beyond_texts(_response: str, _reference: object) -> int:
    return 10**5_000


def part_beyond_doubles(_response: str, _reference: object) -> dict[str, object]:
    return {"score": 1.0, "components": {"a": 10**400}}


def details_beyond_texts(_response: str, _reference: object) -> dict[str, object]:
    return {"score": 1.0, "why": 10**5_000}
