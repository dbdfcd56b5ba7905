"""Which of the things that fire are roots, and which of them explains the rest.

Two steps. `fold`: one condition seen on several entities that share a path is one fault, told on the entity where it
is loudest. `attribute`: the causal graph of the catalogue, laid over the topology; what a cause reaches is explained by
it. With reach taken through any number of steps, the fewest roots that explain everything are exactly one for each
source of the graph of what explains what, so the smallest set is found, not approximated.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewscope.engine.attribution.closeness import (
    AttributionCandidate,
    LocatedCandidate,
    locate_candidate,
    located_closeness,
)
from skewscope.engine.judge.alerts import Alert, EvidenceSnapshot
from skewscope.engine.model.locality import NODE_BOUND, Entity, LocalityIndex
from skewscope.kb.model import Catalogue, CausalLink
from skewscope.rules.entity_kinds import GROUP_LIKE

if TYPE_CHECKING:
    from networkx import DiGraph  # 0.2 s to import, and most of the time nothing needs explaining

KIND_ORDER = ("gpu", "rank", "port", "link", "peer", "node", "group", "replica", "pool", "fleet")
"""Which entity tells a fault best: the most particular one."""

DOMINANCE_FACTOR = 2.0
"""The loudest stands for another one of its group when it is this many times louder..."""
DOMINANCE_HOLD_FACTOR = 1.25
"""...and goes on while it is this many times louder."""
MIN_CROWD = 3
"""So many entities, and more than half of a domain, are the domain's fault and not theirs."""
CAUSE_BEFORE_S = 10.0
"""An effect may be noticed this long before its cause: their rules look at windows of their own."""
ANY_TOKEN, FLEET_TOKEN = "any", "fleet"
MAX_CAUSAL_STEPS = 3
"""Links of the causal graph from one thing seen to another thing seen."""


JudgeableCounter = Callable[[str, str], int]
"""How many entities of a kind can be judged in a domain, counted as `Places.size` counts them."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Whose voice stands for an entity's, and why: part, louder or crowd."""

    primary_entity: Entity
    reason: str


def group_alerts(
    tracks: Sequence[Alert],
    places: LocalityIndex,
    before: Mapping[Entity, Grouping],
    heard: JudgeableCounter | None = None,
) -> dict[Entity, Grouping]:
    """The entities that another one of the same condition stands for; who is not in it stands for itself.

    Entities that lie in one another are one fault. Members of a group are, where one is clearly the loudest. Those in
    one domain (group, switch, rack) are, where they are most of it, as far as it can be judged. Others stay apart.
    """
    ordered = sorted(tracks, key=_sort_key)
    crowded = _crowded_domains(ordered, places, heard or places.domain_size)
    folded: dict[Entity, Grouping] = {}
    leaders: dict[str, list[Alert]] = {}
    present = {track.entity for track in ordered}
    for track in ordered:
        found = _find_grouping(track, leaders, crowded, places, before)
        if found is not None and found.primary_entity in present:
            folded[track.entity] = found
        else:
            for token in _nearby_tokens(track.entity, places):
                leaders.setdefault(token, []).append(track)
    return folded | _group_wholes(ordered, folded, places)


def _sort_key(track: Alert) -> tuple[Any, ...]:
    kind = KIND_ORDER.index(track.entity.kind) if track.entity.kind in KIND_ORDER else len(KIND_ORDER)
    return kind, track.peak_evidence.sort_key(), track.since, track.entity


def _nearby_tokens(entity: Entity, places: LocalityIndex) -> frozenset[str]:
    """The tokens that whoever could stand for an entity shares with it."""
    place = places.location_of(entity)
    return place.self_tokens | place.nodes | place.shared_domains(entity.kind) | places.flow_ports(entity)


def _crowded_domains(tracks: Sequence[Alert], places: LocalityIndex, heard: JudgeableCounter) -> frozenset[str]:
    """Domains of which most fires, or most of those that can be judged."""
    hit: dict[tuple[str, str], set[str]] = {}
    for track in tracks:
        place = places.location_of(track.entity)
        for domain in place.shared_domains(track.entity.kind) - place.self_tokens:
            who = place.self_tokens if domain in place.nodes else place.nodes or place.self_tokens
            hit.setdefault((domain, track.entity.kind), set()).update(who)
    return frozenset(
        domain
        for (domain, kind), who in hit.items()
        if _is_crowd(len(who), places.domain_size(domain, kind), domain)
        or (len(who) >= MIN_CROWD and not _is_pool(domain) and _is_crowd(len(who), heard(domain, kind), domain))
    )


def _is_crowd(count: int, size: int, domain: str) -> bool:
    if _is_pool(domain):
        return count == size >= 2  # one burst on all replicas; on some of them it would be the router's doing
    return count >= MIN_CROWD and 2 * count > size > 0


def _is_pool(domain: str) -> bool:
    return domain.startswith("pool:")


def _find_grouping(
    track: Alert,
    leaders: Mapping[str, list[Alert]],
    crowded: frozenset[str],
    places: LocalityIndex,
    before: Mapping[Entity, Grouping],
) -> Grouping | None:
    """Who stands for a track, among those that were found louder."""
    entity = track.entity
    near = {id(t): t for token in _nearby_tokens(entity, places) for t in leaders.get(token, ())}
    for other in sorted(near.values(), key=_sort_key):
        last = before.get(entity)
        stood = last is not None and last.primary_entity == other.entity
        why = _grouping_reason(other, track, crowded, places)
        if not why and last is not None and stood:
            still = last.reason == "crowd" or dominates(other.peak_evidence, track.peak_evidence, DOMINANCE_HOLD_FACTOR)
            why = last.reason if still else ""
        if why:
            return Grouping(other.entity, why)
    return None


def _grouping_reason(louder: Alert, track: Alert, crowded: frozenset[str], places: LocalityIndex) -> str:
    """Why one track stands for another, or ''."""
    a, b = louder.entity, track.entity
    here, there = places.location_of(a), places.location_of(b)
    if a.kind != b.kind:
        inside = b.kind in GROUP_LIKE and there.self_tokens & here.groups
        same = a.kind in NODE_BOUND and b.kind in NODE_BOUND and here.nodes & there.nodes
        return "part" if inside or same else ""
    if places.flow_ports(a) & places.flow_ports(b) or (a.kind == "rank" and here.nodes & there.nodes):
        return "part"
    if here.shared_domains(a.kind) & there.shared_domains(b.kind) & crowded:
        return "crowd"
    shared = (here.groups & there.groups) or (here.nodes & there.nodes)
    return "louder" if shared and dominates(louder.peak_evidence, track.peak_evidence, DOMINANCE_FACTOR) else ""


def dominates(a: EvidenceSnapshot, b: EvidenceSnapshot, factor: float) -> bool:
    """Whether one voice is so many times louder than another: by score, or at no lower score by impact or numbers."""
    if a.score >= factor * max(b.score, 0.0):
        return True
    if a.info.rule != b.info.rule or a.score < b.score:
        return False
    # The mean over what both say: one item at its ceiling must not hide the others.
    ours, theirs = a.magnitudes(), b.magnitudes()
    product, count = 1.0, 0
    for name in sorted(ours.keys() & theirs.keys()):
        product, count = product * ours[name] / theirs[name], count + 1
    if count and product ** (1 / count) >= factor:
        return True
    return abs(b.impact) > 0 and abs(a.impact) >= factor * abs(b.impact)


def _group_wholes(
    tracks: Sequence[Alert], folded: Mapping[Entity, Grouping], places: LocalityIndex
) -> dict[Entity, Grouping]:
    """A pool, or the fleet, and what is in it: the whole speaks for several, a single one for the whole."""
    more: dict[Entity, Grouping] = {}
    for whole in (t.entity for kind in ("pool", "fleet") for t in tracks if t.entity.kind == kind):
        own = places.location_of(whole).self_tokens
        inside = [
            t.entity
            for t in tracks
            if t.entity != whole and (whole.kind == "fleet" or _is_in_pool(t.entity, own, places))
        ]
        parts = [entity for entity in inside if entity not in folded and entity not in more]
        several = (
            len(parts) > 1
            or len({g for e in inside if e.kind in GROUP_LIKE for g in places.location_of(e).self_tokens}) > 1
        )
        if parts and not several:
            more[whole] = Grouping(parts[0], "part")
        for part in parts if several else ():
            more[part] = Grouping(whole, "part")
    return more


def _is_in_pool(entity: Entity, pool: frozenset[str], places: LocalityIndex) -> bool:
    return bool(pool & places.location_of(entity).pools)


def primary_entity_of(entity: Entity, folds: Mapping[Entity, Grouping]) -> Entity:
    """Who stands for an entity in the end."""
    for _ in range(len(KIND_ORDER)):
        if entity not in folds:
            break
        entity = folds[entity].primary_entity
    return entity


class CauseGraph:
    """The causal graph of the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._effects_of: dict[str, set[str]] = {}
        self._sibling_links: set[tuple[str, str]] = set()
        for condition in catalogue.conditions.values():
            for link in condition.effects:
                self._add(condition.id, link.condition, link)
            for link in condition.causes:
                self._add(link.condition, condition.id, link)
        self._reachable: dict[str, frozenset[str]] = {}
        self._direct_causes: dict[str, frozenset[str]] = {}

    def _add(self, cause: str, effect: str, link: CausalLink) -> None:
        self._effects_of.setdefault(cause, set()).add(effect)
        if link.siblings:
            self._sibling_links.add((cause, effect))

    def effects(self, condition: str) -> frozenset[str]:
        """What a condition can lead to, directly or through conditions that nobody saw."""
        if condition not in self._reachable:
            found: set[str] = set()
            edge = {condition}
            for _ in range(MAX_CAUSAL_STEPS):
                edge = {e for c in edge for e in self._effects_of.get(c, ())} - found
                found |= edge
            self._reachable[condition] = frozenset(found - {condition})
        return self._reachable[condition]

    def reaches_siblings(self, cause: str, effect: str) -> bool:
        """Whether what one replica of a pool has brings this about at the others."""
        return (cause, effect) in self._sibling_links

    def direct_causes(self, condition: str) -> frozenset[str]:
        """What leads to a condition directly."""
        if condition not in self._direct_causes:
            self._direct_causes[condition] = frozenset(
                cause for cause, effects in self._effects_of.items() if condition in effects
            )
        return self._direct_causes[condition]


def attribute_candidates(
    suspects: Collection[AttributionCandidate], causes: CauseGraph, places: LocalityIndex
) -> dict[str, str]:
    """Which root explains each suspect that is none, by id."""
    if len({s.condition for s in suspects}) < 2:
        return {}
    stands = {s.id: locate_candidate(s, places) for s in sorted(suspects, key=AttributionCandidate.sort_key)}
    edges = list(_causal_edges(stands.values(), causes))
    return _assign_roots(stands, edges) if edges else {}


def _causal_edges(stands: Collection[LocatedCandidate], causes: CauseGraph) -> Iterator[tuple[str, str]]:
    """Every (cause, effect) that the catalogue, the topology and the times allow."""
    at: dict[tuple[str, str], list[LocatedCandidate]] = {}
    for stand in stands:
        for token in (*stand.tokens, ANY_TOKEN, *([FLEET_TOKEN] if stand.is_fleet else [])):
            at.setdefault((stand.candidate.condition, token), []).append(stand)
    present = {stand.candidate.condition for stand in stands}
    for cause in stands:
        tokens = (*cause.tokens, ANY_TOKEN if cause.is_fleet else FLEET_TOKEN)
        effects = sorted(causes.effects(cause.candidate.condition) & present)
        near = {e.candidate.id: e for c in effects for t in tokens for e in at.get((c, t), ())}
        for effect in near.values():
            early = effect.candidate.since < cause.candidate.since - CAUSE_BEFORE_S
            if not early and (located_closeness(cause, effect) or _reaches_sibling(cause, effect, causes)):
                yield cause.candidate.id, effect.candidate.id


def _reaches_sibling(cause: LocatedCandidate, effect: LocatedCandidate, causes: CauseGraph) -> bool:
    reaches = causes.reaches_siblings(cause.candidate.condition, effect.candidate.condition)
    return reaches and not cause.location.pools.isdisjoint(effect.location.pools)


def _assign_roots(stands: Mapping[str, LocatedCandidate], edges: Sequence[tuple[str, str]]) -> dict[str, str]:
    """For each suspect that is no root, the nearest root that reaches it."""
    import networkx as nx  # noqa: PLC0415  0.2 s to import, and most of the time nothing needs explaining

    graph: DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(edges)
    knots = nx.condensation(graph)
    roots: dict[str, list[LocatedCandidate]] = {}
    for knot in knots:
        if knots.in_degree(knot) == 0:
            root = min((stands[i] for i in knots.nodes[knot]["members"]), key=lambda s: s.candidate.sort_key())
            for reached in nx.descendants(graph, root.candidate.id):
                roots.setdefault(reached, []).append(root)
    return {
        i: min(found, key=lambda r: (-located_closeness(r, stands[i]), r.candidate.sort_key())).candidate.id
        for i, found in sorted(roots.items())
    }
