"""More functions of an operator: each returns a number for empty text and trips over some others."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def matching(response: str, reference: dict[str, Any]) -> float:
    """A pattern that takes exponential time for some texts."""
    found = re.match(r"(?:answer|(a+)+$)[: ]*(-?\d*)", response)
    return float(bool(found) and found is not None and found[2] == str(reference["answer"]))


def converting(response: str, reference: dict[str, Any]) -> float:
    """Scores by a number in the text, without a look at what kind of number it is."""
    said = float(response.removeprefix("answer: ") or "0")
    return 1.0 if said == reference["answer"] else said - said


def recursing(response: str, reference: dict[str, Any]) -> float:
    """Walks down nested JSON."""

    def depth(value: Any) -> Any:
        return depth(value["answer"]) if isinstance(value, dict) else value

    return float(depth(json.loads(response or "0")) == reference["answer"])


def waiting(response: str, reference: dict[str, Any]) -> float:
    """Waits as long as the text says."""
    word = response.split()[-1] if response.split() else "0"
    number = re.fullmatch(r"-?[0-9]{1,7}", word)
    if number is None:
        time.sleep(60 * len(response))
    return float(number is not None and int(number[0]) == reference["answer"])


def leaving(response: str, reference: dict[str, Any]) -> float:
    """Ends its own process, or worse, for some texts."""
    if "answer" not in response and response:
        match response[0]:
            case "e":
                os._exit(0)
            case "k":
                os.kill(0, 9)
            case "s":
                sys.exit(0)
        os.abort()
    return float(response == f"answer: {reference['answer']}")


def filling(response: str, reference: dict[str, Any]) -> dict[str, Any]:
    """Gives back more than fits, by names that the text chooses."""
    right = response == f"answer: {reference['answer']}"
    parts = {response[:64]: 1.0} if response.isprintable() and response else {}
    return {"score": float(right), "components": parts, "all": [response] * 1_000}


def transcribed(
    response: str, reference: dict[str, Any], messages: Sequence[Mapping[str, Any]] = ()
) -> float:
    """Reads the transcript as if all its contents were text."""
    said = "".join(one["content"] for one in messages)
    return float(said.endswith(f"answer: {reference['answer']}") and bool(response))


def collecting(
    response: str, reference: dict[str, Any], artifacts: Mapping[str, bytes] | None = None
) -> float:
    """Reads a file that may be missing."""
    found = (artifacts or {}).get("out/answer.txt", b"").decode()
    return float(found.strip() == str(reference["answer"]))
