"""Which series stand behind a piece of evidence, and which of them belong to the entity that is accused. Pure."""

import re
from dataclasses import dataclass

import numpy as np

from skewscope.adapters.scene import F32, Scene
from skewscope.engine.incident import Evidence, Incident
from skewscope.tui.whereabouts import Whereabouts

_SIGNAL = re.compile(r"(?<![\w.])[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
MOST_PEERS = 16
"""Peers drawn; of more, some."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One series behind a piece of evidence, with its peers."""

    row: int
    signal: str
    entity: str
    unit: str
    peers: tuple[int, ...]

    def own(self, scene: Scene, samples: int = 0) -> F32:
        """Its values, oldest first."""
        found: F32 = scene.signals.lines(np.array([self.row]), samples)[0]
        return found

    def others(self, scene: Scene, samples: int = 0) -> F32:
        """[peers, samples] those of its peers."""
        return scene.signals.lines(np.array(self.peers, np.intp), samples)


def signals_of(expression: str) -> list[str]:
    """The signals that an expression names, each once, in order."""
    return list(dict.fromkeys(_SIGNAL.findall(expression)))


def trace(item: Evidence, incident: Incident, scene: Scene, where: Whereabouts) -> Trace | None:
    """The series that a piece of evidence speaks of, as far as one can be told."""
    for signal in signals_of(item.expr):
        row = _row(signal, incident, scene, where, front="front(" in item.expr)
        if row >= 0:
            roster = scene.signals.roster
            peers = [int(r) for r in roster.like(row) if r < len(scene.signals)][:MOST_PEERS]
            one = roster.series[row]
            return Trace(row, signal, one.entity, one.unit, tuple(peers))
    return None


def traces(incident: Incident, scene: Scene, where: Whereabouts) -> list[tuple[Evidence, Trace]]:
    """What speaks for an incident and can be drawn, each series once, what speaks loudest first."""
    order = sorted(incident.evidence, key=lambda e: (e.verdict != "yes", -e.weight))
    found: dict[int, tuple[Evidence, Trace]] = {}
    for item in order:
        if one := trace(item, incident, scene, where):
            found.setdefault(one.row, (item, one))
    return list(found.values())


def _row(signal: str, incident: Incident, scene: Scene, where: Whereabouts, *, front: bool) -> int:
    """The row of a signal that fits an incident best, -1 where none does."""
    signals = scene.signals
    rows = [int(r) for r in signals.roster.by_signal.get(signal, ()) if r < len(signals)]
    if not rows:
        return -1
    nodes = where.nodes(incident.kind, incident.name)
    group = scene.topology.group.get(incident.name)
    fronts = {group.front_end} if front and group and group.front_end else nodes

    def misfit(row: int) -> tuple[int, float]:
        one = signals.roster.series[row]
        if one.entity == incident.name or one.entity.endswith(f":{incident.name}"):
            near = 0
        else:
            lies = where.nodes(one.kind, one.entity)
            near = 1 if lies and lies <= fronts else 2 if lies & nodes else 3
        away = signals.deviation[row]
        return near, -abs(float(away)) if np.isfinite(away) else 0.0

    best = min(rows, key=misfit)
    return best if misfit(best)[0] < 3 else -1
