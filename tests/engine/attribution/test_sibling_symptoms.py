"""A dead engine explains the load of the other replicas of its pool, and nothing of other pools."""

import pytest

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.kb.loader import catalogue


def test_a_dead_engine_shows_on_the_others_of_its_pool():
    causes = CauseGraph(catalogue())
    assert causes.has_sibling_effects("engine-connection-liveness")
    assert not causes.has_sibling_effects("tp-straggler")


@pytest.mark.parametrize("effect", ["burst-admission-backlog", "kv-capacity-preemption-thrash"])
def test_the_load_of_the_survivors_follows_from_a_dead_engine(effect):
    causes = CauseGraph(catalogue())
    assert effect in causes.effects("engine-connection-liveness")
    assert causes.reaches_siblings("engine-connection-liveness", effect)


@pytest.mark.parametrize("cause", ["gpu-thermal-throttle", "power-cap", "intra-node-gpu-skew", "gpu-fail-slow"])
def test_a_full_cache_follows_from_a_slow_gpu(cause):
    assert "kv-capacity-preemption-thrash" in CauseGraph(catalogue()).effects(cause)
