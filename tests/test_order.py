"""Many short rows are sorted as each of them alone would be."""

import numpy as np
import pytest

from skewscope.engine.order import MANY, ordered, ordered_down


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8, 11, 16, 17])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_rows_and_columns_are_in_order_with_the_unknown_last(members, gaps):
    random = np.random.default_rng(members)
    x = random.integers(0, 9, (MANY + 7, members)).astype(float)
    x[random.random(x.shape) < gaps] = np.nan
    assert np.array_equal(ordered(x), np.sort(x, axis=1), equal_nan=True)
    assert np.array_equal(ordered_down(x.T), np.sort(x.T, axis=0), equal_nan=True)
