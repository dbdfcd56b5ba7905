"""Health of all nodes, GPUs, groups and replicas at once, for schedulers and routers that rank places.

The work is proportional to the fleet and to its incidents, not to their product.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from skewscope.adapters.controller.health import (
    GONE,
    GPU,
    GROUP,
    HEALTH_KINDS,
    NODE,
    REPLICA,
    UNKNOWN,
    HealthReport,
    build_report,
    concerns_gpu,
)
from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.mapping.incident_nodes import endpoint_names, entity_names, nodes_of
from skewscope.engine.model.incident import Incident, rfc3339
from skewscope.engine.model.topology import Topology

GONE_PLACEMENT = 0.0
"""Placement score of what is gone: nothing can be placed there."""
NEUTRAL = 1.0
"""Placement score where nothing at all is known: no place is worse than another."""


def assess_all(known: TickResult, topology: Topology) -> list[HealthReport]:
    """Returns the health of every node, GPU, group and replica; a replica is a group that a pool names."""
    hits = _collect_hits(known, topology)
    replicas = {name for pool in topology.pools for name in pool.replicas}
    found: list[HealthReport] = []
    for node in topology.nodes:
        found.append(build_report(known, NODE, node.name, hits.get(node.name, {}).values(), (node.name,)))
        for number in range(node.gpus):
            name = f"{node.name}/gpu{number}"
            reasons = [one for one in hits.get(node.name, {}).values() if concerns_gpu(one, node.name, name)]
            found.append(build_report(known, GPU, name, reasons, (node.name,)))
    for group in topology.groups:
        kind, nodes = REPLICA if group.name in replicas else GROUP, nodes_of(group.name, topology)
        reasons_of_group = dict(hits.get(f"group {group.name}", {}))
        for node_name in nodes:
            reasons_of_group |= hits.get(node_name, {})
        found.append(build_report(known, kind, group.name, reasons_of_group.values(), nodes))
    return found


def _collect_hits(known: TickResult, topology: Topology) -> Mapping[str, dict[str, Incident]]:
    """Returns the incidents by the node that they hit, or by `group NAME`."""
    hits: dict[str, dict[str, Incident]] = {}
    for one in known.snapshot.incidents:
        if not one.is_reason:
            continue
        if one.kind in (GROUP, REPLICA):
            hits.setdefault(f"group {one.name}", {})[one.id] = one
            continue
        for end in {end for name in entity_names(one) for end in endpoint_names(name)}:
            if end in topology.node:
                hits.setdefault(end, {})[one.id] = one
    return hits


def describe_all(
    reports: Iterable[HealthReport], now: float, below: float | None = None, kind: str = ""
) -> dict[str, Any]:
    """Returns the JSON answer: each entity with score, placement score, coverage and reasons, the worst first.

    Args:
        reports: the health of all entities.
        now: the present time, seconds since 1970.
        below: only entities whose known score is lower; None for all.
        kind: only entities of this kind; '' for all.
    """
    listed = [one for one in reports if kind in ("", one.kind)]
    neutral = _find_neutral(listed)
    entities = []
    for one in sorted(listed, key=lambda one: (one.score is None, one.score or 0.0, one.kind, one.name)):
        if below is not None and (one.score is None or one.score >= below):
            continue
        described = one.as_json(now)
        del described["as_of"], described["age_s"]
        score = described["score"]
        entities.append(
            described | {"placement": GONE_PLACEMENT if one.is_gone else neutral[one.kind] if score is None else score}
        )
    time = max((one.time for one in listed), default=now)
    counts = Counter(one.state for one in listed)
    return {
        "as_of": rfc3339(time),
        "age_s": round(max(now - time, 0.0), 3),
        "of": len(listed),
        "unknown": counts[UNKNOWN],
        "gone": counts[GONE],
        "entities": entities,
    }


def _find_neutral(reports: list[HealthReport]) -> dict[str, float]:
    """Returns for each kind the median of the scores, where what is unknown counts as neutral.

    The median of the known ones alone would be that of the ill, where only a diagnosis makes a place known.
    """
    scores: dict[str, list[float]] = {}
    for one in reports:
        if not one.is_gone:
            scores.setdefault(one.kind, []).append(NEUTRAL if one.score is None else one.score)
    return {kind: round(median(scores[kind]), 3) if kind in scores else NEUTRAL for kind in HEALTH_KINDS}
