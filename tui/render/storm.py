"""Many open incidents at once, by cause: how many places, since when, and when they began. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.engine.advice.cost_words import describe_size
from skewscope.engine.advice.incident_words import describe_cause
from skewscope.engine.model.incident import SEVERITIES, Incident
from skewscope.tui.render import charts, detail, units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, cut, fit, line_width, pad, width

STORM_FROM = 50
"""Open incidents from which on a list of them says less than their causes."""
WINDOW_S = 15.0
"""What begins within so many seconds began at once: rules hold for a few seconds before they report."""
LEAST_SHARE = 0.1
"""Share of the open incidents from which on a common begin is worth a word."""
SPARK_CELLS = 60
MAX_NAME, MAX_WHERE = 40, 30


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """The open root incidents of one condition."""

    condition: str
    incidents: tuple[Incident, ...]
    """The most severe first."""
    explained: int
    """Open incidents that they explain."""

    @property
    def places(self) -> int:
        """How many places it hits."""
        return len(self.incidents) + sum(len(incident.also) for incident in self.incidents)

    @property
    def since(self) -> float:
        """When the first one began, seconds since 1970."""
        return min(incident.began for incident in self.incidents)


@dataclass(frozen=True, slots=True)
class Storm:
    """All open incidents by cause."""

    groups: tuple[CauseGroup, ...]
    """The most severe and the largest first."""
    begins: tuple[float, ...]
    """When each open incident began, earliest first."""


def is_storm(incidents: Sequence[Incident]) -> bool:
    """Returns whether so many incidents are open that they are better shown by cause."""
    return sum(incident.state == "firing" for incident in incidents) >= STORM_FROM


def build_storm(incidents: Sequence[Incident]) -> Storm:
    """Returns the open incidents by cause; what an open one explains counts for its cause."""
    still = [incident for incident in incidents if incident.state == "firing"]
    known = {incident.id: incident for incident in still}
    roots: dict[str, list[Incident]] = {}
    explained: dict[str, int] = {}
    for incident in still:
        root = known.get(incident.root_id, incident)
        if root is incident:
            roots.setdefault(incident.condition, []).append(incident)
        else:
            explained[root.condition] = explained.get(root.condition, 0) + 1
    groups = [
        CauseGroup(condition, tuple(sorted(some, key=_urgency)), explained.get(condition, 0))
        for condition, some in roots.items()
    ]
    groups.sort(key=lambda group: (_urgency(group.incidents[0])[:2], -len(group.incidents), group.condition))
    return Storm(tuple(groups), tuple(sorted(incident.began for incident in still)))


def _urgency(incident: Incident) -> tuple[bool, int, float, str]:
    return incident.is_symptom, -SEVERITIES.index(incident.severity), -incident.confidence, incident.id


def storm_lines(storm: Storm, names: DisplayNames, columns: int, rows: int) -> list[Line]:
    """Returns how many are open, when they began, and one line for each cause, in at most `rows` lines."""
    groups = storm.groups[: max(rows - 3, 1)]
    table = [_group_cells(group, names) for group in groups]
    sizes = [max((width(cells[n]) for cells in table), default=0) for n in range(4)]
    sizes[0], sizes[2] = min(sizes[0], MAX_NAME), min(sizes[2], MAX_WHERE)
    title = tuple(pad(text, max(size, width(text))) for text, size in zip(_TITLES, sizes, strict=True))
    sizes = [width(each) for each in title]
    most = max((group.places for group in groups), default=1)
    lines: list[Line] = [((f"   {'  '.join(title)}  since     conf", "dim"),)]
    for group, cells in zip(groups, table, strict=True):
        sign, role = detail.severity_glyph(group.incidents[0])
        text = "  ".join(pad(cell, size, right=n == 1) for n, (cell, size) in enumerate(zip(cells, sizes, strict=True)))
        worst = group.incidents[0]
        sure = detail.format_confidence(worst) if not worst.is_symptom else ""
        last = f"  {units.format_time(group.since)}  {pad(sure, SURE_WIDTH)}"
        row: Line = ((f" {sign} ", role), (text, ""), (last, "dim"))
        room = columns - line_width(row)
        lines.append((*row, (charts.bar(group.places / most, BAR_CELLS), role)) if room >= BAR_CELLS else row)
    if more := len(storm.groups) - len(groups):
        lines[-1:] = [((f"   and {more + 1} more causes", "dim"),)]
    return [fit(each, columns) for each in (*storm_head_lines(storm, columns), *lines)]


COST_WIDTH, SURE_WIDTH, BAR_CELLS = 8, 6, 12
"""Columns of a cost, of a confidence, and of a bar of places."""
_TITLES = ("cause", "places", "where", "cost")


def _group_cells(group: CauseGroup, names: DisplayNames) -> tuple[str, str, str, str]:
    """Returns the name of a cause, its number of places, the first of them, and the largest cost."""
    first = group.incidents[0]
    unknown = f" ({describe_cause(first, names.catalogue)})" if first.is_symptom else ""
    others = f" and {len(group.incidents) - 1:,} more" if len(group.incidents) > 1 else ""
    where = f"{first.kind} {cut(first.name, MAX_WHERE - len(others) - len(first.kind) - 1)}{others}"
    costs = [incident for incident in group.incidents if incident.impact.change is not None]
    worst = max(costs, key=lambda incident: abs(incident.impact.change or 0.0), default=None)
    cost = detail.shorten_impact(worst, describe_size(worst), COST_WIDTH) if worst else ""
    return names.condition_name(group.condition) + unknown, f"{group.places:,}", where, cost


def storm_head_lines(storm: Storm, columns: int) -> list[Line]:
    """Returns how many are open, how many of them began at once, and a curve of their begins."""
    causes = units.format_count(len(storm.groups), "cause")
    begin, count = _densest_window(storm.begins)
    at_once = ""
    if count > 1 and count >= LEAST_SHARE * len(storm.begins):
        first, last = units.format_time(begin), units.format_time(begin + WINDOW_S)
        at_once = f" · {count:,} of them began between {first} and {last}"
    head: Line = ((f" {len(storm.begins):,} open · {causes}{at_once}", "title"),)
    if len(storm.begins) < 2 or storm.begins[0] == storm.begins[-1]:
        return [head]
    cells = max(min(SPARK_CELLS, columns - 32), 1)
    counts, _ = np.histogram(storm.begins, bins=cells)
    curve = charts.sparkline(counts.astype(np.float64), cells)
    span = f"{units.format_time(storm.begins[0])} to {units.format_time(storm.begins[-1])}"
    return [head, ((" began  ", "dim"), (curve, "info"), (f"  {span}", "dim"))]


def _densest_window(begins: Sequence[float]) -> tuple[float, int]:
    """Returns the begin of the WINDOW_S seconds in which most incidents began, and their number."""
    counts = [(bisect_right(begins, begin + WINDOW_S) - n, begin) for n, begin in enumerate(begins)]
    count, begin = max(counts, default=(0, 0.0), key=lambda each: (each[0], -each[1]))
    return begin, count
