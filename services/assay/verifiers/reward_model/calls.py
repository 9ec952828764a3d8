"""Bodies for the scoring routes of vLLM and SGLang, and their replies. Pure.

Names of fields differ between versions of the servers, so known spellings are all read; a reply in
none of them is an error and never a score.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.tools.rewards import is_finite
from assay.verifiers.reward_model.definition import RewardModelSettings, Route


class UnreadableScores(ValueError):
    """The reply has no finite score for each text."""


def body_of(
    settings: RewardModelSettings, model: str, question: str, responses: Sequence[str]
) -> dict[str, Any]:
    """The body that asks for the scores of responses to one question."""
    body: dict[str, Any] = {"model": model}
    match settings.route:
        case Route.CLASSIFY:
            body["input"] = [filled(settings.template, question, one) for one in responses]
        case Route.SCORE:
            body |= {"text_1": question, "text_2": list(responses)}
        case Route.RERANK:
            body |= {"query": question, "documents": list(responses)}
    if settings.use_activation is not None:
        body["use_activation"] = settings.use_activation
    return body


def filled(template: str, question: str, response: str) -> str:
    """The template with both texts; braces inside of a text are text."""
    texts = {"{question}": question, "{response}": response}
    parts = re.split(r"(\{question\}|\{response\})", template)
    return "".join(texts.get(part, part) for part in parts)


def scores_of(settings: RewardModelSettings, reply: object, count: int) -> list[float]:
    """The scores, in the order of the responses.

    Raises:
        UnreadableScores: one is missing, or is no finite number.
    """
    rows = _rows(reply)
    if len(rows) != count:
        raise UnreadableScores(f"{len(rows)} scores for {count} texts")
    found: dict[int, float] = {}
    for place, row in enumerate(rows):
        # Sorted by relevance: a place in the list says nothing about whose score it is.
        unnamed = None if settings.route is Route.RERANK and count > 1 else place
        at = row.get("index", unnamed)
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < count or at in found:
            raise UnreadableScores(f"an index of a score is {str(at)[:50]}")
        found[at] = _score(settings, row)
    return [found[at] for at in range(count)]


def _rows(reply: object) -> Sequence[Mapping[str, Any]]:
    rows = reply
    if isinstance(reply, dict):
        rows = next((reply[key] for key in ("data", "results", "scores") if key in reply), None)
    if not isinstance(rows, list):
        raise UnreadableScores("no list of scores")
    return [one if isinstance(one, dict) else {"score": one} for one in rows]


def _score(settings: RewardModelSettings, row: Mapping[str, Any]) -> float:
    value: object = None
    if settings.route is Route.CLASSIFY:
        names = ("probs", "embedding", "data", "score")
        value = next((row[key] for key in names if key in row), None)
        if isinstance(value, list):
            value = value[settings.label] if settings.label < len(value) else None
    else:
        value = next((row[key] for key in ("relevance_score", "score") if key in row), None)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not is_finite(value):
        raise UnreadableScores("a score is no finite number")
    return float(value)
