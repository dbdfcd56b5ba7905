"""Histograms are judged by the mean of what they newly observed."""

import numpy as np
import pytest

from skewscope.engine.incidents.finding_incidents import with_replicas
from skewscope.engine.ingest.feed import Block, SeriesKey
from tests.support.symptom_world import SymptomWorld, pool_of_replicas

PARTS = ("sum", "count", "bucket:1", "bucket:+Inf")


class ServingWorld(SymptomWorld):
    """Replicas whose requests are counted by histograms."""

    def __init__(self, replicas=1):
        super().__init__(fleet=pool_of_replicas(replicas))
        self.names = "ABCDEFGH"[:replicas]
        self.missing = set()
        self.is_even = False
        """Whether all requests of a replica take its mean time."""
        self.prefix = {}
        self.counted = dict.fromkeys(((name, part) for name in self.names for part in PARTS), 0.0)

    def serve(self, seconds, means, rate=5, seed=1, signal="serve.e2e"):
        """Serves so many requests a second, whose mean time each replica has."""
        rng = np.random.default_rng(seed)
        for _ in range(seconds):
            for name in self.names:
                took = means[name] * (np.ones(rate) if self.is_even else rng.gamma(4, 0.25, rate))
                self.counted[name, "sum"] += took.sum()
                self.counted[name, "count"] += rate
            self.t += 1
            told = {key: value for key, value in self.counted.items() if key[1] not in self.missing}
            keys = [SeriesKey(signal, "replica", name, self.prefix.get(name, "") + part) for name, part in told]
            numbers = np.array([self.table.number(key) for key in keys], np.int32)
            block = Block(np.full(len(keys), self.t), numbers, np.array(list(told.values())))
            self.state.begin_tick(self.t)
            self.state.ingest(block, self.table)
            self.state.refresh()
            self.step()


def test_requests_that_take_longer_are_told_with_their_mean():
    world = ServingWorld()
    world.serve(120, {"A": 2.0})
    assert not world.incidents()
    world.serve(90, {"A": 6.0})
    (found,) = world.incidents()
    assert (found.condition, found.name) == ("slow-responses", "A")
    (item,) = found.evidence
    assert item.expr == "serve.e2e"
    assert item.unit == "s"
    assert item.value == pytest.approx(6.0, rel=0.4)


def test_means_that_are_the_same_are_a_past():
    world = ServingWorld()
    world.is_even = True
    world.serve(60, {"A": 2.0})
    assert not world.incidents()
    world.serve(60, {"A": 6.0})
    assert [one.condition for one in world.incidents()] == ["slow-responses"]


def test_the_slow_one_of_several_replicas_is_told():
    world = ServingWorld(4)
    world.serve(120, dict.fromkeys("ABCD", 2.0))
    assert not world.incidents()
    world.serve(120, {"A": 2.0, "B": 2.0, "C": 6.0, "D": 2.0})
    assert {one.name for one in world.incidents()} == {"C"}


def test_a_mean_of_few_requests_says_nothing():
    world = ServingWorld()
    world.serve(120, {"A": 2.0})
    world.serve(1, {"A": 60.0}, rate=4)
    world.serve(30, {"A": 2.0}, rate=0)
    assert not world.incidents()


@pytest.mark.parametrize("part", ["sum", "count"])
def test_a_histogram_without_a_part_is_not_judged(part):
    world = ServingWorld()
    world.missing = {part}
    world.serve(120, {"A": 2.0})
    world.serve(90, {"A": 6.0})
    assert not world.incidents()


def test_what_most_replicas_share_is_told_of_their_pool():
    world = ServingWorld(4)
    world.serve(120, dict.fromkeys("ABCD", 2.0))
    world.serve(45, dict.fromkeys("ABCD", 5.0))
    # Before most are known to be slow, one or two may be reported by themselves.
    (found,) = (one for one in world.incidents() if one.state == "firing")
    assert (found.condition, found.kind, found.name) == ("slow-responses", "pool", "pool")


def test_a_replica_that_shares_it_later_is_part_of_it():
    world = ServingWorld(4)
    world.serve(120, dict.fromkeys("ABCD", 2.0))
    world.serve(20, {"A": 2.0, "B": 5.0, "C": 5.0, "D": 5.0})
    world.serve(40, dict.fromkeys("ABCD", 5.0))
    (found,) = world.incidents()
    assert (found.kind, found.name) == ("pool", "pool")


def test_a_latency_needs_to_last_ten_seconds():
    def told_after(seconds):
        world = ServingWorld()
        world.serve(120, {"A": 2.0})
        world.serve(seconds, {"A": 6.0})
        return bool(world.incidents())

    assert [told_after(seconds) for seconds in (8, 14)] == [False, True]


def test_a_replica_that_stays_slow_is_told_by_itself_when_its_pool_recovers():
    world = ServingWorld(4)
    world.serve(120, dict.fromkeys("ABCD", 2.0))
    world.serve(30, dict.fromkeys("ABCD", 5.0))
    world.serve(60, {"A": 2.0, "B": 2.0, "C": 2.0, "D": 5.0})
    told = {(one.kind, one.name): one for one in world.incidents()}
    assert told["pool", "pool"].state == "resolved"
    assert told["replica", "D"].state == "firing"


def test_the_causes_of_what_a_pool_shows_are_weighed_by_the_telemetry_of_its_replicas():
    world = ServingWorld(4)
    world.serve(120, dict.fromkeys("ABCD", 2.0))
    world.serve(45, dict.fromkeys("ABCD", 5.0))
    world.step()
    (state,) = (one for one in world.symptoms() if one.primary.place.kind == "pool")
    judged = world.tracker._by_findings.judged
    near = judged.find_near(with_replicas(state.tokens, world.tracker.locality))
    assert {world.detector.cells.places[cell].name for cell in near} == {*"ABCD"}


def test_replicas_whose_series_name_the_server_that_they_are_scraped_from_are_compared():
    world = ServingWorld(4)
    world.prefix = {name: f"instance=node{name}:8000," for name in "ABCD"}
    world.serve(120, dict.fromkeys("ABCD", 2.0))
    world.serve(60, {"A": 2.0, "B": 2.0, "C": 6.0, "D": 2.0})
    (found,) = world.incidents()
    assert (found.condition, found.name) == ("slow-responses", "C")
    assert "its peers" in found.evidence[0].name
