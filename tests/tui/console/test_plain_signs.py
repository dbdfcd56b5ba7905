"""What colours say is said by signs as well, and nothing is called healthy before all is read."""

from dataclasses import replace

import pytest

from tests.tui.consoles import run, screen_text, shown
from tests.tui.samples import INCIDENTS, film

ROW = " r1 "


def cells(text, label=ROW):
    """Returns the cells of a row of the Fabric screen."""
    return next(row for row in text.splitlines() if row.startswith(label)).split()[1:]


def fabric(incidents, **more):
    return shown((80, 24), ("2",), film(incidents), **more)


def test_a_sick_node_has_a_sign_beside_its_colour_and_a_healthy_one_is_never_as_full():
    found = cells(fabric(INCIDENTS))
    assert "✖" in found[2]
    assert "█" in found[2]
    assert not any("█" in cell or "▓" in cell for n, cell in enumerate(found) if n != 2)


@pytest.mark.parametrize("kind", ["replica", "group"])
def test_an_incident_of_a_replica_or_a_whole_group_marks_its_nodes(kind):
    (root, *_) = INCIDENTS
    whole = replace(root, kind=kind, name="A", also=(), severity="warning", explained_by=None)
    found = cells(fabric((whole,)))
    assert [n for n, cell in enumerate(found) if "!" in cell] == [0, 1, 2, 3]


def test_members_of_a_group_have_the_sign_too():
    assert "✖n2" in shown((80, 24), ("2", "v"))


@pytest.mark.slow
def test_the_help_scrolls_with_the_keys_that_it_lists():
    seen = []

    async def flow(app, pilot):
        await pilot.press("question_mark")
        for key in ("", *(key for down in ("j", "down", "G", "end", "pagedown") for key in (down, "g", down, "home"))):
            await pilot.press(*filter(None, [key]))
            await pilot.pause()
            await pilot.pause()
            seen.append((key, screen_text(app)))

    run(flow)
    first = seen[0][1]
    assert "began, reported, ended" not in first.split("╰")[0]
    assert [key for key, text in seen[1:] if (text == first) != (key in ("g", "home"))] == []


def test_the_end_of_the_help_is_its_last_word():
    assert "began, reported, ended" in shown((80, 24), ("question_mark", "G")).split("╰")[0]


@pytest.mark.parametrize("screen", ["1", "2"])
def test_nothing_is_called_healthy_while_it_still_reads(screen):
    found = []

    async def flow(app, pilot):
        app.state.progress = ("diagnosing", 0.4)
        await pilot.press(screen)
        app.redraw()
        await pilot.pause()
        found.append(screen_text(app))

    run(flow, film(()))
    assert "reading 40 %" in found[0].lower()
    assert "no diagnosis and no symptom" not in found[0].lower()


def test_evidence_is_told_in_words_and_its_expressions_by_a_key():
    plain = shown((120, 60), ("enter",))
    assert "is above 60 %, averaged over 4 s" in plain
    assert "mean(" not in plain
    exact = shown((120, 60), ("enter", "e"))
    assert "mean(wire.last_sender_share, 4s) > 60%" in exact
    assert shown((120, 60), ("enter", "e", "e")) == plain


@pytest.mark.slow
def test_only_the_incident_has_a_number_and_what_else_it_could_be_has_none():
    text = shown((80, 24))
    assert text.count("% sure") >= 1
    assert "if wrong  Fabric congestion" in text
    assert "31 %" not in text + shown((120, 60), ("enter",)) + shown((120, 60), ("enter", "e"))


@pytest.mark.parametrize("keys", [("2",), ("2", "v"), ("2", "v", "v")], ids=["racks", "groups", "matrix"])
def test_the_legend_of_a_fabric_is_whole_at_eighty_columns(keys):
    (head,) = (row for row in shown((80, 24), keys).splitlines() if "racks" in row)
    assert "…" not in head
    assert len(head.split("matrix", 1)[1].strip()) > 20
