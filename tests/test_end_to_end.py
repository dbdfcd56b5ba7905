"""Agents on the switch side of a lab's nodes and a controller diagnose real faults in real traffic.

All tests share one network; each removes its fault and waits until the incident resolves.
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
"""Seconds of telemetry from the start of a fault within which its incident must open; four or five on an idle machine.
The assessment measures the delay."""
RESOLVES = 25.0
"""Seconds after the end of a fault within which its incident must resolve."""
SEEN = 12.0
"""Healthy seconds before the first fault: without a past only peers can be compared."""
BUSY = 20.0
"""Additional seconds for a busy machine."""
CONFIDENT = 0.4
"""Confidence below which an incident is a suspicion."""
STEADY = Demand(rps=8.0, spread=0.3)
"""Clients with similar requests: a test is too short for random lengths to average out."""

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(missing(COMMANDS)), reason=missing(COMMANDS) or "-")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A lab with agents and a controller, after the warm-up."""
    with running("endtoend", two("tp"), tmp_path_factory.mktemp("lab"), STEADY) as lab, watched(lab) as found:
        found.until(lambda: heard(found) >= len(NODES), "packets of all nodes")
        time.sleep(SEEN)
        assert not diagnoses(found, 0.0), found.told()
        yield found


def heard(fleet: Watched) -> int:
    """Returns the number of ports with packet measurements."""
    try:
        telemetry = fleet.ask("sources")["telemetry"]
    except OSError:
        return 0
    return sum(one["reporting"] for one in telemetry if one["kind"] == "ports")


def at(text: str) -> float:
    """Returns a time of the API in seconds since 1970."""
    return dt.datetime.fromisoformat(text).timestamp()


def diagnoses(fleet: Watched, since: float) -> list[dict[str, Any]]:
    """Returns the incidents since a time, without symptoms and suspicions."""
    found = [one for one in fleet.incidents() if one["kind"] == "diagnosis" and at(one["opened_at"]) >= since]
    return [one for one in found if one["confidence"] >= CONFIDENT]


def place(one: dict[str, Any]) -> tuple[str, str]:
    return one["condition"], one["entity"]["name"]


def told(fleet: Watched, wanted: tuple[str, str], since: float, within: float = OPENS) -> dict[str, Any]:
    """Returns the incident of a fault; fails unless it opened in time and is the only one."""
    found = fleet.until(lambda: diagnoses(fleet, since), f"{wanted} is told", within + BUSY)
    assert [place(one) for one in found] == [wanted], fleet.told()
    assert at(found[0]["opened_at"]) - since <= within, fleet.told()
    return found[0]


def firing_diagnoses(fleet: Watched) -> list[dict[str, Any]]:
    """Returns the diagnoses that fire now."""
    return [one for one in fleet.incidents("firing") if one["kind"] == "diagnosis"]


def over(fleet: Watched, one: dict[str, Any], since: float) -> None:
    """Fails unless the incident resolves after the fault's end and no other one opened."""
    # A symptom of a counter may last for a few of its usual intervals longer than its cause.
    fleet.until(lambda: not firing_diagnoses(fleet), "all is over", RESOLVES + BUSY)
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
    """Returns the history of an incident as text."""
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
