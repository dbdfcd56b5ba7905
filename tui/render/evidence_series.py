"""The measured series behind a piece of evidence, and their peers. Pure."""

from dataclasses import dataclass

import numpy as np

from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.model.arrays import F32
from skewscope.engine.model.incident import Incident, IncidentEvidence
from skewscope.tui.render.expression_text import all_signals, decisive_signals, is_difference_from_peers
from skewscope.tui.render.node_lookup import NodeLookup

MAX_PEERS = 16
"""Peers drawn at most."""
GAP_TOLERANCE = 0.5
"""How far the difference of a series may be from that of an item, as a share of it: windows smooth it."""


@dataclass(frozen=True, eq=False)
class EvidenceSeries:
    """A series behind a piece of evidence, with its peers."""

    row: int
    signal: str
    entity: str
    unit: str
    peer_rows: tuple[int, ...]

    def own_values(self, snapshot: ViewSnapshot, samples: int = 0) -> F32:
        """Returns [sample] the values of the series, oldest first."""
        found: F32 = snapshot.signals.history(np.array([self.row]), samples)[0]
        return found

    def peer_values(self, snapshot: ViewSnapshot, samples: int = 0) -> F32:
        """Returns [peer, sample] the values of the peers, oldest first."""
        return snapshot.signals.history(np.array(self.peer_rows, np.intp), samples)


def find_series(
    item: IncidentEvidence, incident: Incident, snapshot: ViewSnapshot, node_lookup: NodeLookup
) -> EvidenceSeries | None:
    """Returns the series that a piece of evidence measures; None if there is none or its verdict is unknown.

    Where the evidence is a difference from peers, it is the series with that difference.
    """
    if item.verdict == "unknown":
        return None
    row = _row_with_gap(item, incident, snapshot)
    for signal in decisive_signals(item.expr):
        if row < 0:
            row = _best_row(signal, incident, snapshot, node_lookup, front="front(" in item.expr)
    if row < 0:
        return None
    series_index = snapshot.signals.series_index
    peers = [int(r) for r in series_index.peers_of(row) if r < len(snapshot.signals)][:MAX_PEERS]
    one = series_index.series[row]
    return EvidenceSeries(row, one.signal, one.entity, one.unit, tuple(peers))


def _is_gap(item: IncidentEvidence) -> bool:
    """Returns whether the value of an item is a difference from peers."""
    return item.value is not None and is_difference_from_peers(item.expr)


def _row_with_gap(item: IncidentEvidence, incident: Incident, snapshot: ViewSnapshot) -> int:
    """Returns the row of the incident's entity that is as far from its peers as an item says, -1 if none is."""
    signals = snapshot.signals
    if not _is_gap(item) or item.value is None or not len(signals):
        return -1
    value, median = signals.latest.value, signals.latest.peer_median
    best, least = -1, GAP_TOLERANCE * max(abs(item.value), 1.0)
    for name in all_signals(item.expr):
        for row in map(int, signals.series_index.by_signal.get(name, ())):
            if row >= len(signals) or not _is_of(signals.series_index.series[row].entity, incident):
                continue
            away = abs(float(value[row]) - float(median[row]) - item.value)
            if away < least:
                best, least = row, away
    return best


def _is_of(entity: str, incident: Incident) -> bool:
    """Returns whether an entity is that of an incident, or it as a member of a group."""
    return entity == incident.name or entity.endswith(f":{incident.name}")


def list_series(
    incident: Incident, snapshot: ViewSnapshot, node_lookup: NodeLookup
) -> list[tuple[IncidentEvidence, EvidenceSeries]]:
    """Returns the evidence items with a series, each series once, the strongest evidence first.

    Of equally strong ones, a difference from peers is first: the peers' series show it.
    """
    order = sorted(incident.evidence, key=lambda e: (e.verdict != "yes", -e.weight, not _is_gap(e)))
    found: dict[int, tuple[IncidentEvidence, EvidenceSeries]] = {}
    for item in order:
        if one := find_series(item, incident, snapshot, node_lookup):
            found.setdefault(one.row, (item, one))
    return list(found.values())


def _best_row(signal: str, incident: Incident, snapshot: ViewSnapshot, node_lookup: NodeLookup, *, front: bool) -> int:
    """Returns the row of the series of a signal that fits an incident best, -1 if none fits."""
    signals = snapshot.signals
    rows = [int(r) for r in signals.series_index.by_signal.get(signal, ()) if r < len(signals)]
    if not rows:
        return -1
    nodes = node_lookup.nodes_of(incident.kind, incident.name)
    group = snapshot.topology.group.get(incident.name)
    fronts = {group.front_end} if front and group and group.front_end else nodes

    def misfit(row: int) -> tuple[int, float]:
        one = signals.series_index.series[row]
        if _is_of(one.entity, incident):
            near = 0
        else:
            lies = node_lookup.nodes_of(one.kind, one.entity)
            near = 1 if lies and lies <= fronts else 2 if lies & nodes else 3
        away = signals.deviation[row]
        return near, -abs(float(away)) if np.isfinite(away) else 0.0

    best = min(rows, key=misfit)
    return best if misfit(best)[0] < 3 else -1
