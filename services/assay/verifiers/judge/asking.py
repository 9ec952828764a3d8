"""Asks a judge until its reply can be read; what the two stages share."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from assay.config.settings import JudgeProvider
from assay.edge.clock import Clock
from assay.verifiers.judge.conversation import Unreadable
from assay.verifiers.judge.permits import LocalPermits
from assay.verifiers.judge.provider import Call, JudgeError, Provider, ProviderBusy
from assay.verifiers.port import HandlerContext, Permits, Work

T = TypeVar("T")
_NONCE_BYTES: Final = 12


class NoVerdict(JudgeError):
    """The judge's replies cannot be read; the last reply's fault is in the message."""


class UnknownProvider(JudgeError):
    """The operator has configured no such provider."""


UNBLAMED: Final = (ProviderBusy, UnknownProvider)
"""Failures that no response can cause. Any other may be a response's doing: one that is too long
for the model, that its filter refuses, or that persuades a judge to give no verdict."""
TRIVIAL: Final = "0"
"""A response that every judge can judge: the control of one that it could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a judge is called."""

    temperature: float
    tokens_max: int
    json_mode: bool
    readings_max: int


class Judges:
    """The operator's providers, as a handler uses them; from several threads."""

    def __init__(self, context: HandlerContext) -> None:
        clock = Clock()
        permits: Permits = context.permits or LocalPermits(lambda: clock.monotonic_ns() / 1e9)
        self._providers = {
            name: Provider(name, settings, permits, clock=clock)
            for name, settings in _configured(context).items()
        }

    def provider(self, name: str) -> Provider:
        """The provider of that name.

        Raises:
            UnknownProvider: there is none.
        """
        found = self._providers.get(name)
        if found is None:
            known = ", ".join(sorted(self._providers)) or "none"
            raise UnknownProvider(f"verifiers.judges has no {name!r}; configured: {known}")
        return found

    def ask(
        self,
        provider: str,
        tenant: str,
        manner: Manner,
        messages: Callable[[str], Sequence[Mapping[str, str]]],
        read: Callable[[str, str], T],
    ) -> T:
        """Ask until `read(reply, nonce)` succeeds; each question has a nonce of its own.

        Raises:
            JudgeError: the calls fail, or no reply can be read.
        """
        found = self.provider(provider)
        fault = ""
        for _ in range(manner.readings_max):
            nonce = secrets.token_hex(_NONCE_BYTES)
            call = Call(
                messages=messages(nonce),
                temperature=manner.temperature,
                tokens_max=manner.tokens_max,
                json_mode=manner.json_mode,
            )
            try:
                return read(found.complete(call, tenant).text, nonce)
            except Unreadable as error:
                fault = str(error)
        raise NoVerdict(f"{provider}: {manner.readings_max} replies without a verdict: {fault}")


def _configured(context: HandlerContext) -> Mapping[str, JudgeProvider]:
    return context.verifiers.judges


def question_of(work: Work, question: str) -> str:
    """The prompt: that of the reference, or the messages before the response."""
    if question:
        return question
    earlier = list(work.messages)
    while earlier and earlier[-1].get("role") == "assistant":
        earlier.pop()
    return "\n\n".join(
        f"{one.get('role')}: {one.get('content')}"
        for one in earlier
        if isinstance(one.get("content"), str)
    )


def shown(response: str) -> str:
    """The response as text that JSON can carry."""
    return response.encode("utf-8", "replace").decode("utf-8")
