"""What a piece of evidence measured at its peak, beside what is normal at that moment. Pure.

Value, normal value or peers, and factor are of one series at one moment: the one at which the series says what the
evidence says. Where no series does, the evidence is shown by its own value alone.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.view.snapshot import ViewFrame, ViewSnapshot
from skewscope.engine.model.incident import Incident, IncidentEvidence
from skewscope.tui.render import expression_text, units
from skewscope.tui.render.evidence_series import GAP_TOLERANCE, EvidenceSeries, find_series
from skewscope.tui.render.evidence_value import PAST_RATIOS, SeriesReading
from skewscope.tui.render.node_lookup import NodeLookup

LEAD_TIME_S = 15.0
"""Seconds before an incident at which its curves begin, and from which on its peak is looked for."""
_PEER_FUNCTIONS = frozenset({"peer_excess", "peer_ratio", "peer_z", "peer_median", "peer_highest", "peer_lowest"})
_PAST_FUNCTIONS = PAST_RATIOS | {"baseline_z", "slope"}


def series_reader(
    snapshot: ViewSnapshot, node_lookup: NodeLookup
) -> Callable[[Incident, IncidentEvidence], SeriesReading | None]:
    """Returns what reads the series of evidence items, without curves."""

    def read(incident: Incident, item: IncidentEvidence) -> SeriesReading | None:
        one = find_series(item, incident, snapshot, node_lookup)
        return SeriesReading(compare_at_peak(item, incident, one, snapshot)) if one else None

    return read


def compare_at_peak(item: IncidentEvidence, incident: Incident, one: EvidenceSeries, snapshot: ViewSnapshot) -> str:
    """Returns `12.9 ms, peers 0.2 ms (65×)` at the peak; '' where the series never shows what the item says."""
    frames = _frames_of(incident, snapshot)
    if item.value is None or not frames:
        return ""
    value = _column(frames, one.row, "value")
    reference = {"peers": _column(frames, one.row, "peer_median"), "past": _column(frames, one.row, "baseline")}
    against = _against(item, one)
    at = _peak(item, value, reference)
    if at < 0:
        return ""
    if not against:
        # Of equally good ones the comparison that differs most says why the item holds.
        ratios = {name: _distance(value[at], column[at]) for name, column in reference.items()}
        against = max(ratios, key=lambda name: ratios[name])
    usual = float(reference[against][at])
    if not np.isfinite(usual):
        return ""
    words = units.PEERS if against == "peers" else units.NORMALLY
    share = units.is_share(one.signal) or ("percent" in item.expr and one.unit == "1")
    return units.format_comparison(float(value[at]), usual, one.unit, words, share=share)


def peak_time(item: IncidentEvidence, incident: Incident, one: EvidenceSeries, snapshot: ViewSnapshot) -> float | None:
    """Returns when the series shows what the item says, seconds since 1970; None where it never does."""
    frames = _frames_of(incident, snapshot)
    if item.value is None or not frames:
        return None
    reference = {"peers": _column(frames, one.row, "peer_median"), "past": _column(frames, one.row, "baseline")}
    at = _peak(item, _column(frames, one.row, "value"), reference)
    return frames[at].time if at >= 0 else None


def compare_now(snapshot: ViewSnapshot, row: int) -> str:
    """Returns `12.9 ms, peers 0.2 ms (65×)` of a series now: beside its peers or its past, from which it is farther."""
    signals = snapshot.signals
    one, now = signals.series_index.series[row], signals.latest
    value, share = float(now.value[row]), units.is_share(one.signal)
    found = [(units.PEERS, float(now.peer_median[row])), (units.NORMALLY, float(now.baseline[row]))]
    words, usual = max(found, key=lambda each: _distance(value, each[1]))
    if not (np.isfinite(value) and np.isfinite(usual)):
        return units.format_value(value, one.unit, share=share)
    return units.format_comparison(value, usual, one.unit, words, share=share)


def _frames_of(incident: Incident, snapshot: ViewSnapshot) -> list[ViewFrame]:
    """Returns the frames from shortly before the incident to its end."""
    begin, end = incident.opened_at - LEAD_TIME_S, incident.resolved_at or snapshot.time
    return [frame for frame in snapshot.signals.frames if begin <= frame.time <= end]


def _column(frames: list[ViewFrame], row: int, field: str) -> NDArray[np.float64]:
    """Returns [frame] one row of a field; NaN before the row existed."""
    columns = (getattr(frame, field) for frame in frames)
    return np.array([column[row] if row < len(column) else np.nan for column in columns], np.float64)


def _peak(item: IncidentEvidence, value: NDArray[np.float64], reference: dict[str, NDArray[np.float64]]) -> int:
    """Returns the frame whose measure is nearest to what the item says, -1 where none is near."""
    assert item.value is not None
    measure = expression_text.decisive_function(item.expr)
    with np.errstate(all="ignore"):
        if measure in PAST_RATIOS:
            measured = value / reference["past"] - 1
        elif measure == "peer_ratio":
            measured = value / reference["peers"]
        elif measure == "peer_excess":
            measured = value - reference["peers"]
        else:
            measured = value
    away = np.abs(measured - item.value)
    if not np.isfinite(away).any():
        return -1
    # Of equally near ones, as of a counter that stands, the last one has the plainest reference.
    best = int(np.nanargmin(away))
    return best if away[best] <= GAP_TOLERANCE * max(abs(item.value), 1e-12) or away[best] == 0 else -1


def _against(item: IncidentEvidence, one: EvidenceSeries) -> str:
    """Returns peers or past where an item says which one it is judged by, else ''."""
    if not one.peer_rows:
        return "past"
    used = expression_text.functions_of(item.expr)
    if used & _PEER_FUNCTIONS:
        return "peers"
    return "past" if used & _PAST_FUNCTIONS else ""


def _distance(value: float, usual: float) -> float:
    """Returns how far a value is from what is usual, as the logarithm of the ratio; -1 where nothing is usual."""
    if not (np.isfinite(value) and np.isfinite(usual)):
        return -1.0
    return abs(float(np.log(max(abs(value), 1e-12) / max(abs(usual), 1e-12))))
