"""Jobs that begin to stand again and again, as for a checkpoint that blocks."""

import pytest

from skewscope.engine.model.topology import Group, Node, Port, Topology
from tests.support.symptom_world import SymptomWorld, pool_of_replicas

PAUSE = ("wire.common_pause", "group", "A")


def training(members: int = 4) -> Topology:
    """Returns a job of some nodes that serves nothing."""
    nodes = tuple(Node(f"n{n}", ports=(Port(f"n{n}", "ew", "east-west", 1e9),)) for n in range(members))
    return Topology(nodes, (Group("A", "data-parallel", tuple(node.name for node in nodes)),))


def incidents_of(stands: set[int], seconds: int = 90, length: float = 1.4, fleet: Topology | None = None):
    """Returns the symptoms of a job whose members all pause for `length` seconds before some ticks, else for 66 ms."""
    world = SymptomWorld(fleet=fleet or training())
    for second in range(seconds):
        world.tick({PAUSE: length if second in stands else 0.066 + 0.001 * (second % 3)})
    return world, world.incidents()


def every(distance: int, start: int, end: int = 90) -> set[int]:
    return set(range(start, end, distance))


@pytest.mark.parametrize(
    ("distance", "length", "times"),
    [(4, 1.4, 2), (5, 1.4, 2), (7, 1.6, 2), pytest.param(5, 0.7, 3, id="that costs little")],
)
def test_a_job_that_begins_to_stand_again_and_again_is_told(distance: int, length: float, times: int) -> None:
    world, found = incidents_of(every(distance, 31), length=length)
    assert [(one.condition, one.kind, one.name) for one in found] == [("slow-steps", "group", "A")]
    last = 31 + (times - 1) * distance
    assert last <= found[0].opened_at - world.start <= last + 1.5
    assert found[0].candidates[0] == "checkpoint-stall"


def test_it_ends_after_the_last_time() -> None:
    _, (found,) = incidents_of(every(5, 31, 60), seconds=140)
    assert found.state == "resolved"


@pytest.mark.parametrize(
    "stands",
    [
        pytest.param(every(5, 3), id="as often from the start on"),
        pytest.param({31, 44}, id="twice, not soon after one another"),
        pytest.param({9, 14}, id="twice, soon after its start"),
        pytest.param(every(20, 25), id="each twenty seconds"),
    ],
)
def test_what_is_part_of_the_work_or_seldom_is_not(stands: set[int]) -> None:
    assert incidents_of(stands)[1] == []


@pytest.mark.parametrize(("lengths", "told"), [((1.2, 1.6), 1), ((1.2, 3.2), 0)])
def test_two_long_steps_count_if_they_are_alike(lengths: tuple[float, float], told: int) -> None:
    world = SymptomWorld(fleet=training())
    for second in range(60):
        world.tick({PAUSE: dict(zip((31, 36), lengths, strict=True)).get(second, 0.066 + 0.001 * (second % 3))})
    assert len(world.incidents()) == told


@pytest.mark.parametrize("apart", [6, 9])
def test_a_pair_that_comes_again_and_again_is_part_of_the_work(apart: int) -> None:
    pairs = {start + later for start in range(20, 320, 100) for later in (0, apart)}
    first = {start for start in pairs if start >= 100}
    assert incidents_of({20} | first, seconds=320)[1] == []


def test_collections_of_garbage_are_not() -> None:
    assert incidents_of(every(5, 31), length=0.3)[1] == []


def test_what_serves_pauses_when_nothing_is_asked_of_it() -> None:
    assert incidents_of(every(5, 31), fleet=pool_of_replicas(1))[1] == []


@pytest.mark.parametrize(("standing", "told"), [(range(4), [("slow-steps", "group", "A")]), (range(3, 4), [])])
def test_most_ranks_must_stand_to_be_one_symptom_of_their_group(standing: range, told: list[tuple[str, ...]]) -> None:
    world = SymptomWorld(fleet=training())
    for second in range(60):
        long = {n for n in standing if second in every(5, 31)}
        lengths = {n: 1.4 if n in long else 0.066 + 0.001 * (second % 3) for n in range(4)}
        world.tick({("wire.round_pause", "rank", f"A:n{n}"): length for n, length in lengths.items()})
    found = [(one.condition, one.kind, one.name) for one in world.incidents()]
    assert [one for one in found if one[1] == "group"] == told
