"""The exact optimum of small cases, by constraint programming (OR-tools, from the extra `dev`).

The cheapest number of workers, constant over time, for which some non-preemptive schedule meets
every due time: a bound that no queue discipline can beat, tighter than the certificate's.
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
    """Cost and workers per stage; times in whole units of any kind.

    Raises:
        ValueError: not solved within the time limit.
    """
    model = cp_model.CpModel()
    stages = len(cost)
    workers = [
        model.new_int_var(0, sum(1 for row in service if row[j]), f"workers{j}")
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
        model.add_cumulative(intervals[j], [1] * len(intervals[j]), workers[j])
    total = sum(cost[j] * workers[j] for j in range(stages))
    model.minimize(total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    if solver.status_name(solver.solve(model)) != "OPTIMAL":
        raise ValueError("not solved within the time limit")
    return round(solver.objective_value), tuple(int(solver.value(n)) for n in workers)
