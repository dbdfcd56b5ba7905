"""Random faults of one and two weeks: with acting, a pool is at least as available as without."""

import pytest

from skewscope.adapters.actions.settings import ActionSettings
from tests.support.acting_runs import ACT, run_weeks

pytestmark = pytest.mark.slow


def test_a_week_with_acting_is_at_least_as_available_as_one_without():
    acting, observing = (run_weeks(1, settings, days=7.0) for settings in (ACT, ActionSettings()))
    assert acting.availability >= observing.availability
    assert acting.fewest_in_use >= 3
    assert acting.most_in_place <= 1
    assert acting.is_restored()
    assert [each for each in acting.store.load() if each.started_at is not None]


@pytest.mark.parametrize(("replicas", "days"), [(3, 14.0), (8, 7.0)])
def test_a_small_and_a_large_pool_with_acting_are_at_least_as_available(replicas, days):
    acting, observing = (run_weeks(9, settings, replicas, days=days) for settings in (ACT, ActionSettings()))
    assert acting.availability >= observing.availability
    assert acting.fewest_in_use >= replicas // 2 + 1
    assert acting.is_restored()
