"""Variables that every client reads where it was given no argument: the token, and files of TLS.

The files count for addresses with TLS only (`grpcs://`, `https://`): the same shell may also call a
platform of its own machine in the clear.
"""

import os
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

from assay.core.errors import InvalidRequest

TOKEN: Final = "ASSAY_TOKEN"  # noqa: S105 the variable's name, not a token
CA: Final = "ASSAY_CA"
"""PEM file of the authorities to trust, in place of the system's."""
CERTIFICATE: Final = "ASSAY_CERTIFICATE"
"""PEM file of a certificate chain to show to a service that asks for one."""
KEY: Final = "ASSAY_KEY"
"""PEM file of its key."""


def token_of(given: str | None) -> str:
    """The tenant's token, or that of `ASSAY_TOKEN`; empty: none. Files end it with a line break.

    Raises:
        InvalidRequest: it can stand in no header.
    """
    told = (os.environ.get(TOKEN, "") if given is None else given).strip()
    if not told.isascii() or not told.isprintable():
        raise InvalidRequest("token: not printable ASCII", field="token")
    return told


def check_no_user(url: SplitResult) -> None:
    """Refuse an address with a user or a password, which would be ignored.

    Raises:
        InvalidRequest: it has one.
    """
    if url.username is not None:
        message = f"url: the token does not stand in it: use `token`, or {TOKEN}"
        raise InvalidRequest(message, field="url")


def authorities() -> bytes | None:
    """The authorities to trust; `None`: the system's.

    Raises:
        InvalidRequest: the file cannot be read.
    """
    name = os.environ.get(CA)
    return read(CA, Path(name)) if name else None


def identity() -> tuple[Path, Path] | None:
    """Files of a certificate and of its key.

    Raises:
        InvalidRequest: only one of them is named.
    """
    chain, key = os.environ.get(CERTIFICATE), os.environ.get(KEY)
    if bool(chain) != bool(key):
        message = f"{CERTIFICATE} and {KEY}: set both, or neither"
        raise InvalidRequest(message, field=KEY if chain else CERTIFICATE)
    return (Path(chain), Path(key)) if chain and key else None


def read(variable: str, file: Path) -> bytes:
    """The content of a file that a variable names.

    Raises:
        InvalidRequest: it cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{variable}: {error}", field=variable) from None
