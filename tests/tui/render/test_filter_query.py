import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.tui.render.filter_query import (
    AllOf,
    AnyOf,
    Contains,
    FieldComparison,
    FilterTable,
    FuzzyMatch,
    Negation,
    all_of,
    any_of,
    evaluate,
    parse,
    to_text,
)

NAMES = ["rank A:n2 late", "port n0/ew lossy", "replica r1 burst"]
TABLE = FilterTable(
    texts=[name.lower() for name in NAMES],
    text_fields={"kind": lambda: ["rank", "port", "replica"], "node": lambda: ["n2", "n0", "n4"]},
    number_fields={
        "sev": lambda: np.array([2.0, 1.0, 0.0]),
        "sure": lambda: np.array([0.94, 0.5, np.nan]),
        "age": lambda: np.array([0.002, 12.0, 600.0]),
    },
    percent_fields=("sure",),
    rank_names={"sev": ("info", "warning", "critical")},
)


def kept(text):
    found = evaluate(parse(text), TABLE)
    return [name.split()[0] for name, keep in zip(NAMES, found.mask, strict=True) if keep], found.error


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["rank", "port", "replica"]),
        ("LATE", ["rank"]),
        ("!late", ["port", "replica"]),
        ("late or burst", ["rank", "replica"]),
        ("(late or burst) !r1", ["rank"]),
        ("!(late or burst)", ["port"]),
        ('"rank A:n2"', ["rank"]),
        ("A:n2", ["rank"]),
        ("n0/ew", ["port"]),
        ("~rplbrst", ["replica"]),
        ("kind:ra", ["rank"]),
        ("kind=rank", ["rank"]),
        ("kind!=rank", ["port", "replica"]),
        ("sev>=warn", ["rank", "port"]),
        ("sev=info", ["replica"]),
        ("sure>80%", ["rank"]),
        ("sure>80", ["rank"]),
        ("sure<=50%", ["port"]),
        ("age<=2ms", ["rank"]),
        ("age>10s age<5min", ["port"]),
        ("age>5m", ["replica"]),
        ("burst or", ["replica"]),
        ("((late)", ["rank"]),
        ("late)", ["rank"]),
        ("!", ["rank", "port", "replica"]),
    ],
)
def test_filters_keep_matching_rows(text, names):
    assert kept(text) == (names, "")


@pytest.mark.parametrize("text", ["sev>=", "sev>=loud", "sure>many", "kind>3", "nod:n2", "!sev>loud"])
def test_an_invalid_filter_shows_its_error_and_hides_no_row(text):
    names, fault = kept(text)
    assert fault
    assert len(names) == 3


def test_a_misspelt_field_gets_a_suggestion():
    assert "node" in kept("nodee:n2")[1]


texts = st.text(min_size=0, max_size=8)
terms = st.one_of(
    st.builds(Contains, texts.filter(bool)),
    st.builds(FuzzyMatch, texts.filter(bool)),
    st.builds(
        FieldComparison, st.sampled_from(["sev", "node", "age"]), st.sampled_from([">=", "<", "=", "!=", ":"]), texts
    ),
)
queries = st.recursive(
    terms,
    lambda inner: st.one_of(
        inner.map(Negation),
        st.lists(inner, min_size=2, max_size=3).map(all_of),
        st.lists(inner, min_size=2, max_size=3).map(any_of),
    ),
    max_leaves=8,
)


@given(queries)
@settings(max_examples=100)
@pytest.mark.slow
def test_a_printed_filter_parses_to_the_same_query(query):
    assert parse(to_text(query)) == query


@given(st.text(max_size=60) | st.text(alphabet='!~()" or:<>=sev1\\', max_size=40))
@settings(max_examples=100)
def test_no_text_is_an_error_and_printing_settles_it(text):
    query = parse(text)
    assert parse(to_text(query)) == query
    assert len(evaluate(query, TABLE).mask) == 3


def test_depth_is_bounded():
    evaluate(parse("(" * 5000 + "x"), TABLE)
    evaluate(parse("!" * 5000 + "x"), TABLE)


def test_the_simplest_form():
    assert all_of([Contains("a")]) == Contains("a")
    assert all_of([AllOf((Contains("a"), Contains("b"))), Contains("c")]) == AllOf(
        (Contains("a"), Contains("b"), Contains("c"))
    )
    assert any_of([Contains("a")]) == Contains("a")
    assert isinstance(any_of([Contains("a"), Contains("b")]), AnyOf)
