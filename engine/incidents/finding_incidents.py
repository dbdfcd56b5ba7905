"""Which findings are one incident: those of one place and time, named after the one that says most."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from skewscope.engine.attribution.signature_evidence import Candidate, SignatureModel
from skewscope.engine.incidents.confidence import Calibration
from skewscope.engine.incidents.lifecycle import IncidentLifecycle
from skewscope.engine.incidents.senders import SenderFinder
from skewscope.engine.incidents.state import IncidentState
from skewscope.engine.incidents.symptom import SymptomIndex, SymptomState, symptom_of
from skewscope.engine.model.finding import EVENT, LESS, PAST, PEERS, SHARES, Finding, FindingKey
from skewscope.engine.model.incident import Advice
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.places import JudgedPlaces, PlaceTokens
from skewscope.engine.symptoms.roles import CHANGING_POOL, PART_SIGNAL, STEP_SIGNAL
from skewscope.kb.model import Catalogue

LEVELS = frozenset({"up", "down"})
"""Directions of findings that may follow one another in one series."""
STAGE_KIND = "data-parallel"
"""The members of such a group are one stage of several pipelines."""
ADVISED_PROBABILITY = 0.3
"""Mitigations of candidates from this probability on are advised."""

Findings = Mapping[FindingKey, Finding]


class FindingIncidents:
    """The incidents of findings, kept in step with those that hold."""

    def __init__(
        self,
        lifecycle: IncidentLifecycle,
        catalogue: Catalogue,
        senders: SenderFinder,
        tokens: PlaceTokens,
        calibration: Calibration,
        cells: JudgedCells | None = None,
    ) -> None:
        self.calibration = calibration
        self.lifecycle, self.catalogue, self.senders = lifecycle, catalogue, senders
        self.tokens, self.locality = tokens, tokens.locality
        self.judged = None if cells is None else JudgedPlaces(cells, tokens)
        self.version = 0
        """Counts what may change the incidents that are listed, but for their changes."""
        self._signatures = SignatureModel(catalogue)
        self._owner: dict[FindingKey, str] = {}
        """Id of the incident of each finding that holds."""
        self._index = SymptomIndex()

    @property
    def recent(self) -> dict[str, SymptomState]:
        """The symptoms that are open or have just ended, in the order in which they opened."""
        return self.lifecycle.recent(SymptomState)

    def messages(self) -> list[SymptomState]:
        """Returns the open symptoms that began with a message and that no diagnosis explains."""
        recent = self.recent.values()
        return [one for one in recent if one.primary.pattern == EVENT and one.is_open and one.explanation is None]

    def pool_changes(self) -> list[SymptomState]:
        """Returns the pools that gain or lose replicas, as open symptoms."""
        return [one for one in self.recent.values() if one.is_open and one.condition == CHANGING_POOL]

    def list_outlasting(self, states: Mapping[str, IncidentState]) -> list[SymptomState]:
        """Returns the open symptoms that began with the change of a pool, and are still there when that is over."""
        explained = ((one, one.explanation) for one in self.recent.values() if one.is_open and one.explanation)
        roots = ((one, states.get(explanation.id)) for one, explanation in explained)
        return [one for one, root in roots if root and root.condition == CHANGING_POOL and not root.is_open]

    def step(self, t: float, findings: Findings) -> None:
        """Brings the incidents in line with the findings that hold at a time."""
        if self.judged is not None:
            self.judged.prepare()
        self._index.keep(self.recent.keys())
        stages = self._find_late_stages(findings.values())
        is_known = not stages and (findings.keys() <= self._owner.keys() or self.lifecycle.room <= 0)
        # The order decides which symptom a new one becomes a part of.
        ranked = findings.values() if is_known else sorted(findings.values(), key=lambda one: one.rank)
        changed = {self._assign(t, finding, stages.get(finding.place, frozenset())) for finding in ranked}
        for key in self._owner.keys() - findings.keys():
            id_ = self._owner.pop(key)
            self.recent[id_].active.discard(key)
            changed.add(id_)
        for one in [one for one in self.recent.values() if one.is_open]:
            one.ended_at = math.inf if one.active else min(one.ended_at, t)
            if one.active:
                if one.is_hearsay or one.id in changed:
                    self._update(t, one)
            elif t - one.ended_at >= self._hold_s(one):
                self.lifecycle.resolve(t, one)
        self.version += bool(changed - {""})

    def next_change(self) -> float:
        """Returns the time in seconds before which the same findings change nothing."""
        return min((one.ended_at + self._hold_s(one) for one in self.recent.values() if one.is_open), default=math.inf)

    def _hold_s(self, one: SymptomState) -> float:
        return max(self.lifecycle.timing.grouping_s, self.lifecycle.hold_s(one))

    def take_over(self, before: "FindingIncidents") -> None:
        """Goes on with the incidents that the lifecycle has taken over, and the owners of the findings that hold."""
        for one in self.lifecycle.states.values():
            if isinstance(one, SymptomState):
                one.name_after(one.primary, self.catalogue)
        for one in self.recent.values():
            self._index.add(one)
        owners = before._owner.items()  # noqa: SLF001 - one of its own kind
        self._owner = {key: id_ for key, id_ in owners if id_ in self.recent and key in self.recent[id_].findings}

    def forget_owners(self) -> None:
        """Forgets whose the findings are of which the incidents have ended with their places."""
        self._owner = {key: id_ for key, id_ in self._owner.items() if id_ in self.recent}

    # --- findings of one place

    def _find_late_stages(self, findings: Iterable[Finding]) -> Mapping[Entity, frozenset[str]]:
        """Returns tokens of stages of pipelines of which every member is late among its own pipeline, by late place."""
        late: dict[str, set[Entity]] = {}
        for one in findings:
            if one.pattern == PEERS and one.direction == "up" and one.what.id == PART_SIGNAL:
                for node in self.locality.nodes_of(one.place.kind, one.place.name):
                    late.setdefault(node, set()).add(one.place)
        found: dict[Entity, frozenset[str]] = {}
        for group in self.locality.topology.groups if len(late) > 1 else ():
            places = [late.get(self.locality.topology.node_of[member], set()) for member in group.members]
            if group.kind == STAGE_KIND and len(places) > 1 and all(places):
                found |= {place: frozenset({f"group:{group.name}"}) for place in set().union(*places)}
        return found

    def _assign(self, t: float, finding: Finding, stage: Collection[str]) -> str:
        """Makes a finding a part of a symptom; a new one where none is open at its place, or in its late stage.

        Returns the id of the symptom, '' if it stays as it is, or has to wait for a tick with room for new ones.
        """
        key = finding.key
        if key in self._owner:
            one = self.recent[self._owner[key]]
            self._index.extend(one, stage)
            if one.findings.get(key) == finding and key in one.active:
                return ""
        elif self.lifecycle.room <= 0:
            return ""
        else:
            tokens = self._tokens_of(finding) | {*stage}
            near = self._near(t, tokens, finding)
            one = near or self._pool_symptom(finding) or self._begin(t, finding, tokens)
            if near is one:
                self._index.extend(one, tokens)
            if not one.is_open:
                self.lifecycle.reopen(t, one)
            self._owner[key] = one.id
        before = one.findings.get(key, finding)
        one.findings[key] = _keep_worse(before, finding)
        if one.findings[key].direction != before.direction:
            one.ranked_count = -1
        one.active.add(key)
        return one.id

    def _tokens_of(self, finding: Finding) -> set[str]:
        if finding.symptom == CHANGING_POOL:
            return {f"change:{finding.place.name}"}  # what is found at the same time is no part of it
        tokens = {*self.tokens.of(finding.place)}
        if finding.pattern in (SHARES, LESS):
            name, topology = finding.place.name, self.locality.topology
            # One hash of a switch places the flows of all its bundles; what they lead to is lost to all of one.
            tokens |= {f"node:{topology.port[name].node}" if finding.pattern == SHARES else topology.links_of(name)}
        return tokens

    def _near(self, t: float, tokens: Collection[str], finding: Finding) -> SymptomState | None:
        fitting = (one for one in self._index.find_near(tokens) if self._may_include(t, one, finding))
        return min(fitting, key=lambda one: not one.is_open, default=None)

    def _may_include(self, t: float, one: SymptomState, finding: Finding) -> bool:
        """Returns whether a finding may be part of a symptom: of one that has just ended only if it is the same."""
        if one.is_open:
            return True
        is_same = finding.symptom == one.primary.symptom or finding.key in one.findings
        return is_same and one.resolved_age(t) <= self.lifecycle.cool_down_s(one)

    def _pool_symptom(self, finding: Finding) -> SymptomState | None:
        """Returns the open symptom of a pool of which a replica's finding from its past is a part."""
        if finding.pattern != PAST or finding.place.kind != "replica":
            return None
        pools = self.locality.location_of(finding.place).pools
        of_pools = (one for one in self._index.find_near(pools) if f"pool:{one.primary.place.name}" in pools)
        found = (one for one in of_pools if one.is_open and one.primary.place.kind == "pool")
        alike = (one for one in found if one.primary.pattern == PAST and one.primary.symptom == finding.symptom)
        return next(alike, None)

    def _begin(self, t: float, finding: Finding, tokens: set[str]) -> SymptomState:
        symptom = symptom_of(finding, self.catalogue)
        one = SymptomState(
            symptom,
            finding.place,
            t,
            finding.since,
            primary=finding,
            calibration=self.calibration,
            tokens=tokens,
        )
        self.lifecycle.open(t, one)
        self._index.add(one)
        return one

    def _update(self, t: float, one: SymptomState) -> None:
        best = min((one.findings[key] for key in one.active), key=lambda one: one.rank)
        is_part = (one.primary.place.kind, best.place.kind) == ("pool", "replica")
        primary = one.primary
        if best.rank[:3] < primary.rank[:3] and not is_part:
            if best.place != primary.place:
                place = self.locality.display_name(best.place)[1]
                self.lifecycle.record_change(t, one, f"located at {place}")
            primary = best
        elif primary.key in one.findings:
            primary = max(primary, one.findings[primary.key], key=lambda each: (each.size, abs(each.value)))
        self._drop_late_steps(one)
        one.name_after(primary if primary.key in one.findings else best, self.catalogue)
        if one.is_hearsay or one.ranked_count != len(one.findings):
            self._find_witnesses(one)
        if one.ranked_count != len(one.findings):
            self._rank_causes(one)

    def _drop_late_steps(self, one: SymptomState) -> None:
        """Drops steps that came after all: they were late, and no longer speak for what stops a job for good."""
        passed = [key for key, each in one.findings.items() if key not in one.active and each.direction == "stops"]
        for key in passed:
            if one.findings[key].what.id in (STEP_SIGNAL, PART_SIGNAL):
                del one.findings[key]
                one.ranked_count = -1

    # --- witnesses, causes, advice

    def _find_witnesses(self, one: SymptomState) -> None:
        places = ((each.what.id, each.place) for each in (one.primary, *one.worst()))
        one.witnesses = self.senders.find_reporters(places)
        one.is_hearsay = self.senders.is_hearsay(one.witnesses, one.primary.place)

    def _rank_causes(self, one: SymptomState) -> None:
        tokens = with_replicas(one.tokens, self.locality)
        groups = (self.locality.topology.group.get(token.removeprefix("group:")) for token in tokens)
        kinds = {group.kind for group in groups if group is not None}
        machines = {
            node
            for each in one.findings.values()
            if each.pattern == PEERS and each.what.id == PART_SIGNAL
            for node in self.locality.nodes_of(each.place.kind, each.place.name)
        }
        delivered = () if self.judged is None else self.judged.delivered_near(tokens)
        causes = self._signatures.weigh(tuple(one.findings.values()), delivered, kinds, len(machines))
        one.causes = with_rules(causes, one.rule_odds)
        one.decides = self._signatures.decisive_signal(one.causes)
        one.mitigations = self._advise(one.posterior.probabilities)
        one.ranked_count = len(one.findings)

    def compare(self, t: float, compared: Mapping[str, Mapping[str, float]]) -> None:
        """Sets what rules say of the causes of symptoms.

        Args:
            t: the end of the tick.
            compared: by id of a symptom, and by condition: log-odds that it loses by its rules.
        """
        for id_, odds in compared.items():
            one = self.recent[id_]
            one.compared_at = t
            if odds != one.rule_odds:
                one.rule_odds = odds
                self._rank_causes(one)
                self.version += 1

    def _advise(self, probabilities: Mapping[str, float]) -> tuple[Advice, ...]:
        found: dict[str, Advice] = {}
        for id_, probability in probabilities.items():
            if probability < ADVISED_PROBABILITY:
                break
            condition = self.catalogue.conditions[id_]
            for name in condition.mitigations:
                actor = self.catalogue.mitigations[name].actor
                found.setdefault(name, Advice(name, actor, f"if it is {condition.name}"))
        return tuple(found.values())


def with_rules(causes: Sequence[Candidate], odds: Mapping[str, float]) -> tuple[Candidate, ...]:
    """Returns the causes with what rules say of them, likeliest first."""
    if not odds:
        return tuple(causes)
    added = (replace(one, log_odds=one.log_odds + odds.get(one.condition, 0.0)) for one in causes)
    return tuple(sorted(added, key=lambda one: (-one.log_odds, one.condition)))


def with_replicas(tokens: Collection[str], locality: LocalityIndex) -> set[str]:
    """Returns some tokens with those of the replicas of pools, whose telemetry is that of their pool."""
    return {*tokens, *locality.replicas_of(token for token in tokens if token.startswith("pool:"))}


def _keep_worse(before: Finding, now: Finding) -> Finding:
    """Returns the larger one of two findings of one series; a level that returns may be on the other side at last.

    Of a pool that changes it says since when it is as it is.
    """
    are_levels = before.direction in LEVELS and now.direction in LEVELS
    kept = before if are_levels and before.size > now.size else now
    return replace(kept, since=now.since) if now.symptom == CHANGING_POOL else kept
