"""Functions of an operator, as `python_function` calls them: careful ones and careless ones."""

from __future__ import annotations

import json
import re
from typing import Any


def careful(response: str, reference: dict[str, Any]) -> float:
    """1 for the answer on the last line; total on any text."""
    lines = response.strip().splitlines()
    return 1.0 if lines and lines[-1].strip() == f"answer: {reference['answer']}" else 0.0


def careless(response: str, reference: dict[str, Any]) -> dict[str, Any]:
    """Reads JSON of any depth, indexes it, converts it; raises for most texts."""
    said = json.loads(response)
    return {"score": float(int(said["answer"]) == int(reference["answer"])), "said": said}


def printing(response: str, reference: dict[str, Any]) -> dict[str, Any]:
    """Prints the response and returns it in the details."""
    print(response)
    found = re.findall(r"answer: (-?[0-9]+)$", response.rstrip())
    right = bool(found) and found[-1] == str(reference["answer"])
    return {"score": 1 if right else 0, response[:50]: response, "found": set(found)}


def evaluating(response: str, reference: dict[str, Any]) -> float:
    """Runs the response, which no operator should: it may do anything to the process."""
    scope: dict[str, Any] = {}
    exec(response, scope)
    return (
        1.0 if type(scope.get("answer")) is int and scope["answer"] == reference["answer"] else 0.0
    )
