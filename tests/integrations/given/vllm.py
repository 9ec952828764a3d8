"""In place of vLLM, which needs a GPU: an engine that says what `GIVEN_RESPONSES` has.

The variable is JSON, responses by prompt; each request of a prompt gets the next. A token is a code
point.
"""

import json
import os
import sys
import uuid
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace
from typing import Any

__version__ = "0.30.0"


class SamplingParams(SimpleNamespace):
    """Keeps whatever it is given."""


class AsyncEngineArgs:
    """All arguments are taken, and none is looked at."""

    def __init__(self, **_: object) -> None:
        """Take all that vLLM takes."""


class AsyncLLMEngine:
    def __init__(self) -> None:
        said = json.loads(os.environ["GIVEN_RESPONSES"])
        self._left = {prompt: list(texts) for prompt, texts in said.items()}
        self.output_processor = SimpleNamespace(get_num_unfinished_requests=lambda: 0)

    @classmethod
    def from_engine_args(cls, _arguments: AsyncEngineArgs) -> "AsyncLLMEngine":
        return cls()

    async def is_sleeping(self) -> bool:
        return False

    async def generate(self, prompt: Any, *_: object, **__: object) -> AsyncIterator[Any]:
        asked = "".join(map(chr, prompt["prompt_token_ids"]))
        ids = [ord(letter) for letter in self._left[asked].pop(0)]
        output = SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)
        yield SimpleNamespace(outputs=[output])


def _module(name: str, **members: object) -> None:
    made = ModuleType(f"{__name__}.{name}")
    vars(made).update(members)
    sys.modules[made.__name__] = made


_module("inputs", TokensPrompt=dict)
_module("utils", random_uuid=lambda: uuid.uuid4().hex)
