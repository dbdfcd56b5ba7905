"""How well a node, a group or a replica is, as far as a controller sees: what a scheduler asks before placing work."""

from dataclasses import dataclass
from typing import Any

from skewscope.adapters.controller.work import Known
from skewscope.adapters.places import ends, names_of, nodes_of
from skewscope.engine.incident import Incident, rfc3339
from skewscope.engine.topology import Topology

KINDS = ("node", "group", "replica")
WORTH = {"info": 0.1, "warning": 0.5, "critical": 0.9}
"""How much of an entity's health an incident that is certain takes."""


@dataclass(frozen=True, slots=True)
class Health:
    """An answer: 1 is in health, 0 unusable."""

    kind: str
    name: str
    score: float
    reasons: tuple[Incident, ...]
    """Worst first; what another one explains is left out."""
    coverage: float | None
    """Share of the telemetry of its nodes that comes; None where there should be none."""
    time: float
    """As of when, seconds since 1970."""

    def as_json(self, now: float) -> dict[str, Any]:
        """The answer as it is sent."""
        reasons = [
            {
                "incident": one.id,
                "condition": one.condition,
                "entity": {"kind": one.kind, "name": one.name},
                "severity": one.severity,
                "confidence": round(one.confidence, 3),
                "takes": round(_takes(one), 3),
            }
            for one in self.reasons
        ]
        return {
            "kind": self.kind,
            "name": self.name,
            "score": round(self.score, 3),
            "reasons": reasons,
            "coverage": None if self.coverage is None else round(self.coverage, 3),
            "as_of": rfc3339(self.time),
            "age_s": round(max(now - self.time, 0.0), 3),
        }


def health(known: Known, topology: Topology, kind: str, name: str) -> Health | None:
    """How well something is; None where there is no such thing."""
    nodes = _nodes(topology, kind, name)
    if nodes is None:
        return None
    firing = [one for one in known.snapshot.incidents if one.state == "firing" and one.explained_by is None]
    reasons = sorted((one for one in firing if _hits(one, nodes, kind, name)), key=lambda one: (-_takes(one), one.id))
    score = 1.0
    for one in reasons:
        score *= 1.0 - _takes(one)
    covered = [known.covered[node] for node in sorted(nodes) if node in known.covered]
    share = sum(covered) / len(covered) if covered else None
    return Health(kind, name, score, tuple(reasons), share, known.snapshot.time)


def _takes(one: Incident) -> float:
    return one.confidence * WORTH.get(one.severity, 0.5)


def _nodes(topology: Topology, kind: str, name: str) -> set[str] | None:
    if kind == "node":
        return {name} if name in topology.node else None
    return nodes_of(name, topology) if kind in KINDS and name in topology.group else None


def _hits(one: Incident, nodes: set[str], kind: str, name: str) -> bool:
    """Whether an incident is on something of these nodes, or of the group itself."""
    if one.kind in ("group", "replica"):
        # What is wrong with a whole group is no fault of each of its nodes.
        return kind != "node" and one.name == name
    return any(end in nodes for name in names_of(one) for end in ends(name))
