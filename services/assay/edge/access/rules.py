"""Which roles suffice for which call; what has no rule is refused.

Invariant: each RPC of `proto/assay/v1` and each HTTP operation has a rule
(`tests/edge/test_matrix.py` reads them from the descriptors and from the routes).
"""

from collections.abc import Mapping
from typing import Final

from assay.config.access import ALL_ROLES, Role
from assay.core.errors import PermissionDenied

Rule = frozenset[Role]
"""Any one of these roles suffices."""
Rules = Mapping[str, Rule]
"""By the name of a method or of an HTTP operation."""

ANYONE: Final[Rule] = ALL_ROLES
SUBMIT: Final[Rule] = frozenset({Role.SUBMIT})
READ: Final[Rule] = frozenset({Role.READ})
STATE: Final[Rule] = frozenset({Role.SUBMIT, Role.READ})
"""Without rewards: who submits looks at them too."""
OPERATE: Final[Rule] = frozenset({Role.OPERATE})
WORKER: Final[Rule] = frozenset({Role.WORKER})
OBSERVE: Final[Rule] = frozenset({Role.READ, Role.OPERATE})
"""Of the operator's ports."""

REWARD: Final[Rules] = {
    "RegisterTask": SUBMIT,
    "Hint": SUBMIT,
    "OpenBatch": SUBMIT,
    "Submit": SUBMIT,
    "SubmitStream": SUBMIT,
    "SubmitParts": SUBMIT,
    "PutArtifact": SUBMIT,
    "SealBatch": SUBMIT,
    "Score": SUBMIT,
    "ScoreParts": SUBMIT,
    "CancelBatch": SUBMIT,
    "CancelRequests": SUBMIT,
    "GetBatch": STATE,
    "ListPipelines": STATE,
    "StreamResults": READ,
}
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
HTTP: Final[Rules] = {**REWARD, **ENDPOINTS, "ListResults": READ}
"""Operations of the reward API over HTTP; most have the name of their RPC."""
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
WORK: Final = (
    *("Enroll", "Claim", "Heartbeat", "Finish", "Sweep", "Join", "Leave", "Artifact", "Permit"),
)
"""Calls of workers without access to the store; a token permits them for its stages only."""
RPC: Final[Mapping[str, Rules]] = {
    "assay.v1.RewardService": REWARD,
    "assay.v1.RolloutService": {
        "OpenSession": SUBMIT,
        "CloseSession": SUBMIT,
        "SubmitPrompts": SUBMIT,
        "CancelRollouts": SUBMIT,
        "StreamGroups": SUBMIT,  # to read a page acknowledges the one before, which is then gone
        "GetVersion": STATE | OPERATE,
        "GetStatus": STATE | OPERATE,
        "PushWeights": OPERATE,
        "Activate": OPERATE,
        "Pause": OPERATE,
        "KeepPaused": OPERATE,
        "Continue": OPERATE,
        "StreamTrace": OPERATE,
    },
    "assay.v1.PlannerService": {
        "GetPlan": OBSERVE,
        "ExplainPlan": OBSERVE,
        "WhatIf": OBSERVE,
        "GetPools": OBSERVE,
    },
    "assay.v1.PoolService": {
        "ListPools": OBSERVE | {Role.WORKER},
        "ResizePool": frozenset({Role.WORKER, Role.OPERATE}),
    },
    "assay.v1.WorkService": dict.fromkeys(WORK, WORKER),
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
METRICS: Final[Rule] = OBSERVE
PAYLOAD_CALLS: Final = frozenset(
    {"Submit", "SubmitStream", "SubmitParts", "Score", "ScoreParts", "PutArtifact"}
    | set(WORK) - {"Enroll", "Leave"}
    | {name for name, rule in ENDPOINTS.items() if rule == SUBMIT}
    | {"chat_completions", "completions"}
)
"""Many per second; the audit log has them only if asked."""


def rule_of_rpc(path: str) -> Rule | None:
    """The rule of `/package.Service/Method`; `None`: it has none."""
    service, _, method = path.lstrip("/").rpartition("/")
    return RPC.get(service, {}).get(method)


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
    """Whether a call with this rule belongs into the audit log."""
    return rule is not None and Role.READ not in rule
