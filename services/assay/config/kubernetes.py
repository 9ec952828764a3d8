"""Settings of pools that are pods: which Deployments, and how patient the planner is with them."""

import re
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from assay.config.access import TlsBranch

LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""Form of a label's value; names of stages may be longer, and end in a dot."""


class KubernetesSettings(TlsBranch):
    """The Deployments that a planner with `scaler` `kubernetes` or `keda` sizes, one per stage.

    TLS is that of KEDA's port.
    """

    namespace: str = "default"
    """Namespace of the Deployments and their pods."""
    deployments: dict[str, str] = Field(default_factory=dict)
    """Name of the Deployment of each stage that is sized: `{"python.run": "assay-python-run"}`."""
    warm_pools: dict[str, str] = Field(default_factory=dict)
    """Name of the SandboxWarmPool (agent-sandbox) of each stage whose pods are its sandboxes; sized
    in the same way. A stage has a Deployment or a warm pool."""
    selector: str = "app.kubernetes.io/name=assay,app.kubernetes.io/component=worker"
    """Label selector of these Deployments, warm pools and of their pods."""
    pool_label: str = "assay.dev/stage"
    """Label of a pod whose value is the name of its stage."""
    slots_per_pod: int = Field(default=1, gt=0)
    """Slots that one pod starts (its `worker.slots`)."""
    slots_per_pod_by_stage: dict[str, Annotated[int, Field(gt=0)]] = Field({})
    """Other values of `slots_per_pod`, by stage."""
    kubeconfig: Path | None = None
    """How to reach the API server; absent: the service account of the planner's own pod."""
    unschedulable_s: float = Field(default=120.0, ge=0)
    """A pod for which no node has room counts as quota only after this long: a cluster autoscaler
    needs a minute or two to add a node, and sees the need by such pods only."""
    gated_s: float = Field(default=5.0, ge=0)
    """A pod held back by a scheduling gate (Kueue) counts as quota after this long."""
    quota_hold_s: float = Field(default=60.0, gt=0)
    """After quota was found exhausted, this long passes until more pods are asked for again."""
    stale_s: float = Field(default=30.0, gt=0)
    """Without news from the API server for this long, pools count as unreachable."""
    mark_idle_pods: bool = True
    """Before a pool is made smaller, annotate idle pods so that they go first
    (`controller.kubernetes.io/pod-deletion-cost`). Needs the verb `patch` on pods."""
    keda_port: int = Field(default=8474, ge=0, le=65_535)
    """Port of KEDA's external scaler service, on `planner.host`; 0 = any free port."""
    keda_address: str = ""
    """`HOST:PORT` under which other planners reach this one's KEDA port. With it, a planner that
    stands by passes KEDA's questions on to the leader; empty: it answers UNAVAILABLE."""
    keda_server_name: str = ""
    """Name that the certificate of the other planners has, where `keda_address` is not it."""
    keda_open: bool = False
    """DANGER: serve KEDA beyond loopback to callers without a certificate, where `tls_client_ca` is
    absent and the network itself admits KEDA only. Logged."""

    @model_validator(mode="after")
    def _one_pool_per_stage(self) -> Self:
        if both := sorted(self.deployments.keys() & self.warm_pools.keys()):
            message = f"warm_pools: {both[0]} has a Deployment already"
            raise ValueError(message)
        for stage in (*self.deployments, *self.warm_pools):
            if LABEL_VALUE.fullmatch(stage) is None:
                message = f"stage {stage!r} cannot be a label of pods ({self.pool_label})"
                raise ValueError(message)
        return self
