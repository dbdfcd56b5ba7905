"""Tables of bandwidth before and after: which nodes have become slower, or whether all have."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from skewscope.adapters.results.bandwidth_findings import explain_slow
from skewscope.adapters.results.result import BUS_BANDWIDTH, BandwidthResult
from skewscope.adapters.results.result_finding import LEAST, ResultFinding
from skewscope.adapters.results.run_comparison import ALIKE, BETTER, WORSE, QuantityChange

TableKey = tuple[str, str, tuple[str, ...]]


def compare_tables(before: Sequence[BandwidthResult], after: Sequence[BandwidthResult]) -> list[QuantityChange]:
    """Returns the bandwidth of both sides of each operation and set of nodes that both have, or of the only ones."""
    sides = _by_key(before), _by_key(after)
    shared = [key for key in sides[0] if key in sides[1]]
    pairs = [(sides[0][key], sides[1][key]) for key in shared]
    if not pairs and len(sides[0]) == len(sides[1]) == 1:
        pairs = [(list(before), list(after))]
    return [change for old, new in pairs if (change := _compare(old, new))]


def _by_key(results: Sequence[BandwidthResult]) -> dict[TableKey, list[BandwidthResult]]:
    found: dict[TableKey, list[BandwidthResult]] = {}
    for each in results:
        found.setdefault((each.operation, each.measure.unit, each.nodes), []).append(each)
    return found


def _compare(before: Sequence[BandwidthResult], after: Sequence[BandwidthResult]) -> QuantityChange | None:
    sizes = set.intersection(*(set(each.bandwidths) for each in (*before, *after)))
    if not sizes:
        return None
    size = max(sizes)
    sides = [[each.bandwidths[size] for each in side] for side in (before, after)]
    old, new = (median(side) for side in sides)
    limit = max(1 + LEAST, *(max(side) / min(side) for side in sides))
    measure = after[0].measure
    fall = measure.speed(old) / measure.speed(new)
    verdict = WORSE if fall > limit else BETTER if fall < 1 / limit else ALIKE
    return QuantityChange("bandwidth", measure.what, measure.unit, _place_of(after[0]), old, new, limit, verdict)


def _place_of(result: BandwidthResult) -> str:
    return result.place + (f" ({result.operation})" if result.operation else "")


def explain_table_changes(
    changes: Sequence[QuantityChange], after: Sequence[BandwidthResult]
) -> Iterator[ResultFinding]:
    """Yields which nodes have become slower, where some have not; else that all have."""
    slow_places: Mapping[str, QuantityChange] = {each.place: each for each in changes if each.verdict == WORSE}
    good_places = {each.place for each in changes} - slow_places.keys()
    tables = {_place_of(each): each for each in after}
    if not slow_places:
        return
    if good_places and all(each.nodes for each in after):
        slow = [tables[place] for place in slow_places]
        measure = slow[0].measure
        usual = median(measure.speed(change.before) for change in slow_places.values())
        ratios = [measure.speed(change.after) / measure.speed(change.before) for change in slow_places.values()]
        yield from explain_slow(slow, [tables[place] for place in good_places], ratios, usual)
        return
    worst = max(slow_places.values(), key=lambda change: change.badness)
    more = f", and {len(slow_places) - 1} more" if len(slow_places) > 1 else ""
    table = tables[worst.place]
    if table.measure == BUS_BANDWIDTH:
        text = f"Collectives have less bandwidth: {worst.text} at {worst.place}{more}"
        yield ResultFinding("bench-bandwidth-lower", text, table.nodes)
        return
    text = f"A benchmark is slower than before: {worst.what} {worst.text} at {worst.place}{more}"
    yield ResultFinding("bench-slower", text, table.nodes)
