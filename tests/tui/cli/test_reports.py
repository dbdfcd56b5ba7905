"""What is told besides the console: a line for each change, a page for a ticket, the keys, the ledger, a plan."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from skewscope.engine.model.incident import Advice
from skewscope.engine.model.topology import Pool
from skewscope.kb.problems import InputError
from skewscope.tui.cli.main import cli
from skewscope.tui.console import keymap, operator_log
from skewscope.tui.render import charts, mitigation_plan
from skewscope.tui.render.charts import Curve
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.html_report import HtmlReportData, render_html
from skewscope.tui.render.peer_matrix import build_peer_matrix
from skewscope.tui.render.text import line_width, to_plain_text
from skewscope.tui.render.view_changes import diff_snapshots
from tests.tui.samples import (
    CHILD,
    ENDED,
    INCIDENTS,
    ROOT,
    SOURCES,
    T0,
    TOPOLOGY,
    catalogue,
    empty,
    film,
    scene,
    snapshot,
)

WORDS = DisplayNames(catalogue(), INCIDENTS)
DOCS = Path(__file__).parents[3] / "docs"


def told(before, after):
    return [c.to_line().split(" ", 1)[1] for c in diff_snapshots(before and scene(before), scene(after), WORDS)]


def test_a_line_for_each_change():
    first = told(None, snapshot(50, (ROOT, CHILD)))
    assert first[0] == (
        "opened: critical, Tensor-parallel straggler on rank n2, 94 % sure, wire.round_rate −38 %, "
        "do: Drain the rank [tp-straggler@n2#1]"
    )
    assert first[2].startswith("explained: Pipeline bubble on group B, by Tensor-parallel straggler on rank n2")
    assert not told(snapshot(50, INCIDENTS), snapshot(51, INCIDENTS))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"state": "resolved", "resolved_at": T0 + 60}, "resolved"),
        ({"severity": "info"}, "severity"),
        ({"name": "n3"}, "moved"),
        ({"explained_by": CHILD.id}, "explained"),
        ({"confidence": 0.2}, "less likely"),
    ],
)
def test_what_changes_is_named(change, what):
    lines = told(snapshot(50, (ROOT,)), snapshot(60, (replace(ROOT, **change),)))
    assert [each.split(":")[0] for each in lines] == [what]


def test_what_fires_again_and_who_falls_silent_is_told():
    assert told(snapshot(50, (ENDED,)), snapshot(51, (replace(ENDED, state="firing"),)))[0].startswith("reopened: ")
    before, after = snapshot(50), replace(snapshot(51), sources=(replace(SOURCES[1], reporting=3), *SOURCES[2:]))
    assert told(before, after) == ["silent: node telemetry: 3 of 8 nodes"]


def the_page(incidents=INCIDENTS):
    last = film(incidents).snapshot(99)
    return render_html(
        HtmlReportData(
            "tp", last, DisplayNames(catalogue(), incidents), (("1 diagnosis", "warn"),), "Watched", ("No packets.",)
        )
    )


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_has_its_pictures_inside_and_nothing_from_elsewhere():
    html = the_page()
    tags = Tags()
    tags.feed(html)
    assert [attrs["aria-label"] for tag, attrs in tags.seen if tag == "svg"]
    assert not re.search(r"https?://|<script|@import|url\(", html)
    assert {"Tensor-parallel straggler on rank n2", "No packets."} <= set(re.findall(r">([^<>]+)<", html)) | {
        "No packets."
    }
    targets = [attrs["href"][1:] for tag, attrs in tags.seen if tag == "a"]
    assert set(targets) <= {attrs.get("id") for _, attrs in tags.seen}


def test_a_hostile_name_stays_text_on_the_page():
    html = the_page((replace(ROOT, name="<script>alert(1)</script>\x1b[2J"),))
    assert "<script" not in html
    assert "\x1b" not in html


def test_commands_write_lines_and_pages(tmp_path, brief):
    run, page = CliRunner().invoke, tmp_path / "r.html"
    lines = run(cli, ["watch", "--json", str(brief)])
    assert lines.exit_code == 1
    assert "opened" in {json.loads(each)["what"] for each in lines.output.splitlines()}
    assert run(cli, ["report", "--html", "-o", str(page), str(brief)]).exit_code == 1
    assert page.read_text().startswith("<!doctype html>")


# --- keys


def test_no_key_does_two_things():
    keys = [key for entry in keymap.KEYS for key in entry.keys]
    assert len(keys) == len(set(keys))
    assert len({entry.id for entry in keymap.KEYS}) == len(keymap.KEYS)


def test_the_page_of_keys_is_up_to_date():
    assert (DOCS / "keys.md").read_text() == keymap.to_markdown(), "run skewscope keys --markdown > docs/keys.md"


@pytest.mark.parametrize("name", ["diagnoses", "fabric", "signals", "catalogue", "actions"])
@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_the_footer_fits_and_ends_with_help(name, columns):
    footer = keymap.footer_line(keymap.KEYS, name, columns)
    assert line_width(footer) <= columns
    if columns >= 80:
        assert "? keys" in to_plain_text([footer])
        assert "q quit" in to_plain_text([footer])


def keys(tmp_path, text):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    return {key.id: key for key in keymap.load_keys(file)}


def test_a_file_changes_keys(tmp_path):
    found = keys(tmp_path, '[keys]\nfold = "F"\ndown = ["n", "down"]\nsnooze = "N"\n')
    assert found["fold"].keys == ("F",)
    assert found["down"].textual_keys == "n,down"
    assert found["up"].keys == ("k", "up")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[keys", "invalid TOML"),
        ('[keys]\nfoldd = "F"', "fold"),
        ("[keys]\nfold = 3", "a key or a list"),
        ('[keys]\nfold = "much"', "a key or a list"),
        ('[keys]\nfold = "j"', "each key assigned once"),
        ('[colours]\nfold = "F"', "only [keys]"),
        ("keys = 3", "[keys] and lines"),
    ],
)
def test_what_is_wrong_with_a_file_of_keys_is_said(tmp_path, text, said):
    with pytest.raises(InputError, match=re.escape(said)):
        keys(tmp_path, text)


# --- ledger


def test_a_ledger_is_read_back_and_what_is_no_entry_is_passed_over(tmp_path):
    file = tmp_path / "ledger.jsonl"
    kept = operator_log.OperatorLog(file)
    kept.add(operator_log.OperatorLogEntry(T0 + 30, "eva", "acknowledged", ROOT.id))
    with file.open("a") as more:
        more.write('nonsense\n{"time": 1}\n[]\n')
    found = operator_log.read_log(file)
    assert found.entries == kept.entries
    assert "3 invalid lines" in found.fault
    assert operator_log.read_log(tmp_path / "none.jsonl").entries == ()


def test_a_snooze_ends_by_itself():
    kept = operator_log.OperatorLog()
    kept.add(operator_log.OperatorLogEntry(T0, "eva", "snoozed", ROOT.id, T0 + 60))
    assert kept.triage_state(ROOT, T0 + 30).state == "snoozed"
    assert not kept.triage_state(ROOT, T0 + 60).state
    assert not kept.triage_state(CHILD, T0 + 30).state
    assert not kept.triage_state(ROOT, T0 - 1).state


# --- plan


@pytest.mark.parametrize(
    ("advice", "lines"),
    [
        ("quarantine-node", ["- tensor-parallel A: n0 n1 n2 n3", "+ tensor-parallel A: n0 n1 n3"]),
        ("unheard-of", ["no change of the topology"]),
    ],
)
def test_a_plan_is_a_diff_of_what_the_topology_tells(advice, lines):
    shown = to_plain_text(mitigation_plan.diff_lines(ROOT, Advice(advice, "scheduler", ""), TOPOLOGY))
    assert all(line in shown for line in lines)


def test_less_for_a_replica_is_more_for_the_others():
    pool = replace(TOPOLOGY, pools=(Pool("p", ("A", "B")),))
    shown = to_plain_text(
        mitigation_plan.diff_lines(
            replace(ROOT, kind="replica", name="A"), Advice("deweight-replica", "router", ""), pool
        )
    )
    assert "- pool p: A 50 %, B 50 %" in shown
    assert "+ pool p: A 33 %, B 67 %" in shown


# --- pictures


def test_a_sparkline_shows_gaps_and_stands_still_where_nothing_moves():
    assert charts.sparkline(np.array([0.0, 7.0, np.nan, 3.5]), 4) == "▁█ ▅"
    assert charts.sparkline(np.array([5.0, 5.001]), 4) == "  ▁▁"
    assert charts.sparkline(np.array([np.nan]), 3) == "   "
    assert charts.sparkline(np.array([]), 2) == "  "


@pytest.mark.parametrize("values", [[], [np.nan, np.nan], [1.0], [0.0, 0.0], [1e-12, 1e300], [-5.0, np.nan, 5.0]])
@pytest.mark.parametrize("draw", [charts.braille_chart, charts.ascii_chart])
def test_charts_fit_whatever_is_drawn(values, draw):
    rows = draw([Curve(np.array(values), "dim"), Curve(np.array([1.0, 2.0]), "crit")], 20, 5)
    assert len(rows) == 5
    assert all(line_width(row) <= 20 for row in rows)


def test_a_rising_line_rises():
    rows = to_plain_text(charts.braille_chart([Curve(np.arange(40.0), "")], 20, 5)).splitlines()
    assert rows[0].strip()
    assert rows[-1].strip()
    assert rows[0].index(rows[0].strip()[0]) > rows[-1].index(rows[-1].strip()[0])


# --- matrix


def test_a_matrix_tells_who_is_what_to_whom():
    found = build_peer_matrix(film().snapshot(99), TOPOLOGY.groups[0], 0)
    assert (found.signal, found.unit, found.members) == ("wire.peer_bytes", "By", ("n0", "n1", "n2", "n3"))
    assert np.isnan(found.values.diagonal()).all()
    assert to_plain_text([found.pair_line(0, 1)]).startswith("n0 sees of n1: wire.peer_bytes 6.5 MB")
    assert not found.pair_line(1, 1)
    cells = found.values.copy()
    cells[0, 1] = 1e6
    odd = replace(found, values=cells)
    roles = {role for n in range(4) for _, role in odd.row_line(n, 10, 80, (3, 3))}
    assert "crit" in roles
    assert "crit" not in {role for n in range(4) for _, role in found.row_line(n, 10, 80, (3, 3))}


def test_without_series_between_members_a_matrix_is_unknown():
    assert build_peer_matrix(empty().snapshot(0), TOPOLOGY.groups[0], 3).signal == ""
    assert build_peer_matrix(empty().snapshot(0), None, 0).members == ()
    assert "?" in to_plain_text(
        [build_peer_matrix(empty().snapshot(0), TOPOLOGY.groups[0], 0).row_line(0, 10, 60, (0, 0))]
    )
