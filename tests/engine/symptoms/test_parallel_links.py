"""Parallel links between two switches that carry unequal shares are found; what only looks like it is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.engine.model.topology import Node, Port, Topology
from tests.support.symptom_world import SymptomWorld

SPEED = 12.5e9
EVEN = (1.0, 1.0, 1.0, 1.0)
BAD_HASH = (0.26, 0.63, 2.84, 0.27)
"""Shares of a switch with a bad hash input (cisco-ie/telemetry, ECMP balance)."""


def fabric(gpus=0, leaves=2):
    """Two spines with four parallel links to each leaf."""
    ends = [(f"s{s}/l{leaf}.{k}", f"l{leaf}/s{s}.{k}") for s in range(2) for leaf in range(leaves) for k in range(4)]
    ports = {}
    for one, other in [*ends, *(pair[::-1] for pair in ends)]:
        node, name = one.split("/")
        ports.setdefault(node, []).append(Port(node, name, "east-west", SPEED, peer=other))
    return Topology(tuple(Node(name, gpus=gpus, ports=tuple(own)) for name, own in sorted(ports.items())))


def run(shares, load=0.1, ticks=30, pause=10.0, world=None, signal="port.tx_bytes", totals=None):
    """Feeds the counters of s0's links to l0, with `shares` of their mean, and even ones of all others."""
    world = world or SymptomWorld(fleet=fabric())
    totals = {} if totals is None else totals
    wobble = np.random.default_rng(1)
    for n in range(ticks):
        values = {}
        for port in sorted(world.topology.port.values(), key=lambda one: one.id):
            node, name = port.node, port.name
            share = (shares(n) if callable(shares) else shares)[int(name[-1])] if port.id[:5] == "s0/l0" else 1.0
            rate = share * load * SPEED * (1 + 0.05 * wobble.standard_normal())
            totals[port.id] = totals.get(port.id, 0.0) + max(rate, 0.0) * pause
            values[signal, "port", f"{node}/{name}"] = totals[port.id]
        world.tick(values, pause=pause)
    return world


@pytest.mark.parametrize("pause", [1.0, 5.0, 10.0, 30.0])
def test_a_bad_hash_is_found_from_the_start(pause):
    (incident,) = run(BAD_HASH, ticks=max(int(150 / pause), 8), pause=pause).incidents()
    assert (incident.condition, incident.name, incident.state) == ("uneven-paths", "s0/l0.2", "firing")
    assert incident.candidates[0] == "ecmp-hash-collision"
    assert incident.summary.startswith("s0/l0.2 carries far more than its parallel links since ")


def test_it_ends_when_the_shares_are_even_again():
    totals = {}
    world = run(BAD_HASH, totals=totals)
    (incident,) = run(EVEN, world=world, totals=totals).incidents()
    assert incident.state == "resolved"


def test_the_switch_of_several_bundles_is_told_once():
    world = SymptomWorld(fleet=fabric())
    rates = {port: BAD_HASH[int(port[-1])] if port.startswith("s0/") else 1.0 for port in world.topology.port}
    for n in range(30):
        world.tick({("port.tx_bytes", "port", port): n * 1e10 * rate for port, rate in rates.items()}, pause=10.0)
    (incident,) = world.incidents()
    assert {incident.name, *incident.also} == {"s0/l0.2", "s0/l1.2"}


def test_what_is_received_is_judged_where_nothing_shows_the_sender():
    world = run(BAD_HASH, signal="port.rx_bytes")
    assert {(one.condition, one.name) for one in world.incidents()} == {("uneven-paths", "s0/l0.2")}


@pytest.mark.parametrize(
    ("shares", "load"),
    [
        (EVEN, 0.5),
        ((1.75, 0.75, 0.75, 0.75), 0.1),  # one large flow beside many small ones
        (BAD_HASH, 0.005),  # little traffic
        ((4.0, 0.0, 0.0, 0.0), 0.1),  # one flow in all
        ((0.0, 1.3, 1.3, 1.3), 0.1),  # a link that was never used
    ],
)
def test_shares_that_hashing_explains_are_silent(shares, load):
    assert not run(shares, load).incidents()


def test_one_flow_for_a_moment_is_silent():
    assert not run(lambda n: BAD_HASH if n in (12, 13, 14) else EVEN, ticks=40).incidents()


def test_traffic_that_moves_to_one_link_is_found():
    world = run(
        lambda n: EVEN if n < 20 else (0.001, 0.001, 0.001, 4.0), world=SymptomWorld(fleet=fabric(leaves=1)), ticks=40
    )
    assert {(one.condition, one.name) for one in world.incidents()} == {("uneven-paths", "s0/l0.3")}


def test_links_of_hosts_are_no_hashed_bundle():
    assert not run(BAD_HASH, world=SymptomWorld(fleet=fabric(gpus=8))).incidents()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([f"s0/l0.{k}" for k in range(4)]),
            st.one_of(st.floats(), st.sampled_from([0.0, -1.0, 1e300, float("nan"), float("inf")])),
        ),
        max_size=12,
    ),
    st.sampled_from([0.0, 1.0, 1e6]),
)
@pytest.mark.filterwarnings("error")
def test_no_input_raises_or_warns(ticks, pause):
    world = run(BAD_HASH, ticks=4)
    for values in ticks:
        world.tick({("port.tx_bytes", "port", port): value for port, value in values.items()}, pause=pause)
        world.incidents()
