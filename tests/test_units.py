"""Units read and print the same thing, and what measures something else never passes for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.units import is_unit, shown, unit

NAMES = [
    "s",
    "ms",
    "us",
    "By",
    "kBy",
    "MiBy",
    "GBy",
    "1",
    "%",
    "Hz",
    "W",
    "J",
    "Cel",
    "bit/s",
    "Gbit/s",
    "By/s",
    "{packet}",
    "{request}/s",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_of_the_catalogue_is_known(name):
    assert is_unit(name)


@given(
    st.lists(st.sampled_from(["s", "By", "{packet}", "{request}", "J", "Cel"]), min_size=1, max_size=3),
    st.sampled_from([".", "/"]),
)
def test_what_is_printed_reads_back_as_the_same_dimension(names, mark):
    made = unit(mark.join(names))
    assert unit(shown(made.dimension)).dimension == made.dimension


@pytest.mark.parametrize(
    ("one", "other", "factor"),
    [
        ("ms", "s", 1e-3),
        ("us", "ms", 1e-3),
        ("%", "1", 0.01),
        ("KiBy", "By", 1024),
        ("Gbit/s", "By/s", 1.25e8),
        ("kHz", "Hz", 1e3),
    ],
)
def test_units_of_one_dimension_differ_by_a_factor(one, other, factor):
    assert unit(one).dimension == unit(other).dimension
    assert unit(one).factor / unit(other).factor == pytest.approx(factor)


@pytest.mark.parametrize(
    ("one", "other"), [("By", "{packet}"), ("s", "1"), ("{request}", "{packet}"), ("W", "J"), ("By/s", "By")]
)
def test_what_measures_something_else_is_another_dimension(one, other):
    assert unit(one).dimension != unit(other).dimension


@given(st.text(max_size=20))
def test_no_text_makes_it_do_anything_but_know_a_unit_or_not(text):
    assert is_unit(text) in (True, False)
