"""When an incident began: no later than the effects by which alone it could be recognised."""

from dataclasses import dataclass

import pytest

from skewscope.engine.incidents.state import IncidentState
from skewscope.engine.model.locality import Entity
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_builtin


@dataclass(slots=True)
class Plain(IncidentState):
    """A state whose rule needs the samples of a minute."""

    category = "diagnosis"

    @property
    def lead_s(self):
        return 60.0

    @property
    def evidence_confidence(self):
        return 0.9

    @property
    def basis(self):
        return ()

    def describe(self, *_):
        return {}

    def keep_known(self, _):
        return self


def state(opened_at, since, **more):
    return Plain("c", Entity("node", "n0"), opened_at, since, **more)


@pytest.mark.parametrize(
    ("effects", "began"),
    [
        ([], 1000.0),
        ([(980.0, 930.0)], 930.0),  # seen while the rule still gathered samples
        ([(980.0, 930.0), (990.0, 970.0)], 930.0),
        ([(1010.0, 1005.0)], 1000.0),
        ([(500.0, 400.0)], 1000.0),  # long before: that is true of it, and nothing of its root
    ],
)
def test_a_root_began_with_what_it_explains(effects, began):
    root = state(1010.0, 1000.0)
    assert root.begin_with([state(*times) for times in effects], 20.0) == began


def test_what_fired_again_may_have_begun_with_something_else():
    early = state(980.0, 930.0, flaps=1)
    assert state(1010.0, 1000.0).begin_with([early], 20.0) == 1000.0
    assert state(1010.0, 1000.0, flaps=1).begin_with([state(980.0, 930.0)], 20.0) == 1000.0


def test_the_lead_of_a_rule_is_its_longest_required_window_and_its_hold():
    rules, _ = load_builtin(catalogue())
    assert rules["collective-hang-of-a-rank"].lead == 65.0
