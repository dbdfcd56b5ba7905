"""How hot each node and port is: the deviations of its series, and what is wrong on it. Pure."""

from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.scene import Rows, Scene
from skewscope.engine.incident import SEVERITIES, Incident
from skewscope.tui.whereabouts import Whereabouts

FULL = 20.0
"""A deviation that fills a cell."""
ON_NODES = ("rank", "node", "port", "gpu")
"""Kinds that are at one node; what hits a group or a pool would colour all of them."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One row of the heat strip: the nodes of a rack, as a whole or on one rail."""

    rack: str
    rail: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Heat:
    """How hot nodes and ports are in a scene."""

    scene: Scene
    incidents: tuple[Incident, ...]
    hit: dict[str, str]
    """The worst severity that fires on each node."""
    off: dict[str, float]
    """The largest deviation among the series of each node, and of each port."""

    def cell(self, node: str, rail: str) -> tuple[float, str]:
        """Level, 0 to 1 or NaN where nothing is known, and role."""
        off = self.off.get(f"{node}/{rail}" if rail else node, np.nan)
        severity = self.hit.get(node, "")
        role = {"critical": "crit", "warning": "warn", "info": "info"}.get(severity, "" if np.isfinite(off) else "dim")
        level = min(off / FULL, 1.0) if np.isfinite(off) else np.nan
        return (max(level, 0.99) if severity and not rail and np.isfinite(level) else level), role


@dataclass
class Thermometer:
    """Takes the heat of scenes of one topology."""

    where: Whereabouts
    _known: tuple[int, tuple[Rows, Rows, list[str]]] = field(
        default_factory=lambda: (-1, (np.empty(0, np.intp), np.empty(0, np.intp), []))
    )

    def take(self, scene: Scene) -> Heat:
        hit: dict[str, str] = {}
        incidents = tuple(i for i in scene.incidents if i.state == "firing")
        for incident in incidents:
            for name in (incident.name, *incident.also) if incident.kind in ON_NODES else ():
                for node in self.where.nodes(incident.kind, name):
                    before = hit.get(node, "info")
                    hit[node] = max(before, incident.severity, key=SEVERITIES.index)
        return Heat(scene, incidents, hit, self._off(scene))

    def _off(self, scene: Scene) -> dict[str, float]:
        """The largest deviation by node and by port; what is stale tells nothing."""
        signals = scene.signals
        if not len(signals):
            return {}
        rows, places, names = self._placed(scene)
        there = rows < len(signals)
        rows, places = rows[there], places[there]
        fresh = ~signals.now.stale[rows]
        worst = np.full(len(names), -np.inf)
        np.maximum.at(worst, places[fresh], np.nan_to_num(np.abs(signals.deviation))[rows[fresh]])
        return {name: off for name, off in zip(names, worst.tolist(), strict=True) if off >= 0}

    def rows_of(self, scene: Scene, node: str) -> Rows:
        """The rows of the series that are on a node."""
        rows, places, names = self._placed(scene)
        here = rows[places == names.index(node)] if node in names else rows[:0]
        return here[here < len(scene.signals)]

    def _placed(self, scene: Scene) -> tuple[Rows, Rows, list[str]]:
        """Rows of series, the number of the node or port that each is on, and their names; worked out once."""
        roster = scene.signals.roster
        if self._known[0] != len(roster.series):
            number: dict[str, int] = {}
            pairs: list[tuple[int, int]] = []
            for row, one in enumerate(roster.series):
                nodes = self.where.nodes(one.kind, one.entity) if one.kind in ON_NODES else ()
                names = [*nodes, one.entity] if one.kind == "port" else [*nodes]
                pairs += [(row, number.setdefault(name, len(number))) for name in names]
            table = np.array(pairs, np.intp).reshape(-1, 2)
            self._known = len(roster.series), (table[:, 0], table[:, 1], list(number))
        return self._known[1]


def strips(scene: Scene) -> list[Strip]:
    """Racks, each with its rails below it."""
    racks: dict[str, list[str]] = {}
    for node in scene.topology.nodes:
        racks.setdefault(node.rack, []).append(node.name)
    out: list[Strip] = []
    for rack, nodes in racks.items():
        out.append(Strip(rack, "", tuple(nodes)))
        rails = dict.fromkeys(p.name for n in nodes for p in scene.topology.node[n].ports)
        out += [Strip(rack, rail, tuple(nodes)) for rail in rails]
    return out
