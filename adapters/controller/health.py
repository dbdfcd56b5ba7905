"""Health of a node, GPU, group or replica, for schedulers that place work."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.mapping.incident_nodes import endpoint_names, entity_names, nodes_of
from skewscope.engine.model.incident import Incident, rfc3339
from skewscope.engine.model.topology import Entity, Topology

WELL, ILL, UNKNOWN, GONE = "well", "ill", "unknown", "gone"
"""well: telemetry arrives and no diagnosis lowers the score; ill: one does; unknown: its own telemetry does not arrive;
gone: it was there, and is not any more."""
HEALTH_KINDS = NODE, GPU, GROUP, REPLICA = ("node", "gpu", "group", "replica")
SEVERITY_WEIGHTS = {"info": 0.1, "warning": 0.5, "critical": 0.9}
"""Share of an entity's health that a certain incident takes, by severity."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Health of an entity: 1 healthy, 0 unusable; well, ill, unknown or gone."""

    kind: str
    name: str
    score: float | None
    """None where it is unknown or gone."""
    reasons: tuple[Incident, ...]
    """Worst first; symptoms and incidents explained by another one are omitted."""
    coverage: float | None
    """Share of expected telemetry of its nodes and its engine that arrives; None where none is expected."""
    time: float
    """Time of the assessment, seconds since 1970."""
    is_gone: bool = False
    """Whether it was there and is not any more."""

    @property
    def state(self) -> str:
        """WELL, ILL, UNKNOWN or GONE."""
        if self.is_gone:
            return GONE
        return UNKNOWN if self.score is None else ILL if self.reasons else WELL

    def as_json(self, now: float) -> dict[str, Any]:
        """Returns the JSON answer."""
        reasons = [
            {
                "incident": one.id,
                "condition": one.condition,
                "entity": {"kind": one.kind, "name": one.name},
                "severity": one.severity,
                "confidence": round(one.confidence, 3),
                "takes": round(_health_loss(one), 3),
            }
            for one in self.reasons
        ]
        return {
            "kind": self.kind,
            "name": self.name,
            "state": self.state,
            "score": None if self.score is None else round(self.score, 3),
            "reasons": reasons,
            "coverage": None if self.coverage is None else round(self.coverage, 3),
            "as_of": rfc3339(self.time),
            "age_s": round(max(now - self.time, 0.0), 3),
        }


def assess_health(known: TickResult, topology: Topology, kind: str, name: str) -> HealthReport | None:
    """Returns the health of an entity; None if there is no such entity."""
    nodes = _nodes_of_target(topology, kind, name)
    if nodes is None:
        return None
    here = [one for one in known.snapshot.incidents if one.is_reason and _affects(one, nodes, kind, name)]
    return build_report(known, kind, name, here, nodes)


def build_report(
    known: TickResult, kind: str, name: str, incidents: Iterable[Incident], nodes: Iterable[str]
) -> HealthReport:
    """Returns the health of an entity on some nodes that some incidents affect."""
    if known.gone.has(Entity(kind, name)):
        return HealthReport(kind, name, None, (), None, known.snapshot.time, is_gone=True)
    reasons = sorted(incidents, key=lambda one: (-_health_loss(one), one.id))
    score = 1.0
    for one in reasons:
        score *= 1.0 - _health_loss(one)
    covered = [known.node_coverage[node] for node in sorted(nodes) if node in known.node_coverage]
    # A replica is seen by its engine and a GPU by its own series, whatever is known of their nodes; a group without an
    # engine by all of its nodes.
    own = known.engine_coverage.get(name) if kind in (GROUP, REPLICA) else None
    if kind == GPU and known.gpu_coverage:
        own = known.gpu_coverage.get(name, 0.0)
    is_seen = bool(own) if own is not None else bool(covered) and min(covered) > 0.0
    every = covered if own is None else [*covered, own]
    share = sum(every) / len(every) if every else None
    is_known = is_seen or bool(reasons)
    return HealthReport(kind, name, score if is_known else None, tuple(reasons), share, known.snapshot.time)


def _health_loss(one: Incident) -> float:
    return one.confidence * SEVERITY_WEIGHTS.get(one.severity, 0.5)


def _nodes_of_target(topology: Topology, kind: str, name: str) -> set[str] | None:
    """Returns the nodes of an entity, None where there is no such entity."""
    if kind == NODE:
        return {name} if name in topology.node else None
    if kind == GPU:
        node = name.rpartition("/gpu")[0]
        known = topology.node.get(node)
        return {node} if known and name in (f"{node}/gpu{n}" for n in range(known.gpus)) else None
    return nodes_of(name, topology) if kind in HEALTH_KINDS and name in topology.group else None


def concerns_gpu(one: Incident, node: str, gpu: str) -> bool:
    """Returns whether an incident that hits a node concerns one of its GPUs: not where it names another GPU alone."""
    here = [name for name in entity_names(one) if node in endpoint_names(name)]
    return any(name == gpu or not name.startswith(f"{node}/gpu") for name in here)


def _affects(one: Incident, nodes: set[str], kind: str, name: str) -> bool:
    """Returns whether an incident affects these nodes or the group itself."""
    if one.kind in (GROUP, REPLICA):
        # A fault of a whole group is not a fault of each of its nodes.
        return kind in (GROUP, REPLICA) and one.name == name
    if kind == GPU:
        return any(concerns_gpu(one, node, name) for node in nodes)
    return any(end in nodes for name in entity_names(one) for end in endpoint_names(name))
