"""From diagnoses to facts for the policies, and from what they conclude to ranked advice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skewscope.engine.incident import SEVERITIES, Advice
from skewscope.engine.places import Entity, Places
from skewscope.engine.policy import Conclusion, Fact, fact
from skewscope.engine.tracks import Key, Track
from skewscope.kb.model import Catalogue

STEP = 0.05
"""Confidence and coverage reach the policies in such steps: they never stand still, and a fact is sent on change."""

MOST_MOVES = 9
"""More make no difference to what is sensible."""

Facts = dict[tuple[str, str], Fact]


@dataclass(frozen=True, slots=True, order=True)
class Context:
    """Something known from outside that holds of an entity and of all that lies on it: maintenance, what was tried."""

    fact: str
    entity: Entity
    topic: str = ""


def facts_of(
    tracks: Iterable[Track], places: Places, context: Iterable[Context], moves: Mapping[Key, int] | None = None
) -> Facts:
    """The facts of what fires: each diagnosis, where its entity is, and the context that applies to it."""
    found: Facts = {}
    entities: set[Entity] = set()
    for track in tracks:
        entities.add(track.entity)
        _put(found, _diagnosis(track, (moves or {}).get(track.key, 0)))
    for entity in sorted(entities):
        _put(found, fact("topology", entity.key, values=places.about(entity)))
    for one in sorted(context):
        for entity in sorted(entities):
            if applies(one.entity, entity, places):
                _put(found, fact(one.fact, entity.key, one.topic))
    return found


def _put(facts: Facts, one: Fact) -> None:
    facts[one.kind, one.entity] = one


def _diagnosis(track: Track, moves: int) -> Fact:
    values: dict[str, str | int | float | bool] = {
        "severity": SEVERITIES[track.severity],
        "confidence": stepped(track.confidence),
        "coverage": stepped(track.voice.coverage),
        "scope": track.entity.kind,
        "moves": min(moves, MOST_MOVES),
    }
    return fact("diagnosis", track.entity.key, track.condition, values)


def stepped(value: float) -> float:
    """The step below a share, 0 for what is none."""
    return int(value / STEP + 1e-6) * STEP if 0 <= value <= 1 else 0.0


def applies(context: Entity, entity: Entity, places: Places) -> bool:
    """Whether what holds of one entity holds of another: itself, or what lies on it or in it."""
    here, there = places.of(context), places.of(entity)
    if context == entity or context.kind == "fleet":
        return True
    if context.kind == "node":
        return bool(here.own & there.nodes)
    return bool(here.own & (there.groups | there.pools))


def advice_of(
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
