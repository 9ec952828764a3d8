"""What a Harbor verifier wrote: `reward.json`, or else `reward.txt`. Pure."""

import json
import math
from collections.abc import Mapping
from typing import Final

from assay.verifiers.harbor.task import ALONE

JSON_FILE: Final = "logs/verifier/reward.json"
TEXT_FILE: Final = "logs/verifier/reward.txt"
_PARTS_MAX: Final = 64
_NAME_CHARS_MAX: Final = 64


class RewardError(ValueError):
    """The verifier wrote no reward; the message says what it wrote."""


def reward_files(tests: Mapping[str, bytes]) -> tuple[str, ...]:
    """Files that count as the verifier's: of the two, those that the tests name.

    What they run of a response can write into the same directory; the file that they do not write
    would stay as it left it. Both, if they name neither: the name is put together.
    """
    named = tuple(
        path
        for path in (JSON_FILE, TEXT_FILE)
        if any(path.rpartition("/")[2].encode() in content for content in tests.values())
    )
    return named or (JSON_FILE, TEXT_FILE)


def read_rewards(files: Mapping[str, bytes]) -> Mapping[str, float]:
    """All numbers by name; one that stands alone is called `reward`, as in Harbor.

    Args:
        files: what the verifier left, by relative path.

    Raises:
        RewardError: there is no reward.
    """
    if JSON_FILE in files:
        return _parts(files[JSON_FILE])
    if TEXT_FILE in files:
        return {ALONE: _text_number(files[TEXT_FILE])}
    raise RewardError("neither reward.json nor reward.txt")


def key_of(rewards: Mapping[str, float], key: str) -> str:
    """The name of that which is the reward: a single one, or of several that called `key`.

    Raises:
        RewardError: there are several, and none is called so.
    """
    if len(rewards) == 1:
        [key] = rewards
    elif key not in rewards:
        raise RewardError(f"reward.json: several numbers, none is {key[:_NAME_CHARS_MAX]!r}")
    return key


def _parts(content: bytes) -> Mapping[str, float]:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        raise RewardError("reward.json: not JSON") from None
    if not isinstance(told, dict):
        return {ALONE: _number(told, "reward.json")}
    if not 1 <= len(told) <= _PARTS_MAX:
        raise RewardError(f"reward.json: not 1 to {_PARTS_MAX} numbers")
    for name in told:
        if not 1 <= len(name) <= _NAME_CHARS_MAX or not name.isprintable():
            raise RewardError("reward.json: a name that is not printable text")
    return {name: _number(value, f"reward.json: {name}") for name, value in told.items()}


def _number(told: object, place: str) -> float:
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        raise RewardError(f"{place}: not a number")
    try:
        found = float(told)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise RewardError(f"{place}: not finite")
    return found


def _text_number(content: bytes) -> float:
    try:
        return _number(float(content), TEXT_FILE)
    except ValueError:
        raise RewardError("reward.txt: not a finite number") from None
