"""What the campaign calls lost, and what it calls told twice."""

from dataclasses import replace

import pytest

from bench.campaign_losses import find_losses
from bench.campaign_peers import Event
from skewscope.engine.model.incident import Explanation
from tests.adapters.notify.incidents import incident

ONE = replace(incident(1), state="resolved", opened_at=100.0, resolved_at=120.0)


def event(kind, one=ONE):
    return Event(kind, one.id, one.condition, one.name, one.opened_at, one.resolved_at)


TOLD = [event("opened"), event("resolved")]


def faults(stored, events, *, pair=False, settled=True):
    return list(find_losses(stored, events, pair=pair, settled=settled))


@pytest.mark.parametrize("pair", [False, True])
def test_nothing_is_found_where_all_was_told(pair):
    assert faults([ONE], TOLD, pair=pair) == []


@pytest.mark.parametrize("pair", [False, True])
def test_a_stored_diagnosis_that_no_event_told_is_a_loss(pair):
    other = replace(ONE, id="other", opened_at=300.0, resolved_at=310.0)
    (found,) = faults([ONE, other], TOLD, pair=pair)
    assert "other" in found
    assert "never reported" in found


def test_one_whose_end_was_not_told_is_a_loss():
    found = faults([ONE], TOLD[:1])
    assert any(ONE.id in text and text.endswith("was never reported") for text in found)


@pytest.mark.parametrize("pair", [False, True])
def test_what_is_told_and_not_stored_is_a_loss(pair):
    assert "is in no store" in faults([], TOLD, pair=pair)[0]


def test_one_that_never_ended_is_a_fault():
    fires = replace(ONE, state="firing", resolved_at=None)
    assert any("never ended" in text for text in faults([fires], [event("opened", fires)]))
    assert faults([fires], [event("opened", fires)], settled=False) == []


def test_suspicions_and_explained_ones_need_not_be_told():
    unlikely = replace(ONE, id="unlikely", confidence=0.1)
    explained = replace(ONE, id="explained", explained_by=Explanation(ONE.id, "caused"))
    assert faults([ONE, unlikely, explained], TOLD) == []


def test_two_ids_for_one_place_are_told_twice():
    again = replace(ONE, id="again")
    events = [event("opened"), event("opened", again), event("resolved", again)]
    assert any("again opens" in text for text in faults([ONE, again], events))


def test_a_second_controller_needs_no_event_for_its_own_id():
    assert faults([ONE, replace(ONE, id="own", opened_at=104.0)], TOLD, pair=True) == []


def test_of_two_controllers_one_that_moved_where_another_one_ended_may_be_told_by_its_change():
    moved = replace(ONE, id="moved", opened_at=140.0, resolved_at=180.0)
    told = [*TOLD, event("changed", moved), event("resolved", moved)]
    assert faults([ONE, moved], told, pair=True) == []
