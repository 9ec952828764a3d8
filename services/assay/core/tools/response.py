"""A response is any bytes; this maps them to text and back.

Invariant: bytes and text map one to one, whatever the bytes.
"""

from typing import Final

CUT: Final = "\0cut"
"""Name of a file that no caller can send. With it a request has the beginning of a response that is
longer than the service takes; its content is the length. The response is judged as too long."""
SENT_BYTES_MAX: Final = 11 * 1024**2
"""Clients send no more of a response: a message can hold it, and it is too long for any default."""


def response_bytes(response: str | bytes) -> bytes:
    """Return the bytes of a response; text is encoded as UTF-8.

    A lone surrogate, which UTF-8 cannot encode, becomes the three bytes of its code point (WTF-8);
    a surrogate pair is one character.
    """
    if isinstance(response, bytes):
        return response
    try:
        return response.encode()
    except UnicodeEncodeError:
        paired = response.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return paired.encode("utf-8", "surrogatepass")


def response_text(response: bytes) -> str:
    """Return the text that verifiers read.

    Each byte that is not UTF-8 becomes one lone surrogate (U+DC80 to U+DCFF): text and bytes map
    one to one, and `text.encode("utf-8", "surrogateescape")` returns the same bytes.
    """
    return response.decode("utf-8", "surrogateescape")
