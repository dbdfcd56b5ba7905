"""Whether an incident suffices for a change that no person has approved. Pure.

An act needs more than a sure diagnosis: time in which the controller and the member have settled, a comparison that
means something (with the member's own healthy past, or with peers of the same hardware), and counter-evidence that is
known where it would decide. What is missing is named; until it is there, the change is a proposal.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from skewscope.engine.actions.planning import find_nodes, find_replicas
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.rules.functions import FUNCTIONS

CALL = re.compile(r"(\w+)\(")
YES, UNKNOWN = "yes", "unknown"
"""Verdicts of evidence."""
COUNTS = ("peers", "heard")
"""Functions that count peers and compare nothing."""
PAST_FUNCTIONS = {"change"} | {name for name, each in FUNCTIONS.items() if each.form == "baseline"}
PEER_FUNCTIONS = {name for name, each in FUNCTIONS.items() if each.form == "peers"}.difference(COUNTS)


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What is known of an incident beside its evidence."""

    running_for: float = math.inf
    """Seconds for which the controller has judged."""
    member_age: float = math.inf
    """Seconds for which its place has reported without a new start."""
    undecided: tuple[str, ...] = ()
    """Names of its counter-evidence that is unknown at present, and would end it if it held."""
    had_past: bool = False
    """Whether its place was seen to be well before, by evidence of an earlier moment or of an earlier run."""
    same_hardware: bool | None = None
    """Whether its peers have the same hardware; None where the topology does not say."""


def list_missing_grounds(incident: Incident, known: Preconditions, grace: float) -> tuple[str, ...]:
    """Returns what is missing for an act on an incident, one sentence each; empty where nothing is.

    Args:
        incident: a diagnosis.
        known: what is known beside it.
        grace: seconds that the controller and the member have to run before an act.
    """
    return tuple(_missing_grounds(incident, known, grace))


def _missing_grounds(incident: Incident, known: Preconditions, grace: float) -> Iterator[str]:
    if known.running_for < grace:
        yield f"the controller has judged for {known.running_for:.0f} s, {grace:.0f} s are needed"
    if known.member_age < grace:
        yield f"{incident.name} has reported since its start for {known.member_age:.0f} s, {grace:.0f} s are needed"
    if rests_on_peers(incident) and not known.had_past and known.same_hardware is not True:
        peers = "have other hardware" if known.same_hardware is False else "may have other hardware"
        yield f"{incident.name} was never seen to be well, and its peers {peers}"
    if known.undecided:
        yield f"it is not known whether {' and '.join(one.replace('_', ' ') for one in known.undecided)}"


def shows_past(incident: Incident) -> bool:
    """Returns whether evidence shows that the place of an incident was otherwise before.

    Evidence that may also hold by a comparison with peers alone shows no past.
    """
    return any(
        each.verdict == YES and all(_needs_past(one) for one in _alternatives(each.expr)) for each in incident.evidence
    )


def rests_on_peers(incident: Incident) -> bool:
    """Returns whether evidence compares the place of an incident with its peers, and none with its own past."""
    compared = any(each.verdict == YES and _calls(each.expr, PEER_FUNCTIONS) for each in incident.evidence)
    return compared and not shows_past(incident)


def _needs_past(expr: str) -> bool:
    """Returns whether an expression holds by a comparison with a past only."""
    may_be_peers = " or " in expr and _calls(expr, PEER_FUNCTIONS)
    return _calls(expr, PAST_FUNCTIONS) and not may_be_peers


@lru_cache(maxsize=4096)
def _alternatives(expr: str) -> tuple[str, ...]:
    """Returns the parts of an expression any of which suffices, each with the definitions that it names."""
    body, _, where = expr.partition(" where ")
    definitions = dict(one.split(" = ", 1) for one in where.split("; ") if " = " in one)
    found = [""]
    for part in body.split(" or "):
        is_open = found[-1].count("(") > found[-1].count(")")
        found[-1:] = [f"{found[-1]} or {part}"] if is_open else [*filter(None, found[-1:]), part]
    return tuple(" ".join([one, *(text for name, text in definitions.items() if name in one)]) for one in found)


def _calls(expr: str, names: Iterable[str]) -> bool:
    return not _functions_of(expr).isdisjoint(names)


@lru_cache(maxsize=4096)
def _functions_of(expr: str) -> frozenset[str]:
    return frozenset(CALL.findall(expr))


def has_same_hardware(name: str, topology: Topology) -> bool | None:
    """Returns whether an entity and its peers have the same hardware; None where the topology does not say of all.

    Peers are the replicas of its pool, or else the members of its groups.
    """
    replicas = find_replicas(name, topology)
    pools = [pool.replicas for pool in topology.pools if replicas.intersection(pool.replicas)]
    nodes = find_nodes(name, topology)
    groups = [group.name for node in nodes for group in topology.groups_on.get(node, ())]
    peers = [each for replicas in pools for each in replicas] or groups
    beside = nodes.union(*(find_nodes(each, topology) for each in peers))
    return None if len(beside) == len(nodes) else _is_one_kind(beside, topology)


def have_same_hardware(name: str, other: str, topology: Topology) -> bool | None:
    """Returns whether two entities have the same hardware; None where the topology does not say of both."""
    nodes, beside = find_nodes(name, topology), find_nodes(other, topology)
    return _is_one_kind(nodes.union(beside), topology) if nodes and beside else None


def _is_one_kind(nodes: Iterable[str], topology: Topology) -> bool | None:
    kinds = {topology.node[node].hardware for node in nodes}
    return None if not kinds or "" in kinds else len(kinds) == 1
