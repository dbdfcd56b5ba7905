from dataclasses import replace

import pytest

from skewscope.tui.console.operator_log import TriageState
from skewscope.tui.console.player import Player, parse_time
from skewscope.tui.console.screen_layout import small_layout
from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.render import columns as columns_module
from skewscope.tui.render import detail, filter_query, incident_table, status
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import line_width, to_plain_text
from tests.tui.samples import CHILD, ENDED, INCIDENTS, ROOT, T0, catalogue

WORDS = DisplayNames(catalogue(), INCIDENTS)
NOW = T0 + 100
CELLS = incident_table.IncidentCellFormatter(WORDS, NOW, {})


def ids(rows):
    return [(row.incident.condition, row.depth) for row in rows]


def test_roots_come_first_with_what_they_explain_below_and_ended_ones_last():
    expected = [("tp-straggler", 0), ("pp-bubble", 1), ("burst-admission-backlog", 0)]
    assert (
        ids(incident_table.rank_incidents(INCIDENTS)) == ids(incident_table.rank_incidents(INCIDENTS[::-1])) == expected
    )


def test_folding_hides_what_is_explained_and_counts_it():
    assert [(r.incident.id, r.folded) for r in incident_table.rank_incidents(INCIDENTS, fold=True)] == [
        (ROOT.id, 1),
        (ENDED.id, 0),
    ]


def test_what_is_explained_by_something_unknown_or_by_itself_stands_alone():
    orphan, selfish = replace(CHILD, explained_by="gone"), replace(CHILD, id="x", explained_by="x")
    assert [row.depth for row in incident_table.rank_incidents([orphan, selfish])] == [0, 0]


def test_two_that_explain_each_other_are_both_shown():
    one, two = replace(ROOT, explained_by=CHILD.id), CHILD
    assert {row.incident.id for row in incident_table.rank_incidents([one, two])} == {ROOT.id, CHILD.id}


def test_more_impact_ranks_higher_at_equal_severity():
    small = replace(ROOT, id="a", impact=replace(ROOT.impact, change=-0.05))
    assert [row.incident.id for row in incident_table.rank_incidents([small, ROOT])] == [ROOT.id, "a"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", {"tp-straggler", "pp-bubble", "burst-admission-backlog"}),
        ("strag", {"tp-straggler"}),
        ("BUBBLE", {"pp-bubble"}),
        ("!bubble !burst", {"tp-straggler"}),
        ("sev>=critical", {"tp-straggler"}),
        ("sev<crit", {"pp-bubble", "burst-admission-backlog"}),
        ("sure>80", {"tp-straggler", "burst-admission-backlog"}),
        ("node:r3", {"burst-admission-backlog"}),
        ("state:firing !sev=warning", {"tp-straggler"}),
        ("state:snoozed", {"pp-bubble"}),
        ("kind:group", {"pp-bubble"}),
        ("for>1min", {"tp-straggler", "pp-bubble"}),
        ("flaps>1 or kind:group", {"tp-straggler", "pp-bubble", "burst-admission-backlog"} - {"tp-straggler"}),
        ("nothing-like-it", set()),
    ],
)
def test_filters_keep_what_they_say(text, kept):
    standing = {CHILD.id: TriageState("snoozed", "eva", NOW + 60)}
    found = filter_query.evaluate(
        filter_query.parse(text), incident_table.filter_table(INCIDENTS, WORDS, standing, NOW)
    )
    assert {i.condition for i, keep in zip(INCIDENTS, found.mask, strict=True) if keep} == kept
    assert not found.error


@pytest.mark.parametrize("columns", [60, 70, 80, 100, 120, 160, 200])
def test_columns_are_whole_and_rows_fit(columns):
    rows = incident_table.rank_incidents(INCIDENTS)
    chosen = incident_table.column_widths(rows, CELLS, columns - 1)
    titles = [column.title for column, _ in chosen]
    assert titles[:3] == ["", "condition", "where"]
    assert "sure" in titles
    for row in rows:
        shown = incident_table.row_line(row, chosen, CELLS)
        assert line_width(shown) <= columns
        impact = detail.format_impact_short(row.incident)[:8]
        assert "…" not in to_plain_text([shown]).replace(impact, "").split("%", 1)[0]
    assert line_width(columns_module.title_line(chosen)) <= columns


def test_wider_screens_never_lose_a_column():
    rows = incident_table.rank_incidents(INCIDENTS)
    counts = [len(incident_table.column_widths(rows, CELLS, columns)) for columns in range(60, 240)]
    assert counts == sorted(counts)
    assert counts[-1] == len(incident_table.COLUMNS)


@pytest.mark.parametrize("columns", [30, 60, 80, 120, 200])
def test_the_status_line_and_the_replay_bar_fit(columns):
    now = status.ConsoleStatus(INCIDENTS, "REPLAY", NOW, 0.4, 7, 8)
    assert line_width(status.status_line(now, columns)) <= columns
    position = status.ReplayPosition(T0, T0 + 100, NOW, playing=False, speed=64)
    assert line_width(status.replay_bar(position, [T0 + 5], columns)) <= columns


def test_the_status_line_tells_all_at_80_columns():
    shown = to_plain_text([status.status_line(status.ConsoleStatus(INCIDENTS, "REPLAY", NOW, 0.4, 7, 8), 80)])
    for word in ("1 Diagnoses", " 2 3 4 5", "✖ 1", "✓ 1", "REPLAY 12:20:28", "7/8", "lag 0.4 s", "read-only"):
        assert word in shown


@pytest.mark.parametrize(("age", "role"), [(0.4, ""), (11.0, "alarm"), (None, "alarm")])
def test_stale_data_looks_stale(age, role):
    spans = status.status_line(status.ConsoleStatus((), "REPLAY", NOW, age, 8, 8), 120)
    assert [r for words, r in spans if "lag" in words or "no data" in words] == [role]


@pytest.mark.parametrize(
    ("size", "kind"),
    [((80, 24), "full"), ((59, 24), "bare"), ((80, 15), "bare"), ((19, 24), "tiny"), ((80, 2), "tiny")],
)
def test_small_screens_get_a_list_and_smaller_ones_a_word(size, kind):
    found = small_layout(*size)
    assert (found.kind if found else "full") == kind


@pytest.mark.parametrize("lines", range(16, 60))
def test_the_list_leaves_room_for_the_detail(lines):
    page = ScreenModel(None)
    page.count = 1000
    assert 4 <= page.layout(80, lines).list_size <= lines - 10


def test_a_click_on_the_bar_means_the_mark_under_it():
    assert status.bar_share(0, 80) == 0
    assert status.bar_share(79, 80) == 1
    assert abs(status.bar_share(12 + 24, 80) - 0.5) < 0.02


# The detail.


@pytest.mark.parametrize("rows", range(3, 40))
def test_the_essence_fits_whatever_the_rows(rows):
    shown = detail.brief_lines(ROOT, WORDS, NOW, 78, rows)
    assert len(shown) <= max(rows, 3)
    assert all(line_width(row) <= 78 for row in shown)
    assert "why" in to_plain_text(shown)


def test_what_is_left_out_is_counted():
    assert "more" in to_plain_text(detail.brief_lines(ROOT, WORDS, NOW, 78, 10))
    assert "more" not in to_plain_text(detail.brief_lines(ROOT, WORDS, NOW, 78, 30))


def test_the_full_detail_says_why_why_not_and_what_to_do():
    shown = to_plain_text(detail.full_lines(ROOT, WORDS, NOW, 100))
    for words in (
        "Tensor-parallel straggler on rank n2",
        "94 % sure",
        "since 12:19:13 UTC, for 75 s",
        "12.4 ms",
        "(31 %): CNP",
        "no data for gpu.clock_ratio",
        "undo: put it back",
        "verify: wire.onset_lag falls",
        "Pipeline bubble on group B",
        "12:19:11  pending",
        "tp-straggler-on-the-wire",
        ROOT.id,
    ):
        assert words in shown
    assert "explained by Tensor-parallel straggler on rank n2" in to_plain_text(
        detail.full_lines(CHILD, WORDS, NOW, 100)
    )
    assert "reopened 2 times" in to_plain_text(detail.full_lines(ENDED, WORDS, NOW, 100))


def test_what_it_may_be_as_well_is_told_with_how_many_they_are():
    several = to_plain_text(
        detail.full_lines(replace(ROOT, candidates=("fabric-congestion", "unheard-of")), WORDS, NOW, 100)
    )
    assert "2 candidates without telemetry: Fabric congestion, unheard-of" in several
    apart = replace(ROOT, candidates=("unheard-of",), elsewhere=(("unheard-of", ("A", "B", "C", "D", "E")),))
    assert "telemetry: unheard-of (at A, B, C or elsewhere)" in to_plain_text(detail.full_lines(apart, WORDS, NOW, 100))
    assert "possibly" not in to_plain_text(detail.full_lines(ROOT, WORDS, NOW, 100))


def test_another_incident_is_named_in_the_history():
    told = replace(ENDED, history=((NOW, f"explained by {ROOT.id}"), (NOW, "a root again")))
    shown = to_plain_text(detail.full_lines(told, WORDS, NOW, 100))
    assert "explained by Tensor-parallel straggler on rank n2" in shown
    assert "a root again" in shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("mean(x, 2*s) > 12*percent * mean(y, 2*s)", "mean(x, 2s) > 12% * mean(y, 2s)"),
        ("x > 0.3 * wire.burst_bytes and y > 10*packets/s", "x > 0.3 * wire.burst_bytes and y > 10 packets/s"),
        ("0.67 * mean(x, 8*s) > 0.3*ms", "0.67 * mean(x, 8s) > 0.3ms"),
        ("p3*x > 4*bucket[a]", "p3*x > 4*bucket[a]"),
    ],
)
def test_quantities_of_an_expression_are_shown_as_people_write_them(written, shown):
    assert detail.format_expression(written) == shown


def test_the_state_is_shown_where_the_name_leaves_no_room_for_it():
    assert "critical · firing · 94 % sure" in to_plain_text(detail.brief_lines(ROOT, WORDS, NOW, 100, 10)[:1])
    narrow = detail.brief_lines(ROOT, WORDS, NOW, 60, 10)
    assert "critical" not in to_plain_text(narrow[:1])
    assert to_plain_text(narrow[1:2]).startswith("  critical · firing · 94 % sure · since")


def test_evidence_stands_where_its_verdict_puts_it():
    parts = {part.label: to_plain_text(part.items) for part in detail.sections(ROOT, WORDS)}
    assert "late" in parts["why"]
    assert "same rank" in parts["why"]
    assert "slower" in parts["against"]
    assert "lossy" in parts["against"]
    assert "congested" in parts["ruled out"]
    assert "throttled" in parts["unknown"]


# The replay's position.


def test_it_holds_at_the_end_and_plays_again_from_the_start():
    player = Player.at_end((0.0, 1.0, 2.0, 3.0))
    assert player.is_at_end
    assert not player.playing
    again = player.toggle()
    assert (again.index, again.playing) == (0, True)
    assert not again.toggle().playing


def test_playing_goes_at_the_speed_told_and_stops_at_the_end():
    player = replace(Player.at_end(tuple(float(n) for n in range(11))).toggle(), speed_index=0)
    half = player.advance(0.5)
    assert half.time == 0
    assert half.advance(0.5).time == 1
    end = half.advance(100)
    assert (end.time, end.playing) == (10, False)


def test_many_small_ticks_go_as_far_as_one_large_one():
    player = replace(Player.at_end(tuple(n * 0.7 for n in range(100))).toggle(), speed_index=1)
    small = player
    for _ in range(40):
        small = small.advance(0.25)
    assert small.time == player.advance(10).time


def test_steps_and_jumps_stay_inside():
    player = Player.at_end((0.0, 1.0, 2.0))
    assert player.step(5).index == 2
    assert player.step(-1).index == 1
    assert player.jump(-60).index == 0
    assert Player(()).step(1).toggle().advance(1).index == 0


@pytest.mark.parametrize(
    ("text", "after"),
    [("12:19:00", 12), ("12:20", 72), ("+30", 30), ("-10", 90), ("tomorrow", None), ("", None), ("+", None)],
)
def test_asked_times_are_found(text, after):
    expected = None if after is None else T0 + after
    assert parse_time(text, T0, T0 + 100) == expected


def test_a_time_after_midnight_is_on_the_next_day():
    start = 86400 * 100 - 30
    assert parse_time("00:00:10", start, start + 60) == 86400 * 100 + 10
