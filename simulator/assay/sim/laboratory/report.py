"""Tables of the laboratory as text."""

from collections.abc import Iterator, Sequence
from typing import Final

from assay.core.errors import InvalidRequest
from assay.sim.laboratory.trials.lone import STAGES, LoneScore
from assay.sim.laboratory.trials.stress import (
    COMPARED,
    StressScore,
    as_punctual,
    best_rival,
    chosen,
    ratios,
    spans,
    tuned,
)

HEAD: Final = (
    "| mix | policy | setting | cost (1000) | peak slots | mean d | p95 d (s) | d <= D |"
    " slots started | resizes per minute | node-hours |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(one: StressScore, *, best: bool = False) -> str:
    """A row of the table; the best rival is marked."""
    name = f"**{one.policy}**" if best else one.policy
    return (
        f"| {one.mix} | {name} | {one.setting} | {one.cost / 1000:.1f} | {one.peak:,.0f} |"
        f" {one.delay_mean_s:.2f} | {one.delay_p95_s:.1f} | {one.in_time:.0%} |"
        f" {one.started:,.0f} | {one.resizes_per_minute:.1f} | {one.node_hours:.1f} |"
    )


def table(scores: Sequence[StressScore]) -> Iterator[str]:
    """Rows of one mix, every policy with its tuned setting."""
    best = best_rival(scores)
    for one in chosen(scores):
        yield row(one, best=one is best)


def ratio_line(scores: Sequence[StressScore]) -> str:
    """`assay` against the best rival, in one line; with several seeds, their span."""
    found, mine, best = ratios(scores), tuned(scores, "assay"), best_rival(scores)
    if not found or mine is None:
        return ""
    low_high = spans(mine, best) if best is not None else {}
    parts = [with_span(name, value, low_high.get(name)) for name, value in found.items()]
    against = f"{best.policy} ({best.setting})" if best is not None else "no rival"
    return f"{scores[0].mix}: assay over {against}: {', '.join(parts)}"


def with_span(name: str, value: float, low_high: tuple[float, float] | None) -> str:
    """A figure, and the smallest and largest of it where they differ."""
    text = f"{name} {value:.2f}"
    if low_high is None or low_high[0] == low_high[1]:
        return text
    return f"{text} ({low_high[0]:.2f}-{low_high[1]:.2f})"


LONE_HEAD: Final = (
    "| lone calls every | policy | slot-seconds |"
    + "".join(f" {stage.name}: resizes, reversals per minute |" for stage in STAGES)
    + " wait of a lone `code.cpp`: p50, p95 (s) | d <= D |\n"
    + "|---" * (len(STAGES) + 5)
    + "|"
)


def lone_row(one: LoneScore) -> str:
    """A row of the table of lone calls."""
    pairs = zip(one.resizes_per_minute, one.reversals_per_minute, strict=True)
    turns = "".join(f" {resizes:.1f}, {reversals:.1f} |" for resizes, reversals in pairs)
    return (
        f"| {one.gap_s:g} s | {one.policy} | {one.slot_seconds:,.0f} |{turns}"
        f" {one.wait_p50_s:.2f}, {one.wait_p95_s:.2f} | {one.in_time:.0%} |"
    )


SUMMARY_HEAD: Final = (
    "| mix | best rival | cost | peak | started | resizes | node-hours |"
    " p95 d (s): assay / rival | d <= D: assay / rival / ideal | cost at equal p95 d |"
    " peak at equal p95 d | peak over `ideal` |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def summary(scores: Sequence[StressScore]) -> str:
    """A row for a mix: `assay` over the best rival, mean (smallest-largest over the seeds)."""
    mine, best, ideal = tuned(scores, "assay"), best_rival(scores), tuned(scores, "ideal")
    if mine is None or best is None or ideal is None:
        raise InvalidRequest("needs assay, a rival and ideal", field="policies")
    found, low_high = ratios(scores), spans(mine, best)
    low, high = spans(mine, ideal)["peak"]
    equal = as_punctual(scores)
    at_equal = "none | none"
    if equal is not None:
        low_equal, high_equal = spans(mine, equal)["peak"]
        at_equal = (
            f"{found['cost at equal p95 d']:.2f} {equal.policy} ({equal.setting}) |"
            f" {found['peak at equal p95 d']:.2f} ({low_equal:.2f}-{high_equal:.2f})"
        )
    figures = " | ".join(
        f"{found[name]:.2f} ({low_high[name][0]:.2f}-{low_high[name][1]:.2f})" for name in COMPARED
    )
    return (
        f"| {mine.mix} | {best.policy} ({best.setting}) | {figures} |"
        f" {mine.delay_p95_s:.1f} / {best.delay_p95_s:.1f} |"
        f" {mine.in_time:.0%} / {best.in_time:.0%} / {ideal.in_time:.0%} | {at_equal} |"
        f" {found['peak over ideal']:.2f} ({low:.2f}-{high:.2f}) |"
    )
