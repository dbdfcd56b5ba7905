"""Pictures of a whole fleet: the timeline of incidents, a storm, all nodes, the worst members, where ranks stopped."""

import time
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from skewscope.adapters.view.snapshot import SeriesIndex, SeriesInfo, SignalView, ViewFrame, ViewSnapshot
from skewscope.engine.model.incident import Explanation
from skewscope.engine.model.topology import Node, Topology
from skewscope.tui.render.cell_picture import picture_lines
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.heat_map import HeatMapBuilder
from skewscope.tui.render.html_report import HtmlReportData, render_html
from skewscope.tui.render.incident_timeline import build_timeline, timeline_lines, timeline_svg
from skewscope.tui.render.members_over_time import worst_members
from skewscope.tui.render.node_grid import node_grid
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.rank_stops import find_rank_stops, stop_lines
from skewscope.tui.render.report import report_lines
from skewscope.tui.render.storm import build_storm, is_storm, storm_lines
from skewscope.tui.render.text import line_width, to_plain_text
from tests.tui.render import test_evidence_series as hang
from tests.tui.samples import ROOT, T0, catalogue, film, outcome

NAMES = DisplayNames(catalogue())


# --- the timeline


def over(begin, end, name="n2", **more):
    """An incident between two times after T0."""
    times = {"opened_at": T0 + begin, "resolved_at": None if end is None else T0 + end, "history": ()}
    return replace(
        ROOT, id=f"{name}-{begin}", name=name, state="firing" if end is None else "resolved", **times, **more
    )


LENGTHS = (
    over(10, 40),
    over(60, 80, "n5", severity="warning"),
    over(30, 70, "A", severity="info", kind="replica"),
    over(95, None, "n7"),
    over(12, 38, "n3", explained_by=Explanation("n2-10", "caused")),
    over(-50, -10, "n1"),
)


@pytest.mark.parametrize("columns", [80, 160])
def test_incidents_are_lengths_with_names(golden, columns):
    timeline = build_timeline(LENGTHS, T0, T0 + 100, NAMES)
    golden(f"timeline_{columns}", to_plain_text(timeline_lines(timeline, columns, T0 + 50)))


def test_only_roots_within_the_span_are_lengths():
    timeline = build_timeline(LENGTHS, T0, T0 + 100, NAMES)
    assert [one.id for one in timeline.lengths] == ["n2-10", "A-30", "n5-60", "n7-95"]
    assert [one.lane for one in timeline.lengths] == [0, 1, 0, 0]


@pytest.mark.parametrize("columns", [1, 20, 25, 40, 220])
def test_a_timeline_is_never_wider_than_the_screen(columns):
    many = tuple(over(n, n + 2, f"n{n}") for n in range(-3, 110))
    lines = timeline_lines(build_timeline(many, T0, T0 + 100, NAMES), columns, T0 + 3)
    assert all(line_width(each) <= columns for each in lines)


def test_the_drawn_timeline_is_valid_and_links():
    hostile = replace(LENGTHS[0], id="'><b>", name="<b>&")
    drawn = ET.fromstring(timeline_svg(build_timeline((hostile, *LENGTHS), T0, T0 + 100, NAMES)))
    assert [each.get("href") for each in drawn.iter("a")][-1] == "#n7-95"
    assert timeline_svg(build_timeline((), T0, T0 + 100, NAMES)) == ""


# --- a storm


def storm():
    """9,000 ports at once, twelve jobs, a few symptoms."""
    ports = [
        replace(
            ROOT,
            id=f"p{n}",
            condition="nic-failure-hang",
            kind="port",
            name=f"n{n}/rail3",
            opened_at=T0 + 1000 + n % 15,
            history=(),
            also=(),
        )
        for n in range(900)
    ]
    jobs = [
        replace(
            ROOT,
            id=f"j{n}",
            condition="tp-straggler",
            severity="warning",
            name=f"r{n}",
            opened_at=T0 + 60 * n,
            history=(),
            explained_by=Explanation("p0", "caused") if n < 6 else None,
        )
        for n in range(12)
    ]
    return (*ports, *jobs, *(replace(one, id=f"x{one.id}", state="resolved") for one in jobs))


def test_a_storm_is_shown_by_cause(golden):
    assert is_storm(storm())
    assert not is_storm(storm()[-30:])
    golden("storm_100", to_plain_text(storm_lines(build_storm(storm()), NAMES, 100, 20)))


def test_a_storm_fits_its_place():
    many = tuple(replace(ROOT, id=str(n), condition=f"c{n}") for n in range(100))
    lines = storm_lines(build_storm(many), NAMES, 60, 12)
    assert len(lines) <= 12
    assert "more causes" in to_plain_text(lines)
    assert all(line_width(each) <= 60 for each in lines)


def test_ten_thousand_incidents_take_no_time():
    many = tuple(replace(ROOT, id=str(n), opened_at=T0 + n, history=()) for n in range(10_000))
    began = time.process_time()
    storm_lines(build_storm(many), NAMES, 120, 20)
    assert time.process_time() - began < 2  # 0.1 s on an idle core


# --- all nodes


def fleet(count):
    """A view of many nodes with one series each; node 4,321 is far from the others, node 77 has no data."""
    nodes = tuple(Node(f"h{n:04d}") for n in range(count))
    infos = tuple(SeriesInfo("job.step_time", "node", node.name, "", "s", 0) for node in nodes)
    frames = []
    for t in range(60):
        value = np.full(count, 1.0, np.float32) + (np.arange(count) % 7) * np.float32(0.002)
        value[4321 % count] = 9.9 if t > 40 else 1.0
        value[77 % count] = np.nan
        one, spread = np.ones(count, np.float32), np.full(count, 0.05, np.float32)
        frames.append(ViewFrame(T0 + t, value, one, spread, one, spread, one * 0, np.isnan(value)))
    topology = Topology(nodes)
    hit = replace(ROOT, kind="node", name=nodes[4321 % count].name, also=(), history=())
    view = SignalView(SeriesIndex(infos), frames)
    return ViewSnapshot(T0 + 59, T0, T0 + 59, topology, (hit,), signals=view)


def grid_lines(count, columns):
    snapshot = fleet(count)
    heat_map = HeatMapBuilder(NodeLookup(snapshot.topology)).build(snapshot)
    return picture_lines(node_grid(heat_map, columns), columns)


def test_five_thousand_nodes_are_on_one_screen(golden):
    lines = grid_lines(5000, 160)
    assert len(lines) <= 36
    text = to_plain_text(lines)
    assert text.count("█") == 2  # one in the legend
    assert text.count("?") == 1
    assert "▶ h4" in text
    golden("grid_160", text)


@pytest.mark.parametrize(("count", "columns"), [(1, 80), (8, 80), (300, 60), (5000, 20)])
def test_a_grid_is_never_wider_than_the_screen(count, columns):
    assert all(line_width(each) <= columns for each in grid_lines(count, columns))


def test_the_worst_members_of_many_are_named(golden):
    found = worst_members(fleet(5000), "job.step_time", 3)
    assert found.labels[0].name == "h4321"
    assert found.labels[-1].name == "4,997 others"
    golden("worst_100", to_plain_text(picture_lines(found, 100)))


def test_without_members_or_outliers_there_are_no_worst_ones():
    calm = film((), live=True)
    snapshot = calm.snapshot(10)
    assert worst_members(snapshot, "wire.onset_lag") is None
    assert worst_members(snapshot, "serve.waiting") is None
    assert worst_members(snapshot, "no.such") is None


# --- a hang


def test_who_is_behind_is_marked(golden):
    snapshot = hang.snapshot()
    found = find_rank_stops(hang.incident(-9.0), snapshot, NodeLookup(snapshot.topology))
    behind = {(one.group, one.member): one.behind for one in found.stops if one.behind}
    assert behind == {("A", "r2"): 2.0, ("B", "r2"): 9.0}
    assert found.since == 100.0
    golden("stops_80", to_plain_text(stop_lines(found, 80)))
    # The group of the evidence comes first, and the others are counted by whether somebody is behind.
    first = to_plain_text(stop_lines(replace(found, group="A"), 80, 1)).splitlines()
    assert first[1].startswith(" A")
    assert first[2] == "   and 1 more group, 1 of them with somebody behind"


def test_rates_are_no_counts():
    history = film()
    snapshot = history.snapshot(len(history.times()) - 1)
    assert find_rank_stops(ROOT, snapshot, NodeLookup(snapshot.topology)) is None


def test_a_page_of_a_hang_says_where_each_rank_stopped():
    snapshot = hang.snapshot()
    one = hang.incident(-9.0)
    page = render_html(
        HtmlReportData("x", replace(snapshot, incidents=(one,)), NAMES, (("1 diagnosis", "warn"),), "", ())
    )
    assert "where each rank stopped" in page
    assert "r2 3,421, 9 behind" in page


def test_a_report_of_a_storm_says_its_causes_first():
    lines = to_plain_text(report_lines("x", outcome(storm()), NAMES, 100)).splitlines()
    assert any(each.startswith(" 912 open · 2 causes") for each in lines[:8])


def test_a_time_whose_incidents_are_all_explained_by_one_out_of_sight_has_an_empty_lane():
    timeline = build_timeline((over(12, 38, "n3", explained_by=Explanation("n2-10", "caused")),), T0, T0 + 100, NAMES)
    assert len(timeline_lines(timeline, 80)) == 1
