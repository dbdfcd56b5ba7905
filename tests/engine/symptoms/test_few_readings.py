"""What few readings show: what has grown tenfold, what has run out, what one of several alike has lost."""

import pytest

from skewscope.engine.model.topology import Node, Topology
from tests.support.symptom_world import SymptomWorld

QUEUE, ERRORS = ("serve.waiting", "node", "n0"), ("host.tcp_listen_overflow", "node", "n0")


def concluded(signal, *readings, pause=60.0, nodes=("n0",)):
    """Returns the titles of what is found at the end of some readings, each a value or one for each node."""
    world = SymptomWorld(fleet=Topology(tuple(Node(name) for name in nodes)))
    for values in readings:
        some = values if isinstance(values, tuple) else (values,)
        world.tick({(signal, "node", name): value for name, value in zip(nodes, some, strict=True)}, pause=pause)
    world.conclude()
    return [one.summary for one in world.incidents()]


@pytest.mark.parametrize(
    ("totals", "is_told"),
    [
        ((12, 52000), True),
        ((0, 100), True),
        ((0, 99), False),
        ((5000, 5400), False),
        ((5000, 56000), True),
        ((5000, 200, 5000), False),
    ],
)
def test_a_counter_that_counts_ten_times_as_much_as_before_in_all(totals, is_told):
    assert bool(concluded("host.tcp_listen_overflow", *map(float, totals))) == is_told


@pytest.mark.parametrize(
    ("lengths", "is_told"),
    [((3, 74, 166), True), ((3, 166, 74), False), ((3, 40), False), ((3, 130), True), ((20, 74, 150), False)],
)
def test_a_queue_that_grows_from_reading_to_reading(lengths, is_told):
    assert bool(concluded("other.queue", *map(float, lengths))) == is_told


@pytest.mark.parametrize(
    ("times", "is_told"), [((0.007, 1.7, 2.2), True), ((0.007, 1.7), False), ((1e-4, 9e-4, 2e-3), False)]
)
def test_times_that_grow_from_reading_to_reading(times, is_told):
    assert bool(concluded("other.latency", *times)) == is_told


@pytest.mark.parametrize(
    ("left", "is_told"),
    [
        ((96.0, 40.0, 0.0, 0.0), True),
        ((96.0, 0.0, 40.0), False),
        ((0.0, 0.0, 0.0), False),
        ((576.0, 80.0, 20.0), False),
    ],
)
def test_what_runs_out(left, is_told):
    assert bool(concluded("other.remaining", *left)) == is_told


MEMBERS = ("osd.1", "osd.2", "osd.3", "osd.4")


@pytest.mark.parametrize(
    ("states", "is_told"),
    [((1.0, 0.0, 1.0, 1.0), True), ((1.0, 0.0, 0.0, 1.0), False), ((1.0, 2.0, 1.0, 1.0), False)],
)
def test_one_of_several_alike_that_is_down_at_one_moment(states, is_told):
    found = concluded("other.state", states, nodes=MEMBERS)
    assert bool(found) == is_told
    assert not found or "osd.2" in found[0]


def test_what_was_held_back_from_the_beginning_on_is_doubtful():
    world = SymptomWorld()
    for n in range(15):
        world.tick({("gpu.power_violation", "gpu", f"n0/gpu{k}"): 9e8 * n * (k == 0) for k in range(2)})
    world.conclude()
    assert not world.incidents()
    assert [one.place.name for one in world.detector.doubts()] == ["n0/gpu0"]


def test_errors_begin_in_readings_that_are_far_apart():
    world = SymptomWorld()
    key = ("other.errors", "node", "n0")
    total = 0.0
    for n in range(30):
        total += 5000.0 if n >= 20 else 0.0
        world.tick({key: total}, pause=60.0)
    (incident,) = world.incidents()
    assert incident.condition == "new-errors"
