"""How hot each node and port is: the deviations of its series, and what is wrong on it. Pure."""

from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.view.snapshot import RowIndex, ViewSnapshot
from skewscope.engine.model.incident import SEVERITIES, Incident
from skewscope.tui.render.node_lookup import NodeLookup

FULL_DEVIATION = 20.0
"""A deviation that fills a cell."""
NODE_KINDS = ("rank", "node", "port", "gpu")
"""Kinds that are at one node; what hits a group or a pool would colour all of them."""


@dataclass(frozen=True, slots=True)
class HeatMapRow:
    """One row of the heat strip: the nodes of a rack, as a whole or on one rail."""

    rack: str
    rail: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """How hot nodes and ports are in a scene."""

    snapshot: ViewSnapshot
    incidents: tuple[Incident, ...]
    node_severity: dict[str, str]
    """The worst severity that fires on each node."""
    deviation: dict[str, float]
    """The largest deviation among the series of each node, and of each port."""

    def cell(self, node: str, rail: str) -> tuple[float, str]:
        """Level, 0 to 1 or NaN where nothing is known, and role."""
        off = self.deviation.get(f"{node}/{rail}" if rail else node, np.nan)
        severity = self.node_severity.get(node, "")
        role = {"critical": "crit", "warning": "warn", "info": "info"}.get(severity, "" if np.isfinite(off) else "dim")
        level = min(off / FULL_DEVIATION, 1.0) if np.isfinite(off) else np.nan
        return (max(level, 0.99) if severity and not rail and np.isfinite(level) else level), role


@dataclass
class HeatMapBuilder:
    """Takes the heat of scenes of one topology."""

    node_lookup: NodeLookup
    _index_cache: tuple[int, tuple[RowIndex, RowIndex, list[str]]] = field(
        default_factory=lambda: (-1, (np.empty(0, np.intp), np.empty(0, np.intp), []))
    )

    def build(self, scene: ViewSnapshot) -> HeatMap:
        hit: dict[str, str] = {}
        incidents = tuple(i for i in scene.incidents if i.state == "firing")
        for incident in incidents:
            for name in (incident.name, *incident.also) if incident.kind in NODE_KINDS else ():
                for node in self.node_lookup.nodes_of(incident.kind, name):
                    before = hit.get(node, "info")
                    hit[node] = max(before, incident.severity, key=SEVERITIES.index)
        return HeatMap(scene, incidents, hit, self._max_deviation(scene))

    def _max_deviation(self, scene: ViewSnapshot) -> dict[str, float]:
        """The largest deviation by node and by port; what is stale tells nothing."""
        signals = scene.signals
        if not len(signals):
            return {}
        rows, places, names = self._index_series(scene)
        there = rows < len(signals)
        rows, places = rows[there], places[there]
        fresh = ~signals.latest.stale[rows]
        worst = np.full(len(names), -np.inf)
        np.maximum.at(worst, places[fresh], np.nan_to_num(np.abs(signals.deviation))[rows[fresh]])
        return {name: off for name, off in zip(names, worst.tolist(), strict=True) if off >= 0}

    def series_rows(self, scene: ViewSnapshot, node: str) -> RowIndex:
        """The rows of the series that are on a node."""
        rows, places, names = self._index_series(scene)
        here = rows[places == names.index(node)] if node in names else rows[:0]
        return here[here < len(scene.signals)]

    def _index_series(self, scene: ViewSnapshot) -> tuple[RowIndex, RowIndex, list[str]]:
        """Rows of series, the number of the node or port that each is on, and their names; worked out once."""
        roster = scene.signals.series_index
        if self._index_cache[0] != len(roster.series):
            number: dict[str, int] = {}
            pairs: list[tuple[int, int]] = []
            for row, one in enumerate(roster.series):
                nodes = self.node_lookup.nodes_of(one.kind, one.entity) if one.kind in NODE_KINDS else ()
                names = [*nodes, one.entity] if one.kind == "port" else [*nodes]
                pairs += [(row, number.setdefault(name, len(number))) for name in names]
            table = np.array(pairs, np.intp).reshape(-1, 2)
            self._index_cache = len(roster.series), (table[:, 0], table[:, 1], list(number))
        return self._index_cache[1]


def heat_map_rows(scene: ViewSnapshot) -> list[HeatMapRow]:
    """Racks, each with its rails below it."""
    racks: dict[str, list[str]] = {}
    for node in scene.topology.nodes:
        racks.setdefault(node.rack, []).append(node.name)
    out: list[HeatMapRow] = []
    for rack, nodes in racks.items():
        out.append(HeatMapRow(rack, "", tuple(nodes)))
        rails = dict.fromkeys(p.name for n in nodes for p in scene.topology.node[n].ports)
        out += [HeatMapRow(rack, rail, tuple(nodes)) for rail in rails]
    return out
