"""What an act without a person needs beside a sure diagnosis, and what stands against a plan."""

import math
from dataclasses import replace

import pytest

from skewscope.engine.actions.grounds import (
    Preconditions,
    has_same_hardware,
    list_missing_grounds,
)
from skewscope.engine.actions.obstacles import NOT_JUDGED, list_past_obstacles
from skewscope.engine.model.incident import IncidentEvidence
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.engine.model.verdict import find_decisive_unknowns
from tests.support.acting_world import SimulatedFault, build_incident
from tests.support.actions import T0, build_action

PEERS = IncidentEvidence("slower", "yes", 4, 3.0, "1", "peer_ratio(gap) > 2 where gap = bucket_mean(serve.itl, 3*s)")
PAST = IncidentEvidence("became_slower", "yes", 2, 1.0, "1", "drift(bucket_mean(serve.itl, 3*s)) > 50*percent")
ALONE = IncidentEvidence("errors", "yes", 4, 3.0, "1", "rate(gpu.xid, 5*s) > 0 and peers() >= 2")
SETTLED = Preconditions(running_for=600, member_age=600)


def missing(*evidence: IncidentEvidence, known: Preconditions = SETTLED) -> tuple[str, ...]:
    incident = replace(build_incident(SimulatedFault("r2", T0, T0 + 60, 0.2), T0 + 20), name="r2", evidence=evidence)
    return list_missing_grounds(incident, known, grace=60)


def test_a_comparison_with_peers_needs_a_past_or_the_same_hardware():
    assert missing(PEERS) == ("r2 was never seen to be well, and its peers may have other hardware",)
    other = replace(SETTLED, same_hardware=False)
    assert missing(PEERS, known=other) == ("r2 was never seen to be well, and its peers have other hardware",)
    assert missing(PEERS, known=replace(SETTLED, same_hardware=True)) == ()
    assert missing(PEERS, known=replace(SETTLED, had_past=True)) == ()
    assert missing(PEERS, PAST, known=other) == ()
    assert missing(PEERS, replace(PAST, verdict="unknown"))
    assert missing(PEERS, replace(PAST, verdict="no"))


@pytest.mark.parametrize(
    ("expr", "is_past"),
    [
        ("peer_ratio(gap) > 2 or drift(gap) > 1 and ratio(gap, peer_lowest(gap)) > 2 where gap = rate(x, 3*s)", False),
        ("(drift(gap) > 1 or peer_ratio(gap) > 2) and known(gap)", False),
        ("slow or late where slow = drift(gap) > 1; late = peer_ratio(gap) > 2", False),
        ("drift(gap) > 1 and ratio(gap, peer_lowest(gap)) > 2", True),
        ("drift(gap) > 1 or drift(time) > 1 and peer_ratio(time) > 2", True),
        ("slow and late where slow = drift(gap) > 1; late = peer_ratio(gap) > 2", True),
    ],
)
def test_what_may_hold_by_peers_alone_shows_no_past(expr, is_past):
    assert bool(missing(replace(PEERS, expr=expr))) != is_past


def test_what_compares_nothing_needs_neither():
    assert missing(ALONE) == ()


@pytest.mark.parametrize(
    ("field", "text"),
    [("running_for", "the controller has judged for 59 s"), ("member_age", "r2 has reported since its start for 59 s")],
)
def test_controller_and_member_have_to_settle(field, text):
    (found,) = missing(ALONE, known=replace(SETTLED, **{field: 59.0}))
    assert found == f"{text}, 60 s are needed"
    assert missing(ALONE, known=replace(SETTLED, **{field: 60.0})) == ()


def test_unknown_counter_evidence_is_named():
    (found,) = missing(ALONE, known=replace(SETTLED, undecided=("its_prompts_are_longer", "engine_preempts")))
    assert found == "it is not known whether its prompts are longer and engine preempts"


def test_only_counter_evidence_that_would_decide_counts():
    names, weights, against = ("slower", "late", "long", "small"), (4, 2, 6, 0.5), (False, False, True, True)

    def undecided(*truth: int) -> tuple[str, ...]:
        return find_decisive_unknowns(names, weights, against, truth, fire=5)

    assert undecided(1, 1, 0, 0) == ("long",)
    assert undecided(1, 1, -1, 0) == ()
    assert undecided(1, 0, 0, -1) == ("long",)
    assert undecided(1, 1, -1, 1) == ()


def pool(*hardware: str) -> Topology:
    names = [f"r{n}" for n in range(len(hardware))]
    nodes = tuple(Node(f"n{n}", hardware=each) for n, each in enumerate(hardware))
    groups = tuple(Group(name, "tensor-parallel", (f"n{n}",)) for n, name in enumerate(names))
    return Topology(nodes, groups, (Pool("chat", tuple(names)),))


def test_the_hardware_of_peers():
    assert has_same_hardware("r1", pool("a", "a", "a")) is True
    assert has_same_hardware("n1", pool("a", "a", "a")) is True
    assert has_same_hardware("r1", pool("a", "b", "a")) is False
    assert has_same_hardware("r1", pool("a", "a", "")) is None
    assert has_same_hardware("r0", pool("a")) is None
    assert has_same_hardware("elsewhere", pool("a", "a")) is None


def obstacles(*past, judged: bool = True, held_since: float = -math.inf) -> tuple[str, ...]:
    return list_past_obstacles(past, is_judged=judged, held_since=held_since)


def test_an_incident_of_an_earlier_run_is_judged_first():
    assert obstacles() == ()
    assert obstacles(judged=False) == (NOT_JUDGED,)


def test_what_somebody_decided_is_not_tried_again_and_what_a_target_forgot_is():
    over = build_action(state="overridden", ended_at=T0)
    assert obstacles(over) == ("somebody else changed w2 at router during a-1",)
    assert obstacles(replace(over, forgotten=True)) == ()
    assert obstacles(replace(over, forgotten=True, ended_by="ann"))[0].startswith("ann decided otherwise")
    assert obstacles(build_action(state="refused", ended_by="ann"))
    assert obstacles(build_action(waiting="limits")) == ("a-1 is approved for it (drain w2 at router, waits: limits)",)


def test_a_member_that_probes_found_well_needs_new_evidence():
    well = build_action(state="undone", good_probes=3, ended_at=T0)
    assert obstacles(well) == ("probes found w2 well (a-1), and its fault was not seen since",)
    assert obstacles(well, held_since=T0 - 5) == obstacles(well)
    assert obstacles(well, held_since=T0 + 5) == ()
    assert obstacles(replace(well, good_probes=2)) == ()
