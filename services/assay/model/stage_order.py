"""One order of all stages that is consistent with every pipeline. Pure."""

from collections.abc import Iterable, Sequence

from assay.core.ids import StageName


def in_pipeline_order(pipelines: Iterable[Sequence[StageName]]) -> tuple[StageName, ...]:
    """All stages, each after those that come before it in any pipeline; where two pipelines
    contradict each other, the earlier one wins."""
    before: dict[StageName, list[StageName]] = {}
    for pipeline in pipelines:
        for k, stage in enumerate(pipeline):
            known = before.setdefault(stage, [])
            known.extend(one for one in pipeline[:k] if one not in known)
    order: list[StageName] = []
    while before:
        free = next((s for s, needs in before.items() if all(n not in before for n in needs)), None)
        order.append(next(iter(before)) if free is None else free)
        del before[order[-1]]
    return tuple(order)
