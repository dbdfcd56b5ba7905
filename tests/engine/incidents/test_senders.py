"""Each incident names the senders on whose telemetry it rests."""

from types import SimpleNamespace

import numpy as np
import pytest

from skewscope.engine.engine import Engine
from skewscope.engine.incidents.alerts import EvidenceSnapshot, EvidenceSpec, RuleInfo
from skewscope.engine.incidents.senders import SenderFinder
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.engine.wire.join import WireJoin
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict

NODES = tuple(Node(f"n{i}", gpus=8, ports=(Port(f"n{i}", "ew", "east-west", 25e9),)) for i in range(8))
GROUP = Group("g", "tensor-parallel", tuple(node.name for node in NODES[:6]))
REPLICA, LONE = Group("r", "tensor-parallel", ("n6", "n7"), front_end="n6"), Group("l", "tensor-parallel", ("n7",))
TOPOLOGY = Topology(NODES, (GROUP, REPLICA, LONE), (Pool("chat", ("r", "l")),))
ENTITY_OF = {
    "gpu.x": "gpu",
    "port.x": "port",
    "rank.x": "rank",
    "engine.x": "engine",
    "wire.onset_lag": "rank",
    "wire.round_period": "group",
}
SIGNALS = {name: SimpleNamespace(entity=entity) for name, entity in ENTITY_OF.items()}


def finder(table: SeriesTable | None = None) -> SenderFinder:
    found = SenderFinder(SIGNALS, LocalityIndex(TOPOLOGY), WireJoin(TOPOLOGY))
    found.follow(table or SeriesTable())
    return found


def evidence(*items: tuple[bool, tuple[str, ...]]) -> EvidenceSnapshot:
    """All items say yes; each is (required, its signals)."""
    specs = tuple(EvidenceSpec(f"e{n}", 1.0, required=r, signals=s) for n, (r, s) in enumerate(items))
    return EvidenceSnapshot(RuleInfo("rule", "c", specs), 0.0, 1.0, 1.0, 0.0, (1,) * len(items), (1.0,) * len(items))


@pytest.mark.parametrize(
    ("kind", "name", "items", "witnesses"),
    [
        ("gpu", "n1/gpu0", [(True, ("gpu.x",))], ("n1",)),
        ("rank", "g:n1", [(True, ("rank.x",)), (False, ("gpu.x",))], ("n1",)),
        ("replica", "r", [(True, ("engine.x",))], ("n6",)),
        ("replica", "l", [(True, ("engine.x",)), (False, ("gpu.x",))], ("n7",)),
        ("replica", "r", [(True, ("gpu.x",))], ("n6",)),  # some node of the replica: one sender
        ("group", "g", [(True, ("gpu.x",))], ("g",)),
    ],
)
def test_a_value_is_delivered_by_the_node_of_its_entity(kind, name, items, witnesses):
    assert finder().find_witnesses(evidence(*items), Entity(kind, name)) == witnesses


def test_an_appointed_sender_is_the_witness_of_what_it_delivers():
    table = SeriesTable()
    table.senders = {SeriesKey("port.x", "port", "n1/ew"): "syslog", SeriesKey("rank.x", "rank", "g:n2"): "n0"}
    found = finder(table)
    assert found.find_witnesses(evidence((True, ("port.x",))), Entity("port", "n1/ew")) == ("syslog",)
    assert found.find_witnesses(evidence((True, ("port.x",))), Entity("port", "n2/ew")) == ("n2",)
    both = evidence((True, ("rank.x",)), (False, ("gpu.x",)))
    assert found.find_witnesses(both, Entity("rank", "g:n2")) == ("n0", "n2")


def run_group(accusers, seconds=40):
    """Returns the incidents where some members hear n5 late by 20 ms, and each other member hears nobody late."""
    signals = catalogue()
    engine = Engine(load_strict(signals).values(), signals, TOPOLOGY, symptoms=True)
    table, values = SeriesTable(), []
    for node, is_late in accusers.items():
        for member in GROUP.members:
            own, late = member == node, is_late and member == "n5"
            entity, kind = (f"{node}/ew", "port") if own else (f"{node}/ew>{member}/ew", "peer")
            rows = (("onset_lag", 0.02, 1e-4), ("onset_lag_p95", 0.022, 4e-4), ("last_share", 0.99, 0.002))
            for signal, lie, truth in rows:
                table.number(SeriesKey(f"wire.{'own' if own else 'peer'}_{signal}", kind, entity, "g"))
                values.append(lie if late else truth)
        for signal, value in (("round_period", 0.03), ("round_rate", 33.3), ("exchange_time", 1e-3)):
            table.number(SeriesKey(f"wire.port_{signal}", "port", f"{node}/ew", "g"))
            values.append(value)
    rng, numbers = np.random.default_rng(1), np.arange(len(values), dtype=np.int32)
    for second in range(1, seconds):
        noise = rng.uniform(0.97, 1.03, len(values))
        engine.step(1e9 + second, Block(np.full(len(values), 1e9 + second), numbers, np.array(values) * noise), table)
    return {one.condition: one for one in engine.list_incidents() if one.state == "firing"}


def test_what_two_nodes_hear_is_a_diagnosis_that_names_both():
    found = run_group({"n1": True, "n2": True})["tp-straggler"]
    assert (found.name, found.witnesses) == ("n5", ("n1", "n2"))
    assert found.confidence > 0.8


def test_what_one_node_hears_alone_is_a_suspicion():
    found = run_group({"n1": True})
    assert {one.witnesses for one in found.values()} == {("n1",)}
    assert all(one.confidence < 0.4 for one in found.values())
    assert not any(one.is_likely for one in found.values())


@pytest.mark.parametrize("honest", [1, 4])
def test_what_one_node_hears_against_others_is_nothing(honest):
    others = [name for name in GROUP.members if name not in ("n1", "n5")]
    assert run_group({"n1": True} | dict.fromkeys(others[:honest], False)) == {}
