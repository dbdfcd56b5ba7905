"""Advice in the order in which it can be carried out, with names in its titles."""

from dataclasses import replace

from skewscope.engine.advice.steps import advised_steps
from skewscope.engine.model.incident import Advice, IncidentEvidence
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.tui.samples import ROOT

TOPOLOGY = Topology(
    tuple(Node(f"n{n}") for n in range(4)),
    (Group("A", "tensor-parallel", ("n0", "n1", "n2", "n3")),),
    (Pool("chat", ("A",)),),
)


def steps(*ids, **more):
    one = replace(ROOT, mitigations=tuple(Advice(id_, "", "") for id_ in ids), **more)
    return advised_steps(one, catalogue(), TOPOLOGY)


def test_what_can_be_run_here_comes_first_and_ideas_come_last():
    found = steps("place-by-prediction", "deweight-replica", "quarantine-node", "pace-streams")
    assert [one.advice.id for one in found] == [
        "quarantine-node",
        "deweight-replica",
        "place-by-prediction",
        "pace-streams",
    ]
    assert found[0].ready.command.do == f"scontrol update NodeName=n2 State=DRAIN Reason='{ROOT.id}'"
    assert found[1].ready is None
    assert found[1].first.unfilled == ("BACKEND", "SERVER")
    assert found[2].first is None


def test_titles_have_the_names_of_what_is_acted_on():
    titles = {one.advice.id: one.title for one in steps("quarantine-node", "deweight-replica", "pace-streams")}
    assert titles["quarantine-node"] == "Drain n2"
    assert titles["deweight-replica"] == "Halve traffic to replica A"
    assert titles["pace-streams"] == catalogue().mitigations["pace-streams"].name


def test_a_name_that_is_not_known_leaves_the_noun():
    (one,) = steps("quarantine-node", kind="link", name="x>y")
    assert (one.title, one.ready) == ("Drain a node", None)


def test_commands_for_errors_that_were_not_seen_are_never_ready():
    (unseen,) = steps("recover-gpu", kind="gpu", name="n2/gpu0", evidence=())
    assert all(not one.command.errors for one in unseen.commands if one.is_ready)
    seen = IncidentEvidence("failed", "yes", 3.0, 79.0, "1", "gpu.xid == 79")
    (recover,) = steps("recover-gpu", kind="gpu", name="n2/gpu0", evidence=(seen,))
    assert all(79 in one.command.errors for one in recover.commands if one.is_ready and one.command.errors)


def test_a_mitigation_that_the_catalogue_lacks_is_named_by_its_id():
    (one,) = steps("own-idea")
    assert (one.title, one.first, one.risk) == ("own-idea", None, "")
