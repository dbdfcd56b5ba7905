"""Short forms of numpy's functions give what those give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.model.arrays import append_value, has_all, has_any, median, sort_unique, take_in_rows
from skewscope.engine.wire.keys import renumber

NUMBERS = st.lists(st.integers(0, 9), max_size=30)
VALUES = st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1, max_size=40).map(np.array)


@given(NUMBERS, st.sampled_from([np.float64, np.int64, np.uint64]))
def test_each_value_once_in_order(numbers, kind):
    values = np.array(numbers, kind)
    found = sort_unique(values)
    assert found.dtype == kind
    assert found.tobytes() == np.unique(values).tobytes()


@given(NUMBERS)
def test_numbers_anew_are_those_of_their_places(numbers):
    values = np.array(numbers, np.int64)
    whose, row = np.unique(values, return_inverse=True)
    found = renumber(values)
    assert found[0].tolist() == whose.tolist()
    assert found[1].tolist() == row.tolist()


@pytest.mark.parametrize(
    ("values", "last"),
    [
        (np.array([1.0, np.nan]), np.nan),
        (np.array([1, -1], np.int8), 0),
        (np.array([True]), False),
        (np.array(2.0), 1.0),
    ],
)
def test_one_more_value(values, last):
    found = append_value(values, last)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, np.append(values, values.dtype.type(last)))


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 99))
def test_places_in_rows(rows, width, seed):
    rng = np.random.default_rng(seed)
    values, places = rng.random((rows, 6)), rng.integers(0, 6, (rows, width))
    np.testing.assert_array_equal(take_in_rows(values, places), np.take_along_axis(values, places, axis=1))


@given(VALUES)
def test_the_median_has_the_bits_of_numpys(some):
    assert median(some) == np.median(some)


def test_the_median_of_nothing_and_of_unknown_values_is_unknown():
    assert np.isnan(median(np.empty(0)))
    assert np.isnan(median(np.array([1.0, np.nan, 2.0])))


@given(st.lists(st.booleans(), max_size=6), st.integers(1, 3), st.sampled_from("CF"))
def test_whether_any_and_all_of_a_mask_are_true_is_what_numpy_says(values, rows, order):
    mask = np.array([values] * rows, bool, order=order)
    for some in (mask, mask[:, ::2]):
        assert has_any(some) == some.any()
        assert has_all(some) == some.all()
