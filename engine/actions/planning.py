"""From a diagnosis, its advice and the targets to the changes that could be made, the mildest first. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from skewscope.engine.actions.action import FAILED, NOT_HELPED, Action, ActionPlan, ActionScope, Reason
from skewscope.engine.actions.change import CHANGE_KINDS, DEWEIGHT, DRAIN, REQUEUE, Change, ChangeSupport, TargetState
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue, Mitigation

LARGE_LOSS = 0.5
"""Share of an impact from which a milder step is passed over: what is left at the member would still be as slow.
Judgement: at half the speed, requests that still go there take twice as long."""
LEAST_SHARE, DEFAULT_SHARE, MOST_SHARE = 0.25, 0.5, 0.9
"""Bounds of the share of its weight that a deweighted member keeps, and the share where its loss is unknown. The share
is what the member can still do, 1 - loss, so that it takes as long as its peers for what it gets; at less than a
quarter it could no longer be measured, at more than nine tenths the change could not be seen."""


@dataclass(frozen=True)
class TargetOffer:
    """What a target can change."""

    name: str
    members: Mapping[str, str]
    """Its names of members, by the name of their entity in the topology."""
    support: Mapping[str, ChangeSupport]


@dataclass(frozen=True, slots=True)
class Option:
    """One change that could be made."""

    kind: str
    target: str
    member: str
    mitigation: str
    scope: ActionScope
    reversible: bool
    share: float = 0.0
    notes: tuple[str, ...] = ()
    """What a plan has to say: milder steps that were passed over, what the target lacks."""
    by_hand: bool = False
    """Whether a person runs the calls."""

    @property
    def title(self) -> str:
        """What it does, in a few words, as `Action.title`."""
        share = f" to {100 * self.share:.0f} %" if self.share else ""
        return f"{self.kind} {self.member}{share} at {self.target}"


def list_options(
    incident: Incident,
    offers: Sequence[TargetOffer],
    topology: Topology,
    catalogue: Catalogue,
    past: Iterable[Action] = (),
) -> tuple[Option, ...]:
    """Returns the changes that could be made for an incident, in the order in which they should be tried.

    Changes that can be undone come first, then the mildest, then in the order of the advice. What was tried for this
    incident without help is left out, what has no undo and was begun for it, and what would touch more than one member.
    """
    tried = {
        (one.change.kind, one.change.target, one.change.member)
        for one in past
        if one.reason.incident == incident.id
        and (one.outcome == NOT_HELPED or one.state == FAILED or (one.started_at is not None and not one.reversible))
    }
    advised = [catalogue.mitigations[a.id] for a in incident.mitigations if a.id in catalogue.mitigations]
    found: dict[tuple[str, str, str], Option] = {}
    for mitigation in advised:
        for option in _options_of(incident, mitigation, offers, topology):
            key = (option.kind, option.target, option.member)
            if key not in tried:
                found.setdefault(key, option)
    ordered = sorted(found.values(), key=lambda one: (not one.reversible, CHANGE_KINDS.index(one.kind)))
    return _pass_over_mild(ordered, incident, tried)


def _options_of(
    incident: Incident, mitigation: Mitigation, offers: Sequence[TargetOffer], topology: Topology
) -> Iterator[Option]:
    for change in mitigation.changes:
        scopes = list(_scopes(incident, change.of, topology))
        for offer in offers:
            here = [scope for scope in scopes if scope.entity in offer.members]
            support = offer.support.get(change.kind)
            if len(here) != 1 or support is None:
                continue
            share = choose_share(incident.impact.change) if change.kind == DEWEIGHT else 0.0
            notes = (support.note,) if support.note else ()
            yield Option(
                *(change.kind, offer.name, offer.members[here[0].entity], mitigation.id, here[0]),
                *(support.reversible, share, notes, not support.runs),
            )


def choose_share(loss: float | None) -> float:
    """Returns the share of its weight that a member keeps which loses a share of its work."""
    if loss is None or loss == 0.0:
        return DEFAULT_SHARE
    return min(max(round(1.0 - abs(loss), 2), LEAST_SHARE), MOST_SHARE)


def _scopes(incident: Incident, of: str, topology: Topology) -> Iterator[ActionScope]:
    """Yields what of one kind an incident is about."""
    nodes = find_nodes(incident.name, topology)
    hit = find_replicas(incident.name, topology)
    if of == "replica":
        for pool in topology.pools:
            for replica in pool.replicas:
                theirs = find_nodes(replica, topology)
                if replica in hit:
                    yield ActionScope(replica, of, tuple(sorted(theirs)), (replica,), pool.name, len(pool.replicas))
    elif of == "node" and len(nodes) == 1:
        (node,) = nodes
        yield ActionScope(node, of, (node,), _groups_on(nodes, topology))
    elif of == "port" and len(nodes) == 1:
        (node,) = nodes
        named = [port.id for port in topology.node[node].ports if port.id == incident.name]
        for port in named or [port.id for port in topology.node[node].ports]:
            yield ActionScope(port, of, (node,), _groups_on(nodes, topology))


def _groups_on(nodes: frozenset[str], topology: Topology) -> tuple[str, ...]:
    needing = {name for node in nodes for name in topology.groups_needing.get(node, ())}
    return tuple(group.name for group in topology.groups if group.name in needing)


def widen_scope(scope: ActionScope, change: Change, members: Mapping[str, str], state: TargetState) -> ActionScope:
    """Returns a scope with all that a requeue breaks off: its jobs run on other nodes too.

    Args:
        scope: of the change.
        change: any change; only a requeue touches more than its member.
        members: the target's names of its members, by entity.
        state: of the target; the detail `jobs` of a member names the jobs on it.
    """
    if change.kind != REQUEUE:
        return scope
    mine = _jobs_on(state, change.member)
    beside = [entity for entity, member in members.items() if mine & _jobs_on(state, member)]
    return replace(scope, nodes=(*scope.nodes, *sorted(set(beside).difference(scope.nodes))))


def _jobs_on(state: TargetState, member: str) -> set[str]:
    found = state.member(member)
    return set(found.detail("jobs").split(",")) - {""} if found is not None else set()


def find_nodes(name: str, topology: Topology) -> frozenset[str]:
    """Returns the nodes of an entity: those of all members of a group, that of a port or GPU, both of a link."""
    group = topology.group.get(name)
    if group is not None:
        return frozenset(topology.node_of[member] for member in group.members)
    ends = (end.split("/", maxsplit=1)[0] for end in name.replace(">", "--").split("--"))
    return frozenset(end for end in ends if end in topology.node)


def find_replicas(name: str, topology: Topology) -> frozenset[str]:
    """Returns the replicas that an entity is part of: itself, those with this member, or all on its nodes.

    None for another group.
    """
    replicas = {replica for pool in topology.pools for replica in pool.replicas}
    if name in topology.group:
        return frozenset({name} & replicas)
    on = [group for node in find_nodes(name, topology) for group in topology.groups_on.get(node, ())]
    members = frozenset(group.name for group in on if name in group.members)
    return (members or frozenset(group.name for group in on)) & replicas


def find_dependent_replicas(name: str, topology: Topology) -> frozenset[str]:
    """Returns the replicas that suffer from a fault of an entity: those that it is part of, and those that need it.

    What a node carries besides, such as a front end, needs the node and its ports, not its GPUs.
    """
    replicas = {replica for pool in topology.pools for replica in pool.replicas}
    nodes = find_nodes(name, topology) if name in topology.node or name in topology.port else frozenset()
    needing = {each for node in nodes for each in topology.groups_needing.get(node, ())}
    return find_replicas(name, topology) | (needing & replicas)


def _pass_over_mild(
    ordered: Sequence[Option], incident: Incident, tried: Collection[tuple[str, str, str]]
) -> tuple[Option, ...]:
    """Moves steps that cannot help enough behind the stronger ones of the same member, which then say so."""
    loss = abs(incident.impact.change or 0.0)
    out: list[Option] = []
    late: list[Option] = []
    for option in ordered:
        # Never an eviction: what it ends does not come back by its undo.
        stronger = {DEWEIGHT: (DRAIN,), DRAIN: (REQUEUE,)}.get(option.kind, ())
        has_stronger = any(o.kind in stronger and o.member == option.member and o.reversible for o in ordered)
        runs_on = option.kind == DRAIN and option.scope.kind == "node"
        too_mild = (option.kind == DEWEIGHT and loss >= LARGE_LOSS) or (runs_on and incident.severity == "critical")
        (late if has_stronger and too_mild else out).append(option)
    passed = {(one.target, one.member): one.kind for one in late}
    milder = {(target, member) for _kind, target, member in tried}
    return tuple(_explain(one, passed, milder, loss) for one in (*out, *late))


def _explain(
    option: Option, passed: Mapping[tuple[str, str], str], milder: Collection[tuple[str, str]], loss: float
) -> Option:
    """Returns an option whose notes say why it is not preceded by a milder step."""
    place = option.target, option.member
    notes = list(option.notes)
    if place in passed and passed[place] != option.kind:
        why = (
            f"what is left there would lose {100 * loss:.0f} % all the same" if loss else "what runs there would go on"
        )
        notes.append(f"{passed[place]} is passed over: {why}")
    elif place in milder:
        notes.append("a milder step was tried and did not help")
    return replace(option, notes=tuple(notes))


def describe_plan(option: Option, incident: Incident, mitigation: Mitigation, calls: tuple[str, ...]) -> ActionPlan:
    """Returns what a person reads of an option: what it should give back and from which evidence, risk, undo, check."""
    impact = incident.impact
    if impact.change:
        lost = f"{100 * abs(impact.change):.0f} % of {impact.metric}"
        effect = f"up to {lost}, which the incident takes; {mitigation.effect}"
    else:
        effect = mitigation.effect
    claims = [f"{claim.text} ({claim.source})" for claim in mitigation.claims[:2]]
    scope = option.scope
    touched = [f"{scope.kind} {scope.entity}"]
    if scope.pool:
        touched.append(f"one of the replicas of {scope.pool}")
    if scope.groups and scope.kind != "replica":
        touched.append(f"groups {', '.join(scope.groups[:5])}" + (" and more" if len(scope.groups) > 5 else ""))
    if scope.kind == "node" and len(scope.nodes) > 1:
        touched.append(f"jobs that run on {len(scope.nodes)} nodes")
    notes = option.notes if option.reversible else (*option.notes, "this has no undo")
    told = "A person says that it was run" if option.by_hand else "The target reports the new state"
    return ActionPlan(
        calls=calls,
        effect=" ".join([effect, *claims]),
        risk=mitigation.risk,
        blast_radius="; ".join(touched),
        undo=mitigation.undo if option.reversible else "none",
        verification=f"{told}, the work given to the member follows, and what was lost comes back. {mitigation.verify}",
        notes=notes,
        by_hand=option.by_hand,
    )


def build_reason(incident: Incident, mitigation: str) -> Reason:
    """Returns the reason of an action for an incident."""
    return Reason(
        *(incident.id, incident.condition, incident.kind, incident.name, incident.rule, incident.rule_hash),
        *(round(incident.confidence, 3), incident.severity, incident.opened_at, mitigation),
        abs(incident.impact.change or 0.0),
    )
