"""A member whose fault comes and goes is held out for longer each time, and for less once it stays well."""

from dataclasses import replace

import pytest

from skewscope.engine.actions import lifecycle
from skewscope.engine.actions.action import VERIFIED
from skewscope.engine.actions.change import OURS
from skewscope.engine.actions.hold_out import WELL_PER_STEP, find_level, is_return
from skewscope.engine.actions.lifecycle import Observation, Timing
from skewscope.engine.actions.limits import ActionLimits, Surroundings, find_blocks
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from tests.support.actions import T0, build_action

NOW = build_action(created=T0 + 10_000)


def ended(begin: float, end: float, **fields):
    """A drain of the same member that was undone since it seemed well."""
    more = {"state": "undone", "verified_at": T0 + begin + 20, "ended_at": T0 + end, "ending": "it seems well"}
    return build_action(**{"id": f"a-{begin}", "created": T0 + begin, "started_at": T0 + begin} | more | fields)


def test_each_return_counts_and_a_while_without_one_takes_one_back():
    assert find_level(NOW, ()) == 0
    assert find_level(NOW, [ended(9_700, 9_800)]) == 1
    assert find_level(NOW, [ended(9_500, 9_600), ended(9_700, 9_800)]) == 2
    late = replace(NOW, created=T0 + 9_800 + WELL_PER_STEP)
    assert find_level(late, [ended(9_500, 9_600), ended(9_700, 9_800)]) == 1
    later = replace(NOW, created=T0 + 9_800 + 5 * WELL_PER_STEP)
    assert find_level(later, [ended(9_500, 9_600), ended(9_700, 9_800)]) == 0
    many = [ended(9_000 + 20 * n, 9_010 + 20 * n) for n in range(40)]
    assert find_level(NOW, many) == 6


@pytest.mark.parametrize(
    "other",
    [
        ended(9_700, 9_800, ended_by="ann"),
        ended(9_700, 9_800, ending="its time is over"),
        ended(9_700, 9_800, verified_at=None),
        ended(9_700, 9_800, state="failed"),
        ended(9_700, 10_800),
        ended(9_700, 9_800, scope=replace(NOW.scope, entity="r1")),
        ended(9_700, 9_800, reason=replace(NOW.reason, condition="gpu-fail-slow")),
        replace(NOW, state="undone"),
    ],
)
def test_what_is_no_return(other):
    assert not is_return(NOW, other)
    assert find_level(NOW, [other]) == 0


def test_a_return_waits_for_no_cool_down():
    names = ("r0", "r1", "r2")
    groups = tuple(Group(name, "tensor-parallel", (f"n{n}",)) for n, name in enumerate(names))
    topology = Topology(tuple(Node(f"n{n}") for n in range(3)), groups, (Pool("pool", names),))
    around = Surroundings(topology, dict.fromkeys(names, True))
    assert find_blocks(NOW, [ended(9_900, 9_990)], ActionLimits(), around, T0 + 10_000) == ()
    (block,) = find_blocks(NOW, [ended(9_900, 9_990, state="failed")], ActionLimits(), around, T0 + 10_000)
    assert block == "r2 was changed a short while ago: left alone for 110 s"


def test_a_member_that_is_held_out_says_why():
    action = build_action(
        state=VERIFIED, started_at=T0, applied_at=T0, verified_at=T0, called_at=T0, seen_in_state=True
    )
    seen = Observation(T0 + 60, OURS, None, probe_good=True, has_probe=True, flaps=2)
    watched = lifecycle.watch_in_place(replace(action, good_probes=4), seen, Timing())
    assert (
        watched.waiting == "held out, since its fault came back 2 times: 12 good probes in a row are needed, 5 so far"
    )
    seen = Observation(T0 + 60, OURS, False, quiet_for=30.0, flaps=1)
    watched = lifecycle.watch_in_place(action, seen, Timing())
    assert watched.waiting == "held out, since its fault came back once: 120 s without it are needed, 30 s so far"
    assert lifecycle.watch_in_place(action, replace(seen, flaps=0), Timing()).waiting == ""
