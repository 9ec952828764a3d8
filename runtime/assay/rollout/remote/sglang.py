"""SGLang's own API: `/generate` with token ids, pauses, and weights read from disk."""

from __future__ import annotations

import array
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from assay.rollout.errors import InvalidRollout, ServerLost, ServerRefused, WeightsNotReady
from assay.rollout.interface.rollouts import Progress
from assay.rollout.layout import Stop
from assay.rollout.remote.dialects import (
    LOGP_OF_CERTAINTY,
    UNREADABLE,
    Greeting,
    ReadPart,
    check_length,
)

if TYPE_CHECKING:
    from assay.rollout.interface.rollouts import Group
    from assay.rollout.remote.ledger import Row
    from assay.rollout.remote.options import RemoteOptions
    from assay.rollout.remote.transport import Transport

GENERATE: Final = "/generate"
_COLD: Final = 1e-4
"""A temperature that leaves one token."""
_NARROW: Final = 1e-6
"""A top_p that leaves one token."""


class SGLang:
    """SGLang's server. Use `--enable-deterministic-inference`, so that seeds have an effect.

    SGLang has one set of weights: `stage` notes a path, and `activate` has the server read it while
    nothing decodes. Each response names its weights (`weight_version`), so one from other weights
    is not accepted. It reports log-probs after temperature and before top_k, top_p and min_p:
    unless the server is found to report them after the filters, groups with filters are refused.
    """

    path = GENERATE
    keeps_paused = True
    names_versions = False
    takes = frozenset({"full"})

    def __init__(self, *, version_prefix: str = "assay-policy-") -> None:
        self._prefix = version_prefix
        self._paths: dict[int, str] = {}
        self._base = ""
        """`weight_version` of the weights that the server was started with."""
        self._filters = True
        """Whether log-probs are of the filtered distribution."""

    def _name(self, version: int) -> str:
        return self._base if version == 0 else f"{self._prefix}{version}"

    def accept(self, group: Group) -> None:
        """See `Dialect.accept`."""
        how = group.sampling
        off = {"top_k": (how.top_k, 0), "top_p": (how.top_p, 1.0), "min_p": (how.min_p, 0.0)}
        for name, (value, without) in off.items():
            if not self._filters and how.temperature > 0 and value != without:
                raise InvalidRollout(name, "this server's log-probs are those before filters")

    def body(self, row: Row) -> dict[str, Any]:
        """See `Dialect.body`."""
        how, group = row.group.sampling, row.group
        sampling: dict[str, Any] = {
            "max_new_tokens": group.max_tokens - len(row.tokens),
            "temperature": how.temperature,
            "top_p": how.top_p,
            "top_k": how.top_k or -1,
            "min_p": how.min_p,
            "sampling_seed": row.seed if row.seed < 1 << 63 else row.seed - (1 << 64),
            "stop_token_ids": list(group.stop_ids),
            "ignore_eos": True,
            "skip_special_tokens": False,
        }
        if group.stop_strings:
            sampling["stop"] = [text.decode() for text in group.stop_strings]
            sampling["no_stop_trim"] = True
        return _request([*group.prompt, *row.tokens], sampling)

    def part(self, event: dict[str, Any], version: int, known: int) -> ReadPart:
        """See `Dialect.part`."""
        try:
            meta = event["meta_info"]
            if str(meta["weight_version"]) != self._name(version):
                raise ServerLost(f"weights {meta['weight_version']!r} answer: a new process?")
            reason = meta["finish_reason"]
            stop = _stop_of(reason)
            progress = _news(event, known, version)
        except UNREADABLE as error:
            raise ServerLost(f"{GENERATE}: an event without its fields: {error!r}") from error
        return ReadPart(progress=progress, stop=stop, cut=reason is not None and stop is Stop.NONE)

    async def greet(self, transport: Transport, options: RemoteOptions) -> Greeting:
        """See `Dialect.greet`."""
        info = await _model_info(transport)
        self._base, self._paths = str(info.get("weight_version")), {0: str(info["model_path"])}
        known = self._base.removeprefix(self._prefix)
        if known != self._base and known.isdecimal():
            raise ServerRefused(f"the server has weights {self._base!r} of another run: restart it")
        check_length({"max_model_len": info.get("context_length")}, options)
        if options.check_logps:
            await self._check_logps(transport)
        return Greeting(version=0, model=self._paths[0])

    async def _check_logps(self, transport: Transport) -> None:
        cold = await self._logp(transport, {"temperature": _COLD})
        if not LOGP_OF_CERTAINTY <= cold <= -LOGP_OF_CERTAINTY:
            raise ServerRefused(
                f"log-prob {cold:.4f} of the only token left by a low temperature: the server"
                " reports them before temperature (unset SGLANG_RETURN_ORIGINAL_LOGPROB)"
            )
        filtered = await self._logp(transport, {"temperature": 1.0, "top_p": _NARROW})
        self._filters = LOGP_OF_CERTAINTY <= filtered <= -LOGP_OF_CERTAINTY

    async def _logp(self, transport: Transport, sampling: dict[str, Any]) -> float:
        body = _request([1, 2, 3], {"max_new_tokens": 1, "ignore_eos": True, **sampling})
        logps: list[float] = []
        async with aclosing(transport.events(GENERATE, body)) as events:
            async for event in events:
                logps += self.part(event, 0, len(logps)).progress.logps
        if not logps:
            raise ServerRefused(f"{GENERATE}: no log-prob (return_logprob)")
        return logps[0]

    async def pause(self, transport: Transport) -> None:
        """See `Dialect.pause`."""
        await transport.call("POST", "/pause_generation", {"mode": "in_place"})

    async def resume(self, transport: Transport) -> None:
        """See `Dialect.resume`."""
        await transport.call("POST", "/continue_generation", {})

    async def stage(self, transport: Transport, version: int, path: str, timeout_s: float) -> None:
        """See `Dialect.stage`: nothing is read before `activate`."""
        del transport, timeout_s
        self._paths[version] = path

    async def activate(self, transport: Transport, version: int, timeout_s: float) -> None:
        """See `Dialect.activate`."""
        if version not in self._paths:
            raise WeightsNotReady(f"version {version} is not staged")
        body = {
            "model_path": self._paths[version],
            "weight_version": self._name(version),
            "flush_cache": True,
        }
        path = "/update_weights_from_disk"
        said = await transport.call("POST", path, body, timeout_s=timeout_s)
        if not isinstance(said, dict) or said.get("success") is not True:
            raise ServerRefused(f"{path}: {said}")

    async def restore(self, transport: Transport, version: int) -> None:
        """See `Dialect.restore`."""
        info = await _model_info(transport)
        if str(info.get("weight_version")) != self._name(version):
            await self.activate(transport, version, RESTORE_S)


RESTORE_S: Final = 600.0
"""Longest reading of the weights that a new process lacks."""


def _request(input_ids: list[int], sampling: dict[str, Any]) -> dict[str, Any]:
    return {
        "input_ids": input_ids,
        "sampling_params": sampling,
        "return_logprob": True,
        "logprob_start_len": -1,
        "stream": True,
    }


def _stop_of(reason: dict[str, Any] | None) -> Stop:
    kind = None if reason is None else reason["type"]
    if kind == "length":
        return Stop.LENGTH
    if kind == "stop":
        return Stop.STRING if isinstance((reason or {}).get("matched"), str) else Stop.ID
    return Stop.NONE


def _news(event: dict[str, Any], known: int, version: int) -> Progress:
    """The tokens after the first `known`: events hold all tokens so far, or with
    `--incremental-streaming-output` those since the last event; `completion_tokens` tells."""
    meta = event["meta_info"]
    pairs = meta.get("output_token_logprobs")
    new = int(meta["completion_tokens"]) - known
    if pairs is None and new:
        raise ServerRefused(f"{GENERATE}: the server gives no log-probs (return_logprob)")
    pairs = pairs or []
    if not 0 <= new <= len(pairs):
        raise ServerLost(f"{GENERATE}: {new} new tokens, but {len(pairs)} log-probs")
    fresh = pairs[len(pairs) - new :]
    return Progress(
        tokens=array.array("i", [pair[1] for pair in fresh]),
        logps=array.array("f", [pair[0] for pair in fresh]),
        policy_versions=array.array("I", [version] * new),
    )


async def _model_info(transport: Transport) -> dict[str, Any]:
    """Older servers have only the second route."""
    for path in ("/model_info", "/get_model_info"):
        try:
            info = await transport.call("GET", path)
        except ServerRefused as error:
            if error.status != 404:
                raise
            continue
        if isinstance(info, dict) and "model_path" in info and "weight_version" in info:
            return info
    raise ServerRefused("/model_info: no model_path and weight_version: not SGLang, or too old")
