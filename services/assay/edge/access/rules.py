"""Which roles suffice for which call; what has no rule is refused.

The rule of an RPC is an option of it in `proto/assay/v1`, read from the descriptors of the modules
that are loaded. Here are the rules of what has no RPC. Invariant: each RPC and each HTTP operation
has one (`tests/edge/test_matrix.py` and `tests/reward/test_matrix.py`).
"""

from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import MethodOptions

from assay.config.access import ALL_ROLES, Role
from assay.core.errors import PermissionDenied
from assay.v1 import access_pb2

Rule = frozenset[Role]
"""Any one of these roles suffices."""
Rules = Mapping[str, Rule]
"""By the name of an HTTP operation."""
RuleOf = Callable[[str], Rule | None]
"""The same, asked for one; `None`: it has no rule."""

ANYONE: Final[Rule] = ALL_ROLES
SUBMIT: Final[Rule] = frozenset({Role.SUBMIT})
READ: Final[Rule] = frozenset({Role.READ})
STATE: Final[Rule] = frozenset({Role.SUBMIT, Role.READ})
"""Without rewards: who submits looks at them too."""
OPERATE: Final[Rule] = frozenset({Role.OPERATE})
OBSERVE: Final[Rule] = frozenset({Role.READ, Role.OPERATE})
"""Of the operator's ports."""

ENDPOINTS: Final[Rules] = {
    "SandboxFusionPing": ANYONE,
    "SandboxFusionDatasets": STATE,
    "SandboxFusionRunCode": SUBMIT,
    "SandboxFusionSubmit": SUBMIT,
    "OpenRlhfGetReward": SUBMIT,
    "SlimeRemoteRm": SUBMIT,
    "NemoGymSeedSession": SUBMIT,
    "NemoGymVerify": SUBMIT,
    "NemoGymAggregateMetrics": STATE,
    "RollSubmit": SUBMIT,
    "RollResult": READ,
    "OrsCreateSession": SUBMIT,
    "OrsCreate": SUBMIT,
    "OrsPing": SUBMIT,
    "OrsDelete": SUBMIT,
    "OrsCall": SUBMIT,
    "OrsScoreGroup": SUBMIT,
    "OrsPrompt": STATE,
    "OrsMessages": STATE,
    "OrsTaskTools": STATE,
    "OrsTools": STATE,
    "OrsSplits": STATE,
    "OrsTasks": STATE,
    "OrsNumTasks": STATE,
    "OrsTask": STATE,
    "OrsTaskRange": STATE,
    "OrsEnvironments": STATE,
    "OrsHealth": ANYONE,
    "OrsVersion": ANYONE,
}
"""Endpoints in other systems' forms (`assay.reward.endpoints`)."""
CONSOLE: Final[Rules] = {
    "ConsoleStream": OBSERVE,
    "ConsoleBatch": OBSERVE,
    "ConsolePlan": OBSERVE,
    "ConsoleResults": OBSERVE,
    "ConsoleRequest": OBSERVE,
    "ConsoleDeadLetters": OBSERVE,
    "ConsoleReplay": SUBMIT | OPERATE,
}
"""What the console's page asks (`assay.console`); `tests/console` reads them from the routes."""
GATEWAY: Final[Rules] = {
    "open_session": SUBMIT,
    "end_session": SUBMIT,
    "close_session": SUBMIT,
    "chat_completions": SUBMIT,
    "completions": SUBMIT,
    "read_session": STATE,
    "models": STATE,
    "model": STATE,
    "read_trajectories": READ,
}
REWARD: Final = "assay.v1.RewardService"
SERVICES: Final = (
    *(REWARD, "assay.v1.RolloutService", "assay.v1.PlannerService"),
    *("assay.v1.PoolService", "assay.v1.WorkService"),
)
"""Of the contract: the rules of their RPCs are options in `proto/assay/v1`."""
FOREIGN: Final[Mapping[str, Rules]] = {
    "externalscaler.ExternalScaler": {  # KEDA's: reads sizes
        "IsActive": ANYONE,
        "StreamIsActive": ANYONE,
        "GetMetricSpec": ANYONE,
        "GetMetrics": ANYONE,
    },
    "grpc.health.v1.Health": {"Check": ANYONE, "List": ANYONE, "Watch": ANYONE},
    "grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": ANYONE},
    "grpc.reflection.v1.ServerReflection": {"ServerReflectionInfo": ANYONE},
}
"""Services whose contract is another project's."""
METRICS: Final[Rule] = OBSERVE
PAYLOAD_ROUTES: Final = frozenset(
    {name for name, rule in ENDPOINTS.items() if rule == SUBMIT}
    | {"chat_completions", "completions"}
)
"""Operations over HTTP that no RPC has, and that are called many times per second."""


def rule_of_rpc(path: str) -> Rule | None:
    """The rule of `/package.Service/Method`; `None`: it has none."""
    service, _, method = path.lstrip("/").rpartition("/")
    if service not in SERVICES:
        return FOREIGN.get(service, {}).get(method)
    options = _options(service, method)
    roles = options.Extensions[access_pb2.roles] if options is not None else ()
    return frozenset(map(Role, roles)) or None


def rule_of_operation(name: str) -> Rule | None:
    """The rule of an operation of the reward API over HTTP; most have the name of their RPC."""
    if name == "ListResults":
        return READ
    return ENDPOINTS.get(name) or rule_of_rpc(f"/{REWARD}/{name}")


def is_payload_call(name: str) -> bool:
    """Whether a call is one of many per second; the audit log has these only if asked."""
    found = (_options(service, name) for service in SERVICES)
    return name in PAYLOAD_ROUTES or any(
        options is not None and options.Extensions[access_pb2.payload] for options in found
    )


def _options(service: str, method: str) -> MethodOptions | None:
    """What the contract says of an RPC; nothing of one that this process cannot serve."""
    try:
        found = descriptor_pool.Default().FindMethodByName(f"{service}.{method}")
    except KeyError:
        return None
    options: MethodOptions = found.GetOptions()
    return options


def check(roles: frozenset[Role], rule: Rule | None, what: str, *, who: str) -> None:
    """Allow a call to a caller with these roles.

    Raises:
        PermissionDenied: none of them suffices, or the call has no rule.
    """
    if rule is None:
        raise PermissionDenied(f"{what}: no role permits this call")
    if not roles & rule:
        needed = " or ".join(sorted(f"`{role}`" for role in rule))
        raise PermissionDenied(f"{what}: this token of {who!r} lacks the role {needed}")


def changes_something(rule: Rule | None) -> bool:
    """Whether a call with this rule is written to the audit log."""
    return rule is not None and Role.READ not in rule
