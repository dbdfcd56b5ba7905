"""Facts for the policies from firing diagnoses, and ranked advice from the policies' conclusions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skewscope.engine.advice.policy import Conclusion, Fact, build_fact
from skewscope.engine.incidents.alerts import Alert
from skewscope.engine.model.incident import SEVERITIES, Advice
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.kb.model import Catalogue

QUANTISATION_STEP = 0.05
"""Step of confidence and coverage in facts: both vary from tick to tick, and facts are sent on change."""
MAX_MOVES = 9
"""Largest number of moves in a fact."""

Facts = dict[tuple[str, str], Fact]


@dataclass(frozen=True, slots=True, order=True)
class ContextFact:
    """A fact from outside about an entity and everything on it: maintenance, mitigations already tried."""

    fact: str
    entity: Entity
    topic: str = ""


@dataclass(frozen=True, slots=True)
class FiringDiagnosis:
    """A firing alert with the numbers of its incident."""

    alert: Alert
    confidence: float
    """Confidence of the incident, as of this tick, quantised."""
    moves: int = 0


def build_facts(diagnoses: Iterable[FiringDiagnosis], locality: LocalityIndex, context: Iterable[ContextFact]) -> Facts:
    """Returns the facts by kind and entity: the diagnoses, the location of their entities, their context."""
    found: Facts = {}
    entities: set[Entity] = set()
    for diagnosis in diagnoses:
        entities.add(diagnosis.alert.entity)
        _put_fact(found, _diagnosis_fact(diagnosis))
    for entity in sorted(entities):
        _put_fact(found, build_fact("topology", entity.key, values=locality.topology_facts(entity)))
    for one in sorted(context):
        for entity in sorted(entities):
            if context_applies(one.entity, entity, locality):
                _put_fact(found, build_fact(one.fact, entity.key, one.topic))
    return found


def _put_fact(facts: Facts, one: Fact) -> None:
    facts[one.kind, one.entity] = one


def _diagnosis_fact(diagnosis: FiringDiagnosis) -> Fact:
    alert = diagnosis.alert
    values: dict[str, str | int | float | bool] = {
        "severity": SEVERITIES[alert.severity],
        "confidence": diagnosis.confidence,
        "coverage": quantise(alert.peak_evidence.coverage),
        "scope": alert.entity.kind,
        "moves": min(diagnosis.moves, MAX_MOVES),
    }
    return build_fact("diagnosis", alert.entity.key, alert.condition, values)


def quantise(value: float) -> float:
    """Returns the largest multiple of the step that is not above a share; 0 for what is not a share."""
    return int(value / QUANTISATION_STEP + 1e-6) * QUANTISATION_STEP if 0 <= value <= 1 else 0.0


def context_applies(context: Entity, entity: Entity, locality: LocalityIndex) -> bool:
    """Whether a fact about one entity holds for another one: the same, or one on it or in it."""
    here, there = locality.location_of(context), locality.location_of(entity)
    if context == entity or context.kind == "fleet":
        return True
    if context.kind == "node":
        return bool(here.self_tokens & there.nodes)
    return bool(here.self_tokens & (there.groups | there.pools))


def rank_advice(
    conclusions: Iterable[Conclusion], catalogue: Catalogue, names: Mapping[str, str]
) -> dict[tuple[str, str], tuple[Advice, ...]]:
    """Returns advice by (condition, entity key), best first, each mitigation once.

    Args:
        conclusions: of the policies.
        catalogue: names the actor of each mitigation.
        names: display names by entity key.
    """
    found: dict[tuple[str, str], dict[str, Advice]] = {}
    for one in sorted(conclusions):
        if one.mitigation:
            known = catalogue.mitigations.get(one.mitigation)
            why = one.why.replace("{entity}", names.get(one.entity, one.entity)).replace("{condition}", one.subject)
            advice = Advice(one.mitigation, known.actor if known else "", why)
            found.setdefault((one.subject, one.entity), {}).setdefault(one.mitigation, advice)
    return {key: tuple(advice.values()) for key, advice in found.items()}
