"""The exact optimum of small cases, by constraint programming (OR-tools, from the extra `dev`).

`least_cost`: the cheapest number of slots, constant over time, for which some non-preemptive
schedule meets every due time. `least_idle`: the lowest weighted time that trainers wait, of any
non-preemptive schedule on a given number of slots. Bounds that no queue discipline can beat.
"""

from collections.abc import Sequence

from ortools.sat.python import cp_model


def least_cost(
    arrived: Sequence[int],
    service: Sequence[Sequence[int]],
    due: Sequence[int],
    cost: Sequence[int],
    *,
    limit_s: float = 20.0,
) -> tuple[int, tuple[int, ...]]:
    """Cost and slots per stage; times in whole units of any kind.

    Raises:
        ValueError: not solved within the time limit.
    """
    model = cp_model.CpModel()
    stages = len(cost)
    slots = [
        model.new_int_var(0, sum(1 for row in service if row[j]), f"slots{j}")
        for j in range(stages)
    ]
    intervals: list[list[cp_model.IntervalVar]] = [[] for _ in range(stages)]
    for i, row in enumerate(service):
        ready: cp_model.LinearExprT = arrived[i]
        for j in range(stages):
            if row[j] == 0:
                continue
            start = model.new_int_var(arrived[i], due[i] - row[j], f"start{i}.{j}")
            model.add(start >= ready)
            intervals[j].append(model.new_fixed_size_interval_var(start, row[j], f"run{i}.{j}"))
            ready = start + row[j]
    for j in range(stages):
        model.add_cumulative(intervals[j], [1] * len(intervals[j]), slots[j])
    total = sum(cost[j] * slots[j] for j in range(stages))
    model.minimize(total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    if solver.status_name(solver.solve(model)) != "OPTIMAL":
        raise ValueError("not solved within the time limit")
    return round(solver.objective_value), tuple(int(solver.value(n)) for n in slots)


def least_idle(
    arrived: Sequence[int],
    service: Sequence[Sequence[int]],
    batch_of: Sequence[int],
    natural: Sequence[int],
    rates: Sequence[int],
    caps: Sequence[int],
    *,
    limit_s: float = 20.0,
) -> int:
    """Sum over batches of the trainer's rate times what the batch ends after `natural`.

    Args:
        arrived: (n,) in whole units of any kind.
        service: (n, stages) 0 = skipped.
        batch_of: (n,) index into `natural` and `rates`.
        natural: (batches,) end without any queueing.
        rates: (batches,) cost of a unit of time of its trainer.
        caps: (stages,) slots.
        limit_s: time limit of the solver.

    Raises:
        ValueError: not solved within the time limit.
    """
    model = cp_model.CpModel()
    horizon = max(arrived) + sum(sum(row) for row in service)
    ends = [model.new_int_var(at, horizon, f"end{b}") for b, at in enumerate(natural)]
    intervals: list[list[cp_model.IntervalVar]] = [[] for _ in caps]
    for i, row in enumerate(service):
        ready: cp_model.LinearExprT = arrived[i]
        for j, took in enumerate(row):
            if took == 0:
                continue
            start = model.new_int_var(arrived[i], horizon, f"start{i}.{j}")
            model.add(start >= ready)
            intervals[j].append(model.new_fixed_size_interval_var(start, took, f"run{i}.{j}"))
            ready = start + took
        model.add(ends[batch_of[i]] >= ready)
    for j, cap in enumerate(caps):
        model.add_cumulative(intervals[j], [1] * len(intervals[j]), cap)
    late = sum(rates[b] * (ends[b] - at) for b, at in enumerate(natural))
    model.minimize(late)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    if solver.status_name(solver.solve(model)) != "OPTIMAL":
        raise ValueError("not solved within the time limit")
    return round(solver.objective_value)
