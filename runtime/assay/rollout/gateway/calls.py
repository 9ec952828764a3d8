"""One call for completions: placed, generated, captured, answered.

Invariant: what the answer contains was captured before it was sent; a call that is not answered to
its end (the caller disconnected, the session ended, the engine failed) leaves no turn and frees its
rollouts.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assay.core.errors import AssayError, DependencyDown, FailedPrecondition, InvalidRequest
from assay.core.trajectory import PolicyTurn
from assay.rollout.errors import InvalidRollout
from assay.rollout.gateway.bodies import AgentCompletionBody, ChatBody, effective
from assay.rollout.gateway.history import then
from assay.rollout.gateway.record import Turn
from assay.rollout.gateway.replies import ChatReply, TextReply
from assay.rollout.gateway.sessions import OVER, SEED_MASK, State, openai_field
from assay.rollout.interface.rollouts import GroupOptions, Progress
from assay.rollout.layout import RolloutOutcome
from assay.rollout.server import answers

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterator,
        Sequence,
    )

    from assay.edge.clock import Clock
    from assay.edge.metrics import Metrics
    from assay.rollout.gateway.prompts import Prompt, PromptReader
    from assay.rollout.gateway.record import PlacedTurn
    from assay.rollout.gateway.sessions import AgentSession, Sessions
    from assay.rollout.gateway.turns import AgentTurns
    from assay.rollout.interface.rollouts import Completed
    from assay.rollout.models.chat import ChatTemplate
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.server.hub import Ticket

T = TypeVar("T")
RELEASED: Final = "released"
"""Beside `Placed`, in the metrics: a turn without a response."""
TurnBody = ChatBody | AgentCompletionBody
Reply = ChatReply | TextReply


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model behind the gateway."""

    name: str
    vocab_size: int
    tokens_max: int
    """Prompt and response together."""
    tokenizer: Tokenizer | None
    template: ChatTemplate | None
    token_bytes: Sequence[bytes] = ()


class Calls:
    """Answers calls of agents."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        turns: AgentTurns,
        reader: PromptReader,
        served: ServedModel,
        clock: Clock,
        new_id: Callable[[], str],
        metrics: Metrics,
    ) -> None:
        self.sessions = sessions
        self.metrics = metrics
        self.turns = turns
        self.served = served
        self.clock = clock
        self.new_id = new_id
        self._reader = reader

    async def begin(self, session: AgentSession, body: TurnBody) -> Exchange:
        """Place the call's turns and submit them; the caller closes the exchange.

        Raises:
            InvalidRequest: names the field, as the API does.
            FailedPrecondition: the session has ended, or the model has no chat template.
            Saturated: a limit of the session, or no room in the engine.
            DependencyDown: the engine failed.
        """
        received_ns = self.clock.now_ns()
        body = effective(body, session.spec.sampling, override=session.spec.override_sampling)
        first_seed = self._seed(session, body)
        self.sessions.admit_turns(session, body.n)
        exchange = Exchange(self, session, body, received_ns)
        try:
            with exchange.named_as_in_the_api():
                exchange.place(self._read(session, body))
                options = exchange.options(first_seed)
                tickets = await self.turns.begin(exchange.places[0].prompt, options)
            exchange.started(tickets)
        except BaseException:
            exchange.close()
            raise
        return exchange

    def _read(self, session: AgentSession, body: TurnBody) -> Prompt:
        if isinstance(body, ChatBody):
            return self._reader.chat(body, session.record)
        return self._reader.completion(body, session.record)

    def _seed(self, session: AgentSession, body: TurnBody) -> int:
        seed = session.seed + session.turns if body.seed is None else body.seed
        return seed & SEED_MASK

    def reply(self, body: TurnBody, index: int, opening: str) -> Reply:
        """The choice with this index, which begins with `opening`."""
        if isinstance(body, ChatBody):
            return ChatReply(
                body,
                index,
                tokenizer=self.served.tokenizer,
                token_bytes=self.served.token_bytes,
                form=self._reader.form,
                opening=opening,
                new_id=self.new_id,
            )
        return TextReply(body, index, tokenizer=self.served.tokenizer)


class Exchange:
    """The turns of one call: `n` responses to one prompt."""

    def __init__(
        self, calls: Calls, session: AgentSession, body: TurnBody, received_ns: int
    ) -> None:
        self._calls = calls
        self._session = session
        self._body = body
        self._received_ns = self._submitted_ns = received_ns
        self._replies: list[Reply] = []
        self._prompt: Prompt | None = None
        self.places: list[PlacedTurn] = []
        self._captured: set[int] = set()
        self._tickets: list[Ticket] = []
        self._kind: type[Reply] = ChatReply if isinstance(body, ChatBody) else TextReply
        self._head = {
            "id": self._kind.prefix + calls.new_id(),
            "created": received_ns // 1_000_000_000,
            "model": calls.served.name,
        }

    # -- before the engine -----------------------------------------------------------------------
    def place(self, prompt: Prompt) -> None:
        """Reserve a place for each response."""
        self._prompt = prompt
        record = self._session.record
        for _ in range(self._body.n):
            self.places.append(record.place(prompt.ids, prompt.at, prompt.added))

    def options(self, seed: int) -> GroupOptions:
        """The group in the engine.

        Raises:
            InvalidRequest: there is no room for a response after the prompt.
        """
        body, served = self._body, self._calls.served
        room = served.tokens_max - len(self.places[0].prompt)
        if room < 1:
            field_name = self._prompt_field
            message = (
                f"{field_name}: {len(self.places[0].prompt)} tokens; the maximum context length is "
                f"{served.tokens_max} tokens with the response"
            )
            raise InvalidRequest(message, field=field_name)
        return GroupOptions(
            max_tokens=min(body.tokens_max or room, room),
            seeds=[(seed + i) & SEED_MASK for i in range(body.n)],
            sampling=body.sampling(),
            stop_ids=body.stop_ids(served.tokenizer),
            stop_strings=[stop.encode() for stop in body.stop_strings()],
            want_reward=False,
        )

    @property
    def _prompt_field(self) -> str:
        return "messages" if isinstance(self._body, ChatBody) else "prompt"

    @contextmanager
    def named_as_in_the_api(self) -> Iterator[None]:
        """Errors of the engine name its arguments; here they name the API's fields."""
        try:
            yield
        except InvalidRollout as error:
            name = openai_field(error.field)
            name = self._prompt_field if name == "prompt" else name
            name = "n" if name == "seed" and "slots" in error.message else name
            message = error.message.removeprefix(f"{error.field}: ")
            raise InvalidRequest(f"{name}: {message}", field=name) from None

    def started(self, tickets: Sequence[Ticket]) -> None:
        """The engine has them.

        Raises:
            FailedPrecondition: the session ended meanwhile.
        """
        self._tickets = list(tickets)
        opening = "" if self._prompt is None else self._prompt.opening
        self._replies = [
            self._calls.reply(self._body, index, opening) for index in range(self._body.n)
        ]
        self._submitted_ns = self._calls.clock.now_ns()
        if self._session.state is not State.OPEN:
            raise FailedPrecondition(OVER, field="session_id")
        self._session.running.update(tickets)

    def close(self) -> None:
        """Free what the engine has of it, and the places that no response took."""
        for ticket in self._tickets:
            self._calls.turns.tickets.give_up(ticket)
            self._session.running.discard(ticket)
        self._session.used_ns = self._calls.clock.monotonic_ns()  # a turn may last long
        for index, place in enumerate(self.places):
            if index not in self._captured:
                self._session.record.release(place)
                self._calls.metrics.turn_ended(how=RELEASED)
        self._captured.update(range(len(self.places)))

    # -- the answer ------------------------------------------------------------------------------
    async def whole(self) -> dict[str, Any]:
        """The answer in one piece.

        Raises:
            DependencyDown: the engine failed.
            FailedPrecondition: the session ended.
        """
        try:
            completed = [await ticket.done for ticket in self._tickets]
            choices = []
            for index, one in enumerate(completed):
                part = Progress(
                    tokens=one.tokens, logps=one.logps, policy_versions=one.policy_versions
                )
                _check(one)
                choices.append(self._replies[index].whole(one, part))
            self._capture_all(completed, [choice["finish_reason"] for choice in choices])
            return {
                **self._head,
                "object": self._kind.object,
                "choices": choices,
                "usage": self._usage(completed),
                **self._extras(),
            }
        finally:
            self.close()

    async def events(self) -> AsyncIterator[str]:
        """The answer as server-sent events; an error in the middle is one of them."""
        try:
            async for event in self._events():
                yield event
        except AssayError as error:
            yield answers.event(answers.error_of(error))
        finally:
            self.close()
        yield answers.END

    async def _events(self) -> AsyncIterator[str]:
        kind = self._kind.object
        head = {**self._head, "object": kind + ".chunk" if kind == ChatReply.object else kind}
        first = {**head, **self._extras()}
        tickets = self._calls.turns.tickets
        async for index, part in tickets.parts(*self._tickets):
            yield answers.event({**first, "choices": self._replies[index].chunk(part)})
            first = head
        completed = [ticket.done.result() for ticket in self._tickets]
        for one in completed:
            _check(one)
        ends = [
            self._replies[index].end(one, Progress.none()) for index, one in enumerate(completed)
        ]
        self._capture_all(completed, [choices[-1]["finish_reason"] for choices in ends])
        for choices in ends:
            yield answers.event({**first, "choices": choices})
            first = head
        options = self._body.stream_options
        if options is not None and options.include_usage:
            yield answers.event({**head, "choices": [], "usage": self._usage(completed)})

    def _extras(self) -> dict[str, Any]:
        """For `return_token_ids`: the prompt that the engine was given."""
        if not self._body.return_token_ids:
            return {}
        return {"prompt_token_ids": list(self.places[0].prompt)}

    def _usage(self, completed: Sequence[Completed]) -> dict[str, int]:
        return answers.usage(len(self.places[0].prompt), *(len(one.tokens) for one in completed))

    def _capture_all(self, completed: Sequence[Completed], finish_reasons: Sequence[str]) -> None:
        """Commit the turns.

        Raises:
            FailedPrecondition: the session ended after the engine and before this: its answer is
                being judged without them.
        """
        if self._session.state is not State.OPEN:
            raise FailedPrecondition(OVER, field="session_id")
        for index, (one, reason) in enumerate(zip(completed, finish_reasons, strict=True)):
            self._capture(index, one, reason)

    def _capture(self, index: int, completed: Completed, finish_reason: str) -> None:
        place, session, reply = self.places[index], self._session, self._replies[index]
        turn = Turn(
            how=place.how,
            drifted=place.drifted,
            finish_reason=finish_reason,
            tokens=len(completed.tokens),
            received_ns=self._received_ns,
            submitted_ns=self._submitted_ns,
            decoded_ns=self._calls.clock.now_ns(),
        )
        policy = PolicyTurn(
            ids=completed.tokens, logp=completed.logps, versions=completed.policy_versions
        )
        digest, text = self._identity(reply, completed)
        session.record.commit(place, policy, turn, digest=digest, text=text)
        self._calls.metrics.turn_ended(how=place.how, drifted=place.drifted)
        self._captured.add(index)
        session.answer = reply.said

    def _identity(self, reply: Reply, completed: Completed) -> tuple[bytes | None, str | None]:
        """Of the conversation with the reply: the digest of its messages, or its text."""
        prompt, tokenizer = self._prompt, self._calls.served.tokenizer
        if prompt is None:
            return None, None
        if isinstance(reply, ChatReply):
            return None if prompt.digest is None else then(prompt.digest, reply.message()), None
        ended = completed.tokens and tokenizer and completed.tokens[-1] in tokenizer.eos_ids
        if prompt.text is None or tokenizer is None or ended:
            return None, None
        return None, prompt.text + tokenizer.decode(list(completed.tokens))


def _check(completed: Completed) -> None:
    """Only a response that ended by itself is an answer."""
    if completed.outcome is not RolloutOutcome.COMPLETED:
        raise DependencyDown(f"the engine ended the response as {completed.outcome.name}")


async def unless_gone(
    gone: Callable[[], Coroutine[Any, Any, None]], work: Callable[[], Awaitable[T]]
) -> T | None:
    """The result of `work`, which is cancelled when `gone` returns first (then None).

    The work runs in the caller's own task: a second one per turn would cost more than its body.
    """
    working = asyncio.current_task()
    if working is None:
        raise RuntimeError("not in a task")
    left = False

    async def watch() -> None:
        nonlocal left
        await gone()
        left = True
        working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work()
    except asyncio.CancelledError:
        if left and not working.uncancel():
            return None
        raise
    finally:
        watching.cancel()
