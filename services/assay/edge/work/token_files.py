"""The worker's token: made from the one of its file, renewed in time, kept for the next life.

The next life of a host that was killed shows the token of this one, so that its leases are taken
back at once; the file is removed when the host ends in order.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from assay.core.codec import CodecError, pack, unpack
from assay.core.errors import Unauthenticated

RENEW_SHARE: Final = 0.5
"""Part of a token's time after which it is renewed."""
RENEW_S_MIN: Final = 0.25
"""Not sooner than after this, whatever an API says of its token."""


class TokenFiles:
    """The operator's token, and those of this life and the one before."""

    def __init__(self, given: Path | None, kept: Path) -> None:
        """Prepare.

        Args:
            given: the operator's token.
            kept: where this life's token is kept.
        """
        self._given = given
        self._kept = kept
        self.predecessor = self._read_kept()
        """The life before, by its own name, and its token; empty: none was killed."""

    def given(self) -> str:
        """The operator's token, as it is now.

        Raises:
            Unauthenticated: there is none.
        """
        try:
            token = self._given.read_text(encoding="utf-8").strip() if self._given else ""
        except (OSError, ValueError) as error:
            message = f"worker.api_token_file: {error}"
            raise Unauthenticated(message, field="worker.api_token_file") from error
        if not token:
            message = "worker.api_token_file: it holds no token"
            raise Unauthenticated(message, field="worker.api_token_file")
        return token

    def keep(self, worker: str, token: str) -> None:
        """Keep this life's token, whole or not at all."""
        draft = self._kept.with_suffix(".new")
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # a full disk: the leases of a killed life run out
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(pack([worker, token]))
            draft.replace(self._kept)

    def end(self) -> None:
        """This life ends in order."""
        self._kept.unlink(missing_ok=True)

    def _read_kept(self) -> tuple[str, str]:
        try:
            match unpack(self._kept.read_bytes()):
                case [str() as worker, str() as token]:
                    return worker, token
        except (OSError, CodecError):
            pass
        return "", ""
