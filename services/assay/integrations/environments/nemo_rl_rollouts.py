"""NeMo-RL's rollouts of one sample per call: their groups' means for what was not judged.

With an asynchronous engine, NeMo-RL asks an environment about one sample at a time, and an
exception there ends the run. The batch with its groups exists around these calls, in
`_run_multi_turn_rollout_async`: `replacement` puts a mark into each row before it, by which the
environment answers NaN in place of raising, and the mean into each NaN behind it.

That function may run in an actor whose Python has no Assay. All that it needs is therefore inside
of one function, which Ray takes along by value (`collecting`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FILLED: Final = "assay_fills_in"
"""Key of a row's `extra_env_info`: what its environment answers as NaN is replaced."""
_ROLLOUTS: Final = "nemo_rl.experience.rollouts"
_FUNCTION: Final = "_run_multi_turn_rollout_async"
_ACTORS: Final = (
    ("nemo_rl.experience.sync_rollout_actor", "SyncRolloutActor"),
    ("nemo_rl.algorithms.async_utils", "AsyncTrajectoryCollector"),
)
"""Actors that roll out in a process of their own: the module, and the name in it."""
_LOOPS: Final = ("nemo_rl.algorithms.grpo_sync",)
"""Modules that import such an actor by name; those that are loaded get the new one, too."""


def replacement(mark: str = FILLED) -> Callable[[Any], Any]:
    """What makes a rollout function that fills in of NeMo-RL's; goes to an actor by value."""
    import functools
    import math
    import statistics

    def marked(batch: Any) -> Any:
        rows = [
            {**row, mark: True} if isinstance(row, dict) else row for row in batch["extra_env_info"]
        ]
        return type(batch)({**batch, "extra_env_info": rows})

    def prompt_of(log: Any) -> str:
        """By its tokens, as NeMo-RL's baseline tells groups apart."""
        return repr([message["token_ids"].tolist() for message in log])

    def means_of(rewards: list[float], groups: list[str]) -> dict[str, float]:
        """By group the mean of what was judged; of all that was judged, where that is nothing."""
        judged = [one for one in rewards if not math.isnan(one)]
        parts: dict[str, list[float]] = {group: [] for group in groups}
        for reward, group in zip(rewards, groups, strict=True):
            if not math.isnan(reward):
                parts[group].append(reward)
        return {group: statistics.fmean(part or judged or [0.0]) for group, part in parts.items()}

    def fill(asked: Any, found: Any, metrics: list[Any]) -> None:
        for row in found["extra_env_info"]:
            if isinstance(row, dict):
                row.pop(mark, None)
        rewards = found["total_reward"].tolist()
        groups = [prompt_of(log) for log in asked["message_log"]]
        means = means_of(rewards, groups)
        for at, (reward, group) in enumerate(zip(rewards, groups, strict=True)):
            if math.isnan(reward):
                found["total_reward"][at] = metrics[at]["total_reward"] = means[group]

    def replace(original: Any) -> Any:
        if getattr(original, "fills_in", False):
            return original

        @functools.wraps(original)
        async def rolled_out(
            policy_generation: Any, input_batch: Any, *rest: Any, **options: Any
        ) -> Any:
            asked = marked(input_batch)
            found, metrics = await original(policy_generation, asked, *rest, **options)
            fill(input_batch, found, metrics)
            return found, metrics

        rolled_out.fills_in = True  # type: ignore[attr-defined]
        return rolled_out

    return replace


def collecting(actor: Any, replace: Callable[[Any], Any]) -> Any:
    """The class of an actor that rolls out; its process has the function that fills in."""
    path, name = _ROLLOUTS, _FUNCTION

    class Collecting(actor):  # type: ignore[misc]
        fills_in = True

        def __init__(self, *arguments: Any, **options: Any) -> None:
            from importlib import import_module

            module = import_module(path)
            setattr(module, name, replace(getattr(module, name)))
            super().__init__(*arguments, **options)

    return Collecting


def install_rollouts() -> None:
    """Fill in what was not judged of samples that come one by one, in this process and actors.

    Repeatable. NeMo-RL before 0.6 has no such function; there it stays as it is.
    """
    rollouts = import_module(_ROLLOUTS)
    if not hasattr(rollouts, _FUNCTION):
        return
    setattr(rollouts, _FUNCTION, replacement()(getattr(rollouts, _FUNCTION)))
    for path, name in _ACTORS:
        _install_actor(import_module(path), name)


def _install_actor(module: Any, name: str) -> None:
    import ray

    old = getattr(module, name)
    original = old.__ray_metadata__.modified_class
    if getattr(original, "fills_in", False):
        return
    new = ray.remote(collecting(original, replacement()))
    setattr(module, name, new)
    for path in _LOOPS:
        loop = sys.modules.get(path)
        if getattr(loop, name, None) is old:
            setattr(loop, name, new)
