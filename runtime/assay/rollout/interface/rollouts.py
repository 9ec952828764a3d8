"""Input and output of an engine: groups, references, completions.

A group is one prompt and K rollouts of it, each with its own seed.
"""

from __future__ import annotations

import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Required, Self, TypedDict

from assay.rollout.errors import InvalidRollout
from assay.rollout.interface.checks import (
    check_group,
    check_prompt,
    check_sampling,
    check_stops,
)
from assay.rollout.layout import Flag, Member, Order, Sampler

if TYPE_CHECKING:
    import ctypes as ct
    from collections.abc import Iterator, Sequence

    from assay.rollout.interface.receipts import Receipt
    from assay.rollout.layout import RolloutOutcome, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling of one group. temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


class GroupOptions(TypedDict, total=False):
    """The keyword arguments of `RolloutEngine.submit`; described at `Group`."""

    max_tokens: Required[int]
    seeds: Required[Sequence[int]]
    sampling: Sampling | None
    user_ids: Sequence[int] | None
    reward_ids: Sequence[int] | None
    group: int
    stop_ids: Sequence[int]
    stop_strings: Sequence[bytes]
    want_reward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of an engine."""

    slots: int
    vocab_size: int
    seq_len_max: int
    stop_strings: bool
    """Whether it knows the bytes of its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One prompt, and one rollout per seed."""

    prompt: Sequence[int]
    max_tokens: int
    seeds: Sequence[int]
    sampling: Sampling = field(default_factory=lambda: Sampling())
    user_ids: Sequence[int] | None = None
    """The caller's ids, one per seed; None: 0, 1, 2 ..."""
    reward_ids: Sequence[int] | None = None
    """None: `user_ids`."""
    group: int = 0
    stop_ids: Sequence[int] = ()
    stop_strings: Sequence[bytes] = ()
    want_reward: bool = True
    """False: complete as soon as decoding ends, without `poll_rewards` and `score`."""

    @classmethod
    def of(cls, prompt: Sequence[int], options: GroupOptions) -> Self:
        """From the arguments of `submit`; `sampling=None` is the default."""
        given = {name: value for name, value in options.items() if value is not None}
        return cls(prompt=prompt, **given)  # type: ignore[arg-type]  # the names are its fields

    def check(self, bounds: Bounds) -> None:
        """Refuse a group that no engine with these limits can ever run.

        Raises:
            InvalidRollout: `field` names the argument.
        """
        check_group(self.seeds, self.user_ids, self.reward_ids, self.group, slots=bounds.slots)
        limits = {"vocab_size": bounds.vocab_size, "seq_len_max": bounds.seq_len_max}
        check_prompt(self.prompt, self.max_tokens, **limits)
        how = self.sampling
        check_sampling(
            temperature=how.temperature, top_k=how.top_k, top_p=how.top_p, min_p=how.min_p
        )
        check_stops(self.stop_ids, self.stop_strings, vocab_size=bounds.vocab_size)
        if self.stop_strings and not bounds.stop_strings:
            raise InvalidRollout("stop_strings", "the engine was given no token_bytes")

    def members(self) -> Iterator[tuple[int, int, int]]:
        """(seed, user id, reward id) of each rollout."""
        users = range(len(self.seeds)) if self.user_ids is None else self.user_ids
        rewards = users if self.reward_ids is None else self.reward_ids
        return zip(self.seeds, users, rewards, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A change of weights."""

    version: int
    previous: int
    wait_s: float
    """Wait until the worker was held: the rest of its step; with FINISH, all running rollouts."""
    pause_s: float
    """Time that the worker was held."""


class RolloutRef(NamedTuple):
    """Identifies one rollout forever: a slot and the slot's generation."""

    slot: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """A response that waits for its score."""

    ref: RolloutRef
    reward_id: int
    tokens: array.array[int]
    """Prompt and response."""
    decoded_ns: int
    """CLOCK_MONOTONIC when the engine had made the last token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Tokens that a rollout generated since the last read; the three have one length."""

    tokens: array.array[int]
    logps: array.array[float]
    policy_versions: array.array[int]

    @classmethod
    def none(cls) -> Self:
        """No new tokens."""
        empty = array.array("i"), array.array("f"), array.array("I")
        return cls(tokens=empty[0], logps=empty[1], policy_versions=empty[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A rollout that ended. `reward` is None unless it was scored."""

    ref: RolloutRef
    user_id: int
    reward_id: int
    outcome: RolloutOutcome
    stop: Stop
    reward: float | None
    prompt: array.array[int]
    tokens: array.array[int]
    """Generated tokens; for Stop.ID and Stop.STRING including the stop."""
    logps: array.array[float]
    """Log-prob of each token under the distribution it was sampled from."""
    policy_versions: array.array[int]
    receipt: Receipt | None = None
    """Inputs of the rollout (`receipts` writes it to a file); `None` if the engine keeps none."""


def native_order(group: Group) -> Order:
    """What all rollouts of a group share, as the native runtime reads it."""
    how = group.sampling
    order = Order(
        group=group.group,
        flags=0 if group.want_reward else Flag.NO_REWARD,
        sampler=Sampler(
            temperature=how.temperature, top_k=how.top_k, top_p=how.top_p, min_p=how.min_p
        ),
        max_tokens=group.max_tokens,
        n_stop_ids=len(group.stop_ids),
        n_stop_strings=len(group.stop_strings),
    )
    order.stop_ids[: len(group.stop_ids)] = list(group.stop_ids)
    for i, text in enumerate(group.stop_strings):
        order.stop_lengths[i] = len(text)
        order.stop_bytes[i][: len(text)] = list(text)
    return order


def native_members(group: Group) -> ct.Array[Member]:
    """What each rollout of a group has of its own."""
    members = (Member * len(group.seeds))()
    for member, (seed, user_id, reward_id) in zip(members, group.members(), strict=True):
        member.seed, member.user_data, member.reward_id = seed, user_id, reward_id
    return members
