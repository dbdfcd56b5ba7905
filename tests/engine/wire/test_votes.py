"""One vote a node: what a group's members report holds while fewer lie than the bound allows, whatever they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.ingest.feed import SeriesKey, SeriesTable
from skewscope.engine.model.topology import Topology
from skewscope.engine.wire.join import WireJoin
from tests.support.traffic import Shape, topology

PERIOD = 0.03
anything = st.floats(0.0, 10.0)


def join_reports(fleet: Topology, reports) -> tuple[dict[tuple[str, str], float], WireJoin]:
    """Returns the values that the join gives, by signal and entity, for (signal, kind, entity, value) reported."""
    join, table = WireJoin(fleet), SeriesTable()
    for signal, kind, entity, _ in reports:
        table.number(SeriesKey(signal, kind, entity, "G"))
    values = np.array([value for *_, value in reports])
    block = join(10.0, table, values, np.full(len(values), 10.0))
    keys = [table.keys[number] for number in block.series.tolist()]
    return {(k.signal, k.entity): v for k, v in zip(keys, block.value.tolist(), strict=True)}, join


def row_of(node: str, lags: dict[str, float], port: str = "ew", share: float = 0.1):
    """Returns what a port reports of all members, itself included."""
    for member, lag in lags.items():
        own = member == node
        whose, kind = ("own", "port") if own else ("peer", "peer")
        entity = f"{node}/{port}" if own else f"{node}/{port}>{member}/ew"
        yield f"wire.{whose}_onset_lag", kind, entity, lag
        yield f"wire.{whose}_last_share", kind, entity, share
    yield "wire.port_round_period", "port", f"{node}/{port}", PERIOD


@st.composite
def groups_with_liars(draw):
    size = draw(st.integers(3, 9))
    liars = draw(st.integers(0, (size - 1) // 2))
    ports = draw(st.integers(1, 4))
    truth = draw(st.lists(st.floats(0.0, 5e-3), min_size=size, max_size=size))
    lies = draw(
        st.lists(st.lists(anything, min_size=size, max_size=size), min_size=liars * ports, max_size=liars * ports)
    )
    return truth, lies, ports


@settings(max_examples=60, deadline=None)
@given(groups_with_liars())
def test_a_minority_of_liars_moves_no_lag_in_a_mesh(case) -> None:
    truth, lies, ports = case
    names = [f"n{i}" for i in range(len(truth))]
    honest, reports = names[len(lies) // ports :], []
    for node in honest:
        reports += row_of(node, dict(zip(names, truth, strict=True)))
    for number, lie in enumerate(lies):
        node = names[number // ports]
        reports += row_of(node, dict(zip(names, lie, strict=True)), f"p{number % ports}", 0.9)
    found, _ = join_reports(topology(Shape(size=len(truth))), reports)
    lags = [found["wire.onset_lag", f"G:{name}"] for name in names]
    assert lags == pytest.approx([place - min(truth) for place in truth], abs=1e-9)
    assert {found["wire.last_sender_share", f"G:{name}"] for name in names} == {0.1}


def test_the_ports_of_a_liar_do_not_count_each() -> None:
    names = [f"n{i}" for i in range(5)]
    reports = [one for node in names[:3] for one in row_of(node, dict.fromkeys(names, 0.0))]
    for port in range(8):
        reports += row_of("n4", dict.fromkeys(names, 0.0) | {"n0": 0.02}, f"p{port}")
    found, join = join_reports(topology(Shape(size=5)), reports)
    assert found["wire.onset_lag", "G:n0"] == pytest.approx(0.0, abs=1e-9)
    assert join.name_supporters("G", "n0") == ("n4",)


def test_what_a_node_says_of_a_group_that_it_is_no_member_of_counts_for_nothing() -> None:
    fleet = topology(Shape(size=4))
    lie = list(row_of("stranger", {"stranger": 0.0, "n0": 0.02, "n1": 0.0}))
    assert join_reports(fleet, lie)[0] == {}
    truth = [one for node in fleet.node for one in row_of(node, dict.fromkeys(fleet.node, 0.0))]
    assert join_reports(fleet, truth + lie)[0] == join_reports(fleet, truth)[0]


def test_a_lag_names_the_nodes_that_support_it() -> None:
    names = [f"n{i}" for i in range(4)]
    late = dict.fromkeys(names, 0.0) | {"n2": 0.02}
    alone, join = join_reports(topology(Shape(size=4)), list(row_of("n1", late)))
    assert alone["wire.onset_lag", "G:n2"] == pytest.approx(0.02)
    assert join.name_supporters("G", "n2") == ("n1",)
    confirmed = [*row_of("n1", late), *row_of("n3", late), ("wire.own_pause", "port", "n2/ew", 0.02)]
    _, join = join_reports(topology(Shape(size=4)), confirmed)
    assert join.name_supporters("G", "n2") == ("n1", "n3")


def test_a_member_confirms_its_own_lag_by_its_pauses() -> None:
    pauses = [("wire.own_pause", "port", f"n{i}/ew", 0.02 if i == 2 else 0.001) for i in range(4)]
    high = [("wire.own_pause_p95", *place, value) for _, *place, value in pauses]
    found, join = join_reports(topology(Shape(size=4)), [*pauses, *high])
    assert found["wire.onset_lag", "G:n2"] == pytest.approx(0.019)
    assert join.name_supporters("G", "n2") == ("n2",)


def test_members_that_wait_support_what_a_late_one_admits() -> None:
    waits = [("wire.own_wait", "port", f"n{i}/ew", 0.0 if i == 2 else 0.02) for i in range(4)]
    pauses = [
        (f"wire.own_{signal}", "port", f"n{i}/ew", 0.02 if i == 2 else 0.001)
        for signal in ("pause", "pause_p95")
        for i in range(4)
    ]
    _, join = join_reports(topology(Shape(size=4)), [*pauses, *waits])
    assert join.name_supporters("G", "n2") == ("n0", "n1", "n2", "n3")
    accused = dict.fromkeys([f"n{i}" for i in range(4)], 0.0) | {"n2": 0.02}
    _, join = join_reports(topology(Shape(size=4)), [*row_of("n1", accused), *waits])
    assert join.name_supporters("G", "n2") == ("n1",)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 13), st.lists(anything, min_size=3, max_size=3))
def test_the_pace_of_a_group_stays_among_honest_values(size: int, lies) -> None:
    reports, liars = [], (size - 1) // 4
    honest = [0.5 + 0.1 * number for number in range(size - liars)]
    for number in range(size):
        value = honest[number] if number < len(honest) else lies[(number - len(honest)) % len(lies)]
        values = {"port_round_period_cv": value, "port_exchange_time": value, "own_pause": 0.02}
        reports += [(f"wire.{signal}", "port", f"n{number}/ew", each) for signal, each in values.items()]
    found, _ = join_reports(topology(Shape(size=size)), reports)
    for signal in ("wire.round_period_cv", "wire.exchange_time"):
        assert min(honest) <= found[signal, "G"] <= max(honest)


@settings(max_examples=40, deadline=None)
@given(st.integers(5, 13), st.data())
def test_a_few_that_claim_to_wait_stop_nobody(size: int, data) -> None:
    liars = data.draw(st.integers(0, (size - 1) // 4))
    reports = [("wire.open_pause", "port", f"n{number}/ew", 30.0) for number in range(liars, size)]
    reports += [("wire.open_wait", "port", f"n{number}/ew", 30.0) for number in range(liars)]
    found, _ = join_reports(topology(Shape(size=size)), reports)
    assert not any(value for (signal, _), value in found.items() if signal == "wire.stopped_time")
