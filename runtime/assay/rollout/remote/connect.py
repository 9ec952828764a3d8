"""The engine at `rollout.engine_url`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from assay.core.errors import FailedPrecondition
from assay.rollout.errors import InvalidRollout, ServerLost, ServerRefused
from assay.rollout.remote.dialects import AssayServer, Vllm
from assay.rollout.remote.engine import RemoteEngine
from assay.rollout.remote.options import RemoteOptions, attempts_within
from assay.rollout.remote.sglang import SGLang

if TYPE_CHECKING:
    from assay.config.rollouts import RolloutSettings
    from assay.rollout.remote.dialects import Dialect


def connect(rollout: RolloutSettings, *, tokenizer_size: int | None) -> RemoteEngine:
    """Connect to the server that the settings name.

    Args:
        rollout: the settings.
        tokenizer_size: ids of the tokenizer; `None`: there is none, so stop strings are refused.

    Raises:
        FailedPrecondition: the settings are wrong, or the server cannot serve as an engine.
        DependencyDown: the server does not answer.
    """
    token = rollout.engine_token
    try:
        return RemoteEngine(
            rollout.engine_url,
            _dialect(rollout),
            rollout.slots,
            _vocab_size(rollout, tokenizer_size),
            _options(rollout, stop_strings=tokenizer_size is not None),
            api_key=None if token is None else token.get_secret_value(),
        )
    except InvalidRollout as error:  # the message begins with the field
        field = f"rollout.engine_{error.field}"
        raise FailedPrecondition(f"rollout.engine_{error.message}", field=field) from error
    except ServerLost as error:
        raise ServerLost(f"rollout.engine_url: {error.message}") from error
    except ServerRefused as error:
        message = f"rollout.engine_url: {error.message}"
        raise ServerRefused(message, status=error.status) from error


def _options(rollout: RolloutSettings, *, stop_strings: bool) -> RemoteOptions:
    options = RemoteOptions(
        seq_len_max=rollout.tokens_max, decode_credits=rollout.slots, stop_strings=stop_strings
    )
    return replace(options, attempts_max=attempts_within(rollout.engine_away_s, options))


def _dialect(rollout: RolloutSettings) -> Dialect:
    match rollout.engine_dialect:
        case "assay":
            return AssayServer()
        case "sglang":
            return SGLang()
        case "vllm":
            if not rollout.engine_model:
                raise FailedPrecondition(
                    "rollout.engine_model: the name of vLLM's model", field="rollout.engine_model"
                )
            return Vllm(rollout.engine_model)


def _vocab_size(rollout: RolloutSettings, tokenizer_size: int | None) -> int | None:
    """`None`: the server has to say it, as Assay's does."""
    if rollout.engine_vocab_size:
        return rollout.engine_vocab_size
    return None if rollout.engine_dialect == "assay" else tokenizer_size
