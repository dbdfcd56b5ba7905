"""Incidents read back from what the contract prints."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from skewscope.engine.incident import Advice, BlastRadius, Competing, Evidence, Impact, Incident


def incident_of(told: Mapping[str, Any]) -> Incident:
    """The incident that `Incident.as_json` told; its flaps and history are not in there."""
    entity = told["entity"]
    return Incident(
        told["id"],
        told["condition"],
        entity["kind"],
        entity["name"],
        told["state"],
        _seconds(told["opened_at"]),
        None if told["resolved_at"] is None else _seconds(told["resolved_at"]),
        told["severity"],
        told["confidence"],
        told["coverage"],
        Impact(**told["impact"]),
        BlastRadius(**told["blast_radius"]),
        told["rule"],
        told["rule_hash"],
        tuple(told["also"]),
        tuple(Evidence(**item) for item in told["evidence"]),
        tuple(Evidence(**item) for item in told["against"]),
        tuple(told["unseen"]),
        tuple(told["candidates"]),
        tuple(Competing(**one) for one in told["competing"]),
        told["explained_by"],
        tuple(Advice(**one) for one in told["mitigations"]),
        told["input_hash"],
        moves=told["moves"],
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
