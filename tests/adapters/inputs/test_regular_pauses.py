"""Pauses of a job that come at like distances: what they take of its time."""

import numpy as np
import pytest

from skewscope.adapters.inputs.regular_pauses import find_pause_shares

NONE = np.empty(0)


def steps(pause: float, each: int = 20, count: int = 200, step: float = 9.0, jitter: float = 0.03):
    """Returns the times of steps, with a pause after so many of them."""
    random = np.random.default_rng(3)
    lengths = step * np.exp(jitter * random.standard_normal(count))
    lengths[each::each] += pause * (1 + 0.1 * random.standard_normal(len(lengths[each::each])))
    return 1.7e9 + np.cumsum(lengths)


def test_each_regular_pause_has_its_share_of_the_time() -> None:
    ends, shares = find_pause_shares(steps(100.0), NONE)
    assert len(ends) == 8
    assert shares == pytest.approx(np.full(8, 100 * 100 / 280), rel=0.4)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(NONE, id="no step"),
        pytest.param(steps(0.0), id="no pause"),
        pytest.param(steps(100.0, each=60), id="three pauses, which are no rhythm"),
        pytest.param(steps(1.0, each=8, step=0.3), id="accumulated gradients"),
        pytest.param(steps(0.0, jitter=0.5), id="steps of any length"),
        pytest.param(np.cumsum(np.repeat([40.0, 75.0], 60)), id="steps that become longer"),
        pytest.param(np.cumsum(np.tile(np.linspace(1.0, 9.0, 50), 6)), id="inputs sorted by length"),
    ],
)
def test_what_is_no_rhythm_of_pauses_has_none(times) -> None:
    assert not len(find_pause_shares(times, NONE)[0])


def test_an_evaluation_is_no_pause() -> None:
    times = steps(100.0)
    evaluated = times[:-1][np.diff(times) > 50] + 1.0
    assert not len(find_pause_shares(times, evaluated)[0])
