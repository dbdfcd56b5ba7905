"""From diagnoses to facts for the policies, and from what they conclude to ranked advice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skewscope.engine.advice.policy import Conclusion, Fact, build_fact
from skewscope.engine.judge.alerts import Alert, AlertKey
from skewscope.engine.model.incident import SEVERITIES, Advice
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.kb.model import Catalogue

QUANTISATION_STEP = 0.05
"""Confidence and coverage reach the policies in such steps: they never stand still, and a fact is sent on change."""

MAX_MOVES = 9
"""More make no difference to what is sensible."""

Facts = dict[tuple[str, str], Fact]


@dataclass(frozen=True, slots=True, order=True)
class ContextFact:
    """Something known from outside that holds of an entity and of all that lies on it: maintenance, what was tried."""

    fact: str
    entity: Entity
    topic: str = ""


def build_facts(
    tracks: Iterable[Alert],
    places: LocalityIndex,
    context: Iterable[ContextFact],
    moves: Mapping[AlertKey, int] | None = None,
) -> Facts:
    """The facts of what fires: each diagnosis, where its entity is, and the context that applies to it."""
    found: Facts = {}
    entities: set[Entity] = set()
    for track in tracks:
        entities.add(track.entity)
        _put_fact(found, _diagnosis_fact(track, (moves or {}).get(track.key, 0)))
    for entity in sorted(entities):
        _put_fact(found, build_fact("topology", entity.key, values=places.topology_facts(entity)))
    for one in sorted(context):
        for entity in sorted(entities):
            if context_applies(one.entity, entity, places):
                _put_fact(found, build_fact(one.fact, entity.key, one.topic))
    return found


def _put_fact(facts: Facts, one: Fact) -> None:
    facts[one.kind, one.entity] = one


def _diagnosis_fact(track: Alert, moves: int) -> Fact:
    values: dict[str, str | int | float | bool] = {
        "severity": SEVERITIES[track.severity],
        "confidence": quantise(track.confidence),
        "coverage": quantise(track.peak_evidence.coverage),
        "scope": track.entity.kind,
        "moves": min(moves, MAX_MOVES),
    }
    return build_fact("diagnosis", track.entity.key, track.condition, values)


def quantise(value: float) -> float:
    """The step below a share, 0 for what is none."""
    return int(value / QUANTISATION_STEP + 1e-6) * QUANTISATION_STEP if 0 <= value <= 1 else 0.0


def context_applies(context: Entity, entity: Entity, places: LocalityIndex) -> bool:
    """Whether what holds of one entity holds of another: itself, or what lies on it or in it."""
    here, there = places.location_of(context), places.location_of(entity)
    if context == entity or context.kind == "fleet":
        return True
    if context.kind == "node":
        return bool(here.self_tokens & there.nodes)
    return bool(here.self_tokens & (there.groups | there.pools))


def rank_advice(
    said: Iterable[Conclusion], catalogue: Catalogue, shown: Mapping[str, str]
) -> dict[tuple[str, str], tuple[Advice, ...]]:
    """Advice by (condition, entity key), best first, each mitigation once. `shown` names the entities for people."""
    found: dict[tuple[str, str], dict[str, Advice]] = {}
    for one in sorted(said):
        if one.mitigation:
            known = catalogue.mitigations.get(one.mitigation)
            why = one.why.replace("{entity}", shown.get(one.entity, one.entity)).replace("{condition}", one.subject)
            advice = Advice(one.mitigation, known.actor if known else "", why)
            found.setdefault((one.subject, one.entity), {}).setdefault(one.mitigation, advice)
    return {key: tuple(advice.values()) for key, advice in found.items()}
