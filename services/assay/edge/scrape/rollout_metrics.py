"""Metrics of the rollout service and its gateway; a part of `assay.edge.metrics.Metrics`."""

from typing import Final

from assay.edge.scrape.definer import Definer

_VERSIONS: Final = (0, 1, 2, 4, 8, 16, 32)
_STAGE_S: Final = (
    0.002,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    300,
    1800,
)
_PAUSE_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10)


class RolloutMetrics:
    """One method per event of the rollout service and of the gateway."""

    def _define_rollouts(self, new: Definer) -> None:
        self._rollouts = new.gauge(
            "assay_rollouts", "Rollouts in the engine, per state: in_flight, reward, free.",
            ("state",), "livesum",
        )  # fmt: skip
        self._rollout_groups = new.gauge(
            "assay_rollout_groups", "Groups of open sessions, per state: waiting, running, ended.",
            ("state",), "livesum",
        )  # fmt: skip
        self._credits = new.gauge(
            "assay_rollout_credits", "Free credits of the engine, per limit.", ("limit",), "livesum"
        )
        self._tokens = new.counter(
            "assay_rollout_tokens_total", "Tokens that rollouts generated.", ()
        )
        self._groups_read = new.counter(
            "assay_rollout_groups_read_total", "Groups read, or dropped as too stale, per result.",
            ("result",),
        )  # fmt: skip
        self._rollouts_again = new.counter(
            "assay_rollouts_retried_total",
            "Rollouts generated again after a failure in the engine.", (),
        )  # fmt: skip
        self._staleness = new.histogram(
            "assay_rollout_staleness_versions",
            "Versions between a group's oldest token and the weights at its reading.",
            (), _VERSIONS,
        )  # fmt: skip
        self._staged = new.histogram(
            "assay_weights_stage_seconds",
            "Seconds from a push's first message until it is staged, per kind: full, lora, oft.",
            ("kind",), _STAGE_S,
        )  # fmt: skip
        self._swapped = new.histogram(
            "assay_weights_pause_seconds", "Seconds an activation held the engine.", (), _PAUSE_S
        )

    def _define_gateway(self, new: Definer) -> None:
        self._gateway_sessions = new.gauge(
            "assay_gateway_sessions", "Sessions of agents, per state: open, judging, ended.",
            ("state",), "livesum",
        )  # fmt: skip
        self._gateway_waiting = new.gauge(
            "assay_gateway_turns_waiting", "Turns that wait for room in the engine.", (), "livesum"
        )
        self._gateway_turns = new.counter(
            "assay_gateway_turns_total",
            "Turns of agents, per `how` they ended: started, joined, forked, released.", ("how",),
        )  # fmt: skip
        self._gateway_drifted = new.counter(
            "assay_gateway_drifted_total",
            "Turns whose history was tokenized to other ids than those sampled.", (),
        )  # fmt: skip

    # -- rollouts ------------------------------------------------------------------------------
    def rollouts_seen(
        self, *, states: dict[str, int], groups: dict[str, int], credits: dict[str, int]
    ) -> None:
        """Current counts of the rollout service; name every state and limit each time."""
        for gauge, counts in (
            (self._rollouts, states),
            (self._rollout_groups, groups),
            (self._credits, credits),
        ):
            for name, count in counts.items():
                gauge.labels(name).set(count)

    def rollout_ended(self, *, tokens: int) -> None:
        """A rollout ended with this many generated tokens."""
        self._tokens.inc(tokens)

    def group_read(self, *, result: str, staleness: int) -> None:
        """A group was read: `varied`, `degenerate` or `unscored`."""
        self._groups_read.labels(result).inc()
        self._staleness.observe(staleness)

    def groups_stale(self, *, dropped: int, retried: int) -> None:
        """Groups were too stale to be read."""
        self._groups_read.labels("stale_dropped").inc(dropped)
        self._groups_read.labels("stale_retried").inc(retried)

    def rollout_retried(self) -> None:
        """A rollout that failed in the engine is generated again."""
        self._rollouts_again.inc()

    def weights_staged(self, *, kind: str, seconds: float) -> None:
        """A push of kind `full`, `lora` or `oft` is staged."""
        self._staged.labels(kind).observe(seconds)

    def weights_activated(self, *, pause_s: float) -> None:
        """The engine continues with other weights."""
        self._swapped.observe(pause_s)

    # -- gateway -------------------------------------------------------------------------------
    def gateway_seen(self, *, sessions: dict[str, int], waiting: int) -> None:
        """Current sessions of agents; name every state each time. Turns that wait."""
        for state, count in sessions.items():
            self._gateway_sessions.labels(state).set(count)
        self._gateway_waiting.set(waiting)

    def turn_ended(self, *, how: str, drifted: bool = False) -> None:
        """A turn `started`, `joined` or `forked` a trajectory, or was `released`: no response."""
        self._gateway_turns.labels(how).inc()
        if drifted:
            self._gateway_drifted.inc()
