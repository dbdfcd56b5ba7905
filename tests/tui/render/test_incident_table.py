"""The table of incidents: ranking, filter and columns."""

from dataclasses import replace

import pytest

from skewscope.engine.model.incident import SYMPTOM, Explanation
from skewscope.tui.console.operator_log import TriageState
from skewscope.tui.render import columns as columns_module
from skewscope.tui.render import filter_query, incident_table, units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import line_width, to_plain_text
from tests.tui.samples import CHILD, ENDED, INCIDENTS, ROOT, T0, catalogue

WORDS = DisplayNames(catalogue(), INCIDENTS)
NOW = T0 + 100
CELLS = incident_table.IncidentCellFormatter(WORDS, NOW, {})


def ids(rows):
    return [(row.incident.condition, row.depth) for row in rows]


def test_roots_come_first_then_their_effects_and_resolved_ones_last():
    expected = [("tp-straggler", 0), ("pp-bubble", 1), ("burst-admission-backlog", 0)]
    assert (
        ids(incident_table.rank_incidents(INCIDENTS)) == ids(incident_table.rank_incidents(INCIDENTS[::-1])) == expected
    )


def test_folding_hides_explained_incidents_and_counts_them():
    assert [(r.incident.id, r.folded) for r in incident_table.rank_incidents(INCIDENTS, fold=True)] == [
        (ROOT.id, 1),
        (ENDED.id, 0),
    ]


def test_an_unknown_or_own_root_leaves_an_incident_alone():
    orphan = replace(CHILD, explained_by=Explanation("gone", "caused"))
    selfish = replace(CHILD, id="x", explained_by=Explanation("x", "caused"))
    assert [row.depth for row in incident_table.rank_incidents([orphan, selfish])] == [0, 0]


def test_two_that_explain_each_other_are_both_shown():
    one, two = replace(ROOT, explained_by=Explanation(CHILD.id, "caused")), CHILD
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
def test_filters_keep_matching_rows(text, kept):
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
    assert titles[:3] == ["", "what", "where"]
    # On narrow screens the words of a condition come before a number that the pane has too.
    assert "conf" in titles or columns <= 70
    for row in rows:
        shown = incident_table.row_line(row, chosen, CELLS)
        assert line_width(shown) <= columns
        without_cost = [cells for cells in chosen if cells[0].id != "impact"]
        assert "…" not in to_plain_text([incident_table.row_line(row, without_cost, CELLS)]) or columns <= 70
    assert line_width(columns_module.title_line(chosen)) <= columns


def test_wider_screens_never_lose_a_column():
    rows = incident_table.rank_incidents(INCIDENTS)
    counts = [len(incident_table.column_widths(rows, CELLS, columns)) for columns in range(60, 240)]
    assert counts == sorted(counts)
    assert counts[-1] == len(incident_table.COLUMNS)


def test_equal_incidents_at_one_place_are_one_row_with_their_times():
    equal = [replace(ENDED, id=f"e{n}", also=(), opened_at=T0 + 180.0 * n, history=()) for n in range(5)]
    rows = incident_table.fold_repeats(incident_table.rank_incidents([ROOT, *equal, CHILD]))
    assert [len(row.repeats) for row in rows] == [0, 0, 5]
    shown = CELLS.cell(rows[-1], "condition")[0]
    assert shown == "Burst admission backlog  5× since 12:18:48, every 3 min"


def test_equal_incidents_that_come_irregularly_have_no_period():
    assert incident_table.format_repeats([T0, T0 + 10, T0 + 300]) == "3× since 12:18:48"
    assert incident_table.format_repeats([T0 + 60, T0]) == "2× since 12:18:48"


def test_equal_incidents_below_different_causes_and_those_that_explain_stay_apart():
    causes = [replace(ROOT, id=f"c{n}") for n in range(2)]
    effects = [replace(CHILD, id=f"x{n}", explained_by=Explanation(f"c{n}", "caused")) for n in range(2)]
    rows = incident_table.fold_repeats(incident_table.rank_incidents([*causes, *effects]))
    assert len(rows) == 4


def test_an_open_incident_is_no_row_below_a_cause_that_is_over():
    over = replace(ROOT, state="resolved", resolved_at=T0 + 50)
    rows = incident_table.rank_incidents([over, CHILD])
    assert [(row.incident.id, row.depth) for row in rows] == [(CHILD.id, 0), (ROOT.id, 0)]


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (40, "8.7→21.6 ms (2.5×) time of a round"),
        (26, "8.7→21.6 ms (2.5×) time …"),
        (24, "8.7→21.6 ms (2.5×)"),
        (20, "8.7→21.6 ms (2.5×)"),
        (12, "8.7→21.6 ms"),
        (8, "2.5×"),
    ],
)
def test_no_number_of_a_cost_is_cut(room, text):
    assert CELLS.cell(incident_table.rank_incidents([ROOT])[0], "impact", room)[0] == text


def test_a_place_has_a_quarter_of_a_line_and_the_name_of_a_condition_the_rest():
    wanted = {"condition": 45, "where": 24, "lost": 6, "impact": 30, "since": 8, "sure": 5}
    fitting = {column.id: size for column, size in columns_module.fit_columns(incident_table.COLUMNS, wanted, 80)}
    assert fitting["where"] == 20
    assert fitting["condition"] == 38
    assert not {"lost", "sure"} & set(fitting)
    roomy = {column.id: size for column, size in columns_module.fit_columns(incident_table.COLUMNS, wanted, 110)}
    assert (roomy["where"], roomy["condition"], roomy["sure"], roomy["lost"]) == (24, 45, 5, 6)


def test_the_bar_of_the_row_that_loses_most_is_full():
    small = replace(ROOT, id="s", blast_radius=replace(ROOT.blast_radius, nodes=1))
    large = replace(ROOT, id="l", blast_radius=replace(ROOT.blast_radius, nodes=4))
    unknown = replace(ROOT, id="u", impact=replace(ROOT.impact, change=None))
    rows = [incident_table.IncidentRow(one) for one in (small, large, unknown)]
    cells = replace(CELLS, most_lost=incident_table.largest_loss(rows))
    assert [cells.cell(row, "lost")[0] for row in rows] == ["██░░░░", "██████", ""]


def test_what_is_measured_and_has_no_cause_is_called_a_fact():
    symptom = replace(ENDED, id="s", category=SYMPTOM, condition="slow-steps", state="firing", resolved_at=None)
    alone, below = incident_table.IncidentRow(symptom), incident_table.IncidentRow(symptom, 1)
    assert [CELLS.cell(row, "sure")[0] for row in (alone, below)] == ["fact", ""]
    assert CELLS.cell(alone, "condition")[0] == "Work takes longer (cause unknown)"
    assert CELLS.cell(alone, "condition", 18)[0] == "Work takes longer"


def test_the_row_of_equal_incidents_begins_with_the_first_of_them():
    equal = [replace(ENDED, id=f"e{n}", also=(), opened_at=T0 + 180.0 * n, history=()) for n in (1, 0)]
    (row,) = incident_table.fold_repeats(incident_table.rank_incidents(equal))
    assert CELLS.cell(row, "since")[0] == units.format_time(min(one.began for one in equal))
