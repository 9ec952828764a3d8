"""TLS of the operator's ports, at both ends: how they are called, and how their HTTP listens; and
whom the certificate of any port's caller names."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import grpc

from assay.config.access import OperatorSettings, TlsBranch

CALLS_S_MAX: Final = 30.0
"""Longer than a call to an operator's port may take."""
FORGOTTEN_S_MAX: Final = 1.0
"""How long a stop waits for calls that should have ended before."""

Options = Sequence[tuple[str, str | int]]

UNMEASURED: Final[Options] = (("grpc.http2.bdp_probe", 0),)
"""Answers are small: no pings after a call measure how much fits on the way. Each wakes threads at
both ends."""


class LeftChannels:
    """Channels that no further call uses; each is closed when its calls have ended.

    Closed at once it would cancel them, and a task whose call was cancelled under it ends as if it
    had been cancelled itself: nothing says so, and what it was to do is not done any more.
    """

    def __init__(self, *, calls_s_max: float = CALLS_S_MAX) -> None:
        """`calls_s_max`: no call takes longer."""
        self._calls_s_max = calls_s_max
        self._closing: set[asyncio.Task[None]] = set()

    def leave(self, channel: grpc.aio.Channel) -> None:
        """Close it when its calls have ended."""
        task = asyncio.create_task(channel.close(self._calls_s_max), name="left channel")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self, *present: grpc.aio.Channel | None) -> None:
        """Close all of them.

        Who closes has ended its calls before. One that it has forgotten is waited for, but not for
        long: gRPC cancels no call of a channel that it is closing already.

        Args:
            present: channels that were not left; their calls are cancelled at once. `None`: no
                channel.
        """
        await asyncio.gather(*(channel.close() for channel in present if channel is not None))
        left = list(self._closing)
        if left:
            await asyncio.wait(left, timeout=FORGOTTEN_S_MAX)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class OperatorChannels:
    """Channels to operator's ports."""

    def __init__(self, tls: OperatorSettings) -> None:
        """Read the files; with an authority or a certificate, the channels speak TLS.

        Raises:
            OSError: one cannot be read.
        """
        authority = tls.tls_ca or tls.tls_client_ca or tls.tls_certificate
        self._credentials: grpc.ChannelCredentials | None = None
        self._named: Options = ()
        if authority is not None:
            self._credentials = grpc.ssl_channel_credentials(
                authority.read_bytes(), _content(tls.tls_key), _content(tls.tls_certificate)
            )
            if tls.tls_server_name:
                self._named = (("grpc.ssl_target_name_override", tls.tls_server_name),)

    def to(self, address: str, options: Options = ()) -> grpc.aio.Channel:
        """One that connects when it is called.

        Args:
            address: `HOST:PORT`, or a target of gRPC.
            options: of the channel.
        """
        given = [*UNMEASURED, *options]
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=given)
        given += self._named
        return grpc.aio.secure_channel(address, self._credentials, options=given)


def operator_token(operator: OperatorSettings) -> tuple[tuple[str, str], ...]:
    """Metadata of one call to an operator's port, with the token as it is now, if there is one.

    Raises:
        ValueError: the token's file cannot be read, or is empty.
    """
    if operator.token_file is not None:
        from assay.edge.auth import Operator  # who has a token in the settings need not wait for it

        return Operator(operator).metadata
    if operator.token is None or not operator.token.get_secret_value():
        return ()
    return (("authorization", f"Bearer {operator.token.get_secret_value()}"),)


def _content(file: Path | None) -> bytes | None:
    return None if file is None else file.read_bytes()


def server_context(tls: TlsBranch) -> ssl.SSLContext | None:
    """For a listener that asks for a certificate, but answers probes without one; `None`: no TLS.

    Raises:
        OSError: a file cannot be read, or is not what it should be.
    """
    if tls.tls_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.tls_certificate, tls.tls_key)
    if tls.tls_client_ca is not None:
        context.load_verify_locations(tls.tls_client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def certificate_names(certificate: Any) -> tuple[str, ...]:  # noqa: ANN401 as `ssl` gives it
    """The common name and the alternative names of a peer's certificate; none without one."""
    if not certificate:
        return ()
    subject = [pair for group in certificate.get("subject", ()) for pair in group]
    common = [value for kind, value in subject if kind == "commonName"]
    return (*common, *(value for _, value in certificate.get("subjectAltName", ())))
