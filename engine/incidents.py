"""Incidents: what fires becomes cases that open, move, fold, are explained, resolve and come back.

Pure: times come with the verdicts. The order in which verdicts are given changes nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from skewscope.engine.advice import Context, advice_of, facts_of
from skewscope.engine.attribution import Causes, Fold, attribute, fold, leader_of
from skewscope.engine.cases import Case, entities_of, final_root, told
from skewscope.engine.coincidence import coincide
from skewscope.engine.incident import SEVERITIES, Advice, BlastRadius, Incident
from skewscope.engine.matcher import Policies
from skewscope.engine.nearness import Suspect
from skewscope.engine.neighbours import Neighbours
from skewscope.engine.places import NODE_BOUND, Entity, Places
from skewscope.engine.policy import Program
from skewscope.engine.rivals import Rivals
from skewscope.engine.topology import Topology
from skewscope.engine.tracks import Key, RuleInfo, Track, Tracks
from skewscope.engine.verdict import RuleVerdict
from skewscope.kb.model import Catalogue


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things stay related after they end, in seconds of data time."""

    fold_s: float = 10.0
    """Those that a silent leader stood for go on under it this long, then speak for themselves."""
    explain_s: float = 20.0
    """A resolved root explains this long: an effect's window is often longer than its cause's."""
    linger_s: float = 60.0
    """What it explained already it goes on to explain this long: a queue that it left has to be worked off."""
    cool_down_s: float = 30.0
    """What fires again within this time is the same incident, one flap more."""
    hand_over_s: float = 15.0
    """What ends on one member of a group as it begins on another has moved: it follows the work, not the machine."""


COMPARED_S = 5.0
"""Seconds for which it stands what else an incident could be, however much louder it becomes."""
IN_TURN = 2
"""Moves from which on something goes round: once may be chance."""


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """Something that happened to an incident."""

    t: float
    id: str
    what: str


class Incidents:
    """All incidents of a run, fed with the verdicts of each tick."""

    def __init__(
        self,
        rules: Mapping[str, RuleInfo],
        catalogue: Catalogue,
        topology: Topology,
        policies: Policies | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.places = Places(topology)
        self.places.prepare()
        self.tracks = Tracks(rules)
        self.policies = policies or Policies(Program())
        self.timing = timing or Timing()
        self._causes = Causes(catalogue)
        self._neighbours = Neighbours(self.places)
        self._rivals = Rivals(catalogue, self._causes, self._neighbours, self.tracks)
        self._cases: dict[str, Case] = {}
        self._near: dict[str, Case] = {}
        """Cases that are open or resolved so recently that they still matter."""
        self._signs: frozenset[str] = frozenset()
        """Ids of those that a surer one at the same place is told instead of."""
        self._led: dict[Key, list[Case]] = {}
        self._folds: dict[str, dict[Entity, Fold]] = {}
        self._advice: Mapping[tuple[str, str], tuple[Advice, ...]] = {}
        self._context: tuple[Context, ...] = ()
        self._followed: tuple[object, ...] = ()
        self._sorted_out: tuple[object, ...] = ()
        self._changes: list[Change] = []
        self._louder: list[Case] = []
        """Those to be held against what else they could be."""

    def know(self, context: Iterable[Context]) -> None:
        """Take what is known from outside, all of it; it counts from the next tick on."""
        self._context = tuple(sorted(set(context)))

    def step(self, t: float, verdicts: Iterable[RuleVerdict]) -> tuple[Change, ...]:
        """What changed by the verdicts of one tick."""
        self._changes = []
        self.tracks.take(t, verdicts)
        if not (self.tracks.live or self._near):
            self._neighbours.prepare(self.tracks.said())
        else:
            self._follow_policies(t)
            self.tracks.drop(t - max(self.timing.fold_s, self.timing.explain_s))
            if self._epoch(t) != self._sorted_out:
                self._sort_out(t)
                self._sorted_out = self._epoch(t)
            self._near = {c.id: c for c in self._near.values() if c.open or self._ago(t, c) <= self._memory}
        return tuple(self._changes)

    @property
    def _memory(self) -> float:
        return max(self.timing.cool_down_s, self.timing.explain_s)

    def _ago(self, t: float, case: Case) -> float:
        return 0.0 if case.resolved_at is None else t - case.resolved_at

    def _epoch(self, t: float) -> tuple[object, ...]:
        """All that decides how things are related; nothing needs thinking about again while it stays."""
        fading = tuple(sorted(track.key for track in self.tracks.live.values() if self._fading(t, track)))
        explaining = tuple(sorted(c.id for c in self._near.values() if self._ago(t, c) <= self.timing.explain_s))
        due = tuple(sorted(c.id for c in self._near.values() if c.open and self._due(t, c)))
        return self.tracks.version, self._context, fading, explaining, tuple(sorted(self._lingering(t))), due

    def _due(self, t: float, case: Case) -> bool:
        return case.changed and t - case.compared_at >= COMPARED_S

    def _fading(self, t: float, track: Track) -> bool:
        return not track.firing and t - track.cleared_at <= self.timing.fold_s

    def _follow_policies(self, t: float) -> None:
        moves = {(c.condition, c.leader): c.moves for c in self._near.values() if c.open and c.moves}
        now = (self.tracks.version, self._context, moves)
        if now == self._followed:
            return
        measured = [track for _, track in sorted(self.tracks.live.items()) if track.firing & self.tracks.rules.keys()]
        said = self.policies.follow(facts_of(measured, self.places, self._context, moves))
        self.tracks.derive(t, said)
        shown = {entity.key: self.places.shown(entity)[1] for _, entity in self.tracks.live}
        self._advice = advice_of(said, self.catalogue, shown)
        self._followed = (self.tracks.version, self._context, moves)

    def _sort_out(self, t: float) -> None:
        clusters = self._clusters(t)
        self._led = _by_leader(self._near.values())
        self._louder = []
        visited = {case.id for key, tracks in sorted(clusters.items()) for case in self._settle(t, key, tracks)}
        self._rivals.compare(t, self._louder)
        for case in sorted(self._near.values(), key=lambda c: c.order):
            if case.open and case.id not in visited:
                self._resolve(t, case)
        self._attribute(t)
        told = {c.id for c in self._near.values() if c.explained_by is None} | self._signs
        self._rivals.weigh([c for c in self._near.values() if c.open and c.id in told])

    def _clusters(self, t: float) -> dict[Key, list[Track]]:
        """Tracks by condition and the entity that stands for them."""
        alike: dict[str, list[Track]] = {}
        for key, track in sorted(self.tracks.live.items()):
            if track.firing or self._fading(t, track):
                alike.setdefault(key[0], []).append(track)
        self._folds = {
            c: fold(tracks, self.places, self._folds.get(c, {}), partial(self._judged, c))
            for c, tracks in alike.items()
        }
        clusters: dict[Key, list[Track]] = {}
        for condition, tracks in alike.items():
            newest = self._newest_in_turn(condition, tracks)
            for track in tracks:
                leader = newest.get(track.entity) or leader_of(track.entity, self._folds[condition])
                clusters.setdefault((condition, leader), []).append(track)
        return clusters

    def _judged(self, condition: str, domain: str, kind: str) -> int:
        """On how many nodes of a domain a condition can be judged."""
        return self._neighbours.judged((verdict for _, verdict in self.tracks.said_of(condition)), domain, kind)

    def _newest_in_turn(self, condition: str, tracks: Sequence[Track]) -> Mapping[Entity, Entity]:
        """Where a condition goes round a group, the member that it came to last stands for all of that group."""
        moving = [c for c in self._near.values() if c.open and c.condition == condition and c.moves >= IN_TURN]
        groups = {group: c.leader.kind for c in moving for group in self.places.of(c.leader).groups}
        found: dict[Entity, Entity] = {}
        for group, kind in sorted(groups.items()):
            within = [t for t in tracks if t.entity.kind == kind and group in self.places.of(t.entity).groups]
            firing = [t for t in within if t.firing]
            if firing:
                newest = max(firing, key=lambda t: (t.since, t.entity)).entity
                found |= {t.entity: newest for t in within}
        return found

    def _settle(self, t: float, key: Key, tracks: Sequence[Track]) -> list[Case]:
        """The open cases of one cluster, after each has become what it should be: one goes on, others merge into it."""
        firing = any(track.firing for track in tracks)
        led = [case for track in tracks for case in self._led.get(track.key, ())]
        mine = sorted((c for c in led if c.open), key=lambda c: (c.moves < IN_TURN, c.leader != key[1], c.order))
        if not mine and not firing:
            return []
        case = mine[0] if mine else self._opened(t, self.tracks.live[key])
        for other in mine[1:]:
            self._merge(t, other, case)
        case.merged_into = ""
        self._update(t, case, self.tracks.live[key], tracks)
        if not firing:
            self._resolve(t, case)
        return [case, *mine[1:]]

    def _opened(self, t: float, track: Track) -> Case:
        """A case for a track: the one that resolved a moment ago, or a new one."""
        recent = [c for c in self._led.get(track.key, ()) if self._ago(t, c) <= self.timing.cool_down_s]
        if recent:
            case = max(recent, key=lambda c: c.order)
            case.resolved_at = None
            case.flaps += 1
            self._happened(t, case, "fired again")
            return case
        gone = [c for c in self._near.values() if not c.merged_into and self._follows(c, track)]
        if gone:
            case = max(gone, key=lambda c: c.order)
            case.resolved_at = None
            self._move(t, case, track.entity)
            return case
        case = Case(track.condition, track.entity, t, track.since, track.voice)
        self._cases[case.id] = self._near[case.id] = case
        case.note(track.since, "evidence held")
        self._happened(t, case, "opened")
        return case

    def _merge(self, t: float, other: Case, case: Case) -> None:
        """One that turned out to be part of another stays told, explained by it."""
        if other.merged_into != case.id:
            other.merged_into = case.id
            self._happened(t, other, f"part of {case.id}")
        track = self.tracks.live.get((other.condition, other.leader))
        if track is None or not track.firing:
            self._resolve(t, other)

    def _update(self, t: float, case: Case, leader: Track, tracks: Sequence[Track]) -> None:
        moved = case.leader != leader.entity
        if moved:
            last = self.tracks.live.get((case.condition, case.leader))
            over = case.moves >= IN_TURN or last is None or not last.firing
            case.moves += over and self._siblings(case, case.condition, leader.entity)
            self._tell_of_move(t, case, leader.entity)
        case.members |= {track.entity for track in tracks}
        case.since = min(case.since, leader.since)
        case.agreeing = max(case.agreeing, len(leader.voices) - 1)
        if leader.firing:
            # While only others fire under it, what the leader said last stands.
            case.mitigations = self._advice.get((case.condition, case.leader.key), ())
            louder = case.voice if not moved and case.voice.rank() <= leader.voice.rank() else leader.voice
            case.changed |= louder is not case.voice
            case.voice = louder
            if self._due(t, case):
                self._louder.append(case)
        severity = max(track.severity for track in tracks)
        if severity > case.severity:
            case.severity = severity
            case.note(t, SEVERITIES[severity])

    def _resolve(self, t: float, case: Case) -> None:
        heir = self._heir(t, case) if case.open and not case.merged_into else None
        if heir:
            self._move(t, case, heir.leader)
            case.members |= heir.members
            self._merge(t, heir, case)
        elif case.open:
            case.resolved_at = t
            self._happened(t, case, "resolved")

    # --- what moves

    def _heir(self, t: float, case: Case) -> Case | None:
        """The incident of another member that began as this one ends."""
        began = [c for c in self._near.values() if c.open and not c.merged_into and c.order > case.order]
        near = [c for c in began if t - c.since <= self.timing.hand_over_s]
        heirs = [c for c in near if self._siblings(case, c.condition, c.leader)]
        return min(heirs, key=lambda c: c.order, default=None)

    def _follows(self, case: Case, track: Track) -> bool:
        """Whether what begins now is an incident that has just ended on another member of its group."""
        ended = case.resolved_at is not None and abs(track.since - case.resolved_at) <= self.timing.hand_over_s
        return ended and self._siblings(case, track.condition, track.entity)

    def _siblings(self, case: Case, condition: str, entity: Entity) -> bool:
        alike = case.condition == condition and case.leader.kind == entity.kind and case.leader != entity
        if not alike or entity.kind not in NODE_BOUND:
            return False
        return not self.places.of(case.leader).groups.isdisjoint(self.places.of(entity).groups)

    def _move(self, t: float, case: Case, to: Entity) -> None:
        self._led[case.condition, case.leader].remove(case)
        self._led.setdefault((case.condition, to), []).append(case)
        case.moves += 1
        self._tell_of_move(t, case, to)

    def _tell_of_move(self, t: float, case: Case, to: Entity) -> None:
        self._happened(t, case, f"moved from {self.places.shown(case.leader)[1]} to {self.places.shown(to)[1]}")
        # What else it could be there is another question.
        case.leader, case.looks, case.compared_at, case.changed = to, 0, -math.inf, True

    def _attribute(self, t: float) -> None:
        """Lay the causal graph over what fires, and over what resolved a moment ago."""
        near = [c for c in self._near.values() if not c.merged_into and self._ago(t, c) <= self.timing.explain_s]
        suspects = [_suspect(case) for case in near]
        roots = self._lingering(t) | attribute(suspects, self._causes, self.places)
        settled = {c.id for c in near if not c.open and c.explained_by}
        signs = coincide([s for s in suspects if s.id not in roots and s.id not in settled], self.places)
        self._signs = frozenset(signs)
        roots |= signs
        for case in sorted(self._near.values(), key=lambda c: c.order):
            if case.merged_into:
                self._explain(t, case, case.merged_into)
            elif case.open or case.id in roots or self._in_a_circle(case, roots):
                # What is over keeps its explanation, though the root be long over too.
                self._explain(t, case, roots.get(case.id))

    def _lingering(self, t: float) -> dict[str, str]:
        """What began under that which explained it, and goes on although that is over."""
        found = {}
        for case in self._near.values():
            root = self._cases.get(case.explained_by or "") if case.open and not case.merged_into else None
            if root is None or root.resolved_at is None or case.since > root.resolved_at:
                continue
            if self._ago(t, root) <= self.timing.linger_s:
                found[case.id] = root.id
        return found

    def _in_a_circle(self, case: Case, roots: Mapping[str, str]) -> bool:
        """Whether what explained a case is now explained by it."""
        above, seen = case.explained_by, {case.id}
        while above is not None and above in self._cases and above not in seen:
            seen.add(above)
            above = roots.get(above, self._cases[above].explained_by)
        return above == case.id

    def _explain(self, t: float, case: Case, root: str | None) -> None:
        if case.explained_by != root:
            case.explained_by = root
            self._happened(t, case, f"explained by {root}" if root else "a root again")

    def _happened(self, t: float, case: Case, what: str) -> None:
        case.note(t, what)
        self._changes.append(Change(t, case.id, what))

    def all(self) -> list[Incident]:
        """Every incident that ever fired, oldest first."""
        roots = {case.id: final_root(case, self._cases) for case in self._cases.values()}
        under: dict[str, list[Case]] = {}
        for case in self._cases.values():
            under.setdefault(roots[case.id] or case.id, []).append(case)
        ordered = sorted(self._cases.values(), key=lambda c: c.order)
        return [self._told(c, roots[c.id], under.get(c.id, [c])) for c in ordered]

    def _told(self, case: Case, root: str | None, under: Sequence[Case]) -> Incident:
        others = {other.condition for other in under} - {case.condition}
        return told(case, self.places, root, self._blast(case, under), others)

    def _blast(self, case: Case, under: Iterable[Case]) -> BlastRadius:
        """A root hits whatever it explains, too."""
        return self.places.blast(entities_of([case, *under]))

    def pending(self) -> list[Incident]:
        """What holds but not yet for long enough to fire. To be asked right after `step`."""
        found: dict[Key, Case] = {}
        for key, since, voice in self.tracks.waiting():
            track = self.tracks.live.get(key)
            if (track is None or not track.firing) and key not in found:
                found[key] = Case(*key, since, since, voice)
        cases = sorted(found.values(), key=lambda c: (c.opened_at, c.condition, c.leader))
        return [replace(told(c, self.places, None, self.places.blast([c.leader])), state="pending") for c in cases]

    def forget(self, before: float) -> None:
        """Drop incidents that resolved before a time, but for those that still explain others."""
        kept = {c.id for c in self._cases.values() if c.open or self._since(c) >= before} | set(self._near)
        kept |= {c.explained_by for c in self._near.values() if c.explained_by in self._cases}
        roots = {id_: final_root(self._cases[id_], self._cases) for id_ in kept}
        self._cases = {c.id: c for c in self._cases.values() if c.id in kept or c.id in roots.values()}
        for case in self._cases.values():
            if case.explained_by not in self._cases:
                case.explained_by = roots.get(case.id)  # what stood between the two is gone

    def _since(self, case: Case) -> float:
        return case.opened_at if case.resolved_at is None else case.resolved_at


def _suspect(case: Case) -> Suspect:
    whose = (case.leader, *sorted(case.members - {case.leader}))
    until = math.inf if case.resolved_at is None else case.resolved_at
    return Suspect(case.id, case.condition, whose, case.since, case.voice.score, case.log_odds, until)


def _by_leader(cases: Iterable[Case]) -> dict[Key, list[Case]]:
    found: dict[Key, list[Case]] = {}
    for case in cases:
        found.setdefault((case.condition, case.leader), []).append(case)
    return found


def as_contract(incidents: Incidents, input_hash: str) -> list[Incident]:
    """All incidents as they are printed: by opening time, then condition, then entity."""

    def order(one: Incident) -> tuple[float, str, str, str, str]:
        return round(one.opened_at, 3), one.condition, one.name, one.kind, one.id

    return sorted((replace(one, input_hash=input_hash) for one in incidents.all()), key=order)
