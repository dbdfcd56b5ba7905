"""Incidents, evidence, labels and nodes as rows of the history's tables. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from skewscope.adapters.assessment.score import LONGER_ROUNDS
from skewscope.adapters.backtest.run import RecordingOutcome
from skewscope.adapters.backtest.verdicts import VersionScore
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import LocalityIndex
from skewscope.engine.model.topology import Topology

Row = dict[str, Any]
MICROSECONDS = 1_000_000


def incident_rows(
    recording: str, incidents: Sequence[Incident], topology: Topology, end: float, verdicts: Mapping[str, str]
) -> Iterator[Row]:
    """Yields a row for each incident.

    Args:
        recording: name of the recording.
        incidents: its incidents.
        topology: its fleet.
        end: end of the data in seconds since 1970, until which open incidents have lasted.
        verdicts: by incident id what labels say: right, wrong or ''.
    """
    locality = LocalityIndex(topology)
    for one in incidents:
        nodes = _nodes_of(one, locality)
        first = topology.node.get(nodes[0]) if nodes else None
        gpus = _hit_gpus(one, nodes, topology)
        lasted = max((end if one.resolved_at is None else one.resolved_at) - one.opened_at, 0.0)
        yield {
            "recording": recording,
            "id": one.id,
            "category": one.category,
            "is_root": not one.is_symptom and not one.root_id,
            "condition": one.condition,
            "kind": one.kind,
            "entity": one.name,
            "also": list(one.also),
            "node": nodes[0] if nodes else None,
            "nodes": nodes,
            "rack": (first.rack or None) if first else None,
            "state": one.state,
            "opened_at": to_microseconds(one.opened_at),
            "resolved_at": None if one.resolved_at is None else to_microseconds(one.resolved_at),
            "lasted_s": lasted,
            "severity": one.severity,
            "confidence": one.confidence,
            "coverage": one.coverage,
            "impact_metric": one.impact.metric,
            "impact_change": one.impact.change,
            "impact_unit": one.impact.unit,
            "hit_nodes": one.blast_radius.nodes,
            "hit_groups": one.blast_radius.groups,
            "hit_replicas": one.blast_radius.replicas,
            "hit_gpus": gpus,
            "lost_gpu_hours": _lost_gpu_hours(one, gpus, lasted),
            "explained_by": one.root_id or None,
            "relation": one.explained_by.relation if one.explained_by else None,
            "candidates": list(one.candidates),
            "summary": one.summary,
            "moves": one.moves,
            "rule": one.rule or None,
            "rule_hash": one.rule_hash or None,
            "input_hash": one.input_hash or None,
            "label": verdicts.get(one.id) or None,
        }


def _nodes_of(one: Incident, locality: LocalityIndex) -> list[str]:
    """Returns the nodes of the entities that an incident names, those of its own first."""
    found: dict[str, None] = {}
    for name in (one.name, *one.also):
        kind = "node" if one.kind == "rank" and name in locality.topology.node else one.kind
        inside = locality.nodes_of_group(name) if kind in ("group", "replica") else locality.nodes_of(kind, name)
        found.update(dict.fromkeys(sorted(node for node in inside if node in locality.topology.node)))
    return list(found)


def _hit_gpus(one: Incident, nodes: Sequence[str], topology: Topology) -> int:
    """Returns the GPUs of the nodes that wait: of all nodes hit, at the mean of those that the incident names."""
    if one.kind == "gpu" and not one.blast_radius.groups:
        return 1 + len(one.also)
    some = [topology.node[name].gpus for name in nodes] or [node.gpus for node in topology.nodes]
    return round(max(one.blast_radius.nodes, len(nodes)) * sum(some) / len(some)) if some else 0


def _lost_gpu_hours(one: Incident, gpus: int, lasted: float) -> float | None:
    """Returns share lost times GPUs times hours of a diagnosis that nothing else explains; None where not measured."""
    change = one.impact.change
    if change is None or not (isfinite(change) and gpus and one.impact.unit in ("", "1")):
        return None
    if one.is_symptom or one.root_id:
        return None
    size = abs(change)
    share = size / (1 + size) if one.impact.metric in LONGER_ROUNDS else min(size, 1.0)
    return share * gpus * lasted / 3600


def evidence_rows(recording: str, incidents: Sequence[Incident]) -> Iterator[Row]:
    """Yields a row for each item of evidence of each incident."""
    for one in incidents:
        for side, items in (("for", one.evidence), ("against", one.against)):
            for item in items:
                yield {
                    "recording": recording,
                    "incident": one.id,
                    "condition": one.condition,
                    "opened_at": to_microseconds(one.opened_at),
                    "side": side,
                    "name": item.name,
                    "verdict": item.verdict,
                    "weight": item.weight,
                    "value": item.value,
                    "unit": item.unit,
                    "expr": item.expr,
                }


def fault_rows(outcome: RecordingOutcome, score: VersionScore) -> Iterator[Row]:
    """Yields a row for each labelled fault, with the diagnosis that told it."""
    found = {id(one.label): one for one in score.found}
    for label in outcome.labels or ():
        told = found.get(id(label))
        yield {
            "recording": outcome.name,
            "condition": label.condition,
            "entity": label.names[0],
            "severity": label.severity,
            "begin": to_microseconds(outcome.start + label.begin),
            "end": to_microseconds(outcome.start + label.end),
            "incident": told.incident.id if told else None,
            "delay_s": told.delay_s if told else None,
        }


def node_rows(recording: str, topology: Topology) -> Iterator[Row]:
    """Yields a row for each node."""
    for node in topology.nodes:
        groups = [group.name for group in topology.groups_on.get(node.name, ())]
        rack = node.rack or None
        yield {"recording": recording, "node": node.name, "rack": rack, "gpus": node.gpus, "groups": groups}


def to_microseconds(seconds: float) -> int:
    """Returns microseconds since 1970."""
    return round(seconds * MICROSECONDS)
