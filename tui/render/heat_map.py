"""The heat map of nodes and ports: deviations of their series and severities of their incidents. Pure."""

from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.view.snapshot import RowIndex, ViewSnapshot
from skewscope.engine.model.incident import SEVERITIES, Incident
from skewscope.tui.render.detail import SEVERITY_GLYPHS
from skewscope.tui.render.node_lookup import NodeLookup

FULL_DEVIATION = 20.0
"""The deviation of a full cell."""
HEALTHY_LEVEL = 0.49
"""Highest level of a cell without an incident: it must not look as full as one with an incident."""
NODE_KINDS = ("rank", "node", "port", "gpu")
"""Kinds located at one node."""
MARKED_KINDS = (*NODE_KINDS, "link", "replica")
"""Kinds whose incidents mark their nodes; those of groups do so as roots only, those of pools would mark all."""


@dataclass(frozen=True, slots=True)
class HeatMapRow:
    """A row of the heat map: the nodes of a rack, as a whole or for one rail."""

    rack: str
    rail: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Deviations and severities of nodes and ports at a snapshot."""

    snapshot: ViewSnapshot
    incidents: tuple[Incident, ...]
    node_severity: dict[str, str]
    """The worst firing severity by node."""
    deviation: dict[str, float]
    """The largest deviation of the series of each node and each port."""

    def mark(self, node: str) -> str:
        """Returns the sign of the worst incident of a node, beside its colour; '' without one."""
        severity = self.node_severity.get(node, "")
        return SEVERITY_GLYPHS[severity][0] if severity else ""

    def cell(self, node: str, rail: str) -> tuple[float, str]:
        """Returns level (0 to 1, NaN if unknown) and role of a cell."""
        off = self.deviation.get(f"{node}/{rail}" if rail else node, np.nan)
        severity = self.node_severity.get(node, "")
        role = {"critical": "crit", "warning": "warn", "info": "info"}.get(severity, "" if np.isfinite(off) else "dim")
        level = min(off / FULL_DEVIATION, 1.0 if severity else HEALTHY_LEVEL) if np.isfinite(off) else np.nan
        return (max(level, 0.99) if severity and not rail and np.isfinite(level) else level), role


def _marks_nodes(incident: Incident) -> bool:
    return incident.kind in MARKED_KINDS or (incident.kind == "group" and incident.explained_by is None)


@dataclass
class HeatMapBuilder:
    """Builds the heat maps of one topology."""

    node_lookup: NodeLookup
    _index_cache: tuple[int, tuple[RowIndex, RowIndex, list[str]]] = field(
        default_factory=lambda: (-1, (np.empty(0, np.intp), np.empty(0, np.intp), []))
    )

    def build(self, snapshot: ViewSnapshot) -> HeatMap:
        hit: dict[str, str] = {}
        incidents = tuple(i for i in snapshot.incidents if i.state == "firing")
        for incident in incidents:
            for name in (incident.name, *incident.also) if _marks_nodes(incident) else ():
                for node in self.node_lookup.nodes_of(incident.kind, name):
                    before = hit.get(node, "info")
                    hit[node] = max(before, incident.severity, key=SEVERITIES.index)
        return HeatMap(snapshot, incidents, hit, self._max_deviation(snapshot))

    def _max_deviation(self, snapshot: ViewSnapshot) -> dict[str, float]:
        """Returns the largest deviation by node and port, without stale series."""
        signals = snapshot.signals
        if not len(signals):
            return {}
        rows, places, names = self._index_series(snapshot)
        there = rows < len(signals)
        rows, places = rows[there], places[there]
        fresh = ~signals.latest.stale[rows]
        worst = np.full(len(names), -np.inf)
        np.maximum.at(worst, places[fresh], np.nan_to_num(np.abs(signals.deviation))[rows[fresh]])
        return {name: off for name, off in zip(names, worst.tolist(), strict=True) if off >= 0}

    def series_rows(self, snapshot: ViewSnapshot, node: str) -> RowIndex:
        """Returns [series] row numbers of the series on a node."""
        rows, places, names = self._index_series(snapshot)
        here = rows[places == names.index(node)] if node in names else rows[:0]
        return here[here < len(snapshot.signals)]

    def _index_series(self, snapshot: ViewSnapshot) -> tuple[RowIndex, RowIndex, list[str]]:
        """Returns series rows [pair], location numbers [pair] and location names; cached."""
        series_index = snapshot.signals.series_index
        if self._index_cache[0] != len(series_index.series):
            number: dict[str, int] = {}
            pairs: list[tuple[int, int]] = []
            for row, one in enumerate(series_index.series):
                nodes = self.node_lookup.nodes_of(one.kind, one.entity) if one.kind in NODE_KINDS else ()
                names = [*nodes, one.entity] if one.kind == "port" else [*nodes]
                pairs += [(row, number.setdefault(name, len(number))) for name in names]
            table = np.array(pairs, np.intp).reshape(-1, 2)
            self._index_cache = len(series_index.series), (table[:, 0], table[:, 1], list(number))
        return self._index_cache[1]


def heat_map_rows(snapshot: ViewSnapshot) -> list[HeatMapRow]:
    """Returns the racks, each followed by its rails."""
    racks: dict[str, list[str]] = {}
    for node in snapshot.topology.nodes:
        racks.setdefault(node.rack, []).append(node.name)
    out: list[HeatMapRow] = []
    for rack, nodes in racks.items():
        out.append(HeatMapRow(rack, "", tuple(nodes)))
        rails = dict.fromkeys(p.name for n in nodes for p in snapshot.topology.node[n].ports)
        out += [HeatMapRow(rack, rail, tuple(nodes)) for rail in rails]
    return out
