"""Limits of a pool, a rack and a team hold beside those of all."""

from dataclasses import replace

import pytest

from skewscope.engine.actions.action import APPLIED, ActionScope
from skewscope.engine.actions.change import DRAIN
from skewscope.engine.actions.limits import COUNT, SHARE, ActionLimits, Surroundings, list_blocks
from skewscope.engine.actions.places import PlaceLimit
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from tests.support.actions import build_action

T = 1_790_000_000.0
NODES = tuple(Node(f"n{n}", rack="a" if n < 3 else "b") for n in range(6))
GROUPS = tuple(Group(f"r{n}", "tensor-parallel", (f"n{n}",), team="ads" if n == 5 else "") for n in range(6))
TOPOLOGY = Topology(NODES, GROUPS, (Pool("chat", ("r0", "r1", "r2", "r3"), "search"), Pool("rank", ("r4", "r5"))))
WIDE = ActionLimits(
    at_once=9,
    per_hour=99,
    share_of_nodes=1.0,
    share_of_groups=1.0,
    share_of_replicas=1.0,
    cool_down=0.0,
    minimum_healthy={"chat": 0, "rank": 0},
)


def on(n: int, state="approved", **fields):
    """A drain of a replica."""
    pool = "chat" if n < 4 else "rank"
    scope = ActionScope(f"r{n}", "replica", (f"n{n}",), (f"r{n}",), pool, 4)
    change = replace(build_action().change, member=f"w{n}", action=f"a-{n}", kind=DRAIN)
    return build_action(id=f"a-{n}", state=state, scope=scope, change=change, **fields)


def blocks(action, others, *places):
    around = Surroundings(TOPOLOGY, {f"r{n}": True for n in range(6)})
    return list_blocks(action, others, replace(WIDE, places=places), around, T)


IN_PLACE = on(1, APPLIED, started_at=T - 60)


@pytest.mark.parametrize(
    ("place", "inside", "outside"),
    [(("pool", "chat"), 3, 4), (("rack", "a"), 2, 3), (("team", "search"), 3, 5)],
)
def test_a_place_limits_what_is_in_place_and_begun_there(place, inside, outside):
    for limit, text in (
        (PlaceLimit(*place, at_once=1), f"1 changes are in place in the {place[0]} {place[1]}, 1 are allowed"),
        (PlaceLimit(*place, per_hour=1), f"1 changes within an hour in the {place[0]} {place[1]}, 1 are allowed"),
    ):
        assert blocks(on(inside), [IN_PLACE], limit) == ((COUNT, text),)
        assert blocks(on(outside), [IN_PLACE], limit) == ()
        assert blocks(on(inside), [], limit) == ()


def test_a_share_of_a_place_and_nothing_at_all():
    (block,) = blocks(on(2), [IN_PLACE], PlaceLimit("rack", "a", share=0.34))
    assert block == (SHARE, "2 of 3 in the rack a would be changed, 1 may be")
    assert blocks(on(2), [IN_PLACE], PlaceLimit("rack", "a", share=0.67)) == ()
    assert blocks(on(5), [], PlaceLimit("team", "ads", at_once=0))[0].reason == COUNT


def test_the_limits_of_all_hold_beside_those_of_a_place():
    around = Surroundings(TOPOLOGY, {f"r{n}": True for n in range(6)})
    limits = replace(WIDE, at_once=1, places=(PlaceLimit("pool", "chat", at_once=5),))
    assert [one.text for one in list_blocks(on(0), [IN_PLACE], limits, around, T)] == [
        "1 changes are in place, 1 are allowed"
    ]


def test_a_group_is_of_its_own_team_or_of_that_of_its_pool():
    assert TOPOLOGY.teams == {"search": {"r0", "r1", "r2", "r3"}, "": {"r4"}, "ads": {"r5"}}
    assert TOPOLOGY.find_teams(["r0", "r4"]) == {"search"}
