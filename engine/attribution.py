"""Which of the things that fire are roots, and which of them explains the rest.

Two steps. `fold`: one condition seen on several entities that share a path is one fault, told on the entity where it
is loudest. `attribute`: the causal graph of the catalogue, laid over the topology; what a cause reaches is explained by
it. With reach taken through any number of steps, the fewest roots that explain everything are exactly one for each
source of the graph of what explains what, so the smallest set is found, not approximated.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewscope.engine.nearness import Stand, Suspect, nearness, stand_of
from skewscope.engine.places import NODE_BOUND, Entity, Places
from skewscope.engine.tracks import Track, Voice
from skewscope.kb.model import Catalogue, Link
from skewscope.rules.kinds import GROUP_LIKE

if TYPE_CHECKING:
    from networkx import DiGraph  # 0.2 s to import, and most of the time nothing needs explaining

KIND_ORDER = ("gpu", "rank", "port", "link", "peer", "node", "group", "replica", "pool", "fleet")
"""Which entity tells a fault best: the most particular one."""

DOMINANT = 2.0
"""The loudest stands for another one of its group when it is this many times louder..."""
STILL_DOMINANT = 1.25
"""...and goes on while it is this many times louder."""
CROWD = 3
"""So many entities, and more than half of a domain, are the domain's fault and not theirs."""
CAUSE_BEFORE_S = 10.0
"""An effect may be noticed this long before its cause: their rules look at windows of their own."""
ANY, FLEET = "any", "fleet"
MOST_STEPS = 3
"""Links of the causal graph from one thing seen to another thing seen."""


Heard = Callable[[str, str], int]
"""How many entities of a kind can be judged in a domain, counted as `Places.size` counts them."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Whose voice stands for an entity's, and why: part, louder or crowd."""

    leader: Entity
    why: str


def fold(
    tracks: Sequence[Track], places: Places, before: Mapping[Entity, Fold], heard: Heard | None = None
) -> dict[Entity, Fold]:
    """The entities that another one of the same condition stands for; who is not in it stands for itself.

    Entities that lie in one another are one fault. Members of a group are, where one is clearly the loudest. Those in
    one domain (group, switch, rack) are, where they are most of it, as far as it can be judged. Others stay apart.
    """
    ordered = sorted(tracks, key=_order)
    crowded = _crowded(ordered, places, heard or places.size)
    folded: dict[Entity, Fold] = {}
    leaders: dict[str, list[Track]] = {}
    present = {track.entity for track in ordered}
    for track in ordered:
        found = _leader(track, leaders, crowded, places, before)
        if found is not None and found.leader in present:
            folded[track.entity] = found
        else:
            for token in _near(track.entity, places):
                leaders.setdefault(token, []).append(track)
    return folded | _whole(ordered, folded, places)


def _order(track: Track) -> tuple[Any, ...]:
    kind = KIND_ORDER.index(track.entity.kind) if track.entity.kind in KIND_ORDER else len(KIND_ORDER)
    return kind, track.voice.order(), track.since, track.entity


def _near(entity: Entity, places: Places) -> frozenset[str]:
    """The tokens that whoever could stand for an entity shares with it."""
    place = places.of(entity)
    return place.own | place.nodes | place.shared(entity.kind) | places.ends(entity)


def _crowded(tracks: Sequence[Track], places: Places, heard: Heard) -> frozenset[str]:
    """Domains of which most fires, or most of those that can be judged."""
    hit: dict[tuple[str, str], set[str]] = {}
    for track in tracks:
        place = places.of(track.entity)
        for domain in place.shared(track.entity.kind) - place.own:
            who = place.own if domain in place.nodes else place.nodes or place.own
            hit.setdefault((domain, track.entity.kind), set()).update(who)
    return frozenset(
        domain
        for (domain, kind), who in hit.items()
        if _is_crowd(len(who), places.size(domain, kind), domain)
        or (len(who) >= CROWD and not _of_pool(domain) and _is_crowd(len(who), heard(domain, kind), domain))
    )


def _is_crowd(count: int, size: int, domain: str) -> bool:
    if _of_pool(domain):
        return count == size >= 2  # one burst on all replicas; on some of them it would be the router's doing
    return count >= CROWD and 2 * count > size > 0


def _of_pool(domain: str) -> bool:
    return domain.startswith("pool:")


def _leader(
    track: Track,
    leaders: Mapping[str, list[Track]],
    crowded: frozenset[str],
    places: Places,
    before: Mapping[Entity, Fold],
) -> Fold | None:
    """Who stands for a track, among those that were found louder."""
    entity = track.entity
    near = {id(t): t for token in _near(entity, places) for t in leaders.get(token, ())}
    for other in sorted(near.values(), key=_order):
        last = before.get(entity)
        stood = last is not None and last.leader == other.entity
        why = _reason(other, track, crowded, places)
        if not why and last is not None and stood:
            still = last.why == "crowd" or dominates(other.voice, track.voice, STILL_DOMINANT)
            why = last.why if still else ""
        if why:
            return Fold(other.entity, why)
    return None


def _reason(louder: Track, track: Track, crowded: frozenset[str], places: Places) -> str:
    """Why one track stands for another, or ''."""
    a, b = louder.entity, track.entity
    here, there = places.of(a), places.of(b)
    if a.kind != b.kind:
        inside = b.kind in GROUP_LIKE and there.own & here.groups
        same = a.kind in NODE_BOUND and b.kind in NODE_BOUND and here.nodes & there.nodes
        return "part" if inside or same else ""
    if places.ends(a) & places.ends(b) or (a.kind == "rank" and here.nodes & there.nodes):
        return "part"
    if here.shared(a.kind) & there.shared(b.kind) & crowded:
        return "crowd"
    shared = (here.groups & there.groups) or (here.nodes & there.nodes)
    return "louder" if shared and dominates(louder.voice, track.voice, DOMINANT) else ""


def dominates(a: Voice, b: Voice, factor: float) -> bool:
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


def _whole(tracks: Sequence[Track], folded: Mapping[Entity, Fold], places: Places) -> dict[Entity, Fold]:
    """A pool, or the fleet, and what is in it: the whole speaks for several, a single one for the whole."""
    more: dict[Entity, Fold] = {}
    for whole in (t.entity for kind in ("pool", "fleet") for t in tracks if t.entity.kind == kind):
        own = places.of(whole).own
        inside = [
            t.entity for t in tracks if t.entity != whole and (whole.kind == "fleet" or _in(t.entity, own, places))
        ]
        parts = [entity for entity in inside if entity not in folded and entity not in more]
        several = len(parts) > 1 or len({g for e in inside if e.kind in GROUP_LIKE for g in places.of(e).own}) > 1
        if parts and not several:
            more[whole] = Fold(parts[0], "part")
        for part in parts if several else ():
            more[part] = Fold(whole, "part")
    return more


def _in(entity: Entity, pool: frozenset[str], places: Places) -> bool:
    return bool(pool & places.of(entity).pools)


def leader_of(entity: Entity, folds: Mapping[Entity, Fold]) -> Entity:
    """Who stands for an entity in the end."""
    for _ in range(len(KIND_ORDER)):
        if entity not in folds:
            break
        entity = folds[entity].leader
    return entity


class Causes:
    """The causal graph of the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._next: dict[str, set[str]] = {}
        self._beside: set[tuple[str, str]] = set()
        for condition in catalogue.conditions.values():
            for link in condition.effects:
                self._add(condition.id, link.condition, link)
            for link in condition.causes:
                self._add(link.condition, condition.id, link)
        self._reach: dict[str, frozenset[str]] = {}
        self._behind: dict[str, frozenset[str]] = {}

    def _add(self, cause: str, effect: str, link: Link) -> None:
        self._next.setdefault(cause, set()).add(effect)
        if link.siblings:
            self._beside.add((cause, effect))

    def effects(self, condition: str) -> frozenset[str]:
        """What a condition can lead to, directly or through conditions that nobody saw."""
        if condition not in self._reach:
            found: set[str] = set()
            edge = {condition}
            for _ in range(MOST_STEPS):
                edge = {e for c in edge for e in self._next.get(c, ())} - found
                found |= edge
            self._reach[condition] = frozenset(found - {condition})
        return self._reach[condition]

    def reach_siblings(self, cause: str, effect: str) -> bool:
        """Whether what one replica of a pool has brings this about at the others."""
        return (cause, effect) in self._beside

    def of(self, condition: str) -> frozenset[str]:
        """What leads to a condition directly."""
        if condition not in self._behind:
            self._behind[condition] = frozenset(cause for cause, effects in self._next.items() if condition in effects)
        return self._behind[condition]


def attribute(suspects: Collection[Suspect], causes: Causes, places: Places) -> dict[str, str]:
    """Which root explains each suspect that is none, by id."""
    if len({s.condition for s in suspects}) < 2:
        return {}
    stands = {s.id: stand_of(s, places) for s in sorted(suspects, key=Suspect.order)}
    edges = list(_edges(stands.values(), causes))
    return _explained(stands, edges) if edges else {}


def _edges(stands: Collection[Stand], causes: Causes) -> Iterator[tuple[str, str]]:
    """Every (cause, effect) that the catalogue, the topology and the times allow."""
    at: dict[tuple[str, str], list[Stand]] = {}
    for stand in stands:
        for token in (*stand.tokens, ANY, *([FLEET] if stand.fleet else [])):
            at.setdefault((stand.suspect.condition, token), []).append(stand)
    present = {stand.suspect.condition for stand in stands}
    for cause in stands:
        tokens = (*cause.tokens, ANY if cause.fleet else FLEET)
        effects = sorted(causes.effects(cause.suspect.condition) & present)
        near = {e.suspect.id: e for c in effects for t in tokens for e in at.get((c, t), ())}
        for effect in near.values():
            early = effect.suspect.since < cause.suspect.since - CAUSE_BEFORE_S
            if not early and (nearness(cause, effect) or _among_siblings(cause, effect, causes)):
                yield cause.suspect.id, effect.suspect.id


def _among_siblings(cause: Stand, effect: Stand, causes: Causes) -> bool:
    reaches = causes.reach_siblings(cause.suspect.condition, effect.suspect.condition)
    return reaches and not cause.place.pools.isdisjoint(effect.place.pools)


def _explained(stands: Mapping[str, Stand], edges: Sequence[tuple[str, str]]) -> dict[str, str]:
    """For each suspect that is no root, the nearest root that reaches it."""
    import networkx as nx  # noqa: PLC0415  0.2 s to import, and most of the time nothing needs explaining

    graph: DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(edges)
    knots = nx.condensation(graph)
    roots: dict[str, list[Stand]] = {}
    for knot in knots:
        if knots.in_degree(knot) == 0:
            root = min((stands[i] for i in knots.nodes[knot]["members"]), key=lambda s: s.suspect.order())
            for reached in nx.descendants(graph, root.suspect.id):
                roots.setdefault(reached, []).append(root)
    return {
        i: min(found, key=lambda r: (-nearness(r, stands[i]), r.suspect.order())).suspect.id
        for i, found in sorted(roots.items())
    }
