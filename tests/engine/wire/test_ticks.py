"""Tests of the statistics and orders that packet reduction uses in place of numpy's slower ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.wire.bursts import order_by
from skewscope.engine.wire.keys import KeyTable, stable_order
from skewscope.engine.wire.ticks import quantile, quantiles

values = st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1, max_size=40).map(np.array)
numbers = st.lists(st.integers(-2, 1 << 17), max_size=40).map(lambda some: np.array(some, np.int64))


@given(values, st.sampled_from((0.1, 0.25, 0.5, 0.75, 0.95)))
def test_a_quantile_has_the_bits_of_numpys(some: np.ndarray, share: float) -> None:
    assert quantile(some, share) == np.quantile(some, share)


@given(numbers)
def test_rows_are_ordered_by_number_and_equal_ones_as_they_came(some: np.ndarray) -> None:
    assert stable_order(some).tolist() == np.argsort(some, kind="stable").tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 9)), max_size=40))
def test_rows_are_ordered_by_stream_then_time(rows: list[tuple[int, float]]) -> None:
    stream, time = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows])
    assert order_by(stream, time).tolist() == np.lexsort((time, stream)).tolist()


@given(st.lists(st.lists(st.integers(0, 50), max_size=20), max_size=5))
def test_keys_keep_their_numbers_from_block_to_block(blocks: list[list[int]]) -> None:
    table, known = KeyTable(), {}
    for block in blocks:
        for key in sorted(set(block)):
            known.setdefault(key, len(known))
        assert table.numbers(np.array(block, np.uint64)).tolist() == [known[key] for key in block]


def test_quantiles_by_group() -> None:
    found = quantiles(np.array([2, 0, 2, 0, 2]), np.array([5.0, 1.0, 1.0, 3.0, 3.0]), (0.5, 0.95), 3)
    assert found[0].tolist() == pytest.approx([2.0, np.nan, 3.0], nan_ok=True)
    assert found[1].tolist() == pytest.approx([2.9, np.nan, 4.8], nan_ok=True)
