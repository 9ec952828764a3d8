"""Tables of the laboratory as text."""

from collections.abc import Iterator, Sequence
from typing import Final

from assay.sim.laboratory.stress import Score, best_rival, chosen, ratios

HEAD: Final = (
    "| mix | policy | setting | cost (1000) | peak workers | mean d | p95 d (s) | d <= D |"
    " workers started | resizes per minute | node-hours |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(one: Score, *, best: bool = False) -> str:
    """A row of the table; the best rival is marked."""
    name = f"**{one.policy}**" if best else one.policy
    return (
        f"| {one.mix} | {name} | {one.setting} | {one.cost / 1000:.1f} | {one.peak:,.0f} |"
        f" {one.delay_mean_s:.2f} | {one.delay_p95_s:.1f} | {one.in_time:.0%} |"
        f" {one.started:,.0f} | {one.resizes_per_minute:.1f} | {one.node_hours:.1f} |"
    )


def table(scores: Sequence[Score]) -> Iterator[str]:
    """Rows of one mix, every policy with its tuned setting."""
    best = best_rival(scores)
    for one in chosen(scores):
        yield row(one, best=one is best)


def ratio_line(scores: Sequence[Score]) -> str:
    """`assay` against the best rival, in one line."""
    parts = [f"{name} {value:.2f}" for name, value in ratios(scores).items()]
    best = best_rival(scores)
    against = f"{best.policy} ({best.setting})" if best is not None else "no rival"
    return f"{scores[0].mix}: assay over {against}: {', '.join(parts)}" if parts else ""
