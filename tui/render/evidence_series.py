"""Which series stand behind a piece of evidence, and which of them belong to the entity that is accused. Pure."""

import re
from dataclasses import dataclass

import numpy as np

from skewscope.adapters.view.snapshot import F32, ViewSnapshot
from skewscope.engine.model.incident import Incident, IncidentEvidence
from skewscope.tui.render.node_lookup import NodeLookup

_SIGNAL = re.compile(r"(?<![\w.])[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
MAX_PEERS = 16
"""Peers drawn; of more, some."""


@dataclass(frozen=True, eq=False)
class EvidenceSeries:
    """One series behind a piece of evidence, with its peers."""

    row: int
    signal: str
    entity: str
    unit: str
    peer_rows: tuple[int, ...]

    def own_values(self, scene: ViewSnapshot, samples: int = 0) -> F32:
        """Its values, oldest first."""
        found: F32 = scene.signals.history(np.array([self.row]), samples)[0]
        return found

    def peer_values(self, scene: ViewSnapshot, samples: int = 0) -> F32:
        """[peers, samples] those of its peers."""
        return scene.signals.history(np.array(self.peer_rows, np.intp), samples)


def signals_of(expression: str) -> list[str]:
    """The signals that an expression names, each once, in order."""
    return list(dict.fromkeys(_SIGNAL.findall(expression)))


def find_series(
    item: IncidentEvidence, incident: Incident, scene: ViewSnapshot, where: NodeLookup
) -> EvidenceSeries | None:
    """The series that a piece of evidence speaks of, as far as one can be told."""
    for signal in signals_of(item.expr):
        row = _best_row(signal, incident, scene, where, front="front(" in item.expr)
        if row >= 0:
            roster = scene.signals.series_index
            peers = [int(r) for r in roster.peers_of(row) if r < len(scene.signals)][:MAX_PEERS]
            one = roster.series[row]
            return EvidenceSeries(row, signal, one.entity, one.unit, tuple(peers))
    return None


def list_series(
    incident: Incident, scene: ViewSnapshot, where: NodeLookup
) -> list[tuple[IncidentEvidence, EvidenceSeries]]:
    """What speaks for an incident and can be drawn, each series once, what speaks loudest first."""
    order = sorted(incident.evidence, key=lambda e: (e.verdict != "yes", -e.weight))
    found: dict[int, tuple[IncidentEvidence, EvidenceSeries]] = {}
    for item in order:
        if one := find_series(item, incident, scene, where):
            found.setdefault(one.row, (item, one))
    return list(found.values())


def _best_row(signal: str, incident: Incident, scene: ViewSnapshot, where: NodeLookup, *, front: bool) -> int:
    """The row of a signal that fits an incident best, -1 where none does."""
    signals = scene.signals
    rows = [int(r) for r in signals.series_index.by_signal.get(signal, ()) if r < len(signals)]
    if not rows:
        return -1
    nodes = where.nodes_of(incident.kind, incident.name)
    group = scene.topology.group.get(incident.name)
    fronts = {group.front_end} if front and group and group.front_end else nodes

    def misfit(row: int) -> tuple[int, float]:
        one = signals.series_index.series[row]
        if one.entity == incident.name or one.entity.endswith(f":{incident.name}"):
            near = 0
        else:
            lies = where.nodes_of(one.kind, one.entity)
            near = 1 if lies and lies <= fronts else 2 if lies & nodes else 3
        away = signals.deviation[row]
        return near, -abs(float(away)) if np.isfinite(away) else 0.0

    best = min(rows, key=misfit)
    return best if misfit(best)[0] < 3 else -1
