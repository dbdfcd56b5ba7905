"""Which diagnosis of too much load explains which others.

Replicas of a pool share its load: what too much of it does to one, it does to others as long as it is there, and shows
on them as other conditions soon after. Each diagnosis is looked up by its entity and its pools, so the cost grows with
their number, not with its square.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.parameters import EPISODE_S


def find_shared_load(diagnoses: Iterable[DiagnosisState], locality: LocalityIndex) -> dict[str, str]:
    """Returns by diagnosis of what load brings about the first such one at its entity, or in its pool.

    One of its own condition comes before those of others.
    """
    ordered = sorted(diagnoses, key=lambda one: one.sort_key)
    return _find_others(ordered, locality) | _find_alike(ordered, locality)


def _find_alike(ordered: Sequence[DiagnosisState], locality: LocalityIndex) -> dict[str, str]:
    """Returns by diagnosis the first of its condition there; a root stays one among those of its condition."""
    found: dict[str, str] = {}
    firsts: dict[tuple[str, Entity | str], tuple[int, str]] = {}
    for n, one in enumerate(sorted(ordered, key=lambda one: one.explanation is not None)):
        entity = one.primary_entity
        places: list[Entity | str] = [entity, *locality.location_of(entity).pools]
        keys = [(one.condition, place) for place in places]
        if first := min((firsts[key] for key in keys if key in firsts), default=None):
            found[one.id] = first[1]
        for key in keys:
            firsts.setdefault(key, (n, one.id))
    return found


def _find_others(ordered: Iterable[DiagnosisState], locality: LocalityIndex) -> dict[str, str]:
    """Returns by diagnosis the first of another condition: at its entity, or in its pool within an episode before."""
    found: dict[str, str] = {}
    at_entity: dict[Entity, dict[str, DiagnosisState]] = {}
    in_pool: dict[str, dict[str, deque[DiagnosisState]]] = {}
    for one in ordered:
        here = at_entity.setdefault(one.primary_entity, {})
        firsts = [first for condition, first in here.items() if condition != one.condition]
        pools = [in_pool.setdefault(pool, {}) for pool in locality.location_of(one.primary_entity).pools]
        for by_condition in pools:
            for condition, recent in by_condition.items():
                while recent and one.opened_at - recent[0].opened_at > EPISODE_S:
                    recent.popleft()
                if recent and condition != one.condition:
                    firsts.append(recent[0])
            by_condition.setdefault(one.condition, deque()).append(one)
        if firsts:
            found[one.id] = min(firsts, key=lambda first: first.sort_key).id
        here.setdefault(one.condition, one)
    return found
