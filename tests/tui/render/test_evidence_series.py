"""Which series stands behind a piece of evidence, and what its chart shows."""

from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.view.builder import ViewHistory
from skewscope.adapters.view.snapshot import SeriesIndex, SeriesInfo, SignalView, ViewFrame, ViewSnapshot
from skewscope.engine.model.incident import IncidentEvidence
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.evidence_series import list_series
from skewscope.tui.render.html_report import HtmlReportData, render_html
from skewscope.tui.render.incident_lead import lead_sections
from skewscope.tui.render.node_lookup import NodeLookup
from tests.tui.samples import ROOT

BEHIND = (
    "maximum(by, 30*s) < 0 or done < 0 "
    "where by = peer_excess(reading(nccl.coll_seq)); done = peer_excess(nccl.coll_done)"
)
TOPOLOGY = parse_valid_topology(
    parse("""
version: 1
nodes: [{name: r0}, {name: r1}, {name: r2}]
groups:
  - {name: A, kind: data-parallel, members: [r0, r1, r2]}
  - {name: B, kind: data-parallel, members: [r0, r1, r2]}
""")
)
VALUES = {
    ("nccl.coll_seq", "A"): (500.0, 500.0, 498.0),
    ("nccl.coll_seq", "B"): (3430.0, 3430.0, 3421.0),
    ("nccl.coll_done", "A"): (490.0, 490.0, 485.0),
}


def snapshot():
    """A view of counters that stand still; rank r2 is behind."""
    infos = [
        SeriesInfo(signal, "rank", f"{group}:r{n}", "", "1", number)
        for number, (signal, group) in enumerate(VALUES)
        for n in range(3)
    ]
    value = np.array([each for values in VALUES.values() for each in values], np.float32)
    median = np.array([values[0] for values in VALUES.values() for _ in values], np.float32)
    zero = np.zeros(len(infos), np.float32)
    frames = [ViewFrame(100.0 + t, value, value, zero, median, zero, zero, zero > 0) for t in range(5)]
    return ViewSnapshot(104.0, 100.0, 104.0, TOPOLOGY, signals=SignalView(SeriesIndex(tuple(infos)), frames))


def incident(behind_by):
    items = (
        IncidentEvidence("begins_none", "yes", 3.0, 0.0, "1/s", "rate(nccl.coll_seq, 60*s) <= 0"),
        IncidentEvidence("is_behind", "yes", 3.0, behind_by, "1", BEHIND),
        IncidentEvidence("at_work", "yes", 2.0, None, "1/s", "rate(nccl.coll_seq, 300*s) > 0.05"),
    )
    return replace(ROOT, kind="rank", name="r2", opened_at=101.0, evidence=items, against=())


@pytest.mark.parametrize(
    ("behind_by", "signal", "entity"),
    [(-2.0, "nccl.coll_seq", "A:r2"), (-9.0, "nccl.coll_seq", "B:r2"), (-5.0, "nccl.coll_done", "A:r2")],
)
def test_a_difference_from_peers_is_shown_by_the_series_that_has_it(behind_by, signal, entity):
    item, one = list_series(incident(behind_by), snapshot(), NodeLookup(TOPOLOGY))[0]
    assert (item.name, one.signal, one.entity) == ("is_behind", signal, entity)


def test_a_difference_that_no_series_has_leaves_the_best_series():
    shown = list_series(incident(-100.0), snapshot(), NodeLookup(TOPOLOGY))
    assert [one.signal for _, one in shown] == ["nccl.coll_seq"]


def test_the_chart_of_a_counters_readings_shows_small_differences_and_no_value_is_not_called_unknown():
    one = incident(-9.0)
    names = DisplayNames(catalogue(), (one,))
    html = render_html(HtmlReportData("x", replace(snapshot(), incidents=(one,)), names, (("", ""),), "", ()))
    assert "is behind: nccl.coll_seq of B:r2, beside 2 peers" in html
    assert ">3,421<" in html
    seen = next(section for section in lead_sections(one, names) if section.label == "why")
    assert "".join(text for line in seen.items for text, _ in line) == "begins none (0 per s), is behind (−9), at work"


@pytest.mark.parametrize(("count", "shown"), [(1.0, False), (3.0, True)])
def test_a_message_that_came_once_is_said_once(count, shown):
    item = IncidentEvidence("it fell off the bus", "yes", 1.0, count, "{event}", "event.gpu_lost")
    one = replace(ROOT, summary="r2: it fell off the bus.", evidence=(item,), against=())
    (why,) = [part.items for part in lead_sections(one, DisplayNames(catalogue(), (one,))) if part.label == "why"]
    assert ("3 events" in str(why[1:])) == shown


def test_counters_whose_readings_rules_compare_are_shown_as_they_are(tmp_path):
    names = {"skewscope_nccl_coll_seq": 7, "skewscope_step_count": 0}
    rows = dict.fromkeys(names, "")
    for t in range(20):
        for rank in range(2):
            for name, base in names.items():
                rows[name] += (
                    f'{name}_total{{node="n{rank}",group="A",rank="{rank}"}} {base + 2 * t} {1750000000 + t}\n'
                )
    (tmp_path / "a.om").write_text("".join(f"# TYPE {n} counter\n{text}" for n, text in rows.items()) + "# EOF\n")
    history = ViewHistory()
    replay(draft_recording([tmp_path / "a.om"]).recording, history=history)
    signals = history.snapshot(10**6).signals
    (row, *_) = signals.series_index.by_signal["nccl.coll_seq"]
    assert signals.series_index.series[row].unit == "1"
    assert signals.history(np.array([row]))[0][-3:].tolist() == [41.0, 43.0, 45.0]
