"""Who looks at the console: a tenant, who sees its own, or the operator, who sees all."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from assay.core.errors import NotFound, Unauthenticated
from assay.core.ids import BatchId, TenantId
from assay.core.store_limits import no_batch
from assay.edge.auth import Operator, Tenant, Tenants

OPERATOR_ID: Final = TenantId("(operator)")
"""Stands for the operator at the door; not a name, so no tenant can have it."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """What a caller may see."""

    tenant: TenantId | None
    """The tenant whose data it sees; `None`: the operator, who sees those of all."""

    def owner(self, named: str, batch_id: BatchId) -> TenantId:
        """Whose batch a call is about.

        Args:
            named: the tenant that the caller names; empty: none.
            batch_id: the batch.

        Raises:
            NotFound: another tenant's, in the words for one that does not exist; or the operator
                named no tenant.
        """
        if self.tenant is None:
            if not named:
                raise NotFound("tenant: name the tenant of the batch", field="tenant")
            return TenantId(named)
        if named and named != self.tenant:
            raise no_batch(batch_id)
        return self.tenant


def viewer_of(caller: Tenant) -> Viewer:
    """What an admitted caller may see."""
    return Viewer(None if caller.tenant_id == OPERATOR_ID else caller.tenant_id)


class ConsoleCallers:
    """Admits the operator's tokens and those of tenants (`assay.edge.auth.Callers`).

    Where no one needs a token, everyone is the operator, as at the operator's ports. Where only the
    operator has one, a caller without a token is the tenant `default`, as elsewhere in the API.
    """

    def __init__(self, tenants: Tenants, operator: Operator) -> None:
        self._tenants = tenants
        self._operator = operator

    @property
    def ask_for_token(self) -> bool:
        """False when every caller is the operator."""
        return self._tenants.ask_for_token or self._operator.ask_for_token

    def authenticate(self, authorization: str, certificate: Iterable[str] = ()) -> Tenant:
        """Return the caller with this token, or with a client certificate of these names.

        Raises:
            Unauthenticated: no one has it.
        """
        if not self.ask_for_token:
            return replace(self._operator.authenticate(""), tenant_id=OPERATOR_ID)
        if authorization and self._operator.ask_for_token:
            try:
                found = self._operator.authenticate(authorization)
            except Unauthenticated:
                if not self._tenants.ask_for_token:
                    raise
            else:
                return replace(found, tenant_id=OPERATOR_ID)
        return self._tenants.authenticate(authorization, certificate)
