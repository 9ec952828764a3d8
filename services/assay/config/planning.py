"""How plans are made: the one settings class of the planner's core and of the simulator.

`PlannerSettings` inherits it, so each setting has one name, one default and one description in
the settings tree, in the code and in `docs/planner.md`.
"""

from pydantic import Field

from assay.config.branch import Branch


class PriorSettings(Branch):
    """Assumptions about a task when neither it nor a task with the same stages has history."""

    span_s: float = Field(default=300.0, gt=0)
    """Requests arrive evenly over this time, in seconds."""
    median_share: float = Field(default=0.25, gt=0, le=1)
    """Median duration of a stage, as a share of its timeout."""
    sigma: float = Field(default=1.0, ge=0)
    """Spread of the durations: standard deviation of their logarithm."""


class PlanSettings(Branch):
    """How plans are made, and how often."""

    epsilon: float = Field(default=0.05, ge=0, lt=1)
    """Share of batches that may miss their delay budget."""
    delay_budget_s: float | None = Field(default=None, ge=0)
    """D of tasks that name none; absent: the smaller of 5 s and 2 % of the batch's span."""
    futures: int = Field(default=20, gt=0, le=1_000)
    """Simulated futures per plan."""
    shape_futures: int = Field(default=10, gt=0, le=1_000)
    """Futures used when planning again with known peaks; at most `futures` are used."""
    spare_slots: int = Field(default=1, ge=0)
    """Up to this many slots per stage are held if any future needs them, plus the same number for
    late requests; otherwise the last requests of a batch would wait for them. 5 suits pools of
    hundreds; a stage keeps at most a hundredth of its peak, and one at least."""
    history_batches: int = Field(default=8, gt=0)
    """Finished batches per task that plans are based on (the store keeps
    `store.history_batches`)."""
    tick_s: float = Field(default=2.0, gt=0)
    """How often the plan is applied and compared with what happens; also the length of its bins."""
    replan_s: float = Field(default=15.0, gt=0)
    """Longest time until a new plan is made with the known peaks."""
    search_s: float = Field(default=60.0, gt=0)
    """Longest time until the peaks are searched for again."""
    hold_s: float = Field(default=5.0, ge=0)
    """A slot is kept through a gap in its work of this length, even if starting one takes less."""
    bins_max: int = Field(default=256, gt=0, le=4_096)
    """Horizon of a plan, in bins of `tick_s`."""
    repeat_share: float = Field(default=0.6, gt=0, le=4)
    """Share of `epsilon` that a plan of other batches than before may use: each further plan of a
    batch adds risk, and mends what an earlier one left to chance."""
    rise_share: float = Field(default=1.8, gt=0, le=10)
    """The peaks of the same batches rise only where more than this share of `epsilon` fails: what
    is there stays until it clearly does not do."""
    shape_quantile: float = Field(default=0.7, ge=0, le=1)
    """Slots of a bin: this quantile, over the futures, of the peak number of running requests."""
    slack_s: float = Field(default=0.5, ge=0)
    """Where D cannot be met, accept an end at most this much later than the best possible one."""
    guard: float = Field(default=0.2, ge=0, le=1)
    """Share of D that plans use; the rest is a reserve for what no future foresaw."""
    peak_factors: tuple[float, ...] = Field(default=(1.0, 1.25), min_length=1, max_length=8)
    """Multiples of the smallest sufficient peaks that are compared by total cost: slots,
    their peak and trainer time lost to delay."""
    peak_price_s: float = Field(default=30.0, ge=0)
    """Price of capacity for the peak: slot-seconds that each slot of it costs besides the time that
    it is held. 0 = capacity that is not used costs nothing."""
    start_price_s: float = Field(default=0.0, ge=0)
    """Price of a start: slot-seconds that it costs besides the time that the slot is held."""
    resize_price_s: float = Field(default=5.0, ge=0)
    """Price of a change of a pool's target: slot-seconds of the most expensive stage. Slots are
    kept, or ordered sooner than needed, while that costs less: fewer changes of cheap pools. A
    slot of which too few gaps are known is kept idle for its start-up time and twice this, in
    slot-seconds of its own."""
    keep_price_s: float = Field(default=40.0, ge=0)
    """Price of releasing one of the lowest slots of a pool and of having it again, besides its
    start: slot-seconds of its own. An idle one is kept for as long as its past gaps make that
    cheaper, and for no longer than this. More where people wait for lone calls, less where a slot
    is an expensive GPU. 0 = pools follow the plan."""
    standby_share: float = Field(default=1.0, ge=0, le=100)
    """Slots that a task's next batch needs sooner after its opening than they start are held before
    it opens. For a batch that does not come they cost at most this share of what the capacity of a
    batch costs. 0 = nothing is held before a batch opens."""
    startup_sigmas: float = Field(default=1.28, ge=0, le=4)
    """Slots are ordered so early that one which starts so many standard deviations more slowly than
    the median of those measured is ready in time. 1.28 = nine in ten; more costs idle slots."""
    no_barrier: tuple[str, ...] = Field(default=(), max_length=1_000)
    """Tasks whose trainers use rewards as they come and not batch by batch: patterns of
    `TENANT/TASK`, with `*` and `?`. D then bounds how much later than without queueing each single
    request may end, whatever becomes of its batch."""
    seed: int = Field(default=0, ge=0)
    """Seed of the simulated futures."""
    prior: PriorSettings = PriorSettings()
    """Assumptions about tasks without history."""
