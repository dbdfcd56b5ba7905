"""Which diagnosis of too much load explains which others.

Replicas of a pool share its load: what too much of it does to one, it does to others as long as it is there, and shows
on them as other conditions soon after. Each diagnosis is looked up by its entity and its pools, so the cost grows with
their number, not with its square.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.parameters import EPISODE_S


@dataclass(frozen=True, slots=True, order=True)
class LoadDiagnosis:
    """An open diagnosis of what load brings about. The oldest sorts first."""

    opened_at: float
    id: str
    condition: str
    entity: Entity
    is_root: bool
    """Whether nothing explains it so far."""
    lingers: bool = False
    """Whether it is what an ended fault left: it shows on its own entity, and loads no other one."""


def find_shared_load(diagnoses: Iterable[LoadDiagnosis], locality: LocalityIndex) -> dict[str, str]:
    """Returns by diagnosis the first one at its entity, or in its pool; the first of its own condition before others.

    Both are ids.
    """
    ordered = sorted(diagnoses)
    return _find_others(ordered, locality) | _find_alike([one for one in ordered if not one.lingers], locality)


def _find_alike(ordered: Sequence[LoadDiagnosis], locality: LocalityIndex) -> dict[str, str]:
    """Returns by diagnosis the first of its condition there; a root stays one among those of its condition."""
    found: dict[str, str] = {}
    firsts: dict[tuple[str, Entity | str], tuple[int, str]] = {}
    for n, one in enumerate(sorted(ordered, key=lambda one: not one.is_root)):
        places: list[Entity | str] = [one.entity, *locality.location_of(one.entity).pools]
        keys = [(one.condition, place) for place in places]
        if first := min((firsts[key] for key in keys if key in firsts), default=None):
            found[one.id] = first[1]
        for key in keys:
            firsts.setdefault(key, (n, one.id))
    return found


def _find_others(ordered: Iterable[LoadDiagnosis], locality: LocalityIndex) -> dict[str, str]:
    """Returns by diagnosis the first of another condition: at its entity, or in its pool within an episode before."""
    found: dict[str, str] = {}
    at_entity: dict[Entity, dict[str, LoadDiagnosis]] = {}
    in_pool: dict[str, dict[str, deque[LoadDiagnosis]]] = {}
    for one in ordered:
        here = at_entity.setdefault(one.entity, {})
        firsts = [first for condition, first in here.items() if condition != one.condition]
        for by_condition in (in_pool.setdefault(pool, {}) for pool in locality.location_of(one.entity).pools):
            for condition, recent in by_condition.items():
                while recent and one.opened_at - recent[0].opened_at > EPISODE_S:
                    recent.popleft()
                if recent and condition != one.condition:
                    firsts.append(recent[0])
            if not one.lingers:
                by_condition.setdefault(one.condition, deque()).append(one)
        if firsts:
            found[one.id] = min(firsts).id
        here.setdefault(one.condition, one)
    return found
