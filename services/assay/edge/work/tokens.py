"""Tokens of workers that hold no access to the store, and seals on what was leased to them.

A token says which stages it is for and until when; a second kind, made from the first when a worker
enrolls, also says which worker it is. Both are signed with a key that only the API's replicas have,
so no replica has to remember a worker, and none can be invented. Several keys allow a rotation: the
first signs, all of them verify.
"""

import base64
import functools
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.config.access import Role
from assay.core.errors import Unauthenticated
from assay.core.ids import StageName, TenantId, WorkerId
from assay.core.records import Quota
from assay.edge.access.watched import Watched
from assay.edge.auth import EXPIRED, Tenant, presented_token
from assay.edge.clock import Clock

KEY_CHARS_MIN: Final = 32
KEYS_MAX: Final = 8
TOKEN_CHARS_MAX: Final = 16_384
STAGES_MAX: Final = 256
NAME_FORM: Final = re.compile(r"[A-Za-z0-9_.:~/-]{1,200}")
SEAL_BYTES: Final = 16
NO_WORKER: Final = WorkerId("")
_PREFIX: Final = "aw1"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPass:
    """What a worker's token says."""

    stages: tuple[StageName, ...]
    expires_ns: int
    name: str
    """Name of its holder, for the audit log."""
    worker: WorkerId = NO_WORKER
    """Owner of the leases; empty: the token permits only to enroll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCaller(Tenant):
    """A worker that was authenticated."""

    work: WorkerPass


class WorkerKeys:
    """Signs and verifies."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take keys, the newest first.

        Raises:
            ValueError: there is none, there are too many, or one is too short.
        """
        if not 0 < len(keys) <= KEYS_MAX:
            message = f"1 to {KEYS_MAX} keys, not {len(keys)}"
            raise ValueError(message)
        if any(len(key) < KEY_CHARS_MIN for key in keys):
            message = f"a key is shorter than {KEY_CHARS_MIN} characters"
            raise ValueError(message)
        self._keys = tuple(keys)

    @classmethod
    def parsed(cls, content: bytes) -> "WorkerKeys":
        """The keys of a file: one per line, the newest first.

        Raises:
            ValueError: see `WorkerKeys`.
        """
        return cls([line.strip() for line in content.splitlines() if line.strip()])

    def mint(self, one: WorkerPass) -> str:
        """Make a token."""
        content = {
            "stages": list(one.stages),
            "expires_ns": one.expires_ns,
            "name": one.name,
            "worker": one.worker,
        }
        body = _text(json.dumps(content, separators=(",", ":")).encode())
        return f"{_PREFIX}.{body}.{_text(_mac(self._keys[0], 'token', [body]))}"

    def read(self, token: str) -> WorkerPass:
        """What a token says, whether it has expired or not.

        Raises:
            Unauthenticated: none of the keys signed it.
        """
        prefix, _, rest = token[:TOKEN_CHARS_MAX].partition(".")
        body, _, mac = rest.partition(".")
        if prefix != _PREFIX or not self._signed("token", [body], mac):
            raise Unauthenticated("authorization: no key of this service signed this token")
        content = json.loads(_bytes(body))
        return WorkerPass(
            stages=tuple(StageName(stage) for stage in content["stages"]),
            expires_ns=content["expires_ns"],
            name=content["name"],
            worker=WorkerId(content["worker"]),
        )

    def seal(self, parts: Iterable[object]) -> str:
        """A proof that this service said these values together."""
        return _text(_mac(self._keys[0], "lease", parts)[:SEAL_BYTES])

    def is_sealed(self, parts: Sequence[object], seal: str) -> bool:
        """Whether `seal` is a proof of them."""
        return self._signed("lease", parts, seal, SEAL_BYTES)

    def _signed(
        self, kind: str, parts: Sequence[object], mac: str, length: int | None = None
    ) -> bool:
        return any(
            hmac.compare_digest(_text(_mac(key, kind, parts)[:length]).encode(), mac.encode())
            for key in self._keys
        )


class WorkerCallers:
    """Implements `Callers` for the port of workers."""

    def __init__(self, key_file: Path, clock: Clock) -> None:
        """Read the keys; they are read again when the file changes.

        Raises:
            ValueError: the file cannot be read, or holds no good keys.
        """
        setting = "reward.worker_key_file"
        self._keys = Watched(key_file, WorkerKeys.parsed, setting=setting, clock=clock)
        self._clock = clock
        self._read = functools.lru_cache(maxsize=4_096)(_read)

    @property
    def keys(self) -> WorkerKeys:
        """As they are now."""
        return self._keys.value

    @property
    def ask_for_token(self) -> bool:
        """A worker always shows one: there is no way in without."""
        return True

    def authenticate(self, authorization: str, certificate: Iterable[str] = ()) -> WorkerCaller:
        """Return the worker with this token.

        Raises:
            Unauthenticated: no token, one that no key signed, or an expired one.
        """
        del certificate
        one = self._read(self.keys, presented_token(authorization))
        if self._clock.now_ns() >= one.expires_ns:
            raise Unauthenticated(EXPIRED)
        return WorkerCaller(
            tenant_id=TenantId(f"worker:{one.worker or one.name}"),
            quota=Quota(),
            roles=frozenset({Role.WORKER}),
            shown=one.name,
            work=one,
        )


def _read(keys: WorkerKeys, token: str) -> WorkerPass:
    return keys.read(token)


def _mac(key: bytes, kind: str, parts: Iterable[object]) -> bytes:
    fields = [kind, *map(str, parts)]
    content = "".join(f"{len(field)}:{field}" for field in fields)
    return hmac.digest(key, content.encode(), hashlib.sha256)


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
