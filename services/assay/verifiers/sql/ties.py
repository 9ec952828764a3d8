"""What an order and a LIMIT leave open in the result of a reference. Pure, total on any rows.

Rows that are equal in the order may stand in any order among themselves, and of those around a
LIMIT or an OFFSET any may be left. The query is asked again with what it orders by as columns, and
without its LIMIT; what that says is believed only if the result itself is one that it allows.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from assay.verifiers.sql.compare import QueryResult, Row, places_of


def with_ties(
    result: QueryResult,
    told: Sequence[Row],
    columns: Sequence[int],
    *,
    skipped: int,
    is_cut: bool,
    is_distinct: bool,
) -> QueryResult | None:
    """The result with its places and pools; `None`: `told` does not fit it.

    Args:
        result: of the reference's query.
        told: rows of the query asked again, with further columns behind those of the result.
        columns: those of `told` that the order goes by.
        skipped: rows that an OFFSET leaves out of `told`.
        is_cut: `told` is without the LIMIT and OFFSET of the query.
        is_distinct: the query says DISTINCT; further columns must not add rows.
    """
    shown = [tuple(row[: result.columns]) for row in told]
    end = skipped + len(result.rows)
    if end > len(told) or (not is_cut and end != len(told)):
        return None
    if is_distinct and len(set(shown)) < len(shown):
        return None
    places = places_of(told, columns)
    pools = defaultdict[int, list[tuple[str, ...]]](list)
    for place, row in zip(places, shown, strict=True):
        pools[place].append(row)
    window = places[skipped:end]
    left = defaultdict[int, list[tuple[str, ...]]](list)
    for place, kept in zip(window, result.rows, strict=True):
        left[place].append(tuple(kept))
    if any(Counter(rows) - Counter(pools[place]) for place, rows in left.items()):
        return None
    more = {place: pools[place] for place in left if len(left[place]) < len(pools[place])}
    return replace(result, row_places=window, pools=more)
