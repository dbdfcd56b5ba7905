"""Which alerts of one condition are one incident: those of one place, group or domain, under the strongest one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skewscope.engine.incidents.alerts import Alert, EvidenceSnapshot
from skewscope.engine.model.locality import NODE_BOUND, Entity, LocalityIndex
from skewscope.rules.entity_kinds import GROUP_LIKE

KIND_ORDER = ("gpu", "rank", "port", "link", "peer", "node", "group", "replica", "pool", "fleet")
"""Kinds of entities, the most specific first."""
DOMINANCE_FACTOR = 2.0
"""An alert represents another one of its group if its evidence is this many times stronger..."""
DOMINANCE_HOLD_FACTOR = 1.25
"""...and keeps representing it while it is this many times stronger."""
MIN_CROWD = 3
"""At least this many entities, and more than half of a domain, are one fault of the domain."""

JudgeableCounter = Callable[[str, str], int]
"""Returns how many entities of a kind can be judged in a domain, counted as `LocalityIndex.domain_size` counts."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The entity that represents another one, and the reason."""

    primary_entity: Entity
    reason: str
    """part, louder or crowd."""


def group_alerts(
    alerts: Sequence[Alert],
    locality: LocalityIndex,
    before: Mapping[Entity, Grouping],
    count_judgeable: JudgeableCounter | None = None,
) -> dict[Entity, Grouping]:
    """Returns the grouping of each entity that another one of the same condition represents.

    Entities that contain one another are one fault. Members of a group are, if one is clearly the strongest. Those in
    one domain (group, switch, rack) are, if they are most of what can be judged there. All others stay separate.
    """
    ordered = sorted(alerts, key=_sort_key)
    crowded = _crowded_domains(ordered, locality, count_judgeable or locality.domain_size)
    grouped: dict[Entity, Grouping] = {}
    primaries: dict[str, list[Alert]] = {}
    present = {alert.entity for alert in ordered}
    for alert in ordered:
        found = _find_grouping(alert, primaries, crowded, locality, before)
        if found is not None and found.primary_entity in present:
            grouped[alert.entity] = found
        else:
            for token in _nearby_tokens(alert.entity, locality):
                primaries.setdefault(token, []).append(alert)
    return grouped | _group_wholes(ordered, grouped, locality)


def primary_entity_of(entity: Entity, groupings: Mapping[Entity, Grouping]) -> Entity:
    """Returns the entity at the end of the chain of groupings."""
    for _ in range(len(KIND_ORDER)):
        if entity not in groupings:
            break
        entity = groupings[entity].primary_entity
    return entity


def dominates(a: EvidenceSnapshot, b: EvidenceSnapshot, factor: float) -> bool:
    """Whether `a` is `factor` times stronger: by score, or with no lower score by impact or mean magnitude."""
    if a.score >= factor * max(b.score, 0.0):
        return True
    if a.info.rule != b.info.rule or a.score < b.score:
        return False
    # The mean over the items of both: one item at its maximum must not hide the others.
    ours, theirs = a.magnitudes(), b.magnitudes()
    product, count = 1.0, 0
    for name in sorted(ours.keys() & theirs.keys()):
        product, count = product * ours[name] / theirs[name], count + 1
    if count and product ** (1 / count) >= factor:
        return True
    return abs(b.impact) > 0 and abs(a.impact) >= factor * abs(b.impact)


def _sort_key(alert: Alert) -> tuple[Any, ...]:
    kind = KIND_ORDER.index(alert.entity.kind) if alert.entity.kind in KIND_ORDER else len(KIND_ORDER)
    return kind, alert.peak_evidence.sort_key(), alert.since, alert.entity


def _nearby_tokens(entity: Entity, locality: LocalityIndex) -> frozenset[str]:
    """Returns the tokens of which any entity that could represent this one shares at least one."""
    location = locality.location_of(entity)
    domains = location.shared_domains(entity.kind)
    return location.self_tokens | location.nodes | domains | locality.flow_ports(entity)


def _crowded_domains(
    alerts: Sequence[Alert], locality: LocalityIndex, count_judgeable: JudgeableCounter
) -> frozenset[str]:
    """Returns the domains in which most entities fire, or most of those that can be judged."""
    hit: dict[tuple[str, str], set[str]] = {}
    for alert in alerts:
        location = locality.location_of(alert.entity)
        for domain in location.shared_domains(alert.entity.kind) - location.self_tokens:
            places = location.self_tokens if domain in location.nodes else location.nodes or location.self_tokens
            hit.setdefault((domain, alert.entity.kind), set()).update(places)
    return frozenset(
        domain
        for (domain, kind), places in hit.items()
        if _is_crowd(len(places), locality.domain_size(domain, kind), domain)
        or (
            len(places) >= MIN_CROWD
            and not _is_pool(domain)
            and _is_crowd(len(places), count_judgeable(domain, kind), domain)
        )
    )


def _is_crowd(count: int, size: int, domain: str) -> bool:
    if _is_pool(domain):
        return count == size >= 2  # one burst on all replicas; on only some of them it is an effect of the router
    return count >= MIN_CROWD and 2 * count > size > 0


def _is_pool(domain: str) -> bool:
    return domain.startswith("pool:")


def _find_grouping(
    alert: Alert,
    primaries: Mapping[str, list[Alert]],
    crowded: frozenset[str],
    locality: LocalityIndex,
    before: Mapping[Entity, Grouping],
) -> Grouping | None:
    """Returns the grouping of an alert under one of the stronger ones, None if none represents it."""
    entity = alert.entity
    near = {id(other): other for token in _nearby_tokens(entity, locality) for other in primaries.get(token, ())}
    for other in sorted(near.values(), key=_sort_key):
        last = before.get(entity)
        reason = _grouping_reason(other, alert, crowded, locality)
        if not reason and last is not None and last.primary_entity == other.entity:
            stronger = dominates(other.peak_evidence, alert.peak_evidence, DOMINANCE_HOLD_FACTOR)
            reason = last.reason if last.reason == "crowd" or stronger else ""
        if reason:
            return Grouping(other.entity, reason)
    return None


def _grouping_reason(stronger: Alert, alert: Alert, crowded: frozenset[str], locality: LocalityIndex) -> str:
    """Returns why an alert represents another one; '' if it does not."""
    a, b = stronger.entity, alert.entity
    here, there = locality.location_of(a), locality.location_of(b)
    if a.kind != b.kind:
        inside = b.kind in GROUP_LIKE and there.self_tokens & here.groups
        same_node = a.kind in NODE_BOUND and b.kind in NODE_BOUND and here.nodes & there.nodes
        return "part" if inside or same_node else ""
    if locality.flow_ports(a) & locality.flow_ports(b) or (a.kind == "rank" and here.nodes & there.nodes):
        return "part"
    if here.shared_domains(a.kind) & there.shared_domains(b.kind) & crowded:
        return "crowd"
    shared = (here.groups & there.groups) or (here.nodes & there.nodes)
    return "louder" if shared and dominates(stronger.peak_evidence, alert.peak_evidence, DOMINANCE_FACTOR) else ""


def _group_wholes(
    alerts: Sequence[Alert], grouped: Mapping[Entity, Grouping], locality: LocalityIndex
) -> dict[Entity, Grouping]:
    """Groups a pool or the fleet with its parts: the whole represents several parts, a single part the whole."""
    found: dict[Entity, Grouping] = {}
    for whole in (a.entity for kind in ("pool", "fleet") for a in alerts if a.entity.kind == kind):
        own = locality.location_of(whole).self_tokens
        inside = [
            a.entity
            for a in alerts
            if a.entity != whole and (whole.kind == "fleet" or _is_in_pool(a.entity, own, locality))
        ]
        parts = [entity for entity in inside if entity not in grouped and entity not in found]
        several = (
            len(parts) > 1
            or len({g for e in inside if e.kind in GROUP_LIKE for g in locality.location_of(e).self_tokens}) > 1
        )
        if parts and not several:
            found[whole] = Grouping(parts[0], "part")
        for part in parts if several else ():
            found[part] = Grouping(whole, "part")
    return found


def _is_in_pool(entity: Entity, pool: frozenset[str], locality: LocalityIndex) -> bool:
    return bool(pool & locality.location_of(entity).pools)
