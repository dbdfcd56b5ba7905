"""One rule for every way in: a sender changes no value of an entity for which it may not report."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.mapping.entities import EntityResolver
from skewscope.adapters.mapping.senders import (
    FLEET,
    OTHER_GROUP,
    OTHER_MEMBER,
    OTHER_NODE,
    UNBOUND,
    WHOLE_GROUP,
    Sender,
    SenderLookup,
    SenderRule,
    declare_sender,
)
from skewscope.engine.ingest.feed import SeriesKey, SeriesTable
from skewscope.engine.model.senders import natural_sender
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.engine.wire.join import INPUT_SIGNALS, RANK_SIGNALS, WireJoin

NODES = tuple(
    Node(f"n{i}", gpus=8, ports=(Port(f"n{i}", "ew", "east-west", 25e9, addresses=(f"10.0.0.{i + 1}",)),))
    for i in range(6)
)
FLEET_OF_SIX = Topology(
    NODES,
    (
        Group("g0", "tensor-parallel", ("n0", "n1", "n2"), front_end="n0"),
        Group("g1", "tensor-parallel", ("n3", "n4", "n5")),
        Group("r5", "tensor-parallel", ("n5",), engine=(("instance", "10.9.9.9:8000"),)),
    ),
    (Pool("chat", ("r5", "g0")),),
)
RULE = SenderRule(FLEET_OF_SIX)
N0, N1, N5 = (Sender(name, frozenset((name,))) for name in ("n0", "n1", "n5"))
LAG, OTHER = "wire.peer_onset_lag", "host.up"


@pytest.mark.parametrize(
    ("sender", "signal", "kind", "entity", "selector"),
    [
        (N0, OTHER, "node", "n0", ""),
        (N0, OTHER, "gpu", "n0/gpu3", ""),
        (N0, OTHER, "port", "n0/ew", "tx"),
        (N0, OTHER, "peer", "n0/ew>n5/ew", ""),
        (N0, OTHER, "link", "n3/ew--n0/ew", ""),
        (N0, OTHER, "rank", "g0:n0", ""),
        (N0, OTHER, "replica", "g0", ""),
        (N0, OTHER, "group", "g0", ""),
        (N0, LAG, "peer", "n0/ew>n1/ew", "g0"),
        (N5, OTHER, "replica", "r5", ""),
        (Sender("s", groups=frozenset(("g1", "chat"))), OTHER, "rank", "g1:n4", ""),
        (Sender("s", groups=frozenset(("g1", "chat"))), OTHER, "pool", "chat", ""),
        (Sender("s", is_fleet=True), LAG, "peer", "n0/ew>n4/ew", "g1"),
    ],
)
def test_admitted(sender, signal, kind, entity, selector):
    assert RULE.find_objection(sender, SeriesKey(signal, kind, entity, selector)) == ""


@pytest.mark.parametrize(
    ("sender", "signal", "kind", "entity", "selector", "why"),
    [
        (N0, OTHER, "node", "n1", "", OTHER_NODE),
        (N0, OTHER, "gpu", "n1/gpu0", "", OTHER_NODE),
        (N0, OTHER, "port", "n1/ew", "", OTHER_NODE),
        (N0, OTHER, "peer", "n1/ew>n0/ew", "", OTHER_NODE),
        (N0, OTHER, "link", "n3/ew--n4/ew", "", OTHER_NODE),
        (N0, OTHER, "rank", "g0:n1", "", OTHER_MEMBER),
        (N1, OTHER, "replica", "g0", "", WHOLE_GROUP),
        (N5, OTHER, "group", "g1", "", WHOLE_GROUP),
        (N5, OTHER, "replica", "none", "", WHOLE_GROUP),
        (N5, OTHER, "pool", "chat", "", WHOLE_GROUP),
        (N5, OTHER, "fleet", "all", "", WHOLE_GROUP),
        (N0, LAG, "peer", "n0/ew>n4/ew", "g1", OTHER_GROUP),
        (N0, LAG, "peer", "n0/ew>n4/ew", "g0", OTHER_GROUP),
        (N0, "wire.port_round_period", "port", "n0/ew", "g1", OTHER_GROUP),
        (Sender("page"), OTHER, "node", "n0", "", UNBOUND),
    ],
)
def test_refused(sender, signal, kind, entity, selector, why):
    assert RULE.find_objection(sender, SeriesKey(signal, kind, entity, selector)) == why


names = st.sampled_from([*FLEET_OF_SIX.node, *FLEET_OF_SIX.group, "chat", "elsewhere"])
places = st.builds(
    "".join,
    st.lists(st.one_of(names, st.sampled_from(["/ew", "/gpu0", ">", "--", ":"])), min_size=1, max_size=5),
)
keys = st.builds(
    SeriesKey,
    st.sampled_from([*sorted(INPUT_SIGNALS), *RANK_SIGNALS, OTHER]),
    st.sampled_from(["node", "port", "gpu", "peer", "link", "rank", "group", "replica", "pool", "fleet"]),
    places,
    st.one_of(names, st.sampled_from(["", "tx", "p3"])),
)


@settings(max_examples=400)
@given(keys)
def test_whatever_a_node_sends_it_changes_no_series_of_another(key):
    if RULE.find_objection(N1, key):
        return
    ends = key.entity.split("--") if key.kind == "link" else [key.entity]
    assert any(natural_sender(key.kind, end, FLEET_OF_SIX) == "n1" for end in ends)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(keys, st.floats(0.0, 10.0)), max_size=40))
def test_whatever_a_node_sends_the_rounds_of_other_groups_stay(lies):
    truth = [
        (SeriesKey(f"wire.{'own' if a == b else 'peer'}_onset_lag", "port" if a == b else "peer", entity, "g1"), 1e-4)
        for a in ("n3", "n4", "n5")
        for b in ("n3", "n4", "n5")
        for entity in (f"{a}/ew" if a == b else f"{a}/ew>{b}/ew",)
    ]
    admitted = [(key, value) for key, value in lies if not RULE.find_objection(N1, key)]
    assert values_of_group("g1", truth + admitted) == values_of_group("g1", truth)


def values_of_group(group, reports):
    join, table = WireJoin(FLEET_OF_SIX), SeriesTable()
    numbers = np.array([table.number(key) for key, _ in reports])
    values = np.full(len(table.keys), np.nan)
    values[numbers] = [value for _, value in reports]
    block = join(10.0, table, values, np.full(len(values), 10.0))
    found = zip((table.keys[n] for n in block.series.tolist()), block.value.tolist(), strict=True)
    return {key: value for key, value in found if key.entity.partition(":")[0] == group}


def test_a_target_reports_for_what_its_configuration_names():
    def declare(labels, *names):
        return declare_sender("s", FLEET_OF_SIX, labels, names)

    assert declare({"instance": "n3:9100"}) == Sender("s", frozenset(("n3",)))
    assert declare({"instance": "127.0.0.1:9", "nodename": "n3"}).nodes == {"n3"}
    assert declare({"instance": "10.9.9.9:8000"}) == Sender("s", groups=frozenset(("r5",)))
    assert declare({"instance": "10.9.9.8:8000", "pool": "chat"}).groups == {"chat"}
    assert declare({"instance": "n3:9100"}, "n4", "g0") == Sender("s", frozenset(("n3", "n4")), frozenset(("g0",)))
    assert declare({"instance": "10.9.9.8:8000"}) == Sender("s")
    assert declare({}, FLEET).is_fleet


def test_a_page_that_a_collector_names_by_its_instance_reports_for_that_node_only():
    lookup = SenderLookup(RULE, EntityResolver(FLEET_OF_SIX), Sender("prom", is_fleet=True), by_instance=True)
    assert lookup.find({"instance": "n3:9100", "node": "n4"}) == Sender("n3", frozenset(("n3",)))
    assert lookup.find({"instance": "172.17.0.9:9400", "node": "n4"}).is_fleet
    assert lookup.find({"node": "n4"}).is_fleet
