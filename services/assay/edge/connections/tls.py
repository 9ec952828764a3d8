"""TLS of a gRPC port's clients: it ends in front of gRPC, so that what they send can be seen.

Sans-I/O: bytes in, bytes out. A client shows a certificate before anything of it is read, if the
port asks for one. Resumption, renegotiation and compression are off: each handshake is a whole one,
and there is one per connection.
"""

import ssl
from pathlib import Path
from typing import Final

from assay.edge.access.channels import certificate_names
from assay.edge.connections.passage import SMALL_BYTES, Broken

HANDSHAKE_BYTES_MAX: Final = 64 * 1024
"""Of a client, with its certificates."""
_RECORD_BYTES: Final = 16 * 1024
PROTOCOL: Final = "h2"


def server_tls(
    certificate: Path | None, key: Path | None, client_ca: Path | None, *, setting: str
) -> ssl.SSLContext | None:
    """For a port; `None`: its clients speak no TLS.

    Args:
        certificate: PEM chain.
        key: PEM private key.
        client_ca: PEM authorities; clients must show a certificate of one of them.
        setting: the port's setting, for errors.

    Raises:
        OSError: the files cannot be read, or do not match.
    """
    if certificate is None or key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols([PROTOCOL])
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        raise OSError(f"{setting}: certificate, key and authorities: {error}") from error
    return context


class NoSession(Broken):
    """The two do not come to terms: no TLS, or no certificate that the other believes."""


class TlsSession:
    """The server's side of TLS on one connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        """Nothing has come yet."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._received = 0
        self._is_shaken = False
        self.has_ended = False
        """The client has said that it sends no more."""
        self.small_records = 0
        """Of what the last call of `receive` returned: each costs as much as a larger one."""
        self.names: tuple[str, ...] = ()
        """In the client's certificate."""

    def receive(self, data: bytes) -> bytes:
        """The client has sent this; returns what it says.

        Raises:
            NoSession: it does not speak TLS, shows no certificate, or does not believe ours.
            Broken: its handshake is too long, or what it says behind it is malformed.
        """
        self._incoming.write(data)
        self.small_records = 0
        try:
            return self._said() if self._shaken(len(data)) else b""
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            kind = Broken if self._is_shaken else NoSession
            raise kind(f"TLS: {error.reason}") from None

    def _shaken(self, received: int) -> bool:
        if self._is_shaken:
            return True
        self._received += received
        if self._received > HANDSHAKE_BYTES_MAX:
            raise Broken("TLS: a long handshake")
        self._session.do_handshake()
        self.names = certificate_names(self._session.getpeercert())
        self._is_shaken = True
        return True

    def _said(self) -> bytes:
        parts = []
        try:
            while part := self._session.read(_RECORD_BYTES):
                parts.append(part)
            self.has_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLEOFError:
            self.has_ended = True
        self.small_records = sum(len(part) < SMALL_BYTES for part in parts)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def send(self, data: bytes) -> bytes:
        """What to send for the client to read this; with nothing: what is due besides."""
        if data:
            self._session.write(data)
        return self._outgoing.read()
