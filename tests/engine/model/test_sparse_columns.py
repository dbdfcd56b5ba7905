"""Columns of few series behave as an array of all series would, without its memory."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.model.sparse_columns import SparseColumns

ROWS, SIZE = 3, 12
SERIES = st.lists(st.integers(0, SIZE - 1), unique=True, max_size=SIZE)
STEPS = st.lists(st.tuples(st.sampled_from(["write", "release", "copy"]), SERIES, st.randoms()), max_size=30)


@given(STEPS)
def test_columns_hold_what_an_array_of_all_series_would(steps):
    columns, other = SparseColumns(ROWS, np.float32), SparseColumns(ROWS, np.float32)
    dense, beside = (np.full((ROWS, SIZE), np.nan, np.float32) for _ in range(2))
    for number, (what, series, random) in enumerate(steps):
        columns.grow(max(series, default=0) + 1)
        other.grow(SIZE)
        at = np.array(series, np.intp)
        if what == "write":
            row, written, into = random.randrange(ROWS), *random.choice([(columns, dense), (other, beside)])
            written.grow(SIZE)
            lanes = written.lanes(at)
            written.values[row, lanes] = into[row, at] = number
        elif what == "release":
            columns.release(at)
            dense[:, at] = np.nan
        else:
            columns.grow(SIZE)
            source = np.array(random.sample(range(SIZE), len(at)), np.intp)
            columns.copy_from(at, other, source)
            dense[:, at] = beside[:, source]
    columns.grow(SIZE)
    every = np.arange(SIZE)
    assert np.array_equal(columns.get(every), dense, equal_nan=True)
    assert np.array_equal(columns.get(every[::-1], slice(1, 2)), dense[1:2, ::-1], equal_nan=True)


def test_room_is_used_again_and_given_back():
    columns = SparseColumns(ROWS)
    columns.grow(10_000)
    columns.lanes(np.arange(1000))
    columns.release(np.arange(500))
    columns.lanes(np.arange(5000, 5500))
    assert columns.values.shape[1] <= 1250
    columns.release(np.arange(10_000))
    assert columns.values.size == 0
