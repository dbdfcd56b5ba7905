"""On whose telemetry the evidence for an incident rests.

A value is delivered by the node of its entity, unless another sender is noted for it in the series table. What the
join works out of a group's rounds rests on the nodes whose ports support it. What is taken over the parts of a group,
such as the highest value of its nodes, does not show which of them decided: where all evidence is of that kind, the
group itself is named, as one sender.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Protocol

from skewscope.engine.incidents.alerts import EvidenceSnapshot, RuleInfo
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.engine.model.incident import MAX_WITNESSES
from skewscope.engine.model.locality import NODE_BOUND, Entity, LocalityIndex
from skewscope.engine.model.senders import natural_sender
from skewscope.engine.model.verdict import YES
from skewscope.kb.model import Signal
from skewscope.rules.entity_kinds import kind_of


class RoundJoin(Protocol):
    """The join of a group's rounds (see `wire.join`)."""

    lag_signals: ClassVar[Collection[str]]
    """Signals of members that it works out of what others hear."""
    pace_signals: ClassVar[Collection[str]]
    """Signals of groups on which their members vote."""

    def name_supporters(self, group: str, member: str) -> Collection[str]:
        """Returns the nodes whose own telemetry supports that a member is late."""
        ...

    def name_voters(self, group: str) -> Collection[str]:
        """Returns the nodes that have reported the pace of a group."""
        ...


class NoRounds:
    """The join where there is none."""

    lag_signals: ClassVar[Collection[str]] = ()
    pace_signals: ClassVar[Collection[str]] = ()

    def name_supporters(self, _group: str, _member: str) -> Collection[str]:
        """Returns none."""
        return ()

    def name_voters(self, _group: str) -> Collection[str]:
        """Returns none."""
        return ()


class SenderFinder:
    """Finds the senders behind evidence."""

    def __init__(self, signals: Mapping[str, Signal], locality: LocalityIndex, join: RoundJoin | None = None) -> None:
        self._kinds = {name: kind_of(signal.entity) for name, signal in signals.items()}
        self._locality, self._join = locality, join or NoRounds()
        self._appointed: dict[tuple[str, str], set[str]] = {}
        """Other senders by signal and the entity's own one."""
        self._is_joined: dict[str, bool] = {}
        """By rule: whether its evidence rests on rounds."""
        self._seen = 0

    def follow(self, table: SeriesTable) -> None:
        """Takes in the senders that are noted in a table since the last call."""
        if len(table.senders) == self._seen:
            return
        for key, sender in islice(table.senders.items(), self._seen, None):
            own = natural_sender(key.kind, key.entity, self._locality.topology)
            self._appointed.setdefault((key.signal, own), set()).add(sender)
        self._seen = len(table.senders)

    def find_witnesses(self, evidence: EvidenceSnapshot, entity: Entity) -> tuple[str, ...]:
        """Returns the senders on which a diagnosis rests, at most MAX_WITNESSES.

        All required items have to hold, so the one with the fewest senders decides. Further items that say yes add
        theirs if they are about the entity itself.
        """
        required: list[frozenset[str]] = []
        further: set[str] = set()
        for item, verdict in zip(evidence.info.items, evidence.verdicts, strict=True):
            if item.against or verdict != YES:
                continue
            located = [found for name in item.signals if (found := self._locate(name, entity))]
            senders = _fewest(located or [found for name in item.signals if (found := self._whole(name, entity))])
            if item.required and senders:
                required.append(senders)
            elif located:
                further |= senders
        witnesses = {*_fewest(required), *further}
        if not witnesses and YES in evidence.verdicts:
            witnesses.add(natural_sender(entity.kind, entity.name, self._locality.topology))
        return tuple(sorted(witnesses)[:MAX_WITNESSES])

    def is_hearsay(self, witnesses: Sequence[str], entity: Entity) -> bool:
        """Returns whether only one node hears another one late, and no sender is appointed to report it."""
        if len(witnesses) != 1 or entity.kind not in NODE_BOUND:
            return False
        own = natural_sender(entity.kind, entity.name, self._locality.topology)
        return witnesses[0] != own and witnesses[0] in self._supporters(entity)

    def is_joined(self, info: RuleInfo) -> bool:
        """Returns whether the evidence of a rule rests on rounds, which further nodes may come to support."""
        if info.rule not in self._is_joined:
            joined = {*self._join.lag_signals, *self._join.pace_signals}
            self._is_joined[info.rule] = any(not joined.isdisjoint(item.signals) for item in info.items)
        return self._is_joined[info.rule]

    def find_reporters(self, places: Iterable[tuple[str, Entity]]) -> tuple[str, ...]:
        """Returns the senders of some signals at their places, the first ones first, at most MAX_WITNESSES."""
        found = (
            sender
            for signal, place in places
            for sender in sorted(self._locate(signal, place) or self._whole(signal, place))
        )
        return tuple(islice(dict.fromkeys(found), MAX_WITNESSES))

    def _locate(self, signal: str, entity: Entity) -> frozenset[str]:
        """Returns the senders of a signal at an entity; none where it is about something larger, or about parts."""
        kind = self._kinds.get(signal, "")
        on_node = entity.kind in NODE_BOUND
        if on_node and signal in self._join.lag_signals and (supporters := self._supporters(entity)):
            return frozenset(supporters)
        if kind in NODE_BOUND and on_node:
            return self._senders(signal, natural_sender(entity.kind, entity.name, self._locality.topology))
        if kind in NODE_BOUND:
            nodes = self._locality.nodes_of(entity.kind, entity.name)
            return self._senders(signal, next(iter(nodes))) if len(nodes) == 1 else frozenset()
        return frozenset() if on_node else self._whole(signal, entity)

    def _whole(self, signal: str, entity: Entity) -> frozenset[str]:
        """Returns the senders of a signal about a group or pool, and about the group of a rank."""
        kind = self._kinds.get(signal, "")
        if kind in NODE_BOUND or not kind:
            return frozenset()
        name = entity.name.partition(":")[0]
        if signal in self._join.pace_signals and (voters := self._join.name_voters(name)):
            return frozenset(voters)
        return self._senders(signal, natural_sender(kind, name, self._locality.topology))

    def _supporters(self, entity: Entity) -> Collection[str]:
        if entity.kind == "rank":
            group, _, member = entity.name.partition(":")
            return self._join.name_supporters(group, member)
        nodes = self._locality.nodes_of(entity.kind, entity.name)
        groups = (group for node in nodes for group in self._locality.topology.groups_on.get(node, ()))
        return {name for group in groups for node in nodes for name in self._join.name_supporters(group.name, node)}

    def _senders(self, signal: str, own: str) -> frozenset[str]:
        return frozenset(self._appointed.get((signal, own)) or {own})


def _fewest(senders: Sequence[frozenset[str]]) -> frozenset[str]:
    return min(senders, key=lambda some: (len(some), sorted(some)), default=frozenset())
