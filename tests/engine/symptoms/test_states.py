"""States that were bad from the first sample to the last, when the data ends."""

import pytest

from skewscope.engine.model.topology import Node, Port, Topology
from tests.support.symptom_world import SymptomWorld

UP, DOWN = 1.0, 0.0


def concluded(states, seconds=20):
    """Returns the ports that are reported at the end of data in which each port has one state."""
    nodes = sorted({name.partition("/")[0] for name in states})
    ports = {node: [name for name in states if name.startswith(f"{node}/")] for node in nodes}
    fleet = Topology(
        tuple(Node(n, ports=tuple(Port(n, p.partition("/")[2], "east-west", 1e9) for p in ports[n])) for n in nodes)
    )
    world = SymptomWorld(fleet=fleet)
    for _ in range(seconds):
        world.tick({("port.carrier", "port", name): state for name, state in states.items()})
    world.conclude()
    return sorted(name for _, name, _ in world.found())


def node(name, *states):
    """Returns the states of the ports of a node."""
    return {f"{name}/p{n}": state for n, state in enumerate(states)}


@pytest.mark.parametrize(
    ("states", "told"),
    [
        pytest.param(node("a", DOWN, UP, UP, UP), ["a/p0"], id="one of four was never up"),
        pytest.param(node("a", DOWN, UP, UP, UP, UP, DOWN), [], id="two of six were never up: unused"),
        pytest.param(node("a", DOWN, UP, UP), [], id="one of three: too few others"),
        pytest.param(node("a", DOWN), [], id="one alone"),
        pytest.param(node("a", UP, UP, UP, UP), [], id="all are up"),
        pytest.param(
            node("a", DOWN, DOWN, UP, UP, UP) | node("b", DOWN, UP, UP, UP), ["b/p0"], id="each node by itself"
        ),
        pytest.param(node("a", DOWN) | node("b", UP, UP, UP, UP), [], id="others at another node say nothing"),
    ],
)
def test_a_port_that_was_never_up(states, told):
    assert concluded(states) == told


def test_a_port_that_was_never_up_is_not_reported_while_data_comes():
    world = SymptomWorld()
    for _ in range(20):
        world.tick({("port.carrier", "port", f"n0/p{n}"): float(n > 0) for n in range(3)})
    assert not world.found()


def test_a_message_that_was_retracted_is_no_longer_reported():
    world = SymptomWorld()
    stall = ("event.network_file_system_stall", "node", "n0")
    world.tick({stall: 1.0})
    assert world.found()
    world.tick({stall: 0.0})
    for _ in range(3):
        world.tick({})
    assert not world.found()
    world.tick({stall: 1.0})
    assert world.found()


@pytest.mark.parametrize(("event", "severity"), [("nvidia_xid_79", "critical"), ("out_of_memory_kill", "warning")])
def test_a_fatal_event_is_a_critical_incident(event, severity):
    world = SymptomWorld()
    kind, name = ("gpu", "n0/gpu0") if "xid" in event else ("node", "n0")
    world.tick({(f"event.{event}", kind, name): 1.0})
    (incident,) = world.incidents()
    assert incident.severity == severity
