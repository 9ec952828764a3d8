"""The tokens of one trajectory: a prompt, then turns of the environment and of the policy.

    prompt | policy | environment | policy | environment | policy

Everything after the prompt is the response. Its columns have one entry per token: `response_ids`
(int32), `response_mask` (uint8, 1 = a token of the policy), `rollout_logp` (float32, under the
distribution that the token was sampled from). Tokens of the environment (a tool's output, a user's
message) have mask 0, log-prob 0 and no version.

Invariants (tests/core/test_trajectory.py):
  - a turn is appended, never changed: the columns of a longer trajectory begin with the shorter's;
  - `rollout_logp` is never recomputed. Log-probs of other weights go into `proximal`, with the
  version of those weights, beside it;
  - `pack` writes the safetensors layout with aligned columns, so that numpy and torch view them
  without a copy; `unpack` gives views into the same bytes.
"""

import array
import itertools
import json
import math
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self, TypeAlias

from assay.core.errors import InvalidRequest
from assay.core.tools.safetensors import Stored, packed

NO_VERSION: Final = -1
"""The policy version of tokens that no policy made."""
HEADER_BYTES_MAX: Final = 1 << 20
LAYOUT: Final = "assay.trajectories.1"

Column: TypeAlias = "memoryview[Any]"


class Speaker(IntEnum):
    """Who made the tokens of a segment; numbered as in rollout.proto and `pack`."""

    ENVIRONMENT = 1
    POLICY = 2


class Segment(NamedTuple):
    """Consecutive tokens of one turn of one speaker."""

    speaker: Speaker
    tokens: int


class VersionRun(NamedTuple):
    """Consecutive tokens by weights of one version; `NO_VERSION` for the environment's."""

    policy_version: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTurn:
    """What the policy generated in one turn: three columns of one length."""

    ids: Sequence[int]
    logp: Sequence[float]
    """Of each token under the distribution that it was sampled from."""
    versions: Sequence[int]
    """Version of the weights that made each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximalLogp:
    """Log-probs of the response under other weights than those that sampled it."""

    policy_version: int
    logp: Column
    """float32, one per token of the response; 0 where the mask is 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrajectoryTokens:
    """A prompt and its response; see the module. Columns are read-only views."""

    prompt_ids: Column
    response_ids: Column
    response_mask: Column
    rollout_logp: Column
    versions: tuple[VersionRun, ...] = ()
    segments: tuple[Segment, ...] = ()
    proximal: ProximalLogp | None = None

    @classmethod
    def begin(cls, prompt_ids: Sequence[int]) -> Self:
        """A trajectory without a turn.

        Raises:
            InvalidRequest: an id is not an int32.
        """
        return cls(
            prompt_ids=_column("i", prompt_ids, "prompt_ids"),
            response_ids=_view(b"", "i"),
            response_mask=_view(b"", "B"),
            rollout_logp=_view(b"", "f"),
        )

    @property
    def tokens(self) -> int:
        """Number of tokens of the response."""
        return len(self.response_ids)

    @property
    def turns(self) -> int:
        """Number of turns of the policy."""
        return sum(segment.speaker is Speaker.POLICY for segment in self.segments)

    @property
    def oldest_version(self) -> int | None:
        """Of the weights that made a token; `None` without such a token."""
        made = (run.policy_version for run in self.versions)
        return min((version for version in made if version != NO_VERSION), default=None)

    def context(self) -> list[int]:
        """Prompt and response: what the next turn is conditioned on."""
        return [*self.prompt_ids, *self.response_ids]

    def __eq__(self, other: object) -> bool:
        """Equal columns, runs and segments."""
        if not isinstance(other, TrajectoryTokens):
            return NotImplemented
        return self._identity() == other._identity()

    __hash__ = None  # type: ignore[assignment]

    def _identity(self) -> tuple[object, ...]:
        columns = (self.prompt_ids, self.response_ids, self.response_mask, self.rollout_logp)
        return (*columns, self.versions, self.segments, self.proximal)


def append_turn(
    before: TrajectoryTokens, policy: PolicyTurn, *, environment: Sequence[int] = ()
) -> TrajectoryTokens:
    """The trajectory with one more turn; `before` stays as it is.

    Args:
        before: the trajectory so far. Proximal log-probs of it do not cover the new tokens and
            are left out.
        policy: what the policy generated.
        environment: tokens between the last turn and this one: the environment's.

    Raises:
        InvalidRequest: columns of different lengths, an id that is not an int32, a log-prob that
            is not finite, or a negative version.
    """
    n, added = len(environment), len(policy.ids)
    if not added == len(policy.logp) == len(policy.versions):
        raise InvalidRequest("logp: ids, logp and versions differ in length", field="logp")
    if not math.isfinite(sum(policy.logp)):
        raise InvalidRequest("logp: a value is not finite", field="logp")
    runs = _runs(policy.versions)
    if any(run.policy_version < 0 for run in runs):
        raise InvalidRequest("versions: below 0", field="versions")
    ids = _column("i", environment, "environment"), _column("i", policy.ids, "ids")
    segments = [Segment(Speaker.ENVIRONMENT, n)] * bool(n)
    segments += [Segment(Speaker.POLICY, added)] * bool(added)
    return TrajectoryTokens(
        prompt_ids=before.prompt_ids,
        response_ids=_joined("i", before.response_ids, *ids),
        response_mask=_joined("B", before.response_mask, b"\0" * n, b"\1" * added),
        rollout_logp=_joined(
            "f", before.rollout_logp, bytes(4 * n), _column("f", policy.logp, "logp")
        ),
        versions=_merged([*before.versions, *[VersionRun(NO_VERSION, n)] * bool(n), *runs]),
        segments=(*before.segments, *segments),
    )


def continuation(before: TrajectoryTokens, prompt: Sequence[int]) -> Sequence[int] | None:
    """The environment's tokens when `prompt` continues the trajectory token by token, else `None`.

    A prompt that was tokenized again may differ from the ids that were sampled: it is no
    continuation, and its turn belongs to another trajectory.
    """
    context = before.context()
    if len(prompt) < len(context) or list(prompt[: len(context)]) != context:
        return None
    return prompt[len(context) :]


def with_proximal(
    tokens: TrajectoryTokens, policy_version: int, logp: Sequence[float]
) -> TrajectoryTokens:
    """The same trajectory with log-probs of other weights beside `rollout_logp`.

    Raises:
        InvalidRequest: not one finite log-prob per token of the response, not 0 where the mask
            is 0, or a negative version.
    """
    if policy_version < 0:
        raise InvalidRequest("policy_version: below 0", field="policy_version")
    if len(logp) != tokens.tokens or not all(map(math.isfinite, logp)):
        raise InvalidRequest(f"logp: {tokens.tokens} finite values", field="logp")
    if any(value and not mask for value, mask in zip(logp, tokens.response_mask, strict=True)):
        raise InvalidRequest("logp: not 0 where the mask is 0", field="logp")
    proximal = ProximalLogp(policy_version=policy_version, logp=_column("f", logp, "logp"))
    return replace(tokens, proximal=proximal)


# -- bytes -----------------------------------------------------------------------------------------
_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "prompt_offsets": ("I64", "q"),
    "response_offsets": ("I64", "q"),
    "version_offsets": ("I64", "q"),
    "segment_offsets": ("I64", "q"),
    "versions": ("I64", "q"),
    "segments": ("I64", "q"),
    "proximal_version": ("I64", "q"),
    "prompt_ids": ("I32", "i"),
    "response_ids": ("I32", "i"),
    "rollout_logp": ("F32", "f"),
    "proximal_logp": ("F32", "f"),
    "response_mask": ("U8", "B"),
}
"""Columns in the order of the file, wide ones first, which keeps every one aligned."""
_PAIRS: Final = frozenset({"versions", "segments"})


def pack(trajectories: Sequence[TrajectoryTokens]) -> bytes:
    """Trajectories in the safetensors layout; docs/rollout-service.md lists the columns."""
    columns, stored = _columns_of(trajectories), {}
    for name, (dtype, code) in _TYPES.items():
        raw = little_endian(columns[name], code)
        values = len(raw) // struct.calcsize(code)
        shape = [values // 2, 2] if name in _PAIRS else [values]
        stored[name] = Stored(dtype, shape, raw)
    return packed(stored, {"layout": LAYOUT})


def unpack(content: bytes | memoryview) -> list[TrajectoryTokens]:
    """Undo `pack`. The columns are views into `content`.

    Raises:
        InvalidRequest: it is not what `pack` writes.
    """
    try:
        columns = _columns_in(memoryview(content).toreadonly().cast("B"))
        return list(_trajectories_in(columns))
    except (ValueError, KeyError, TypeError, IndexError, struct.error, RecursionError) as error:
        raise InvalidRequest(f"trajectories: {error!r}", field="trajectories") from None


def _columns_of(trajectories: Sequence[TrajectoryTokens]) -> dict[str, Iterable[memoryview]]:
    proximal = [one.proximal for one in trajectories]
    given = any(one is not None for one in proximal)
    versions = [-1 if one is None else one.policy_version for one in proximal] if given else []
    return {
        "prompt_offsets": [_offsets(len(one.prompt_ids) for one in trajectories)],
        "response_offsets": [_offsets(one.tokens for one in trajectories)],
        "version_offsets": [_offsets(len(one.versions) for one in trajectories)],
        "segment_offsets": [_offsets(len(one.segments) for one in trajectories)],
        "versions": [_pairs(one.versions) for one in trajectories],
        "segments": [_pairs(one.segments) for one in trajectories],
        "proximal_version": [_int64(versions)],
        "prompt_ids": [one.prompt_ids for one in trajectories],
        "response_ids": [one.response_ids for one in trajectories],
        "rollout_logp": [one.rollout_logp for one in trajectories],
        "proximal_logp": [
            _view(bytes(4 * one.tokens), "f") if one.proximal is None else one.proximal.logp
            for one in trajectories
            if given
        ],
        "response_mask": [one.response_mask for one in trajectories],
    }


def _columns_in(packed: memoryview) -> dict[str, Column]:
    (length,) = struct.unpack_from("<Q", packed)
    if length > min(HEADER_BYTES_MAX, len(packed) - 8):
        message = "the header is longer than the bytes"
        raise ValueError(message)
    header = json.loads(bytes(packed[8 : 8 + length]))
    if header["__metadata__"]["layout"] != LAYOUT:
        message = f"the layout is not {LAYOUT}"
        raise ValueError(message)
    data, found = packed[8 + length :], {}
    for name, (dtype, code) in _TYPES.items():
        start, end = header[name]["data_offsets"]
        if header[name]["dtype"] != dtype or not 0 <= start <= end <= len(data):
            message = f"{name}: not a column of {dtype}"
            raise ValueError(message)
        found[name] = view(data[start:end], code)
    return found


def _trajectories_in(columns: Mapping[str, Column]) -> Iterator[TrajectoryTokens]:
    prompts, responses, runs, segments = (
        _slices(columns[f"{name}_offsets"], len(columns[column]) // width)
        for name, column, width in (
            ("prompt", "prompt_ids", 1),
            ("response", "response_ids", 1),
            ("version", "versions", 2),
            ("segment", "segments", 2),
        )
    )
    of_proximal = columns["proximal_version"].tolist()
    for i, (prompt, part, run, said) in enumerate(
        zip(prompts, responses, runs, segments, strict=True)
    ):
        version = of_proximal[i] if of_proximal else NO_VERSION
        logp = columns["proximal_logp"][part]
        yield _checked(
            TrajectoryTokens(
                prompt_ids=columns["prompt_ids"][prompt],
                response_ids=columns["response_ids"][part],
                response_mask=columns["response_mask"][part],
                rollout_logp=columns["rollout_logp"][part],
                versions=tuple(VersionRun(v, n) for v, n in _pair(columns["versions"], run)),
                segments=tuple(Segment(Speaker(s), n) for s, n in _pair(columns["segments"], said)),
                proximal=None if version < 0 else ProximalLogp(policy_version=version, logp=logp),
            )
        )


def _checked(one: TrajectoryTokens) -> TrajectoryTokens:
    """Refuse columns and runs of different lengths."""
    lengths = {
        one.tokens,
        len(one.response_mask),
        len(one.rollout_logp),
        sum(run.tokens for run in one.versions),
        sum(segment.tokens for segment in one.segments),
        one.tokens if one.proximal is None else len(one.proximal.logp),
    }
    if len(lengths) > 1:
        message = f"columns of one trajectory have {sorted(lengths)} tokens"
        raise ValueError(message)
    return one


def _slices(offsets: Column, end: int) -> list[slice]:
    bounds = offsets.tolist()
    if not bounds or bounds[0] != 0 or bounds[-1] != end or bounds != sorted(bounds):
        message = f"offsets do not cover {end} entries"
        raise ValueError(message)
    return [slice(a, b) for a, b in itertools.pairwise(bounds)]


def _pair(column: Column, part: slice) -> Iterator[tuple[int, int]]:
    flat = column[2 * part.start : 2 * part.stop].tolist()
    return zip(flat[::2], flat[1::2], strict=True)


def _offsets(lengths: Iterable[int]) -> memoryview:
    return _int64([0, *itertools.accumulate(lengths)])


def _pairs(pairs: Iterable[tuple[int, int]]) -> memoryview:
    return _int64([number for pair in pairs for number in pair])


def _int64(numbers: Sequence[int]) -> memoryview:
    return memoryview(array.array("q", numbers))


def _runs(versions: Sequence[int]) -> list[VersionRun]:
    """Run-length encoding; without work per token in the usual case of a single version."""
    if isinstance(versions, array.array) and versions:
        raw = versions.tobytes()
        if raw == raw[: versions.itemsize] * len(versions):
            return [VersionRun(versions[0], len(versions))]
    return [VersionRun(v, sum(1 for _ in run)) for v, run in itertools.groupby(versions)]


def _merged(runs: Iterable[VersionRun]) -> tuple[VersionRun, ...]:
    """Neighbouring runs of one version as one."""
    grouped = itertools.groupby(runs, key=lambda run: run.policy_version)
    return tuple(VersionRun(version, sum(run.tokens for run in same)) for version, same in grouped)


def _column(code: str, values: Sequence[Any], name: str) -> Column:
    try:
        raw = array.array(code, values)
    except (OverflowError, TypeError) as error:
        raise InvalidRequest(f"{name}: {error}", field=name) from None
    return _view(raw.tobytes(), code)


def _joined(code: str, *parts: memoryview | bytes) -> Column:
    return _view(b"".join(parts), code)


def _view(raw: bytes, code: str) -> Column:
    return memoryview(raw).cast(code)  # type: ignore[call-overload,no-any-return]


def little_endian(parts: Iterable[memoryview], code: str) -> bytes:
    """Columns one after the other, in the byte order of the wire."""
    raw = b"".join(parts)
    return raw if sys.byteorder == "little" else _swapped(raw, code)


def view(raw: bytes | memoryview, code: str) -> Column:
    """A column of the wire in this machine's byte order; without a copy if it is the same."""
    if sys.byteorder == "little":
        return memoryview(raw).toreadonly().cast(code)  # type: ignore[call-overload,no-any-return]
    return _view(_swapped(bytes(raw), code), code)


def _swapped(raw: bytes, code: str) -> bytes:
    numbers = array.array(code, raw)
    numbers.byteswap()
    return numbers.tobytes()
