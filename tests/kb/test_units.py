"""Units read and print the same thing, and what measures something else never passes for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.loader import catalogue
from skewscope.kb.units import MAX_TEXT, NAMED_UNITS, ONE, Unit, format_dimension, is_unit, parse_unit

BASES = ["s", "By", "J", "Cel", "dBm", "{packet}", "{request}", "{token}", "{cpu_cycle}"]
PARTS = st.sampled_from([*NAMED_UNITS, *BASES])
POWERS = st.integers(-3, 3).filter(bool).map(lambda n: "" if n == 1 else str(n))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Units as one writes them: products of powers, over others."""
    products = draw(
        st.lists(st.lists(st.tuples(PARTS, POWERS).map("".join), min_size=1, max_size=3), min_size=1, max_size=3)
    )
    return "/".join(".".join(product) for product in products)


UNITS = texts().filter(lambda text: len(text) <= MAX_TEXT).filter(is_unit).map(parse_unit)


@pytest.mark.parametrize("text", sorted({signal.unit for signal in catalogue().signals.values()}))
def test_every_unit_of_the_catalogue_reads_and_its_dimension_prints_back(text):
    made = parse_unit(text)
    assert parse_unit(format_dimension(made.dimension)) == Unit(made.dimension)


@given(UNITS)
def test_what_is_printed_reads_back_as_the_same_dimension(made):
    text = format_dimension(made.dimension)
    if len(text) <= MAX_TEXT:
        assert parse_unit(text) == Unit(made.dimension)


@given(UNITS, UNITS)
def test_units_multiply_and_divide_as_numbers_do(one, other):
    assert (one * other).dimension == (other * one).dimension
    assert (one * other / other).dimension == one.dimension
    assert (one / one).dimension == ()
    assert one * ONE == one
    assert (one**2).dimension == (one * one).dimension


@given(UNITS)
def test_there_and_back_is_no_change(made):
    base = Unit(made.dimension)
    assert made.factor_to(base) * base.factor_to(made) == pytest.approx(1.0)


@given(texts(), texts())
def test_a_slash_divides_and_a_dot_multiplies(one, other):
    first, second = other.split("/")[0], one.split("/")[0]
    if is_unit(first) and is_unit(second) and is_unit(f"{first}/{second}") and is_unit(f"{first}.{second}"):
        assert parse_unit(f"{first}/{second}").dimension == (parse_unit(first) / parse_unit(second)).dimension
        assert parse_unit(f"{first}.{second}").dimension == (parse_unit(first) * parse_unit(second)).dimension


@pytest.mark.parametrize(
    ("one", "other", "factor"),
    [
        ("ms", "s", 1e-3),
        ("us", "ms", 1e-3),
        ("h", "min", 60),
        ("%", "1", 0.01),
        ("KiBy", "By", 1024),
        ("Gbit/s", "By/s", 1.25e8),
        ("bit", "By", 0.125),
        ("kHz", "Hz", 1e3),
        ("Hz", "1/s", 1),
        ("W", "J/s", 1),
        ("kW.h", "J", 3.6e6),
        ("By/ms", "kBy/s", 1),
        ("{packet}/ms", "{packet}/s", 1e3),
    ],
)
def test_units_of_one_dimension_differ_by_a_factor(one, other, factor):
    assert parse_unit(one).factor_to(parse_unit(other)) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("one", "other"),
    [("By", "{packet}"), ("s", "1"), ("{request}", "{packet}"), ("W", "J"), ("By/s", "By"), ("Cel", "1"), ("dBm", "W")],
)
def test_what_measures_something_else_never_becomes_it(one, other):
    with pytest.raises(ValueError, match="cannot become"):
        parse_unit(one).factor_to(parse_unit(other))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no unit"),
        ("parsec", "'parsec' is no unit"),
        ("MiB", "Did you mean 'MiBy'?"),
        ("Gbits/s", "Did you mean 'Gbit'?"),
        ("{Packet}", "no unit"),
        ("{packet", "no unit"),
        ("s/", "no unit"),
        (".s", "no unit"),
        ("s s", "no unit"),
        ("s0", "no unit"),
        ("x" * 1000, "no unit"),
        ("d9.d9.d9.d9.d9.d9.d9.d9.d9.d9", "beyond measure"),
        ("ns9.ns9.ns9.ns9.ns9.ns9.ns9", "beyond measure"),
    ],
)
def test_what_is_no_unit_is_refused_and_told_which_one_was_probably_meant(text, said):
    assert not is_unit(text)
    with pytest.raises(ValueError, match=said.replace("?", r"\?").replace(".", r"\.")) as caught:
        parse_unit(text)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=20) | st.text(alphabet="sBymW1%{}/.-239_ae", max_size=40))
def test_no_text_makes_it_do_anything_but_know_a_unit_or_not(text):
    if is_unit(text):
        assert parse_unit(text).factor > 0
