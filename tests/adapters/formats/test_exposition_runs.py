"""Runs of lines of one series are skipped, and no key of another series with them."""

import io

from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats import exposition_runs
from skewscope.adapters.formats.exposition_runs import MIN_RUN, skip_runs
from skewscope.adapters.formats.openmetrics import list_series

KEYS = ("up", 'up{a="1"}', 'up{a="12"}', 'x{b="} # {"}', "upper", "# TYPE up gauge")
RUNS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 3 * MIN_RUN)), max_size=12)


def dump(runs, tail=""):
    return "".join(f"{key} {n} {1000 + n}{tail}\n" for key, count in runs for n in range(count))


@given(RUNS)
def test_the_series_are_those_of_all_lines(runs):
    text = dump(runs).encode()
    found = list(list_series(io.BytesIO(text), "x"))
    lines = list(dict.fromkeys(key for key, _ in runs if not key.startswith("#")))
    assert [name + "".join(f'{{{k}="{v}"}}' for k, v in labels) for name, labels in found] == lines


def test_most_lines_of_a_dump_are_skipped():
    text = dump([('a{b="1"}', 1000), ('a{b="2"}', 1000)]).removesuffix("\n").encode()
    parts = list(skip_runs(text))
    assert [key for key, _ in parts] == [b'a{b="1"}', b'a{b="2"}', b""]
    assert sum(len(lines) for _, lines in parts) < 2 * MIN_RUN


def test_a_line_of_another_series_inside_a_run_is_seen():
    text = dump([("a", 40)]).replace("a 20 ", "b 20 ")
    assert {name for name, _ in list_series(io.BytesIO(text.encode()), "x")} == {"a", "b"}


def test_exemplars_hide_no_series():
    runs = [('a_bucket{le="1"}', 3 * MIN_RUN), ('a_bucket{le="2"}', 3 * MIN_RUN)]
    text = dump(runs, ' # {trace="x"} 1').encode()
    assert [labels for _, labels in list_series(io.BytesIO(text), "x")] == [(("le", "1"),), (("le", "2"),)]
    mixed = dump(runs).encode().replace(b" 5 1005\n", b' 5 1005 # {trace="x"} 1\n')
    assert len(list(list_series(io.BytesIO(mixed), "x"))) == 2
    assert exposition_runs.EXEMPLAR_MARK in mixed
