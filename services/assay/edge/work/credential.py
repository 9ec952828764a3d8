"""The credential of one worker host's pool service.

A planner shows it to the address that the host registered, and to no other; what listens there
learns only what the host itself made up. It permits what a planner does: to list and to size the
pools of this life of the host.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from assay.config.access import Role
from assay.core.records import Quota
from assay.edge.auth import OPERATOR, Operator, Tenant, presented_token


def new_credential() -> str:
    """One that cannot be guessed, for one life of a host."""
    return secrets.token_urlsafe(32)


class PoolCallers:
    """Implements `Callers` for the pool service: planners, and the operator."""

    def __init__(self, operator: Operator, credential: str) -> None:
        self._operator = operator
        self._digest = hashlib.sha256(credential.encode()).digest()
        self._planner = Tenant(
            tenant_id=OPERATOR, quota=Quota(), roles=frozenset({Role.WORKER}), shown="planner"
        )

    @property
    def ask_for_token(self) -> bool:
        """False when the port is protected by listening on loopback only."""
        return self._operator.ask_for_token

    def authenticate(self, authorization: str, certificate: Iterable[str] = ()) -> Tenant:
        """Return who calls.

        Raises:
            Unauthenticated: neither the host's own credential nor a token of the operator.
        """
        if self._operator.ask_for_token and authorization:
            shown = presented_token(authorization).encode("utf-8", "surrogateescape")
            if hmac.compare_digest(hashlib.sha256(shown).digest(), self._digest):
                return self._planner
        return self._operator.authenticate(authorization, certificate)
