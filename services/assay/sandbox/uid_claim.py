"""Numbers that distinguish the launchers of one host; each runs its programs as its own uid.

A number is claimed by binding an abstract socket name in the host's network namespace; the kernel
frees it when the process ends for any reason. The socket can neither send nor receive, so a process
that keeps it cannot use it to leave its own network namespace.
"""

import errno
import os
import socket
from typing import Final, Self

from assay.core.errors import IsolationUnavailable

LAUNCHERS_MAX: Final = 1_024
"""Maximum number of launchers on one host at a time."""


class UidClaim:
    """A claimed number, from 0; freed by `close` or by the end of the process."""

    def __init__(self) -> None:
        self._claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for number in range(LAUNCHERS_MAX):
            try:
                self._claim.bind(f"\0assay-sandbox-{os.geteuid()}-{number}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                self._claim.shutdown(socket.SHUT_RDWR)
                self.number = number
                return
        self._claim.close()
        raise IsolationUnavailable(f"more than {LAUNCHERS_MAX} launchers on this host")

    def close(self) -> None:
        """Free the number."""
        self._claim.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
