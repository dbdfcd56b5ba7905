"""The members beside an incident over time: which one differs, since when, by how much. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.view.snapshot import RowIndex, SeriesInfo, ViewSnapshot
from skewscope.engine.features.peer_statistics import MIN_SPREAD_SHARE, TO_SIGMA
from skewscope.engine.model.incident import Incident
from skewscope.kb.loader import catalogue
from skewscope.tui.render import evidence_reading, evidence_series, units
from skewscope.tui.render.cell_picture import SHADES, CellPicture, Classes, ColumnMark, RowLabel
from skewscope.tui.render.node_lookup import NodeLookup

Values = NDArray[np.floating]

NORMAL_SIGMAS = 3.0
"""Robust standard deviations about the median within which a value is normal, as on control charts."""
MAX_RANGE = 30.0
"""Largest quotient of the worst class and the limit of the normal one; smaller ripples are drawn as normal."""
ENOUGH_VALUES = 100_000
"""Values whose median is that of all for a picture: thousands of members are drawn at each key."""
LEVELS = len(SHADES) - 2
"""Classes beyond the normal one."""
MAX_MEMBERS = 16
"""Members that a picture of an incident shows by default."""
MAX_WORST = 10
"""Members that a picture of the worst ones shows by default."""


@dataclass(frozen=True, slots=True)
class ClassScale:
    """Limits of the classes, from the normal one outwards: rising where high values are bad, falling otherwise."""

    limits: tuple[float, ...]

    @property
    def is_rising(self) -> bool:
        """Whether high values are bad."""
        return self.limits[-1] >= self.limits[0]

    def classify(self, values: Values) -> Classes:
        """Returns classes in the shape of `values`: 0 unknown, 1 normal, more for worse."""
        sign = 1.0 if self.is_rising else -1.0
        beyond = np.searchsorted(sign * np.array(self.limits), sign * values, side="right")
        return np.where(np.isfinite(values), 1 + beyond, 0).astype(np.uint8)

    def describe(self, unit: str, *, share: bool) -> str:
        """Returns the legend."""
        first, last = (units.format_brief(value, unit, share=share) for value in (self.limits[0], self.limits[-1]))
        near, far = ("under", "over") if self.is_rising else ("over", "under")
        return f"· {near} {first}   ░▒▓█ to {far} {last}"

    def describe_multiples(self) -> str:
        """Returns the legend for multiples of what is usual for a member."""
        first, last = self.limits[0], self.limits[-1]
        near, far = ("under", "up to") if self.is_rising else ("over", "down to")
        return f"· {near} {units.format_factor(first)} its usual   ░▒▓█ {far} {units.format_factor(last)}"


def choose_scale(values: Values, suspect: NDArray[np.bool_]) -> ClassScale | None:
    """Returns the classes for [member, time] values, of which the `suspect` ones are the incident's.

    The normal range is that of all other values; the worst class begins near the most distant suspect value. None where
    no suspect value leaves the normal range.
    """
    known = np.isfinite(values)
    normal, own = values[known & ~suspect], values[known & suspect]
    if not len(own) or not len(normal):
        return None
    normal = normal[:: max(len(normal) // ENOUGH_VALUES, 1)]
    middle = float(np.median(normal))
    spread = TO_SIGMA * float(np.median(np.abs(normal - middle))) + MIN_SPREAD_SHARE * abs(middle)
    worst = float(own[np.argmax(np.abs(own - middle))])
    if worst > middle:
        low = max(middle + NORMAL_SIGMAS * spread, worst / MAX_RANGE)
        return ClassScale(_rising_limits(low, worst)) if worst > low else None
    low = middle - NORMAL_SIGMAS * spread
    return ClassScale(tuple(np.linspace(low, worst, LEVELS).tolist())) if worst < low else None


def _rising_limits(low: float, worst: float) -> tuple[float, ...]:
    """Returns limits at equal quotients; the first and the last one are round numbers where these are far apart."""
    first, last = _round_number(low, -1), _round_number(worst, 1)
    if last < 2 * first:
        first, last = low, worst
    return tuple(np.geomspace(first, last, LEVELS).tolist())


def _round_number(value: float, side: int) -> float:
    """Returns the nearest 1, 2 or 5 times a power of ten that is at most (1) or at least (-1) a positive value."""
    power = 10.0 ** np.floor(np.log10(value))
    steps = [step * power for step in (1, 2, 5, 10)]
    if side > 0:
        return float(max(step for step in steps if step <= value * (1 + 1e-9)))
    return float(min(step for step in steps if step >= value * (1 - 1e-9)))


def members_over_time(
    incident: Incident,
    snapshot: ViewSnapshot,
    node_lookup: NodeLookup,
    *,
    signal: str = "",
    most: int = MAX_MEMBERS,
) -> CellPicture | None:
    """Returns the members beside an incident over time, or None where no signal of its evidence shows a difference.

    The signal is the strongest item of evidence by which the incident differs from other members, or `signal`. Up to
    `most` rows are shown: the incident's members, their peers, then those that are worst; the rest is one row.
    """
    for item, series in evidence_series.list_series(incident, snapshot, node_lookup):
        if series.signal == signal or (not signal and item.verdict == "yes"):
            peak = evidence_reading.peak_time(item, incident, series, snapshot)
            picture = _picture_of(series.row, incident, snapshot, node_lookup, most, peak)
            if picture is not None:
                return picture
    return None


def _picture_of(
    row: int, incident: Incident, snapshot: ViewSnapshot, node_lookup: NodeLookup, most: int, peak: float | None
) -> CellPicture | None:
    """Returns the picture of the signal of one series, None where its members do not differ.

    Its values are those at `peak`, when the evidence was measured, or else where a marked member is worst.
    """
    rows = _member_rows(row, snapshot)
    if len(rows) < 2:
        return None
    values, times = snapshot.signals.history(rows).astype(np.float64), snapshot.signals.times()
    marked = _marked_members(rows, incident, snapshot, node_lookup, row)
    began, ended = incident_span(incident, snapshot)
    during = (times >= began) & (times <= ended)
    shown = _compare(rows, values, values, marked, during)
    if shown is None or shown.share_beyond:
        # Members that do different work differ all the time: each is then compared with itself at other times.
        relative = _compare(rows, values, relative_values(values, during), marked, during)
        shown = min(filter(None, (shown, relative)), key=lambda one: one.share_beyond, default=None)
    if shown is None:
        return None
    worst = _worst_moment(shown.compared, marked, during, shown.scale)
    moment = worst if peak is None else int(np.argmin(np.abs(times - peak)))
    order = _choose_rows(shown, during, snapshot.signals.series_index.series[row].group, snapshot, most)
    return replace(_draw(shown, order, snapshot, moment), marks=_moments(incident, snapshot, times))


def _compare(
    rows: RowIndex, values: Values, compared: Values, marked: NDArray[np.bool_], during: NDArray[np.bool_]
) -> "_Members | None":
    """Returns the members with their classes; None where no marked one leaves the normal range."""
    scale = choose_scale(compared, marked[:, None] & during)
    return None if scale is None else _Members(rows, values, marked, compared, scale, scale.classify(compared))


def relative_values(values: Values, during: NDArray[np.bool_]) -> Values:
    """Returns [member, time] values as multiples of a member's median at other times; NaN where that is not over 0."""
    before = values[:, ~during]
    known = np.isfinite(before).any(axis=1)
    usual = np.full(len(values), np.nan)
    usual[known] = np.nanmedian(before[known], axis=1)
    usual[~(usual > 0)] = np.nan
    result: Values = values / usual[:, None]
    return result


@dataclass(frozen=True, eq=False)
class _Members:
    """[member] rows of the index and which members are the incident's, [member, time] values as measured and..."""

    rows: RowIndex
    values: Values
    marked: NDArray[np.bool_]
    compared: Values
    """...as they are compared: the same, or as multiples of what is usual for each member."""
    scale: ClassScale
    classes: Classes

    @property
    def share_beyond(self) -> float:
        """Which share of the other members' values leaves the normal range."""
        others = self.classes[~self.marked]
        return float(np.mean(others > 1)) if others.size else 0.0

    @property
    def is_relative(self) -> bool:
        """Whether each member is compared with itself."""
        return self.compared is not self.values


def _member_rows(row: int, snapshot: ViewSnapshot) -> RowIndex:
    """Returns the rows of the series of the same signal, kind and selector; a pair of members is no member."""
    index = snapshot.signals.series_index
    series_info = index.series[row]
    if ">" in series_info.entity:
        return np.empty(0, np.intp)
    same = [
        int(other)
        for other in index.by_signal[series_info.signal]
        if other < len(snapshot.signals) and _is_alike(index.series[other], series_info)
    ]
    return np.array(same, np.intp)


def _is_alike(other: SeriesInfo, series_info: SeriesInfo) -> bool:
    return other.kind == series_info.kind and other.selector == series_info.selector


def _marked_members(
    rows: RowIndex, incident: Incident, snapshot: ViewSnapshot, node_lookup: NodeLookup, row: int
) -> NDArray[np.bool_]:
    """Returns [member] whether a member is the incident's: it by name, else what is on its nodes, else `row`."""
    series = snapshot.signals.series_index.series
    names = {incident.name, *incident.also}
    named = np.array([{series[r].entity, series[r].entity.rpartition(":")[2]} & names != set() for r in rows])
    if named.any():
        return named
    nodes = node_lookup.nodes_of(incident.kind, incident.name)
    near = np.array([bool(node_lookup.nodes_of(series[r].kind, series[r].entity) & nodes) for r in rows])
    result: NDArray[np.bool_] = near if near.any() and not near.all() else rows == row
    return result


def incident_span(incident: Incident, snapshot: ViewSnapshot) -> tuple[float, float]:
    """Returns when an incident began, by its first evidence, and when it ended or the newest time."""
    return incident.began, incident.resolved_at or snapshot.time


def _worst_moment(values: Values, marked: NDArray[np.bool_], during: NDArray[np.bool_], scale: ClassScale) -> int:
    """Returns the column in which a marked member is worst."""
    own = np.where(during[None], values[marked], np.nan)
    sign = 1.0 if scale.is_rising else -1.0
    worst = np.where(np.isfinite(own), sign * own, -np.inf).max(axis=0)
    return int(np.argmax(worst))


def _choose_rows(
    members: _Members, during: NDArray[np.bool_], group: int, snapshot: ViewSnapshot, most: int
) -> list[int]:
    """Returns the members to show, in the order of the index: the incident's, peers, and what changed with it most."""
    series = snapshot.signals.series_index.series
    peers = np.array([series[r].group == group for r in members.rows])
    change = _mean(members.classes[:, during]) - _mean(members.classes[:, ~during])
    ranked = sorted(range(len(peers)), key=lambda n: (not members.marked[n], not peers[n], -float(change[n]), n))
    return sorted(ranked[:most] if len(ranked) > most + 1 else ranked)


def _mean(classes: Classes) -> Values:
    """Returns the mean of each row, 0 without columns."""
    result: Values = classes.mean(axis=1) if classes.shape[1] else np.zeros(len(classes))
    return result


def _draw(members: _Members, order: Sequence[int], snapshot: ViewSnapshot, moment: int) -> CellPicture:
    """Returns the picture of some members, with the median of all others as the last row."""
    series_info = snapshot.signals.series_index.series[int(members.rows[0])]
    times = snapshot.signals.times()
    labels = [_label(members, n, snapshot, moment) for n in order]
    scale, classes = members.scale, members.classes
    cells = classes[list(order)]
    rest = np.setdiff1d(np.arange(len(members.rows)), np.array(order))
    if len(rest):
        middle = np.median(classes[rest], axis=0).astype(np.uint8)
        cells = np.vstack([cells, middle[None]])
        labels.append(RowLabel(f"{len(rest):,} others", "their median"))
    legend = scale.describe(series_info.unit, share=units.is_share(series_info.signal))
    return CellPicture(
        f"{_name_signal(series_info.signal)} at {units.format_time(float(times[moment]))}",
        scale.describe_multiples() if members.is_relative else legend,
        tuple(labels),
        cells,
        (units.format_time(float(times[0])), units.format_time(float(times[-1]))),
    )


def _name_signal(signal: str) -> str:
    """Returns `Time of a step (step.duration)`, or the id of a signal that the catalogue lacks."""
    known = catalogue().signals.get(signal)
    return f"{known.name} ({signal})" if known else signal


def _label(members: _Members, n: int, snapshot: ViewSnapshot, moment: int) -> RowLabel:
    series_info = snapshot.signals.series_index.series[int(members.rows[n])]
    value = float(members.values[n, moment])
    known = np.isfinite(value)
    note = units.format_brief(value, series_info.unit, share=units.is_share(series_info.signal)) if known else "no data"
    return RowLabel(series_info.entity.replace(":", " "), note, bool(members.marked[n]))


def _moments(incident: Incident, snapshot: ViewSnapshot, times: NDArray[np.float64]) -> tuple[ColumnMark, ...]:
    """Returns when an incident began, was reported and ended, as far as the picture shows these times."""
    began, _ = incident_span(incident, snapshot)
    named = [(began, "▲", "began")]
    if incident.opened_at > began:
        named.append((incident.opened_at, "△", "reported"))
    if incident.resolved_at is not None:
        named.append((incident.resolved_at, "▽", "ended"))
    span = max(float(times[-1] - times[0]), 1e-9)
    marks = [
        ColumnMark((time - float(times[0])) / span, sign, f"{word} {units.format_time(time)}")
        for time, sign, word in named
        if times[0] <= time <= times[-1]
    ]
    return tuple(marks)


# --- all members


def worst_members(snapshot: ViewSnapshot, signal: str, most: int = MAX_WORST) -> CellPicture | None:
    """Returns the members of a signal that are worst over time and the rest as one row, the worst first.

    None where the signal has fewer than two members, or none of them leaves the normal range.
    """
    rows = snapshot.signals.series_index.by_signal.get(signal, np.empty(0, np.intp))
    rows = _member_rows(int(rows[0]), snapshot) if len(rows) else rows
    if len(rows) < 2:
        return None
    values = snapshot.signals.history(rows).astype(np.float64)
    scale = choose_scale(values, _outliers(values))
    if scale is None:
        return None
    classes = scale.classify(values)
    result = _Members(rows, values, np.zeros(len(rows), bool), values, scale, classes)
    badness = np.maximum(classes.astype(np.int64) - 1, 0).sum(axis=1)
    order = np.argsort(-badness, kind="stable")[:most].tolist()
    sign = 1.0 if scale.is_rising else -1.0
    peaks = np.where(np.isfinite(values), sign * values, -np.inf).max(axis=0)
    return _draw(result, order, snapshot, int(np.argmax(peaks)))


def _outliers(values: Values) -> NDArray[np.bool_]:
    """Returns [member, time] which values are far from the median of all."""
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(values.shape, bool)
    middle = float(np.median(known))
    spread = TO_SIGMA * float(np.median(np.abs(known - middle))) + MIN_SPREAD_SHARE * abs(middle)
    result: NDArray[np.bool_] = np.abs(values - middle) > NORMAL_SIGMAS * spread
    return result
