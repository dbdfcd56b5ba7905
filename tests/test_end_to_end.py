"""The whole of it on real traffic: agents on the switch's side of a lab's nodes, a controller, and real faults.

One network stands for all tests; each undoes what it did, and waits until that is told as well.
"""

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import pytest

from skewscope.adapters.controller.incident_restore import TEXT_STILL_FIRING
from tests.lab.cluster import NODES, two
from tests.lab.load import Demand
from tests.lab.namespaces import missing
from tests.lab.running import COMMANDS, running
from tests.lab.scenarios import SCENARIOS, Scenario
from tests.lab.watched import Watched, watched

OPENS = 20.0
"""Seconds of telemetry after a fault's begin within which it has to be told: it takes four or five where nothing else
runs, and how soon is measured by the assessment ..."""
RESOLVES = 25.0
"""... and after its end, within which it is over."""
SEEN = 12.0
"""Seconds of health before the first fault: without a past only peers can be compared."""
BUSY = 20.0
"""Seconds more that a busy machine may take to tell it."""
CONFIDENT = 0.4
"""What is less sure is a suspicion and no diagnosis."""
STEADY = Demand(rps=8.0, spread=0.3)
"""Clients that ask much alike: a test is too short for chance to even out."""

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(missing(COMMANDS)), reason=missing(COMMANDS) or "-")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A lab that is watched, and has been for a while."""
    with running("endtoend", two("tp"), tmp_path_factory.mktemp("lab"), STEADY) as lab, watched(lab) as found:
        found.until(lambda: heard(found) >= len(NODES), "packets of all nodes")
        time.sleep(SEEN)
        assert not diagnoses(found, 0.0), found.told()
        yield found


def heard(fleet: Watched) -> int:
    """Of how many ports packets are told."""
    try:
        telemetry = fleet.ask("sources")["telemetry"]
    except OSError:
        return 0
    return sum(one["reporting"] for one in telemetry if one["kind"] == "ports")


def at(text: str) -> float:
    """A time as it is told, in s since 1970."""
    return dt.datetime.fromisoformat(text).timestamp()


def diagnoses(fleet: Watched, since: float) -> list[dict[str, Any]]:
    """What was told since a time, but for suspicions."""
    return [one for one in fleet.incidents() if at(one["opened_at"]) >= since and one["confidence"] >= CONFIDENT]


def place(one: dict[str, Any]) -> tuple[str, str]:
    return one["condition"], one["entity"]["name"]


def told(fleet: Watched, wanted: tuple[str, str], since: float, within: float = OPENS) -> dict[str, Any]:
    """The incident of a fault that began at a time; it opened in time, and is the only one."""
    found = fleet.until(lambda: diagnoses(fleet, since), f"{wanted} is told", within + BUSY)
    assert [place(one) for one in found] == [wanted], fleet.told()
    assert at(found[0]["opened_at"]) - since <= within, fleet.told()
    return found[0]


def over(fleet: Watched, one: dict[str, Any], since: float) -> None:
    """The incident resolves after the fault's end, and nothing else was told meanwhile."""
    fleet.until(lambda: not fleet.incidents("firing"), "all is over", RESOLVES + BUSY)
    (found,) = diagnoses(fleet, at(one["opened_at"]))
    assert (found["id"], found["state"]) == (one["id"], "resolved"), fleet.told()
    assert at(found["resolved_at"]) - since <= RESOLVES


def begun(fleet: Watched, scenario: Scenario) -> float:
    since = time.time()
    scenario.begin(fleet.lab)
    return since


def test_a_slow_rank_is_told_on_its_node_and_resolves(fleet: Watched):
    scenario = SCENARIOS["tp-straggler"]
    one = told(fleet, (scenario.condition, scenario.entity), begun(fleet, scenario))
    ended = time.time()
    scenario.end(fleet.lab)
    over(fleet, one, ended)


def test_loss_is_told_on_its_link_and_a_killed_controller_goes_on_with_it(fleet: Watched):
    scenario = SCENARIOS["fabric-loss"]
    began = begun(fleet, scenario)
    one = told(fleet, (scenario.condition, scenario.entity), began)
    fleet.kill_controller()
    fleet.start()
    fleet.until(lambda: TEXT_STILL_FIRING in what_happened(fleet, one), "the incident goes on")
    assert [place(each) for each in diagnoses(fleet, began)] == [(scenario.condition, scenario.entity)], fleet.told()
    ended = time.time()
    scenario.end(fleet.lab)
    over(fleet, one, ended)


def what_happened(fleet: Watched, one: dict[str, Any]) -> list[str]:
    """The history of an incident."""
    try:
        return [each["what"] for each in fleet.ask(f"incidents/{one['id']}")["history"]]
    except OSError:
        return []


def test_an_agent_that_is_killed_is_a_blackout_and_comes_back(fleet: Watched):
    since = time.time()
    fleet.agents["n5"].kill()
    one = told(fleet, ("telemetry-blackout", "n5"), since, 2 * OPENS)
    ended = time.time()
    fleet.start_agent("n5")
    over(fleet, one, ended)
