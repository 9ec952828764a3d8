"""Requests and responses of the supported kinds of server.

Every request for tokens gives prompt and tokens so far as ids, the remaining length, one seed, the
sampling, and the stop ids, which are the only stop condition. Every response must give token ids
and the log-prob of each.
"""

from __future__ import annotations

import array
import math
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.rollout.errors import InvalidRollout, ServerLost, ServerRefused, WeightsNotReady
from assay.rollout.interface.checks import U32_MAX, check_integer
from assay.rollout.interface.receipts import Receipt, parse_receipt
from assay.rollout.interface.rollouts import Progress
from assay.rollout.layout import Stop

if TYPE_CHECKING:
    from assay.rollout.interface.rollouts import Group
    from assay.rollout.remote.ledger import Row
    from assay.rollout.remote.options import RemoteOptions
    from assay.rollout.remote.transport import Transport

COMPLETIONS: Final = "/v1/completions"
MODELS: Final = "/v1/models"
_STOPS = {"length": Stop.LENGTH, "stop": Stop.ID}
UNREADABLE: Final = (
    *(AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError),
    InvalidRollout,
)
"""What reading an answer raises that is not of the expected form."""
LOGP_MAX: Final = 1e-3
"""Above 0 by what rounding may add."""
LOGP_OF_CERTAINTY: Final = -1e-3
"""Least log-prob that counts as that of the only possible token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPart:
    """Content of one event."""

    progress: Progress
    stop: Stop = Stop.NONE
    cut: bool = False
    """The server ended the response early: the rest has to be requested again."""
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What a server says of itself."""

    version: int
    """Of its weights."""
    model: str
    vocab_size: int | None = None
    """`None`: it does not say."""


class Dialect(Protocol):
    """One kind of server. Its calls are made one at a time."""

    path: str
    """Where requests for tokens go."""
    keeps_paused: bool
    """Whether it can hold responses between two tokens and resume them."""
    names_versions: bool
    """Whether its responses say which weights made each token."""
    takes: frozenset[str]
    """Kinds of weights that `stage` makes ready: `full`, `lora`, `oft`."""

    def accept(self, group: Group) -> None:
        """Refuse a group that this server cannot decode exactly.

        Raises:
            InvalidRollout: names the field.
        """
        ...

    def body(self, row: Row) -> dict[str, Any]:
        """The request for the tokens that a rollout still needs."""
        ...

    def part(self, event: dict[str, Any], version: int, known: int) -> ReadPart | None:
        """Content of an event; `version` was active when the request was sent, and `known` tokens
        of this response came before.

        Raises:
            ServerRefused: it has no token ids or log-probs.
            ServerLost: it cannot be read, or another process answers.
        """
        ...

    async def greet(self, transport: Transport, options: RemoteOptions) -> Greeting:
        """Check the server; return what it serves.

        Raises:
            ServerRefused: it cannot serve as an engine.
            ServerLost: it does not answer.
        """
        ...

    async def pause(self, transport: Transport) -> None:
        """Hold every response between two tokens."""
        ...

    async def resume(self, transport: Transport) -> None:
        """Resume the held responses."""
        ...

    async def stage(self, transport: Transport, version: int, path: str, timeout_s: float) -> None:
        """Make the weights at `path`, as the server sees it, ready under this version."""
        ...

    async def activate(self, transport: Transport, version: int, timeout_s: float) -> None:
        """Decode with this version from now on.

        Raises:
            WeightsNotReady: it was not staged.
        """
        ...

    async def restore(self, transport: Transport, version: int) -> None:
        """The server may have been replaced by a new process: bring it back to this version."""
        ...


def completion_body(row: Row, model: str | None) -> dict[str, Any]:
    """The fields that vLLM and Assay's server share."""
    how, group = row.group.sampling, row.group
    body: dict[str, Any] = {
        "prompt": [*group.prompt, *row.tokens],
        "max_tokens": group.max_tokens - len(row.tokens),
        "temperature": how.temperature,
        "top_p": how.top_p,
        "top_k": how.top_k,
        "min_p": how.min_p,
        "seed": row.seed if row.seed < 1 << 63 else row.seed - (1 << 64),
        "stop_token_ids": list(group.stop_ids),
        "ignore_eos": True,
        "skip_special_tokens": False,
        "logprobs": 1,
        "return_token_ids": True,
        "stream": True,
    }
    if group.stop_strings:
        body["stop"] = [text.decode() for text in group.stop_strings]
        body["include_stop_str_in_output"] = True
    return body if model is None else {"model": model, **body}


def completion_part(event: dict[str, Any], version: int) -> ReadPart | None:
    """Parse an event of `/v1/completions`.

    Raises:
        ServerRefused: it has no token ids or log-probs.
        ServerLost: it cannot be read.
    """
    choices = event.get("choices")
    if not choices:
        return None  # usage alone
    try:
        choice = choices[0]
        progress = _progress(choice, version)
        reason, stop_reason = choice.get("finish_reason"), choice.get("stop_reason")
        receipt = choice.get("receipt")
        stop = _STOPS.get(reason or "", Stop.NONE)
        if reason == "stop" and isinstance(stop_reason, str):
            stop = Stop.STRING
        return ReadPart(
            progress=progress,
            stop=stop,
            cut=reason is not None and stop is Stop.NONE,
            receipt=None if receipt is None else parse_receipt(receipt),
        )
    except UNREADABLE as error:
        raise ServerLost(f"{COMPLETIONS}: an event without its fields: {error!r}") from error


def _progress(choice: dict[str, Any], version: int) -> Progress:
    tokens = choice.get("token_ids")
    logprobs = choice.get("logprobs")
    if tokens is None or (tokens and logprobs is None):
        raise ServerRefused(f"{COMPLETIONS}: the server gives no token ids and log-probs")
    logps = logprobs["token_logprobs"] if tokens and logprobs is not None else []
    versions = choice.get("policy_versions", [version] * len(tokens))
    if not len(tokens) == len(logps) == len(versions):
        raise ServerLost(f"{COMPLETIONS}: tokens, log-probs and versions differ in number")
    return Progress(
        tokens=array.array("i", tokens),
        logps=array.array("f", logps),
        policy_versions=array.array("I", versions),
    )


def check_part(part: ReadPart, ids_below: int, versions: tuple[int, int] | None) -> None:
    """Refuse tokens that no model made: a trainer would learn from them.

    Args:
        part: content of an event.
        ids_below: token ids are below it.
        versions: least and greatest version that was active; `None`: none was.

    Raises:
        ServerLost: an id is out of range, a log-prob is not finite or above 0, or the version was
            never active.
    """
    made = part.progress
    if not all(0 <= token < ids_below for token in made.tokens):
        raise ServerLost(f"a token id is not from 0 to {ids_below - 1}")
    if not all(math.isfinite(logp) and logp <= LOGP_MAX for logp in made.logps):
        raise ServerLost("a log-prob is not finite, or above 0")
    least, most = versions or (0, -1)
    if not all(least <= version <= most for version in made.policy_versions):
        raise ServerLost(f"a token of a version that is not from {least} to {most}")


async def check_logps(transport: Transport, body: dict[str, Any]) -> None:
    """Sample with only one token allowed: its log-prob must be 0.

    Raises:
        ServerRefused: it is not 0, so the server reports log-probs of another distribution; or
            not one token came, so nothing is known of them.
    """
    probe = {**body, "prompt": [1, 2, 3], "max_tokens": 1, "temperature": 1.0, "top_k": 1}
    async with aclosing(transport.events(COMPLETIONS, probe)) as events:
        parts = [completion_part(event, 0) async for event in events]
    logps = [logp for part in parts if part is not None for logp in part.progress.logps]
    if len(logps) != 1:
        raise ServerRefused(f"{COMPLETIONS}: {len(logps)} tokens where max_tokens is 1")
    if not LOGP_OF_CERTAINTY <= logps[0] <= 1e-6:
        raise ServerRefused(
            f"log-prob {logps[0]:.4f} of the only token left by top_k=1: the server reports them"
            " before temperature and filters (vLLM: --logprobs-mode processed_logprobs)"
        )


_PROBE: dict[str, Any] = {
    "logprobs": 1,
    "return_token_ids": True,
    "stream": True,
    "ignore_eos": True,
    "seed": 0,
}


async def _the_model(transport: Transport, name: str | None) -> dict[str, Any]:
    models = await _models(transport)
    for model in models:
        if name is None or model.get("id") == name:
            return model
    names = [model.get("id") for model in models]
    raise ServerRefused(f"/v1/models: {name!r} is not among {names}")


async def _models(transport: Transport) -> list[dict[str, Any]]:
    listed = await transport.call("GET", MODELS)
    models = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(models, list) or not all(isinstance(one, dict) for one in models):
        raise ServerLost(f"{MODELS}: not a list of models: {str(listed)[:80]}")
    return models


def check_length(model: dict[str, Any], options: RemoteOptions) -> None:
    """Refuse a server whose `max_model_len`, if it says one, is below the options'.

    Raises:
        ServerRefused: it is.
    """
    length = model.get("max_model_len")
    if isinstance(length, int) and length < options.seq_len_max:
        raise ServerRefused(f"the server's max_model_len {length} is below {options.seq_len_max}")


class AssayServer:
    """Assay's server (`assay.rollout.server`): versions of tokens, receipts, two slots."""

    path = COMPLETIONS
    keeps_paused = True
    names_versions = True
    takes = frozenset({"full", "lora", "oft"})

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._boot = ""

    def accept(self, group: Group) -> None:
        del group

    def body(self, row: Row) -> dict[str, Any]:
        return {**completion_body(row, None), "return_receipt": not row.tokens}

    def part(self, event: dict[str, Any], version: int, known: int) -> ReadPart | None:
        del known
        if event.get("system_fingerprint") != self._boot:
            raise ServerLost("another process answers: its weights may be others")
        return completion_part(event, version)

    async def greet(self, transport: Transport, options: RemoteOptions) -> Greeting:
        model = await _the_model(transport, None)
        if "policy_version" not in model:
            raise ServerRefused("/v1/models: not a server of this project")
        check_length(model, options)
        if options.check_logps:
            await check_logps(transport, _PROBE)
        self._boot = str(model.get("boot"))
        try:
            return Greeting(
                version=check_integer("policy_version", model["policy_version"], 0, U32_MAX),
                model=str(model.get("id")),
                vocab_size=check_integer("vocab_size", model["vocab_size"], 1, U32_MAX),
            )
        except UNREADABLE as error:
            raise ServerRefused(f"{MODELS}: {error}") from error

    async def pause(self, transport: Transport) -> None:
        await transport.call("POST", "/pause?mode=keep")

    async def resume(self, transport: Transport) -> None:
        await transport.call("POST", "/resume")

    async def stage(self, transport: Transport, version: int, path: str, timeout_s: float) -> None:
        body = {"version": version, "path": path}
        await transport.call("POST", "/stage_weights", body, timeout_s=timeout_s)
        self._paths[version] = path

    async def activate(self, transport: Transport, version: int, timeout_s: float) -> None:
        del timeout_s
        try:
            await transport.call("POST", "/activate_weights", {"version": version})
        except ServerRefused as error:
            if error.status == 409:
                raise WeightsNotReady(str(error)) from error
            raise

    async def restore(self, transport: Transport, version: int) -> None:
        model = await _the_model(transport, None)
        if model.get("policy_version") != version:
            if version not in self._paths:
                raise ServerRefused(f"a new server process has no weights of version {version}")
            body = {"version": version, "path": self._paths[version]}
            await transport.call("POST", "/stage_weights", body)
            await transport.call("POST", "/activate_weights", {"version": version})
        self._boot = str(model.get("boot"))


class Vllm:
    """vLLM's OpenAI server; policies are LoRA adapters, one name per version.

    An adapter is chosen by a request's `model`, so tokens of a version are exact without the
    server's help: decoding rollouts are retracted and requested again under the new name. Use
    `--logprobs-mode processed_logprobs --enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.
    """

    path = COMPLETIONS
    keeps_paused = False
    names_versions = False
    takes = frozenset({"lora"})

    def __init__(self, model: str, *, adapter_prefix: str = "assay-policy-") -> None:
        self._base, self._prefix = model, adapter_prefix
        self._paths: dict[int, str] = {}
        self._active = 0

    def _name(self, version: int) -> str:
        return f"{self._prefix}{version}" if version in self._paths else self._base

    def accept(self, group: Group) -> None:
        del group

    def body(self, row: Row) -> dict[str, Any]:
        return completion_body(row, self._name(self._active))

    def part(self, event: dict[str, Any], version: int, known: int) -> ReadPart | None:
        del known
        return completion_part(event, version)

    async def greet(self, transport: Transport, options: RemoteOptions) -> Greeting:
        check_length(await _the_model(transport, self._base), options)
        if options.check_logps:
            await check_logps(transport, {**_PROBE, "model": self._base})
        return Greeting(version=0, model=self._base)

    async def pause(self, transport: Transport) -> None:
        await transport.call("POST", "/pause?mode=keep")

    async def resume(self, transport: Transport) -> None:
        await transport.call("POST", "/resume")

    async def stage(self, transport: Transport, version: int, path: str, timeout_s: float) -> None:
        body = {"lora_name": f"{self._prefix}{version}", "lora_path": path}
        await transport.command("POST", "/v1/load_lora_adapter", body, timeout_s=timeout_s)
        self._paths[version] = path

    async def activate(self, transport: Transport, version: int, timeout_s: float) -> None:
        if version != 0 and version not in self._paths:
            raise WeightsNotReady(f"version {version} is not staged")
        previous, self._active = self._active, version
        for old in [one for one in self._paths if one not in (version, previous)]:
            await self._unload(transport, old, timeout_s)

    async def _unload(self, transport: Transport, version: int, timeout_s: float) -> None:
        """Free an adapter that can no longer be activated; the server may have lost it already."""
        body = {"lora_name": self._name(version)}
        del self._paths[version]
        try:
            path = "/v1/unload_lora_adapter"
            await transport.command("POST", path, body, timeout_s=timeout_s)
        except ServerRefused as error:
            if error.status not in (400, 404):
                raise

    async def restore(self, transport: Transport, version: int) -> None:
        if version not in self._paths:
            return
        if self._name(version) not in [model.get("id") for model in await _models(transport)]:
            body = {"lora_name": self._name(version), "lora_path": self._paths[version]}
            await transport.command("POST", "/v1/load_lora_adapter", body)
