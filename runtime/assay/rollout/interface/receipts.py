"""Receipts: everything needed to repeat a rollout bit for bit.

A rollout's tokens and log-probs depend only on the weights, the prompt, the seed, the sampling and
the code that computed them: not on batch, cache, thread or chunk. A receipt names all of these;
`assay.rollout.replay.replay` reproduces from it and reports what has changed.

Each field of a file written here carries a seal (a digest), so that a field changed afterwards is
reported and not mistaken for another rollout.
"""

from __future__ import annotations

import array
import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from assay.core.errors import FailedPrecondition
from assay.rollout.errors import InvalidRollout
from assay.rollout.library.engines import EngineIdentity

if TYPE_CHECKING:
    from pathlib import Path

    from assay.rollout.layout import Asked
    from assay.rollout.library.engines import AddressedEngine, ProbeEngine

FORMAT = 1
FILE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The inputs of one rollout. Hashes are SHA-256, hex."""

    versions: tuple[int, ...]
    """Policy versions at its admission and of its tokens, ascending."""
    weights: tuple[str, ...]
    """Weights of each version."""
    mixed: bool
    """The weights changed while its prompt was computed."""
    prompt: str
    """Hash of the prompt's tokens, little-endian int32."""
    result: str
    """Hash of the generated tokens and the bits of their log-probs."""
    seed: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    max_tokens: int
    engine: EngineIdentity

    @property
    def one_version(self) -> bool:
        """Whether a single set of weights computed all of it."""
        return len(self.versions) <= 1 and not self.mixed


class EndedRollout(Protocol):
    """A completed rollout, as `poll` returns it."""

    @property
    def receipt(self) -> Receipt | None: ...
    @property
    def prompt(self) -> array.array[int]: ...
    @property
    def tokens(self) -> array.array[int]: ...
    @property
    def logps(self) -> array.array[float]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRecord:
    """A receipt with its rollout, as stored in a file."""

    receipt: Receipt
    prompt: array.array[int]
    tokens: array.array[int]
    logps: array.array[float]
    altered: tuple[str, ...] = ()
    """Fields that were changed after writing."""


def prompt_hash(prompt: array.array[int]) -> str:
    """SHA-256 of token ids, hex."""
    return hashlib.sha256(_little_endian(prompt)).hexdigest()


def result_hash(tokens: array.array[int], logps: array.array[float]) -> str:
    """SHA-256 of token ids and the bits of their float32 log-probs, hex."""
    return hashlib.sha256(_little_endian(tokens) + _little_endian(logps)).hexdigest()


def receipt_of(
    asked: Asked,
    prompt: array.array[int],
    tokens: array.array[int],
    logps: array.array[float],
    versions: array.array[int],
    engine: AddressedEngine | ProbeEngine,
) -> Receipt:
    """Receipt of a completed rollout."""
    seen = {*versions}
    if tokens:
        seen.add(asked.kv_version)
    sampler = asked.sampler
    return Receipt(
        versions=tuple(sorted(seen)),
        weights=tuple(engine.weights_sha256(version) for version in sorted(seen)),
        mixed=bool(tokens and asked.kv_mixed),
        prompt=prompt_hash(prompt),
        result=result_hash(tokens, logps),
        seed=sampler.seed,
        temperature=sampler.temperature,
        top_k=sampler.top_k,
        top_p=sampler.top_p,
        min_p=sampler.min_p,
        max_tokens=asked.max_tokens,
        engine=engine.identity,
    )


def write_record(path: Path, completed: EndedRollout) -> None:
    """Write a completed rollout's receipt, prompt, tokens and log-probs, as JSON.

    Raises:
        FailedPrecondition: its engine keeps no receipts.
    """
    if completed.receipt is None:
        raise FailedPrecondition("the engine of this rollout keeps no receipts")
    receipt = asdict(completed.receipt)
    document = {
        "format": FORMAT,
        "receipt": receipt,
        "seals": {name: _seal(value) for name, value in receipt.items()},
        "prompt": list(completed.prompt),
        "tokens": list(completed.tokens),
        "logps": list(completed.logps),
    }
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def read_record(path: Path) -> RolloutRecord:
    """Read what `write_record` wrote.

    Raises:
        InvalidRollout: not such a file; `field` says where.
        OSError: it cannot be read.
    """
    if path.stat().st_size > FILE_BYTES_MAX:
        raise InvalidRollout("receipt", f"a file above {FILE_BYTES_MAX} bytes")
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise InvalidRollout("receipt", f"not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidRollout("receipt.format", f"must be {FORMAT}")
    receipt = parse_receipt(document.get("receipt"))
    prompt = _numbers(document, "prompt", "i")
    tokens, logps = _numbers(document, "tokens", "i"), _numbers(document, "logps", "f")
    altered = [*_broken_seals(document["receipt"], document.get("seals"))]
    if prompt_hash(prompt) != receipt.prompt:
        altered.append("prompt")
    if len(tokens) != len(logps) or result_hash(tokens, logps) != receipt.result:
        altered.append("result")
    return RolloutRecord(
        receipt=receipt,
        prompt=prompt,
        tokens=tokens,
        logps=logps,
        altered=tuple(dict.fromkeys(altered)),
    )


def _little_endian(numbers: array.array[Any]) -> bytes:
    if array.array("H", [1]).tobytes() == b"\1\0":
        return numbers.tobytes()
    swapped = array.array(numbers.typecode, numbers)
    swapped.byteswap()
    return swapped.tobytes()


def _seal(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _broken_seals(receipt: dict[str, object], seals: object) -> list[str]:
    if not isinstance(seals, dict):
        raise InvalidRollout("receipt.seals", "missing")
    return [name for name, value in receipt.items() if seals.get(name) != _seal(value)]


def parse_receipt(raw: object) -> Receipt:
    """Read the form that `dataclasses.asdict` and JSON produce.

    Raises:
        InvalidRollout: a field is missing, unknown or of another type.
    """
    names = {field.name for field in fields(Receipt)}
    if not isinstance(raw, dict) or raw.keys() != names:
        raise InvalidRollout("receipt", f"its fields are {', '.join(sorted(names))}")
    engine = raw["engine"]
    known = {field.name for field in fields(EngineIdentity)}
    if not isinstance(engine, dict) or engine.keys() != known:
        raise InvalidRollout("receipt.engine", f"its fields are {', '.join(sorted(known))}")
    for name, value in engine.items():
        _expect(f"engine.{name}", value, str)
    for name in ("versions", "weights"):
        _expect(name, raw[name], list)
        for one in raw[name]:
            _expect(name, one, int if name == "versions" else str)
    for name in ("prompt", "result"):
        _expect(name, raw[name], str)
    for name in ("seed", "top_k", "max_tokens"):
        _expect(name, raw[name], int)
    for name in ("temperature", "top_p", "min_p"):
        _expect(name, raw[name], int, float)
    if not isinstance(raw["mixed"], bool):
        raise InvalidRollout("receipt.mixed", "true or false")
    lists = {"versions": tuple(raw["versions"]), "weights": tuple(raw["weights"])}
    return Receipt(**{**raw, **lists, "engine": EngineIdentity(**engine)})


def _expect(field: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise InvalidRollout(f"receipt.{field}", f"not {value!r}")


def _numbers(document: dict[str, Any], name: str, code: str) -> array.array[Any]:
    try:
        return array.array(code, document[name])
    except (KeyError, TypeError, OverflowError):
        raise InvalidRollout(f"receipt.{name}", "a list of numbers") from None
