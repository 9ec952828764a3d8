"""An open session: prompts in, groups out."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from assay.client import wire
from assay.client.rollouts import messages
from assay.core.errors import AssayError
from assay.core.tools.splitting import MESSAGE_BYTES, shifted
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from assay.client.connection import Connection
    from assay.client.rollouts.types import Prompt, RolloutGroup, StepBatch
    from assay.v1 import rollout_pb2_grpc

MESSAGE_PROMPTS: Final = 256


class RolloutSession:
    """An open session."""

    def __init__(
        self,
        session_id: str,
        connection: Connection,
        stub: rollout_pb2_grpc.RolloutServiceAsyncStub,
        *,
        tokens_max: int,
    ) -> None:
        self.session_id = session_id
        self.tokens_max = tokens_max
        """Tokens of prompt and response together."""
        self._connection = connection
        self._stub = stub
        self._cursor = 0

    async def submit(self, prompts: Iterable[Prompt], *, batches: Iterable[StepBatch] = ()) -> int:
        """Send prompts, in as many messages as they need; return how many were new.

        Raises:
            InvalidRequest: a prompt is wrong; `field` says which (`prompts[3].k`).
            Conflict: a `group_id` is open with other content.
            Saturated: too many groups were open during the whole time of the backoff.
        """
        made = [
            messages.prompt_message(prompt, f"prompts[{i}]") for i, prompt in enumerate(prompts)
        ]
        said = [messages.batch_message(batch, f"batches[{i}]") for i, batch in enumerate(batches)]
        runs = wire.runs(made, bytes_max=MESSAGE_BYTES, items_max=MESSAGE_PROMPTS)
        accepted = 0
        for first, run in list(runs) or [(0, ())]:
            request = rollout_pb2.SubmitPromptsRequest(
                session_id=self.session_id,
                prompts=run,
                batches=said if first + len(run) == len(made) else (),
                acknowledged=self._cursor,
            )
            try:
                answer = await self._connection.call(self._stub.SubmitPrompts, request)
            except AssayError as error:
                raise shifted(error, first) from error
            accepted += answer.accepted
        return accepted

    async def groups(self) -> AsyncGenerator[RolloutGroup, None]:
        """Yield groups as they end, starting after the last acknowledged one, without end.

        A lost connection is restored. No group comes twice; those that are not acknowledged come
        again when this is called again.
        """

        def request_from(received: int) -> rollout_pb2.StreamGroupsRequest:
            return rollout_pb2.StreamGroupsRequest(
                session_id=self.session_id, cursor=self._cursor, after=received, records=True
            )

        async def again(cursor: int) -> int:
            return cursor

        stream = self._connection.stream(
            self._stub.StreamGroups, request_from, self._cursor, again=again
        )
        async with aclosing(stream):
            async for message in stream:
                first = message.cursor - len(message.groups) + 1
                for position, group in enumerate(message.groups, start=first):
                    yield messages.group(group, position)

    def acknowledge(self, group: RolloutGroup) -> None:
        """Mark this group and those before it as handled: they do not come again, and the service
        drops them when it is notified, with the next `submit` or after a lost connection."""
        self._cursor = max(self._cursor, group.cursor)

    async def cancel(self, group_ids: Iterable[str] = ()) -> int:
        """Ask to end groups (none named: all); return the number of rollouts."""
        request = rollout_pb2.CancelRolloutsRequest(session_id=self.session_id, group_ids=group_ids)
        return (await self._connection.call(self._stub.CancelRollouts, request)).rollouts

    async def close(self) -> int:
        """Cancel what has not ended and delete the session; return how many rollouts ended."""
        request = rollout_pb2.CloseSessionRequest(session_id=self.session_id)
        return (await self._connection.call(self._stub.CloseSession, request)).cancelled
