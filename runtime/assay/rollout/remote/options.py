"""Limits of a remote engine."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """Every queue, wait and retry of a remote engine. `_s` are seconds."""

    seq_len_max: int = 1024
    """Tokens of prompt and response together; the server must allow as many."""
    decode_credits: int = 64
    """Responses that the server decodes at a time; one connection each."""
    reward_credits: int | None = None
    """Rollouts waiting for a score; None: `slots`."""
    trajectory_credits: int | None = None
    """Scored rollouts not yet polled; None: `slots`."""
    attempts_max: int = 8
    """Requests in a row without a new token, after which a rollout ends as CRASHED."""
    backoff_s_min: float = 0.05
    backoff_s_max: float = 2.0
    health_every_s: float = 1.0
    """Time between two requests of the server's health."""
    health_s: float = 5.0
    """Longest request of its health; after that the server counts as away."""
    connect_s: float = 5.0
    idle_s: float = 60.0
    """Longest silence in a stream before the request counts as lost."""
    admin_s: float = 30.0
    """Longest pause, resume or health request."""
    stage_s: float = 600.0
    """Longest request that stages weights."""
    event_bytes_max: int = 1 << 20
    """Largest server-sent event."""
    stop_strings: bool = False
    """Pass stop strings to the server; it must know the tokenizer."""
    check_logps: bool = True
    """Refuse a server whose log-probs do not belong to the distribution it samples from."""


def attempts_within(seconds: float, options: RemoteOptions) -> int:
    """The least `attempts_max` with which a rollout waits `seconds` for a server that is away.

    The waits between the attempts add up to at least `seconds`; what the attempts take comes on
    top of it.
    """
    attempts, waited, wait = 1, 0.0, options.backoff_s_min
    while waited < seconds:
        if wait >= options.backoff_s_max:
            return attempts + math.ceil((seconds - waited) / options.backoff_s_max)
        waited += wait
        wait *= 2
        attempts += 1
    return attempts
