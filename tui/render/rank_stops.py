"""Where each rank stopped: how many collectives it has begun or done, and who is behind. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.model.incident import Incident
from skewscope.tui.render import evidence_series, units
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.text import Line, fit, pad, width

MAX_GROUPS = 8


@dataclass(frozen=True, slots=True)
class RankStop:
    """A member of a group and how far it came."""

    group: str
    member: str
    count: float
    behind: float
    """How far it is behind the foremost member of its group."""


@dataclass(frozen=True, slots=True)
class RankStops:
    """The members of groups at one time."""

    signal: str
    since: float | None
    """Since when no count has changed, seconds since 1970; None where one still does."""
    stops: tuple[RankStop, ...]
    group: str = ""
    """The group by which the evidence is, which is shown first."""

    @property
    def is_uneven(self) -> bool:
        """Whether a member is behind others of its group."""
        return any(stop.behind for stop in self.stops)


def find_rank_stops(incident: Incident, snapshot: ViewSnapshot, node_lookup: NodeLookup) -> RankStops | None:
    """Returns how far each member came, by the strongest evidence that is a count per member; None without one.

    Counts that are the same everywhere tell nothing, so evidence by which somebody is behind comes first.
    """
    candidates = [
        stops
        for item, series in evidence_series.list_series(incident, snapshot, node_lookup)
        if item.verdict == "yes" and (stops := _stops_of(series, snapshot)) is not None
    ]
    return min(candidates, key=lambda stops: not stops.is_uneven, default=None)


def _stops_of(series: evidence_series.EvidenceSeries, snapshot: ViewSnapshot) -> RankStops | None:
    """Returns the counts of a signal that only grows, by group and member."""
    index, signal = snapshot.signals.series_index, series.signal
    rows = [int(r) for r in index.by_signal.get(signal, ()) if r < len(snapshot.signals)]
    rows = [r for r in rows if index.series[r].kind == "rank"]
    if len(rows) < 2:
        return None
    values = snapshot.signals.history(np.array(rows, np.intp)).astype(np.float64)
    steps = np.diff(values, axis=1)
    if np.nanmin(steps, initial=0.0) < 0 or not np.isfinite(values[:, -1]).any():
        return None  # a rate or a level, not a count
    parts = [index.series[r].entity.rpartition(":") for r in rows]
    best: dict[str, float] = {}
    for (group, _, _), value in zip(parts, values[:, -1].tolist(), strict=True):
        if np.isfinite(value):
            best[group] = max(best.get(group, value), value)
    stops = tuple(
        RankStop(group, member, value, best.get(group, value) - value)
        for (group, _, member), value in zip(parts, values[:, -1].tolist(), strict=True)
    )
    return RankStops(signal, _still_since(steps, snapshot), stops, series.entity.rpartition(":")[0])


def _still_since(steps: np.ndarray, snapshot: ViewSnapshot) -> float | None:
    """Returns since when no count has changed."""
    moving = np.flatnonzero((np.nan_to_num(steps) > 0).any(axis=0))
    times = snapshot.signals.times()
    if not len(times) or (len(moving) and moving[-1] == steps.shape[1] - 1):
        return None
    return float(times[moving[-1] + 1]) if len(moving) else float(times[0])


def stop_lines(stops: RankStops, columns: int, most: int = MAX_GROUPS) -> list[Line]:
    """Returns up to `most` groups, those with somebody behind first, each with its members side by side."""
    since = "" if stops.since is None else f"; the last one stopped at {units.format_time(stops.since)}"
    out: list[Line] = [((" where each rank stopped", "title"), (f"   {stops.signal}{since}", "dim"))]
    groups: dict[str, list[RankStop]] = {}
    for stop in stops.stops:
        groups.setdefault(stop.group, []).append(stop)
    order = sorted(groups, key=lambda name: (not _is_late(groups[name]), name != stops.group, -_distance(groups[name])))
    cell = max(width(_member_text(stop)) for stop in stops.stops) + 3
    indent = min(max(map(width, groups)), 24) + 2
    for name in order[:most]:
        out += _group_lines(name, groups[name], (columns, indent, cell))
    if len(order) > most:
        late = sum(map(_is_late, (groups[name] for name in order[most:])))
        beside = f", {late} of them with somebody behind" if late else ", nobody behind there"
        out.append(((f"   and {units.format_count(len(order) - most, 'more group')}{beside}", "dim"),))
    return [fit(each, columns) for each in out]


def _distance(members: Sequence[RankStop]) -> float:
    """Returns by how much the last member is behind."""
    return max(stop.behind for stop in members)


def _is_late(members: Sequence[RankStop]) -> bool:
    return _distance(members) > 0


def _group_lines(name: str, members: Sequence[RankStop], sizes: tuple[int, int, int]) -> list[Line]:
    """Returns the members of a group, as many on a line as fit; who is behind has a sign and says by how much.

    Sizes are the columns of a line, of the name and of a member.
    """
    columns, indent, cell = sizes
    fitting = max((columns - indent - 1) // cell, 1)
    lines: list[Line] = []
    for at in range(0, len(members), fitting):
        label = pad(name if at == 0 else "", indent)
        spans = [
            (pad(("▶ " if stop.behind else "  ") + _member_text(stop), cell), "crit" if stop.behind else "")
            for stop in members[at : at + fitting]
        ]
        lines.append(((f" {label}", "dim"), *spans))
    return lines


def _member_text(stop: RankStop) -> str:
    return f"{stop.member} {_count_text(stop)}"


def _count_text(stop: RankStop) -> str:
    if not np.isfinite(stop.count):
        return "no data"
    return f"{stop.count:,.0f}" + (f", {stop.behind:,.0f} behind" if stop.behind else "")
