"""Rewards from Assay in OpenEnv: an environment of sums, served as OpenEnv serves any.

    pip install . openenv uvicorn  # where the environment runs
    assay up                            # on the machine that scores
    PYTHONPATH=examples uvicorn openenv_environment:app

An answer that the platform could not judge has the reward `null` and says why in its metadata,
which trainers on OpenEnv leave out. docs/integrations/openenv.md
"""

import uuid
from typing import Any, ClassVar

from openenv.core.env_server import (
    Action,
    Environment,
    Observation,
    State,
    create_fastapi_app,
)
from pydantic import Field

from assay.integrations.environments.openenv import Scored


class Answer(Action):
    """The model's answer."""

    text: str


class Seen(Observation):
    """What the model sees."""

    question: str = Field(default="")


class Sums(Scored, Environment[Answer, Seen, State]):
    """One question, one answer."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    assay_scoring: ClassVar = {"pipeline": "math", "deadline_s": 120.0}

    def __init__(self) -> None:
        """Make an environment without an episode."""
        super().__init__()
        self._left = 0
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Seen:
        """Begin an episode; the seed chooses the question."""
        self._left = (seed or 0) % 10
        self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
        return Seen(question=self.question, done=False, reward=None)

    @property
    def question(self) -> str:
        """What is asked."""
        return f"What is {self._left} + 3?"

    async def step_async(self, action: Answer, timeout_s: float | None = None, **_: Any) -> Seen:
        """Judge the answer, which ends the episode."""
        del timeout_s
        self._state.step_count += 1
        told = await self.assay(action.text, label=str(self._left + 3), prompt=self.question)
        return Seen(question=self.question, done=True, **told)

    def step(self, action: Answer, timeout_s: float | None = None, **_: Any) -> Seen:
        """As `step_async`, for callers without a loop."""
        del timeout_s
        self._state.step_count += 1
        told = self.assay_sync(action.text, label=str(self._left + 3), prompt=self.question)
        return Seen(question=self.question, done=True, **told)

    @property
    def state(self) -> State:
        return self._state


app = create_fastapi_app(Sums, Answer, Seen, max_concurrent_envs=64)
