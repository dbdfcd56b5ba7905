"""Who is missing in a collective, as messages at the ranks that it is said of."""

from collections.abc import Iterable, Sequence

from skewscope.adapters.collectives.rank_state import StateFinding
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector
from skewscope.kb.loader import catalogue

MAX_TEXT = 400
"""Characters of a finding that are kept."""


def list_missing(findings: Iterable[StateFinding], group: str, file: str) -> list[LabelledSeries]:
    """Returns a series of one message for each rank, or for the group `group`, that a finding names."""
    collector = SeriesCollector(file)
    for found in findings:
        signal = catalogue().events[found.event].signal
        places: Sequence[dict[str, str]] = [{"rank": str(rank)} for rank in found.ranks] or [{}]
        for place in places:
            labels = {"group": group, **place, "message": found.text[:MAX_TEXT]}
            collector.add("skewscope_" + signal.replace(".", "_"), labels, found.time, 1.0)
    return collector.series()
