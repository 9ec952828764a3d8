"""A file whose content is read again when it changes, for tokens that rotate without a restart.

Invariant: what is wrong in a new version of the file changes nothing; the last good version counts,
and the log says once why the new one does not. A file that is gone counts as such a version.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from assay.edge.clock import Clock

T = TypeVar("T")

LOOK_EVERY_S: Final = 1.0
"""How long a change may stay unseen."""
FILE_BYTES_MAX: Final = 16 * 1024**2

log = structlog.get_logger(__name__)


class Watched(Generic[T]):
    """The parsed content of a file."""

    def __init__(
        self, path: Path, parse: Callable[[bytes], T], *, setting: str, clock: Clock
    ) -> None:
        """Read it for the first time.

        Args:
            path: the file.
            parse: makes the value of the content; raises ValueError.
            setting: the name of the path's setting, for errors.
            clock: decides when to look again.

        Raises:
            ValueError: it cannot be read, or its content is wrong; names the setting.
        """
        self._path = path
        self._parse = parse
        self._setting = setting
        self._clock = clock
        self._sign = self._signed()
        self._value = self._read()
        self._due_ns = clock.monotonic_ns() + int(LOOK_EVERY_S * 1e9)

    @property
    def value(self) -> T:
        """The value of the last good content; looks at the file once per `LOOK_EVERY_S`."""
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + int(LOOK_EVERY_S * 1e9)
            self._look()
        return self._value

    def _look(self) -> None:
        sign = self._signed()
        if sign == self._sign:
            return
        self._sign = sign
        try:
            self._value = self._read()
        except ValueError as error:
            log.error("access_file_refused", why=str(error))  # noqa: TRY400 no traceback: it may show digests
        else:
            log.info("access_file_read", setting=self._setting, path=str(self._path))

    def _signed(self) -> tuple[int, int, int]:
        try:
            stat = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _read(self) -> T:
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ValueError(f"{self._setting}: {error}") from error
        if len(content) > FILE_BYTES_MAX:
            raise ValueError(f"{self._setting}: {self._path} is over {FILE_BYTES_MAX} bytes")
        try:
            return self._parse(content)
        except ValueError as error:
            raise ValueError(f"{self._setting}: {self._path}: {error}") from None
