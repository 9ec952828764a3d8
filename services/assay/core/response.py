"""What a response is: any bytes; and the text that stands for them.

Invariant: bytes and text map one to one, whatever the bytes.
"""


def response_bytes(response: str | bytes) -> bytes:
    """Return the bytes that a response is: of a text its UTF-8.

    A lone surrogate, which UTF-8 cannot say, is written in the three bytes of its number (WTF-8);
    two that belong together are one character.
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

    Each byte that is not UTF-8 stands as one lone surrogate (U+DC80 to U+DCFF): text and bytes map
    one to one, and `text.encode("utf-8", "surrogateescape")` gives the very bytes back.
    """
    return response.decode("utf-8", "surrogateescape")
