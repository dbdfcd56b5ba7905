"""What falls silent while others like it go on is told; what ends for all, or with its input, is not."""

import pytest

from skewscope.engine.ingest.feed import SeriesKey
from tests.support.symptom_world import START, SymptomWorld

HEALTHY = {"gpu.sm_clock": 1400.0, "gpu.temperature": 60.0}


def readings(nodes=4, silent=()):
    return {
        (signal, "gpu", f"n{node}/gpu{gpu}"): value
        for node in range(nodes)
        for gpu in range(4)
        for signal, value in HEALTHY.items()
        if f"n{node}" not in silent and f"n{node}/gpu{gpu}" not in silent
    }


def play(world, silent, seconds, nodes=4, period=1.0):
    for _ in range(round(seconds / period)):
        world.tick(readings(nodes, silent), pause=period)


def silences(world):
    return [one for one in world.incidents() if one.condition == "silent-telemetry"]


def test_a_gpu_that_is_gone_beside_its_siblings_is_told_and_ends_when_it_is_back():
    world = SymptomWorld()
    play(world, (), 30)
    play(world, ("n1/gpu2",), 59)
    assert not silences(world)
    play(world, ("n1/gpu2",), 5)
    (found,) = silences(world)
    assert (found.name, found.state, found.severity) == ("n1/gpu2", "firing", "info")
    assert "telemetry-blackout" in found.candidates
    assert all(item.value is None for item in found.evidence)
    play(world, (), 20)
    assert silences(world)[0].state == "resolved"


def test_a_node_of_several_is_told_as_one():
    world = SymptomWorld()
    play(world, (), 30)
    play(world, ("n1",), 70)
    (found,) = silences(world)
    assert (found.kind, found.name) == ("node", "n1")


@pytest.mark.parametrize(
    ("nodes", "silent"),
    [(2, ("n1",)), (4, ("n0", "n1", "n2", "n3")), (4, ("n0", "n1", "n2"))],
    ids=["pair", "all", "most"],
)
def test_what_falls_silent_for_most_or_in_a_pair_says_more_of_the_collector(nodes, silent):
    world = SymptomWorld()
    play(world, (), 30, nodes)
    play(world, silent, 200, nodes)
    assert not silences(world)


def test_slow_polls_are_waited_for():
    world = SymptomWorld()
    play(world, (), 600, period=30.0)
    play(world, ("n1/gpu2",), 150, period=30.0)
    assert not silences(world)
    play(world, ("n1/gpu2",), 60, period=30.0)
    assert silences(world)


def test_the_longest_pause_so_far_is_waited_for():
    world = SymptomWorld()
    play(world, (), 20)
    play(world, ("n1/gpu2",), 58)
    play(world, (), 20)
    play(world, ("n1/gpu2",), 85)
    assert not silences(world)
    play(world, ("n1/gpu2",), 10)
    assert silences(world)


def test_what_ends_with_its_input_has_not_fallen_silent():
    world = SymptomWorld()
    ends = {SeriesKey(signal, "gpu", "n1/gpu2"): START + 30.0 for signal in HEALTHY}
    world.detector.silences.expect_ends(ends)
    play(world, (), 30)
    play(world, ("n1/gpu2",), 200)
    assert not silences(world)


def test_a_second_silence_is_told_like_the_first():
    world = SymptomWorld()
    play(world, (), 30)
    for _ in range(2):
        play(world, ("n1/gpu2",), 90)
        assert silences(world)[-1].state == "firing"
        play(world, (), 60)
        assert silences(world)[-1].state == "resolved"
    assert len(silences(world)) == 2
