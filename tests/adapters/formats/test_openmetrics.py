import base64
import io
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from skewscope.adapters.formats import openmetrics
from skewscope.adapters.formats.openmetrics import ExpositionReader, SeriesTarget
from skewscope.adapters.formats.openmetrics_grammar import format_series
from skewscope.kb.problems import InputError


class Seen:
    """Wants every series, and remembers them."""

    def __init__(self):
        self.number = {}

    def __call__(self, name, labels):
        return [SeriesTarget(self.number.setdefault((name, tuple(sorted(labels))), len(self.number)))]


def samples(text, at=None):
    """What was read, as a sorted list of (name, labels, value, time)."""
    seen = Seen()
    block = openmetrics.read(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "page", seen, at)
    keys = list(seen.number)
    rows = zip(block.series.tolist(), block.value.tolist(), block.time.tolist(), strict=True)
    return sorted((*keys[n], repr(value), round(time, 9)) for n, value, time in rows)


def fault(text, at=None):
    with pytest.raises(InputError) as caught:
        samples(text, at)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("line", "name", "labels", "value", "time"),
    [
        ("a 1 2", "a", {}, 1.0, 2.0),
        ("a{} 1 2", "a", {}, 1.0, 2.0),
        ('a:b{c="d"} 1.5e3 2.5', "a:b", {"c": "d"}, 1500.0, 2.5),
        ('a{c="d",e="f",} +Inf 2', "a", {"c": "d", "e": "f"}, math.inf, 2.0),
        ('a{c="x y} # {",e="1 2 3"} -Inf 2', "a", {"c": "x y} # {", "e": "1 2 3"}, -math.inf, 2.0),
        (r'a{c="\"\\\n\t"} NaN 2', "a", {"c": '"\\\n\\t'}, math.nan, 2.0),
        ('a{c="é",d=""} 1 2', "a", {"c": "é"}, 1.0, 2.0),
        ('a_bucket{le="0.5"} 7 2 # {trace="x y"} 0.3 1.5', "a_bucket", {"le": "0.5"}, 7.0, 2.0),
        ('a_bucket{le="0.5"} 7 2 # {} 0.3', "a_bucket", {"le": "0.5"}, 7.0, 2.0),
        ('{"http.load",c="d"} 1 2', "http.load", {"c": "d"}, 1.0, 2.0),
        ('{__name__="a","c.d"="e"} 1 2', "a", {"c.d": "e"}, 1.0, 2.0),
        ('  a { c = "d" , e="f" } \t 1\t2  ', "a", {"c": "d", "e": "f"}, 1.0, 2.0),
        ("a 1 2\r", "a", {}, 1.0, 2.0),
        ("a -.5 -2", "a", {}, -0.5, -2.0),
    ],
)
def test_a_line_is_one_sample(line, name, labels, value, time):
    assert samples(line + "\n") == [(name, tuple(sorted(labels.items())), repr(value), time)]


def test_a_line_without_a_time_has_its_pages():
    assert samples("a 1\na 2 7\n", at=5.0) == [("a", (), "1.0", 5.0), ("a", (), "2.0", 7.0)]


def test_seconds_are_seconds_where_the_text_ends_as_openmetrics_does():
    assert samples("a 1 1795177354\n# EOF\n")[0][3] == 1795177354.0


def test_large_whole_times_without_that_end_are_milliseconds():
    assert samples("a 1 1795177354075\na 1 1795177355075\n")[0][3] == 1795177354.075


def test_milliseconds_in_openmetrics_are_a_fault():
    assert "page:1: found a time some thousands of years away" in fault("a 1 1795177354075\n# EOF\n")[0]
    assert "page:2:" in fault("a 1 1795177354\na 1 1795177354075.5\n")[0]


def test_a_pages_own_time_is_never_taken_for_milliseconds():
    assert samples("a 1\nb 1 1795177354075\n", at=1795177350.0) == [
        ("a", (), "1.0", 1795177350.0),
        ("b", (), "1.0", 1795177354.075),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a 1 2\nb c 3\n",
            "page:2: found 'c' for a number in 'b c 3', expected a sample: name{label=\"value\",...} number [time].",
        ),
        ("a 1 2\n\n\nb 1 nan\n", "page:4: found 'nan' for a time"),
        ("a 1_0 2\n", "'1_0' for a number"),
        ("a 0x10 2\n", "'0x10' for a number"),
        ("a{b=c} 1 2\n", "Label values stand in double quotes."),
        ('a{b="c",b="d"} 1 2\n', "the label 'b' for the second time"),
        ('a{"x.y",b="d"} 1 2\n', "2 metric names"),
        ('{b="d"} 1 2\n', "no metric name"),
        ('a{b="c"d="e"} 1 2\n', "for a label"),
        ('a{b="c} 1 2\n', "no sample in"),
        ('a{b="c"}1 2\n', "no sample in"),
        ("a 1 2 3\n", "no sample in 'a 1 2 3'"),
        ("a\n", "no sample in 'a'"),
        ("1a 1 2\n", "no sample in"),
        ('a 1 2 # {b="c"}\n', "a broken exemplar"),
        ('a 1 2 # {b="c"} x\n', "'x' for a number"),
        ("<html>\n", "This looks like a web page"),
        ('{"a": 1}\n', "This looks like JSON."),
        ("\x00\x01\x02\n", "This looks like a binary file"),
        (b'a{b="\xff"} 1 2\n', "bytes that are not UTF-8"),
        ("# TYPE a countre\n", "Did you mean 'counter'?"),
        ("# TYPE a\n", "found an unknown type ''"),
        ("# HELP\n", "expected a metric's name after HELP"),
        ("# EOF\na 1 2\n", "page:2: found text after '# EOF'"),
        ("a 1 2\nb 1 2", "page:2: found the end of the text in the middle of 'b 1 2'"),
        (
            "a 1\n",
            "page:1: found no time in 'a 1', expected a time after the value. Pages without times are an input",
        ),
        ('a{b="' + "x" * (1 << 16) + '"} 1 2\n', "a line of 65547 bytes"),
        ("a{" + ",".join(f'l{n}="x"' for n in range(200)) + "} 1 2\n", "more than 128 labels"),
    ],
)
def test_what_is_no_exposition_is_told_with_its_line(text, told):
    assert any(told in one for one in fault(text)), fault(text)


def test_several_faults_are_told_at_once_but_not_a_thousand():
    assert len(fault("a x 1\n" * 3)) == 3
    assert len(fault("a x 1\n" * 1000)) == openmetrics.MAX_FAULTS


def test_a_faulty_line_among_good_ones_is_found(monkeypatch):
    monkeypatch.setattr(openmetrics, "CHUNK", 100)
    lines = [f'a{{b="{n % 7}"}} {n} {n}' for n in range(1000)]
    lines[777] += "x"
    assert fault("\n".join(lines) + "\n")[0].startswith("page:778: found '777x' for a number")


def test_an_endless_line_is_refused_early():
    class Endless:
        def read(self, size):
            return b"x" * size

    with pytest.raises(InputError, match="a line without end"):
        openmetrics.read(Endless(), "page", Seen())


def test_too_many_series_are_refused(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_SERIES", "10")
    assert "found more than 10 series" in fault("".join(f"a{n} 1 2\n" for n in range(12)))[0]


def test_too_many_samples_are_refused(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_SAMPLES", "10")
    assert "found more than 10 samples" in fault("a 1 2\n" * 12)[0]


def test_a_series_is_asked_for_once_over_all_pages_and_unwanted_ones_cost_no_sample():
    asked = []

    def known(name, labels):
        asked.append(name)
        return [SeriesTarget(5, 10.0)] if name == "a" else []

    reader = ExpositionReader(known)
    for time in (1.0, 2.0):
        block = reader.read(io.BytesIO(b'a 1\nb 2\nc{d="e f"} 3\n'), "page", time)
        assert (block.series.tolist(), block.value.tolist(), block.time.tolist()) == ([5], [10.0], [time])
    assert asked == ["a", "b", "c"]


def test_a_series_may_serve_several_targets():
    block = openmetrics.read(io.BytesIO(b"a 2 1\na 3 2\n"), "page", lambda *_: [SeriesTarget(0), SeriesTarget(4, 8.0)])
    assert sorted(zip(block.series.tolist(), block.value.tolist(), strict=True)) == [(0, 2), (0, 3), (4, 16), (4, 24)]


@pytest.mark.parametrize("value", ["9223372036854775794", "2147483632", "140737488355328"])
def test_a_blank_of_dcgm_is_a_gap(value):
    text = f"a {value} 1\n".encode()
    assert math.isnan(
        openmetrics.read(io.BytesIO(text), "page", lambda *_: [SeriesTarget(0, 1.0, has_blanks=True)]).value[0]
    )
    assert openmetrics.read(io.BytesIO(text), "page", lambda *_: [SeriesTarget(0)]).value[0] == float(value)


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: name != "__name__")
label_values = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\n {}#,='), max_size=12)
labels = st.dictionaries(label_names, label_values, max_size=4)
numbers = st.floats(allow_nan=False) | st.integers(-(2**53), 2**53).map(float)
rows = st.lists(st.tuples(names, labels, numbers, st.integers(0, 10**12)), min_size=1, max_size=12)


@given(rows, st.integers(1, 400))
def test_what_is_printed_is_read_back_however_it_is_cut_into_blocks(table, chunk):
    text = "".join(f"{format_series(name, given)} {value!r} {time / 1000!r}\n" for name, given, value, time in table)
    expected = sorted(
        (name, tuple(sorted((k, v) for k, v in given.items() if v)), repr(value), time / 1000)
        for name, given, value, time in table
    )
    whole = samples(text + "# EOF\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openmetrics, "CHUNK", chunk)
        cut = samples(text + "# EOF\n")
    assert whole == cut == expected


@given(st.binary(max_size=200) | st.text('a{}="\\ \n#,1.eE-+NaInf_:\t\rTYPEOF', max_size=120).map(str.encode))
@settings(max_examples=80, deadline=None)
def test_garbage_is_a_fault_or_harmless(text):
    try:
        samples(text, at=1.0)
    except InputError as error:
        faulty = error.problems
        assert {problem.file for problem in faulty} == {"page"}


def oracle(families, at=None):
    """What the reference client reads."""
    found = []
    for family in families:
        for one in family.samples:
            given = tuple(sorted((k, v) for k, v in one.labels.items() if v))
            time = at if one.timestamp is None else round(float(one.timestamp), 9)
            found.append((one.name, given, repr(float(one.value)), time))
    return sorted(found)


def test_the_cases_of_the_standard_are_read_as_the_reference_client_does(shared):
    for text in (shared / "data/openmetrics-parsers/cases.jsonl").read_text().splitlines():
        case = json.loads(text)
        data = base64.b64decode(case["input_b64"])
        # Of samples with one time the client keeps the first, here all are kept; and no recording is of the year 4e11.
        if case["should_parse"] and not case["name"].startswith(("duplicate_timestamps", "timestamps")):
            assert samples(data, at=0.0) == oracle(parse_openmetrics(data.decode()), 0.0), case["name"]


# What the standard forbids and a reader of telemetry forgives: the order and agreement of metadata, how samples relate
# to their type and to each other, blanks, a comma too many, the length of exemplars, and a missing end.
FORGIVEN = (
    "bad_blank_line",
    "bad_clashing_names",
    "bad_counter_values",
    "bad_exemplar",
    "bad_grouping_or_ordering",
    "bad_help",
    "bad_histograms",
    "bad_info_and_stateset_values",
    "bad_metadata",
    "bad_missing_or_extra_commas_2",
    "bad_missing_or_invalid_labels_for_a_type",
    "bad_no_eof",
    "bad_repeated_metadata",
    "bad_stateset_info_values",
    "bad_type_6",
    "bad_type_7",
    "bad_unit",
    "bad_value_1",
    "bad_value_2",
    "bad_value_3",
)


def test_what_the_standard_forbids_is_refused_but_for_what_needs_no_single_line(shared):
    passed = []
    for text in (shared / "data/openmetrics-parsers/cases.jsonl").read_text().splitlines():
        case = json.loads(text)
        try:
            samples(base64.b64decode(case["input_b64"]), at=0.0)
        except InputError:
            continue
        passed += [case["name"]] * (not case["should_parse"])
    assert [name for name in passed if not name.startswith(FORGIVEN)] == []
    assert [prefix for prefix in FORGIVEN if not any(name.startswith(prefix) for name in passed)] == []


@pytest.mark.parametrize("folder", ["fixtures", "data/promtool-rules/textparse"])
def test_pages_of_real_exporters_are_read_as_the_reference_client_does(shared, folder):
    pages = [p for p in sorted((shared / folder).rglob("*")) if p.suffix in (".prom", ".metrics", ".txt")]
    compared = 0
    for page in pages:
        text = page.read_text(errors="replace")
        if not text.startswith("# ") or page.name == "readme_blank_memory_temp.prom":
            continue
        try:
            expected = oracle(parse_text(text), 0.0)
        except ValueError:
            continue
        if any(time for *_, time in expected) or not expected:
            continue
        # The client writes _total behind every counter's name, whatever the page says.
        bare = [
            sorted((name.removesuffix("_total"), *rest) for name, *rest in rows)
            for rows in (samples(text, 0.0), expected)
        ]
        assert bare[0] == bare[1], page
        compared += 1
    assert compared


def test_series_are_listed_without_their_samples():
    text = b"""# TYPE a counter
a_total{x="1 } # {",y="\\"}"} 1 1750000000
a_total{x="1 } # {",y="\\"}"} 2 1750000001
b_bucket{le="1"} 3 1750000000 # {trace="t"} 0.5
c 1 1750000000
broken{ 1 2
# EOF
"""
    found = list(openmetrics.list_series(io.BytesIO(text), "text"))
    assert found == [
        ("a_total", (("x", "1 } # {"), ("y", '"}'))),
        ("b_bucket", (("le", "1"),)),
        ("c", ()),
    ]
