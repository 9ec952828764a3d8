"""TRL: a `rollout_func` that generates on the rollout service.

    GRPOTrainer(rollout_func=Rollouts("127.0.0.1:8480"), reward_funcs=Reward("math"), ...)

Before each step the trainer's weights are pushed and activated; then equal prompts that are
next to each other are one group. `logprobs` are those of the very distribution that was sampled
from. A rollout that failed is one token without loss, marked in `rollout_failed`: `Reward` does not
judge it and has no reward for it.
"""

from __future__ import annotations

import itertools
import logging
import os
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

from assay.client import Backoff
from assay.client.loop_thread import LoopThread
from assay.client.rollouts import Prompt, RolloutClient, SamplingParams, Weight
from assay.core.errors import FailedPrecondition, InvalidRequest
from assay.integrations.trainers.trl import FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.client.rollouts import RolloutGroup, RolloutSession, Trajectory

LOG: Final = logging.getLogger("assay.integrations")
URL_DEFAULT: Final = "127.0.0.1:8480"
ENDED: Final = frozenset({"length", "stop_id", "stop_string"})
_DTYPES: Final = {"torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}


class Rollouts:
    """See the module's text; for a trainer of one process."""

    def __init__(
        self,
        url: str = "",
        *,
        token: str | None = None,
        push: bool = True,
        model: str = "",
        patience_s: float = 900.0,
    ) -> None:
        """Make a function.

        Args:
            url: of the rollout service; empty: that of `ASSAY_ROLLOUT_URL`.
            token: the tenant's token.
            push: push the trainer's weights when its step changes; without it the service
                generates with those that it has.
            model: the model that must be served; empty: any.
            patience_s: how long a call of the service is repeated while it cannot be reached.

        Raises:
            InvalidRequest: an option is wrong; `field` names it.
        """
        if not 0 < patience_s < float("inf"):
            raise InvalidRequest("patience_s: must be finite and more than 0", field="patience_s")
        self._url = url or os.environ.get("ASSAY_ROLLOUT_URL") or URL_DEFAULT
        self._token = token
        self._push = push
        self._model = model
        self._patience_s = patience_s
        self._loop: LoopThread | None = None
        self._client: RolloutClient | None = None
        self._session: RolloutSession | None = None
        self._pushed_step: int | None = None
        self._calls = 0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Generate one response per prompt, as TRL's `RolloutFunc`.

        Returns:
            `prompt_ids`, `completion_ids`, `logprobs`, `env_mask`: lists of lists, one per prompt;
            `rollout_failed` and `policy_version`: one value per prompt.

        Raises:
            AssayError: the service refused the step, or could not be reached for `patience_s`.
        """
        if trainer.accelerator.num_processes != 1:
            raise FailedPrecondition("rollout_func: the trainer has several processes, not one")
        if self._loop is None:
            self._loop = LoopThread()
        ids = [prompt_ids(prompt, trainer) for prompt in prompts]
        weights = None
        if self._push and self._pushed_step != trainer.state.global_step:
            weights = weights_of(trainer.accelerator.unwrap_model(trainer.model))
        seed = _seed(trainer, self._calls)
        found = self._loop.run(self._step(ids, _sampling(trainer), weights, seed))
        self._pushed_step = trainer.state.global_step
        self._calls += 1
        eos = trainer.processing_class.eos_token_id
        return columns(ids, found, 0 if eos is None else int(eos))

    async def _step(
        self,
        ids: Sequence[Sequence[int]],
        sampling: SamplingParams,
        weights: dict[str, Weight] | None,
        seed: int,
    ) -> list[Trajectory]:
        if self._client is None:
            self._client = RolloutClient(
                self._url, token=self._token, backoff=Backoff(total_s=self._patience_s)
            )
        client = self._client
        if self._session is None:
            name = f"trl-{uuid.uuid4().hex}"
            self._session = await client.open_session(name, model=self._model)
        if weights is not None:
            version = await client.policy_version() + 1
            await client.push_weights(version, weights)
            await client.activate(version)
        return await _generated(self._session, ids, sampling, seed)

    def close(self) -> None:
        """Close the session and the connection; the next call makes new ones."""
        loop, session, client = self._loop, self._session, self._client
        self._loop = self._session = self._client = self._pushed_step = None
        if loop is None:
            return

        async def end() -> None:
            if session is not None:
                await session.close()
            if client is not None:
                await client.__aexit__(None, None, None)

        try:
            loop.run(end())
        finally:
            loop.close()


async def _generated(
    session: RolloutSession, ids: Sequence[Sequence[int]], sampling: SamplingParams, seed: int
) -> list[Trajectory]:
    """One trajectory per prompt, in their order."""
    step = uuid.uuid4().hex
    sizes = [len(list(run)) for _, run in itertools.groupby(map(tuple, ids))]
    starts = list(itertools.accumulate(sizes, initial=0))
    prompts = [
        Prompt(
            group_id=f"{step}/{at}",
            k=size,
            seed=seed + start,
            prompt_ids=list(ids[start]),
            sampling=sampling,
            scored=False,
        )
        for at, (size, start) in enumerate(zip(sizes, starts[:-1], strict=True))
    ]
    await session.submit(prompts)
    groups: dict[str, RolloutGroup] = {}
    wanted = {prompt.group_id for prompt in prompts}
    async for group in session.groups():
        session.acknowledge(group)
        if group.group_id in wanted:  # one of an interrupted step is not
            groups[group.group_id] = group
        if len(groups) == len(wanted):
            break
    return [
        one
        for prompt in prompts
        for one in sorted(groups[prompt.group_id].trajectories, key=lambda one: one.member)
    ]


def columns(
    ids: Sequence[Sequence[int]], found: Sequence[Trajectory], eos: int
) -> dict[str, list[Any]]:
    """What TRL merges: see `Rollouts.__call__`."""
    failed = [one.finish_reason not in ENDED or not len(one.response_ids) for one in found]
    if any(failed):
        LOG.warning("%d of %d rollouts failed, which is no reward", sum(failed), len(failed))
    pairs = list(zip(found, failed, strict=True))
    return {
        "prompt_ids": [list(one) for one in ids],
        "completion_ids": [[eos] if bad else one.response_ids.tolist() for one, bad in pairs],
        "logprobs": [[0.0] if bad else one.rollout_logp.tolist() for one, bad in pairs],
        "env_mask": [[0] if bad else one.response_mask.tolist() for one, bad in pairs],
        FAILED: failed,
        "policy_version": [
            max((version for version, _ in one.policy_versions), default=-1) for one in found
        ],
    }


def prompt_ids(prompt: Any, trainer: Any) -> list[int]:
    """The tokens of a prompt, as TRL makes them: text, or chat messages by the chat template."""
    tokenizer = trainer.processing_class
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    found = tokenizer.apply_chat_template(
        prompt,
        chat_template=trainer.chat_template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        **trainer.chat_template_kwargs,
    )
    return list(found)


def weights_of(model: Any) -> dict[str, Weight]:
    """The tensors of a model of PyTorch, as the rollout service takes them.

    Raises:
        InvalidRequest: a tensor has a type that cannot be pushed; `field` names it.
    """
    import torch

    found = {}
    for name, tensor in model.state_dict().items():
        dtype = _DTYPES.get(str(tensor.dtype))
        if dtype is None:
            raise InvalidRequest(f"{name}: {tensor.dtype} cannot be pushed", field=name)
        values = tensor.detach().cpu().contiguous().reshape(-1)
        data = values.view(torch.uint8).numpy().tobytes()  # numpy knows no bfloat16
        found[name] = Weight(dtype=dtype, shape=tuple(tensor.shape), data=data)
    return found


def _sampling(trainer: Any) -> SamplingParams:
    return SamplingParams(
        temperature=trainer.temperature,
        top_k=trainer.top_k or None,
        top_p=trainer.top_p if trainer.top_p != 1.0 else None,
        min_p=trainer.min_p or None,
        max_tokens=trainer.max_completion_length,
    )


def _seed(trainer: Any, call: int) -> int:
    """Another one for each call; equal runs have equal ones."""
    return zlib.crc32(f"{trainer.args.seed}/{call}".encode()) >> 1
