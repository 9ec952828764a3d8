"""Checks of a caller's arguments; errors name the field. Nothing is done before all checks pass.

A value that C would wrap, round or misread is refused here with `InvalidRollout`, whose
`field` names the argument.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Final

from assay.rollout.errors import InvalidRollout
from assay.rollout.layout import STOP_BYTES_MAX, STOP_IDS_MAX, STOP_STRINGS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1
SLOTS_MAX: Final = 1 << 20


def check_integer(field: str, value: int, low: int, high: int) -> int:
    """Return `value`.

    Raises:
        InvalidRollout: not an integer from `low` to `high`.
    """
    if not isinstance(value, int) or not low <= value <= high:
        raise InvalidRollout(field, f"a whole number from {low} to {high}, not {value!r}")
    return value


def check_number(field: str, value: float, low: float, high: float = math.inf) -> float:
    """Return `value`.

    Raises:
        InvalidRollout: not finite, or not from `low` to `high`.
    """
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidRollout(field, f"a finite number, not {value!r}")
    if not low <= value <= high:
        raise InvalidRollout(field, f"from {low} to {high}, not {value!r}")
    return value


def check_sampling(*, temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    """Refuse invalid sampling parameters.

    Raises:
        InvalidRollout: `field` is `sampling.` and the parameter's name.
    """
    check_number("sampling.temperature", temperature, 0.0, 1e6)
    check_integer("sampling.top_k", top_k, 0, U32_MAX)
    check_number("sampling.min_p", min_p, 0.0, 1.0)
    if check_number("sampling.top_p", top_p, 0.0, 1.0) == 0.0:
        raise InvalidRollout("sampling.top_p", "above 0; 1 is off")


def check_stops(stop_ids: Sequence[int], stop_strings: Sequence[bytes], *, vocab_size: int) -> None:
    """Refuse stop conditions that can never match, or that exceed the limits.

    Raises:
        InvalidRollout: `stop_ids` or `stop_strings`.
    """
    if len(stop_ids) > STOP_IDS_MAX:
        raise InvalidRollout("stop_ids", f"at most {STOP_IDS_MAX}")
    for stop_id in stop_ids:
        check_integer("stop_ids", stop_id, 0, vocab_size - 1)
    if len(stop_strings) > STOP_STRINGS_MAX:
        raise InvalidRollout("stop_strings", f"at most {STOP_STRINGS_MAX}")
    if any(not 0 < len(text) <= STOP_BYTES_MAX for text in stop_strings):
        raise InvalidRollout("stop_strings", f"1 to {STOP_BYTES_MAX} bytes each")


def check_prompt(
    prompt: Sequence[int], max_tokens: int, *, vocab_size: int, seq_len_max: int
) -> None:
    """Refuse a prompt and response that do not fit a slot.

    Raises:
        InvalidRollout: `prompt` or `max_tokens`.
    """
    if not prompt:
        raise InvalidRollout("prompt", "needs at least one token")
    if len(prompt) >= seq_len_max:
        room = f"{len(prompt)} tokens leave no room for a response below {seq_len_max}"
        raise InvalidRollout("prompt", room)
    check_integer("max_tokens", max_tokens, 1, seq_len_max)
    if len(prompt) + max_tokens > seq_len_max:
        raise InvalidRollout("max_tokens", f"with the prompt above {seq_len_max}")
    if not _are_ids(prompt, vocab_size):
        raise InvalidRollout("prompt", f"token ids are whole numbers from 0 to {vocab_size - 1}")


def _are_ids(tokens: Sequence[int], vocab_size: int) -> bool:
    if set(map(type, tokens)) == {int}:  # a prompt may have 100,000: no Python code per token
        return min(tokens) >= 0 and max(tokens) < vocab_size
    return all(isinstance(token, int) and 0 <= token < vocab_size for token in tokens)


def check_group(
    seeds: Sequence[int],
    user_ids: Sequence[int] | None,
    reward_ids: Sequence[int] | None,
    group: int,
    *,
    slots: int,
) -> None:
    """Refuse groups that no runtime of this size could accept.

    Raises:
        InvalidRollout: `seeds`, `user_ids`, `reward_ids` or `group`.
    """
    if not seeds:
        raise InvalidRollout("seeds", "a group needs at least one rollout")
    if len(seeds) > slots:
        raise InvalidRollout("seeds", f"a group of {len(seeds)} never fits {slots} slots")
    for seed in seeds:
        check_integer("seeds", seed, 0, U64_MAX)
    for field, ids in (("user_ids", user_ids), ("reward_ids", reward_ids)):
        if ids is not None and len(ids) != len(seeds):
            raise InvalidRollout(field, "one for each seed")
        for one in ids or ():
            check_integer(field, one, 0, U64_MAX)
    check_integer("group", group, 0, U64_MAX)


def check_cpu(field: str, cpu: int | None) -> None:
    """Refuse a CPU that this process cannot run on.

    Raises:
        InvalidRollout: no usable CPU has this number.
    """
    if cpu is not None and cpu not in os.sched_getaffinity(0):
        raise InvalidRollout(field, f"this process cannot use CPU {cpu!r}")
