"""A handler's view of artifacts: asks the host over the slot's channel, caches recent ones.

Invariants: at most one request is open, and its answer is the next frame that arrives, other than
work that the slot gets ahead of time; what was found for one tenant's work is not used for
another's.
"""

from collections.abc import Callable
from typing import Final

from assay.core.tools.lru import TenantCache
from assay.worker.slots import messages
from assay.worker.slots.frames import BlockingFrames, ProtocolError

BYTES_REMEMBERED_MAX: Final = 32 * 1024**2
BYTES_REMEMBERED_EACH: Final = 1_024
"""Added to the size of every artifact in the cache."""


class ArtifactUnavailable(Exception):
    """The host has neither the artifact nor leave to make it; the attempt may be retried."""


class SlotArtifacts:
    """Implements `assay.verifiers.port.Artifacts` in a slot."""

    def __init__(self) -> None:
        self._frames: BlockingFrames | None = None
        self._owner = ""
        self._kept: TenantCache[str, bytes] = TenantCache(
            weight_max=BYTES_REMEMBERED_MAX,
            weigh=lambda content: len(content) + BYTES_REMEMBERED_EACH,
        )

    def connect(self, frames: BlockingFrames) -> None:
        """Set the channel to the host; the stage server made this object before it forked slots."""
        self._frames = frames

    def serve(self, owner: str) -> None:
        """What is asked for next is `owner`'s; see `owner_of`."""
        self._owner = owner

    def get(self, key: str) -> bytes | None:
        """See `Artifacts.get`."""
        kept = self._kept.get(self._owner, key)
        if kept is not None:
            return kept
        content, _ = self._ask(messages.FIND, key)
        return self._keep(key, content) if content is not None else None

    def get_or_make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """See `Artifacts.get_or_make`.

        Raises:
            ArtifactUnavailable: the producer did not finish in time.
        """
        kept = self._kept.get(self._owner, key)
        if kept is not None:
            return kept
        content, is_ours = self._ask(messages.ASK, key)
        if content is not None:
            return self._keep(key, content)
        if not is_ours:
            message = f"artifact {key} is not available"
            raise ArtifactUnavailable(message)
        try:
            made = make()
            self._ask(messages.MADE, key, made)
        except Exception:
            self._ask(messages.GIVEN_UP, key)
            raise
        return self._keep(key, made)

    def _keep(self, key: str, content: bytes) -> bytes:
        self._kept.put(self._owner, key, content)
        return content

    def _ask(self, *parts: object) -> tuple[bytes | None, bool]:
        if self._frames is None:
            raise RuntimeError("an artifact was requested before the slot was connected")
        self._frames.send(*parts)
        match self._frames.receive(leaving=messages.AHEAD):
            case None:
                raise ConnectionResetError("the host is gone")
            case ["artifact", None | bytes() as content, bool() as is_ours]:
                return content, is_ours
        raise ProtocolError("not an answer to an artifact request")
