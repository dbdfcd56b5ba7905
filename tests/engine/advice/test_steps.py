"""Advice in the order in which it can be carried out, with names in its titles."""

from dataclasses import replace

from skewscope.engine.advice.steps import advised_steps
from skewscope.engine.model.incident import Advice, Impact, IncidentEvidence
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.kb.loader import catalogue
from tests.tui.samples import ROOT

TOPOLOGY = Topology(
    tuple(Node(f"n{n}") for n in range(4)),
    (Group("A", "tensor-parallel", ("n0", "n1", "n2", "n3")),),
    (Pool("chat", ("A",)),),
)


def steps(*ids, **more):
    one = replace(ROOT, mitigations=tuple(Advice(id_, "", "") for id_ in ids), **more)
    return changing(advised_steps(one, catalogue(), TOPOLOGY))


def changing(steps):
    """Returns the steps without the one that only reads."""
    return [one for one in steps if not one.shows]


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
    assert (one.title, one.first, one.risk, one.undo, one.test) == ("own-idea", None, "", "", "")


def test_an_incomplete_command_is_never_first_where_another_one_is_complete():
    found = steps("clean-or-replace-link", "chunk-prefill", "admit-by-tokens", kind="replica", name="A")
    assert found[0].advice.id == "chunk-prefill"
    assert found[0].first.command.do == "vllm serve ... --enable-chunked-prefill --max-num-batched-tokens 2048"
    assert found[0].first.is_complete
    assert not found[0].first.is_ready  # it goes into a start command
    assert "NUMBER" in next(one for one in found if one.advice.id == "admit-by-tokens").first.command.do


def test_a_number_is_computed_from_the_level_from_which_the_impact_began():
    impact = Impact("requests in the engine", 3.36, "1", 16.0, 69.8, "{request}")
    (alone,) = steps("admit-by-tokens", kind="replica", name="A", impact=impact)
    assert alone.first.command.do == "vllm-router ... --max-concurrent-requests 16 --queue-size 16"
    topology = replace(TOPOLOGY, pools=(Pool("chat", ("A", "B")),))
    (of_two,) = changing(advised_steps(alone_incident("admit-by-tokens", impact), catalogue(), topology))
    assert of_two.first.command.do == "vllm-router ... --max-concurrent-requests 32 --queue-size 32"
    (other_unit,) = steps("admit-by-tokens", kind="replica", name="A", impact=replace(impact, level_unit="s"))
    assert other_unit.first.unfilled == ("NUMBER",)


def alone_incident(id_, impact):
    return replace(ROOT, kind="replica", name="A", impact=impact, mitigations=(Advice(id_, "", ""),))


FABRIC = Topology(
    (
        Node("leaf1", ports=(Port("leaf1", "Ethernet4", "east-west", peer="spine1/Ethernet0"),)),
        Node("spine1", ports=(Port("spine1", "Ethernet0", "east-west", peer="leaf1/Ethernet4"),)),
        Node("leaf2", ports=(Port("leaf2", "Ethernet8", "east-west", peer="n0/ew"),)),
        Node("n0", gpus=8, ports=(Port("n0", "ew", "east-west", devices=("eth2",), peer="leaf2/Ethernet8"),)),
    )
)


def at_port(name, *ids):
    one = replace(ROOT, kind="port", name=name, mitigations=tuple(Advice(id_, "", "") for id_ in ids))
    return changing(advised_steps(one, catalogue(), FABRIC))


def test_a_switch_is_no_node_of_a_scheduler():
    (isolate,) = at_port("leaf1/Ethernet4", "quarantine-node", "isolate-link")
    assert isolate.ready.command.do == "config interface shutdown Ethernet4"
    assert all("NodeName" not in one.command.do and "ip link" not in one.command.do for one in isolate.commands)
    (server,) = at_port("n0/ew", "quarantine-node")
    assert server.ready.command.do.startswith("scontrol update NodeName=n0 ")


def test_of_a_link_between_a_switch_and_a_node_the_node_is_drained():
    (drain,) = at_port("leaf2/Ethernet8", "quarantine-node")
    assert (drain.title, drain.ready.command.do.split()[2]) == ("Drain n0", "NodeName=n0")


def test_a_node_that_stands_for_the_unknown_machine_of_a_rank_is_not_drained():
    topology = Topology((Node("rank0"), Node("rank1")), (Group("dp", "data-parallel", ("rank0", "rank1")),))
    one = replace(ROOT, kind="rank", name="rank1", mitigations=(Advice("evict-on-check", "", ""),))
    (evict,) = changing(advised_steps(one, catalogue(), topology))
    assert evict.title == "Evict the machine of rank1 on a real-time check"
    assert evict.first.unfilled == ("NODE",)
