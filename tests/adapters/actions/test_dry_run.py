"""A dry run: the very calls for an incident, and what stands in the way; nothing is changed."""

import asyncio
from dataclasses import replace

import pytest

from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.dry_run import list_obstacles, plan_changes
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.readings import TargetReadings
from skewscope.adapters.actions.settings import PROPOSE, ActionSettings
from skewscope.engine.actions.limits import ActionLimits, TimeWindow
from skewscope.engine.model.incident import Advice, Explanation
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb.loader import catalogue
from tests.support.memory_target import MemoryTarget
from tests.tui.samples import ROOT

NODES = tuple(Node(f"n{n}") for n in range(4))
POOL = tuple(f"r{n}" for n in range(4))
TOPOLOGY = Topology(
    NODES, tuple(Group(f"r{n}", "tensor-parallel", (f"n{n}",)) for n in range(4)), pools=(Pool("chat", POOL),)
)
INCIDENT = replace(
    ROOT, id="i-1", kind="replica", name="r2", mitigations=(Advice("migrate-requests", "router", "it is slow"),)
)
NOON = TimeWindow(0.0, 1.0)


class NoStore:
    async def save(self, action, t, who, what):
        raise AssertionError


def dry_run(target=None, incident=INCIDENT, settings=None):
    """The planned changes, why nothing would be proposed, and the target."""
    target = target or MemoryTarget(members={f"r{n}": f"w{n}" for n in range(4)})
    coordinator = Coordinator(
        settings or ActionSettings(), Planner(TOPOLOGY, catalogue(), {target.name: target}), NoStore()
    )
    coordinator.view.update(1_000_000.0, [incident])
    found = asyncio.run(plan_changes(coordinator, incident, TargetReadings()))
    return found, list_obstacles(coordinator, incident, found), target


def test_a_controller_that_observes_shows_what_it_would_do():
    found, obstacles, target = dry_run()
    (one,) = found
    assert one.plan.calls == ("POST http://router/drain/w2",)
    assert (one.mode, one.trouble, one.blocks) == ("observe", "", ())
    assert obstacles == ("the mode is observe: set it to propose in the section actions of the config",)
    assert target.made == []
    assert dry_run(settings=ActionSettings(PROPOSE))[1] == ()


def test_limits_that_would_make_it_wait_are_told():
    limits = ActionLimits(windows=(NOON,), minimum_healthy={"chat": 4})
    ((one,), obstacles, _) = dry_run(settings=ActionSettings(PROPOSE, limits=limits))
    assert one.blocks == (
        "outside the windows in which changes may be made",
        "3 replicas of chat would be left in use, 4 have to be",
    )
    assert obstacles == ()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"confidence": 0.6}, "it is 60 % sure, 90 % are needed"),
        ({"explained_by": Explanation("i-0", "caused")}, "another incident explains it: i-0"),
        ({"state": "resolved"}, "the incident does not fire"),
        ({"category": "symptom"}, "it is a symptom: what causes it is not known"),
        ({"mitigations": ()}, "no target can carry out what is advised"),
    ],
)
def test_why_nothing_would_be_proposed(changed, why):
    incident = replace(INCIDENT, **changed)
    assert why in dry_run(incident=incident, settings=ActionSettings(PROPOSE))[1]


def test_a_target_that_does_not_answer_and_a_member_that_is_out_are_told():
    target = MemoryTarget(members={f"r{n}": f"w{n}" for n in range(4)}, trouble="no answer within 5 s")
    ((one,), _, _) = dry_run(target)
    assert (one.trouble, one.plan.calls) == ("no answer within 5 s", ())
    target = MemoryTarget(members={f"r{n}": f"w{n}" for n in range(4)}, drained={"w2"})
    ((one,), _, _) = dry_run(target)
    assert one.trouble == "the member is out of use already"
