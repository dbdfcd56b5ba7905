"""Many short rows are sorted as each of them alone would be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.features import peer_statistics
from skewscope.engine.features.column_statistics import MIN_NETWORK_ROWS, column_quantile, sort_columns, sort_rows


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8, 11, 16, 17])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_rows_and_columns_are_in_order_with_the_unknown_last(members, gaps):
    random = np.random.default_rng(members)
    x = random.integers(0, 9, (MIN_NETWORK_ROWS + 7, members)).astype(float)
    x[random.random(x.shape) < gaps] = np.nan
    assert np.array_equal(sort_rows(x), np.sort(x, axis=1), equal_nan=True)
    assert np.array_equal(sort_columns(x.T), np.sort(x.T, axis=0), equal_nan=True)


@pytest.mark.parametrize("members", [1, 2, 5, 8, 13, 16, 17])
def test_what_stands_at_some_places_is_found_without_the_rest(members):
    random = np.random.default_rng(members)
    x = random.integers(0, 9, (MIN_NETWORK_ROWS + 7, members)).astype(float)
    for place in range(members):
        assert np.array_equal(sort_rows(x, {place})[:, place], np.sort(x, axis=1)[:, place])


@pytest.mark.parametrize("gaps", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rows", [3, MIN_NETWORK_ROWS])
def test_a_quantile_lies_between_two_of_what_is_known(gaps, rows):
    random = np.random.default_rng(rows)
    x = random.integers(0, 99, (6, rows)).astype(float)
    x[random.random(x.shape) < gaps] = np.nan
    alone = [[np.quantile(own, 0.3) if len(own := row[~np.isnan(row)]) else np.nan] for row in x.T]
    assert np.allclose(column_quantile(x, 0.3)[:, None], alone, equal_nan=True)


ROWS = st.lists(
    st.lists(st.one_of(st.just(np.nan), st.integers(-3, 3)), min_size=5, max_size=5), min_size=1, max_size=4
)


@pytest.mark.parametrize("few", [0, 1 << 10])
@given(ROWS)
def test_the_median_of_the_others_is_that_of_each_row_without_the_member(few, rows):
    x = np.array(rows, float)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(peer_statistics, "FEW_VALUES", few)
        found = peer_statistics.peer_median(x)
    for row, medians in zip(x, found, strict=True):
        for place, value in enumerate(row):
            others = np.delete(row, place)
            others = others[~np.isnan(others)]
            expected = np.nan if np.isnan(value) or not len(others) else np.median(others)
            assert medians[place] == pytest.approx(expected, nan_ok=True)
