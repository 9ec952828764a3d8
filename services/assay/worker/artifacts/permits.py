"""A handler's view of rate limits that all workers share: asks the host over the slot's channel.

Threads of a handler may ask, one at a time, while its main thread asks for nothing else.
"""

import threading

from assay.verifiers.port import RateLimits
from assay.worker.slots import messages
from assay.worker.slots.frames import BlockingFrames, ProtocolError


class SlotPermits:
    """Implements `assay.verifiers.port.Permits` in a slot."""

    def __init__(self, frames: BlockingFrames) -> None:
        self._frames = frames
        self._lock = threading.Lock()

    def take(self, tenant: str, provider: str, limits: RateLimits, tokens: int) -> float:
        """See `Permits.take`."""
        asked = [
            ("requests", 1, limits.requests_per_minute),
            ("tokens", tokens, limits.tokens_per_minute),
        ]
        if not any(most for _, _, most in asked):
            return 0.0
        with self._lock:
            self._frames.send(messages.PERMIT, tenant, provider, asked)
            match self._frames.receive(leaving=messages.AHEAD):
                case None:
                    raise ConnectionResetError("the host is gone")
                case [messages.PERMITTED, int() | float() as wait_s]:
                    return float(wait_s)
        raise ProtocolError("not an answer to a request for a permit")
