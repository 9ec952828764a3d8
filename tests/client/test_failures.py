"""The client raises what the server meant; its side of the table agrees with the server's."""

import asyncio
from typing import Any, Final

import grpc
import pytest

from assay.client import Backoff, Client
from assay.client.failures import BY_REASON, BY_STATUS, WORTH_REPEATING, error_of
from assay.client.wire import PART_BYTES
from assay.core.errors import (
    AssayError,
    DependencyDown,
    FailedPrecondition,
    PermissionDenied,
    Saturated,
    TooLarge,
)
from assay.edge.status import STATUS, detail_of

STREAMS: Final = 200
"""Of so many that are refused early, gRPC loses the status of several."""


def _failed(
    code: grpc.StatusCode, details: str, *trailers: tuple[str, str]
) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details)


@pytest.mark.parametrize("kind", STATUS)
def test_what_the_server_raises_arrives_as_it_was(kind: type[AssayError]) -> None:
    raised = kind("why", field="requests[3].response", retry_after_s=1.5)
    detail = detail_of(raised)
    arrived = error_of(_failed(detail.status.grpc, detail.message, *detail.trailers()))
    assert type(arrived) is kind
    assert (arrived.message, arrived.field) == ("why", "requests[3].response")
    assert arrived.retry_after_s == 1.5


def test_every_reason_of_the_server_is_known() -> None:
    assert set(BY_REASON.values()) == set(STATUS)


@pytest.mark.parametrize("kind", STATUS)
def test_without_a_reason_the_status_says_who_can_act(kind: type[AssayError]) -> None:
    status = STATUS[kind].grpc
    # Who sends UNIMPLEMENTED without a reason has no such call: a service of another release.
    if status is grpc.StatusCode.UNIMPLEMENTED:
        assert BY_STATUS[status] is FailedPrecondition
    else:
        assert STATUS[BY_STATUS[status]].grpc == status
    assert isinstance(error_of(_failed(status, "a proxy says no")), BY_STATUS[status])


def test_only_what_may_succeed_unchanged_is_repeated() -> None:
    assert set(WORTH_REPEATING) == {DependencyDown, Saturated}


def test_the_transports_own_size_limit_is_not_taken_for_a_full_service() -> None:
    words = "Received message larger than max (50 vs. 10)"
    error = error_of(_failed(grpc.StatusCode.RESOURCE_EXHAUSTED, words))
    assert isinstance(error, TooLarge)


def test_a_status_nobody_expects_is_an_error_all_the_same() -> None:
    error = error_of(_failed(grpc.StatusCode.DATA_LOSS, "bits fell out"))
    assert type(error) is AssayError


@pytest.mark.parametrize("delay", ["", "soon", "-5", "1.5"])
def test_a_delay_that_is_no_number_is_no_delay(delay: str) -> None:
    trailers = (("reason", "saturated"), ("retry-after-ms", delay))
    error = error_of(_failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", *trailers))
    assert error.retry_after_s == 0.0


class _Refusing(grpc.GenericRpcHandler):
    """Refuses each stream before it has read any of it."""

    def service(self, _details: object) -> Any:
        async def refuse(_messages: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            detail = detail_of(PermissionDenied("batch_id: not yours", field="batch_id"))
            await context.abort(detail.status.grpc, detail.message, detail.trailers())

        return grpc.stream_unary_rpc_method_handler(refuse)


async def test_a_stream_that_is_refused_while_it_is_sent_ends_with_its_refusal() -> None:
    server = grpc.aio.server(handlers=(_Refusing(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    backoff = Backoff(first_s=0.001, longest_s=0.01, total_s=60.0)
    async with Client(f"127.0.0.1:{port}", backoff=backoff) as client:
        sent = (client.put_artifact(b"x" * 8 * PART_BYTES) for _ in range(STREAMS))
        ends = await asyncio.gather(*sent, return_exceptions=True)
    await server.stop(None)
    assert {type(end) for end in ends} == {PermissionDenied}
    assert {end.field for end in ends if isinstance(end, AssayError)} == {"batch_id"}
