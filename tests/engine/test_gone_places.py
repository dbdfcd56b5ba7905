"""What has ended leaves nothing to what begins at its place: no firing, no hold and no warm-up."""

import numpy as np

from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.topology import GonePlaces
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_builtin
from tests.support.symptom_world import pool_of_replicas

FULL = {"serve.kv_usage": 0.97, "serve.waiting": 50.0, "serve.running": 10.0}
START = 1_700_000_000.0


class World:
    """An engine with one rule, fed each 15 s."""

    def __init__(self, *, symptoms=False):
        rules, _ = load_builtin(catalogue())
        rule = rules["kv-capacity-preemption-thrash-while-requests-wait"]
        self.engine = Engine([rule], catalogue(), pool_of_replicas(3 if symptoms else 2), symptoms=symptoms)
        self.table, self.t = SeriesTable(), START

    def play(self, seconds, replicas, waiting=None):
        for _ in range(seconds):
            self.t += 1.0
            keys = [SeriesKey(name, "replica", at) for at in replicas for name in FULL] if self.t % 15 == 0 else []
            numbers = np.array([self.table.number(key) for key in keys], np.int32)
            values = np.array([FULL[key.signal] for key in keys])
            if waiting is not None:
                values = np.array(
                    [waiting.get(key.entity, 3.0) if key.signal == "serve.waiting" else 0.5 for key in keys]
                )
            self.engine.step(self.t, Block(np.full(len(keys), self.t), numbers, values), self.table)

    def firing(self):
        return [one.name for one in self.engine.list_incidents() if one.state == "firing"]


def test_what_begins_at_the_place_of_what_is_gone_does_not_fire_before_it_is_read():
    world = World()
    world.play(120, "A")
    assert world.firing() == ["A"]
    gone = GonePlaces(groups=frozenset("A"))
    world.engine.retire(world.t, gone)
    world.play(60, "")
    assert world.firing() == []
    world.engine.retire(world.t, GonePlaces())
    world.play(60, "")
    assert world.firing() == []
    world.play(60, "A")
    assert world.firing() == ["A"]


def test_what_others_have_goes_on_when_one_ends():
    world = World()
    world.play(120, "AB")
    world.engine.retire(world.t, GonePlaces(groups=frozenset("A")))
    world.play(30, "B")
    assert world.firing() == ["B"]


def test_what_begins_at_the_place_of_an_outlier_is_none():
    world = World(symptoms=True)
    world.play(600, "ABC", waiting={})
    world.play(600, "ABC", waiting={"C": 400.0})
    assert world.firing() == ["C"]
    world.engine.retire(world.t, GonePlaces(groups=frozenset("C")))
    world.play(60, "AB", waiting={})
    world.engine.retire(world.t, GonePlaces())
    world.play(300, "ABC", waiting={})
    assert [one.name for one in world.engine.list_incidents() if one.opened_at > world.t - 300] == []
