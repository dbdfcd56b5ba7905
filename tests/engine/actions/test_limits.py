"""Limits: each stops what it should, and none is stricter than declared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.actions.action import (
    APPLIED,
    APPLYING,
    APPROVED,
    DONE,
    FAILED,
    NOT_HELPED,
    UNDOING,
    UNDONE,
    UNPROVEN,
    VERIFIED,
    Action,
    ActionScope,
    Measurement,
)
from skewscope.engine.actions.change import BLOCK, DRAIN, EVICT, LIMIT, MIRROR, REQUEUE, Change
from skewscope.engine.actions.limits import ActionLimits, Breaker, Surroundings, TimeWindow, find_blocks
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from tests.support.actions import build_action

T = 1_790_000_000.0
POOL = tuple(f"r{n}" for n in range(6))
TOPOLOGY = Topology(
    tuple(Node(f"n{n}") for n in range(6)),
    tuple(Group(name, "tensor-parallel", (f"n{n}",)) for n, name in enumerate(POOL)),
    (Pool("pool", POOL),),
)
WIDE = ActionLimits(100, 100, share_of_nodes=1, share_of_groups=1, share_of_replicas=1, minimum_healthy={"pool": 0})


def on(replica: str, state: str = APPROVED, **fields) -> Action:
    number = POOL.index(replica)
    scope = ActionScope(replica, "replica", (f"n{number}",), (replica,), "pool", 6)
    made = build_action(
        id=f"a-{replica}", state=state, scope=scope, change=Change(DRAIN, "router", replica, f"a-{replica}")
    )
    return replace(made, **fields)


def at_node(node: str, kind: str = EVICT, state: str = APPROVED) -> Action:
    groups = (f"r{node[1:]}", "all")
    made = build_action(id=f"a-{node}", state=state, scope=ActionScope(node, "node", (node,), groups))
    return replace(made, change=Change(kind, "cluster", node, f"a-{node}"))


def around(*ill: str, **out: bool) -> Surroundings:
    return Surroundings(TOPOLOGY, {name: not out.get(name, False) for name in POOL}, frozenset(ill))


def blocks(limits: ActionLimits, *others: Action, place: Surroundings | None = None, t: float = T) -> str:
    return "; ".join(find_blocks(on("r0"), others, limits, place or around(), t))


IN_PLACE = on("r1", APPLIED, started_at=T - 30)


@pytest.mark.parametrize(
    ("limits", "others", "said"),
    [
        (replace(WIDE, at_once=1), [IN_PLACE], "1 changes are in place, 1 are allowed"),
        (replace(WIDE, per_hour=1), [on("r1", UNDONE, started_at=T - 3500, ended_at=T - 3000)], "within an hour"),
        (replace(WIDE, share_of_replicas=0.34), [IN_PLACE, on("r2", APPLIED, started_at=T)], "3 of 6 replicas of pool"),
        (replace(WIDE, share_of_groups=0.2), [IN_PLACE], "2 of 6 groups"),
        (replace(WIDE, share_of_nodes=0.2), [IN_PLACE], "2 of 6 nodes would be changed, 1 may be"),
        (WIDE, [on("r0", UNDONE, id="a-x", started_at=T - 200, ended_at=T - 100)], "left alone for 20 s"),
        (WIDE, [on("r0", APPLIED, id="a-x", started_at=T - 200)], "a-x already changes r0"),
        (replace(WIDE, windows=(TimeWindow(0.0, 60.0),)), [], "outside the windows"),
        (replace(WIDE, minimum_healthy={"pool": 6}), [], "5 replicas of pool would be left in use, 6 have to be"),
    ],
)
def test_each_limit_blocks_and_says_why(limits, others, said):
    assert said in blocks(limits, *others)


def test_within_all_limits_nothing_is_said():
    assert blocks(WIDE, IN_PLACE) == ""
    assert blocks(ActionLimits()) == ""


def test_a_state_that_is_unknown_counts_as_not_in_use():
    unknown = Surroundings(TOPOLOGY, dict.fromkeys(POOL, None))
    assert "0 replicas of pool would be left" in blocks(replace(WIDE, minimum_healthy={"pool": 1}), place=unknown)


def test_without_a_declared_minimum_more_than_half_stay():
    assert "3 replicas" in blocks(replace(WIDE, minimum_healthy={}), place=around(r1=True, r2=True))
    assert not blocks(replace(WIDE, minimum_healthy={}), place=around(r1=True))


@pytest.mark.parametrize("state", [APPLYING, APPLIED, VERIFIED, UNDOING])
def test_a_change_in_place_counts_as_out_whatever_its_target_says(state):
    limits = replace(WIDE, minimum_healthy={"pool": 5})
    assert blocks(limits) == ""
    other = replace(on("r1", state), change=Change(DRAIN, "another-router", "w1", "a-r1"))
    assert "4 replicas of pool would be left in use, 5 have to be" in blocks(limits, other)


@pytest.mark.parametrize("kind", [DRAIN, REQUEUE, BLOCK, EVICT])
def test_the_replicas_on_a_node_count_where_the_node_is_changed(kind):
    limits = replace(WIDE, minimum_healthy={"pool": 5})
    action = at_node("n0", kind)
    assert find_blocks(action, [], limits, around(), T) == ()
    for other in (on("r1", APPLIED), at_node("n1", kind, APPLIED)):
        (said,) = find_blocks(action, [other], limits, around(), T)
        assert said == "4 replicas of pool would be left in use, 5 have to be"
    assert "2 of 6 replicas of pool" in "; ".join(
        find_blocks(action, [on("r1", APPLIED)], replace(limits, share_of_replicas=0.2), around(), T)
    )
    limit = replace(at_node("n1", LIMIT, APPLIED), scope=ActionScope("n1/ew", "port", ("n1",), ("r1",)))
    assert find_blocks(action, [limit], limits, around(), T) == ()
    assert find_blocks(replace(limit, state=APPROVED), [action, on("r3", APPLIED)], limits, around(), T) == ()


def test_a_change_without_undo_counts_until_its_member_is_seen_in_use():
    over = {"reversible": False, "started_at": T - 1000, "ended_at": T - 500}
    done = [replace(at_node(f"n{n}", REQUEUE, DONE), **over) for n in (1, 2)]
    limits = replace(WIDE, share_of_nodes=0.2)
    assert "3 of 6 nodes would be changed, 1 may be" in blocks(limits, *done)
    assert "3 replicas of pool would be left" in blocks(replace(WIDE, minimum_healthy={"pool": 4}), *done)
    assert blocks(replace(WIDE, at_once=1), *done) == ""
    back = replace(around(), members_in_use=frozenset([("cluster", "n1"), ("cluster", "n2")]))
    assert blocks(limits, *done, place=back) == ""
    assert blocks(limits, replace(done[0], started_at=None)) == ""


def test_a_replica_that_is_ill_is_not_healthy_even_if_it_serves():
    limits = replace(WIDE, minimum_healthy={"pool": 5})
    assert blocks(limits, place=around("r0")) == ""
    assert blocks(limits, place=around("r3")).endswith("5 have to be; ill: r3")
    silent = replace(around(), serving=dict.fromkeys(POOL), silent=("router",))
    assert blocks(limits, place=silent).endswith("5 have to be; no answer from router")


def test_a_pool_that_no_target_knows_is_in_use_but_for_changes_and_ills():
    unknown = Surroundings(TOPOLOGY, ill=frozenset(["r5"]))
    limits = replace(WIDE, minimum_healthy={"pool": 4})
    assert find_blocks(at_node("n0"), [], limits, unknown, T) == ()
    assert find_blocks(at_node("n0"), [on("r1", APPLIED)], limits, unknown, T)


def test_the_nodes_of_one_change_are_always_allowed():
    wide = replace(on("r0"), scope=replace(on("r0").scope, nodes=("n0", "n1", "n2")))
    limits = replace(WIDE, share_of_nodes=0.1)
    assert find_blocks(wide, [], limits, around(), T) == ()
    assert "4 of 6 nodes would be changed, 3 may be" in find_blocks(wide, [on("r3", APPLIED)], limits, around(), T)


def test_ended_actions_count_for_as_long_as_any_limit_looks_back():
    assert ActionLimits().memory == 86400
    assert ActionLimits(breaker=Breaker(3, 3600.0, 3 * 86400.0)).memory == 3600 + 3 * 86400
    assert ActionLimits(cool_down=90_000.0).memory == 90_000


def test_the_next_stronger_step_need_not_cool_down():
    tried = on("r0", UNDONE, id="a-x", started_at=T - 90, ended_at=T - 10, outcome=NOT_HELPED)
    milder = replace(tried, change=replace(tried.change, kind="deweight"))
    assert "left alone" in blocks(WIDE, tried)
    assert blocks(WIDE, milder) == ""


def test_the_breaker_opens_for_its_pause():
    bad = [on(f"r{n}", FAILED, started_at=T - 900, ended_at=T - 300 + 100 * n) for n in (1, 2, 3)]
    limits = replace(WIDE, breaker=Breaker(3, 600.0, 1000.0))
    assert "3 actions did not help: nothing new for 1000 s" in blocks(limits, *bad)
    assert blocks(limits, *bad[:2]) == ""
    assert blocks(limits, *bad, t=T + 1001) == ""


def test_what_is_unproven_counts_for_the_breaker_where_it_helped_nobody():
    limits = replace(WIDE, breaker=Breaker(1, 600.0, 1000.0))
    vain = on("r1", UNDONE, started_at=T - 900, ended_at=T - 300, outcome=UNPROVEN)
    assert "did not help" in blocks(limits, vain)
    for fields in (
        {"witness": "a probe finds it slower"},
        {"measurement": Measurement(0.4, 0.9)},
        {"measurement": Measurement(working=False)},
        {"ended_by": "ann"},
        {"change": Change(MIRROR, "router", "r1", "a-r1")},
    ):
        assert blocks(limits, replace(vain, **fields)) == ""


@given(st.floats(0, 86399), st.floats(0, 86399), st.floats(1.7e9, 1.9e9))
def test_a_window_covers_a_time_or_its_complement_does(start, end, t):
    inside, outside = TimeWindow(start, end), TimeWindow(end, start)
    assert inside.covers(t) != outside.covers(t) or start == end


@given(st.sets(st.sampled_from(POOL)), st.integers(0, 6))
def test_the_minimum_is_never_missed(out, least):
    limits = replace(WIDE, minimum_healthy={"pool": least})
    place = around(**dict.fromkeys(out, True))
    left = sum(name not in out for name in POOL if name != "r0")
    assert bool(blocks(limits, place=place)) == (left < least)
