import numpy as np
import pytest

from skewscope.adapters.formats.openmetrics_grammar import format_series
from skewscope.adapters.inputs.prometheus_pages import parse_page_time
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.problems import InputError
from tests.support.telemetry import catalogue, record

PAGES = [{"kind": "prometheus-pages", "path": "pages", "labels": {"node": "n0"}}]


def loaded(folder, files):
    path = record(folder, PAGES, {f"pages/{name}": data for name, data in files.items()})
    return load(open_recording(path), catalogue())


def test_each_page_is_a_scrape_at_the_time_of_its_name(tmp_path):
    found = loaded(
        tmp_path,
        {
            "1795177355.5.prom": "# TYPE node_netstat_Tcp_RetransSegs untyped\nnode_netstat_Tcp_RetransSegs 7\n",
            "1795177354.075.prom": "node_netstat_Tcp_RetransSegs 5\ngo_goroutines 3\n",
            ".hidden": "no page at all",
        },
    )
    assert found.table.keys == [SeriesKey("host.retrans", "node", "n0")]
    assert found.block.time.tolist() == [1795177354.075, 1795177355.5]
    assert found.block.value.tolist() == [5, 7]
    assert (found.start, found.end) == (1795177354.075, 1795177355.5)
    assert [(each.metric, each.count) for each in found.unmapped] == [("go_goroutines", 1)]


def test_a_line_with_its_own_time_keeps_it_and_a_page_may_be_empty(tmp_path):
    found = loaded(tmp_path, {"10.prom": "node_netstat_Tcp_RetransSegs 5 9500\n", "11.prom": "", "12": "\n"})
    assert found.block.time.tolist() == [9500]


def test_infinity_is_a_gap(tmp_path):
    found = loaded(tmp_path, {"10.prom": "node_netstat_Tcp_RetransSegs +Inf\n"})
    assert np.isnan(found.block.value).tolist() == [True]


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("1795177354.075.prom", 1795177354.075),
        ("1795177354.prom", 1795177354.0),
        ("1795177354.075", 1795177354.075),
        ("1795177354", 1795177354.0),
        ("1795177354.075.prom.zst", 1795177354.075),
        ("1795177354075.prom", 1795177354.075),
        ("page.prom", None),
        ("-1.prom", None),
        ("1e9.prom", None),
        ("١٢.prom", None),
        ("1" * 400, None),
        ("nan", None),
    ],
)
def test_a_pages_name_is_its_time(name, time):
    assert parse_page_time(name) == time


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"10.prom": "a 1\n", "latest.prom": "a 1\n"},
            "pages/latest.prom: found the name 'latest.prom', expected one such as 1795177354.075.prom.",
        ),
        ({"10.prom": "a 1\n", "10.txt": "a 1\n"}, "pages/10.txt: found a second page of 10.0"),
        ({"10.prom": "a 1\nb x\n"}, "pages/10.prom:2: found 'x' for a number"),
        ({"10.prom": "<html>\n"}, "This looks like a web page"),
        ({"10.prom.gz": "a 1\n"}, "pages/10.prom.gz"),
        ({"10.prom/a": "a 1\n"}, "pages/10.prom"),
    ],
)
def test_what_is_no_page_is_told_with_its_file(tmp_path, files, told):
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, files)
    assert told in str(caught.value)


def test_faults_of_several_pages_are_told_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, {"10.prom": "a x\n", "11.prom": "b 1\n", "12.prom": "c x\n"})
    assert len(caught.value.problems) == 2


def test_a_page_that_links_out_of_the_recording_is_refused(tmp_path):
    outside = tmp_path / "secret"
    outside.write_text("a 1\n")
    path = record(tmp_path / "rec", PAGES, {"pages/10.prom": "a 1\n"})
    (path / "pages/11.prom").symlink_to(outside)
    with pytest.raises(InputError, match="a link that leads out of the folder"):
        load(open_recording(path), catalogue())


def test_pages_and_a_dump_of_them_are_the_same_samples(tmp_path):
    def lines(time, shown, **labels):
        texts = [format_series("node_cpu_seconds_total", {"cpu": str(n), "mode": "user", **labels}) for n in range(3)]
        return "".join(f"{text} {time * 2}{shown}\n" for text in texts)

    pages = {f"{t}.prom": lines(t, "") for t in range(10, 20)}
    dump = "".join(lines(t, f" {t}", node="n0") for t in range(10, 20))
    first = loaded(tmp_path / "pages", pages)
    path = record(tmp_path / "dump", [{"kind": "openmetrics", "path": "m.om"}], {"m.om": dump + "# EOF\n"})
    second = load(open_recording(path), catalogue())
    assert first.table.keys == second.table.keys
    for column in ("time", "series", "value"):
        assert np.array_equal(getattr(first.block, column), getattr(second.block, column))
