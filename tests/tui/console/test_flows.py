"""Flows through the console: select, filter, open, navigate, plan, refuse."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from textual.events import MouseScrollDown

from skewscope.adapters.view.builder import ViewHistory
from skewscope.engine.model.topology import Group
from skewscope.kb.problems import InputError, Problem
from skewscope.tui.console.app import Console, ConsoleOptions
from skewscope.tui.console.console_screen import TextDialog
from skewscope.tui.console.keymap import BRIEF_LINES, KEYS
from skewscope.tui.console.operator_log import OperatorLog, read_log
from skewscope.tui.render.detail import DisplayNames
from tests.tui.consoles import run, screen_text, shown
from tests.tui.samples import ABNORMAL, CHILD, ENDED, ROOT, T0, TOPOLOGY, catalogue, film, frames, many, scene, snapshot


def page(app):
    return app.current_screen.model


def test_the_cursor_moves_and_the_pane_follows():
    async def flow(app, pilot):
        assert app.selected_incident.id == ROOT.id
        await pilot.press("j")
        await pilot.pause(0.1)
        assert app.selected_incident.id == CHILD.id
        assert "Pipeline bubble on group B" in screen_text(app)
        await pilot.press("G")
        assert app.selected_incident.id == ENDED.id
        await pilot.press("g")
        assert app.selected_incident.id == ROOT.id

    run(flow)


@pytest.mark.slow
def test_a_filter_narrows_while_it_is_typed_and_escape_clears_it():
    async def flow(app, pilot):
        await pilot.press("slash", *"bubble")
        await pilot.pause()
        assert [row.incident.id for row in page(app).rows] == [CHILD.id]
        await pilot.press("enter")
        assert "/bubble" in screen_text(app)
        await pilot.press("escape")
        assert page(app).count == 3
        await pilot.press("slash", *"node:r3", "escape")
        assert page(app).count == 3

    run(flow)


def test_explain_in_full_and_back_and_escape_never_quits():
    async def flow(app, pilot):
        await pilot.press("enter")
        await pilot.pause()
        assert "wire.onset_lag of A:n2" in screen_text(app)
        await pilot.press("escape", "escape", "escape")
        assert not page(app).zoomed
        assert app.is_running

    run(flow, size=(120, 40))


@pytest.mark.slow
def test_symptoms_are_filtered_by_kind_and_lead_to_their_entry():
    async def flow(app, pilot):
        await pilot.press("slash", *"kind:symptom", "enter")
        assert [row.incident.name for row in page(app).rows] == ["A", "B"]
        await pilot.press("K")
        await pilot.pause()
        assert page(app).current_entry == ("symptoms", "slow-steps")
        assert "Occurrences here: 2" in screen_text(app)
        await pilot.press("o")
        await pilot.pause()
        assert (page(app).filter, page(app).count) == ("condition=slow-steps", 2)

    run(flow, film(ABNORMAL))


def test_from_a_diagnosis_to_the_catalogue_along_a_link_and_back():
    async def flow(app, pilot):
        await pilot.press("K")
        await pilot.pause()
        assert page(app).current_entry == ("conditions", "tp-straggler")
        assert "Occurrences here: 1" in screen_text(app)
        await pilot.press("enter", "j")
        link = page(app).links[1]
        await pilot.press("enter")
        assert page(app).current_entry == (link.kind, link.id)
        await pilot.press("escape")
        assert page(app).current_entry == ("conditions", "tp-straggler")
        await pilot.press("escape", "o")
        await pilot.pause()
        assert page(app).name == "diagnoses"
        assert page(app).filter == "condition=tp-straggler"
        assert page(app).count == 1
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert page(app).name == "catalogue"
        await pilot.press("escape")
        await pilot.pause()
        assert page(app).name == "diagnoses"

    run(flow, size=(120, 40))


def test_a_plan_is_shown_and_nothing_applies_it_without_a_controller():
    async def flow(app, pilot):
        await pilot.press("m", "1")
        await pilot.pause()
        assert isinstance(app.screen, TextDialog)
        assert "dry run" in screen_text(app)
        assert "x " not in screen_text(app).split("dry run")[1]
        await pilot.press("x")
        await pilot.pause()
        assert isinstance(app.screen, TextDialog)
        assert not app.state.operator_log.entries

    run(flow, size=(120, 40))


def test_incidents_are_acknowledged_and_snoozed_without_leave_to_write(tmp_path):
    ledger = OperatorLog(tmp_path / "state" / "ledger.jsonl")

    async def flow(app, pilot):
        await pilot.press("a")
        await pilot.pause()
        assert "acknowledged by eva" in screen_text(app)
        await pilot.press("a", "n", "2")
        await pilot.pause()
        assert page(app).rows[-1].incident.id == ROOT.id
        assert page(app).cell_formatter.cell(page(app).rows[-1], "state")[0] == "snoozed 1h"
        await pilot.press("5", "v")
        await pilot.pause()
        assert "snoozed" in screen_text(app)

    run(flow, size=(120, 40), options=ConsoleOptions(operator_log=ledger, operator="eva"))
    assert [entry.did for entry in read_log(ledger.path).entries] == ["acknowledged", "unacknowledged", "snoozed"]


def test_a_silenced_incident_stays_visible_and_marked():
    feed = ViewHistory()
    hidden = replace(snapshot(100.0, (ROOT, CHILD)), silenced={ROOT.id: "s-12"})
    feed.add(replace(scene(hidden), silenced=hidden.silenced), frames(100.0)[-1])

    async def flow(app, pilot):
        assert page(app).cell_formatter.cell(page(app).rows[0], "state") == ("silenced", "dim")
        assert "silenced by s-12: no notifications are sent" in screen_text(app)

    run(flow, feed, size=(120, 40))


def test_a_key_goes_to_the_node_of_the_next_incident():
    async def flow(app, pilot):
        await pilot.press("2")
        await pilot.pause()
        ill = []
        for _ in range(9):
            await pilot.press(")")
            await pilot.pause()
            ill.append(page(app).node)
        assert ill[0] == "n2"
        assert "no further node" in screen_text(app)
        assert len(set(ill)) < 8
        for _ in set(ill):
            await pilot.press("(")
        assert page(app).node == "n2"

    run(flow)


def test_a_scope_set_in_the_fabric_narrows_every_screen():
    async def flow(app, pilot):
        await pilot.press("2", "l", "l", "enter")
        await pilot.pause()
        assert app.state.scope.name == "node n2"
        await pilot.press("3")
        await pilot.pause()
        assert {page(app).signals.series_index.series[r].entity for r in page(app).row_order} <= {
            "A:n2", "n2/ew", "A", *(f"n{a}/ew>n{b}/ew" for a in range(4) for b in range(4) if 2 in (a, b)),
        }  # fmt: skip
        await pilot.press("1")
        await pilot.pause()
        assert [row.incident.id for row in page(app).rows] == [ROOT.id]
        assert "only node n2" in screen_text(app)
        await pilot.press("escape")
        assert page(app).count == 3 or app.state.scope.name == ""

    run(flow, size=(120, 40))


@pytest.mark.slow
def test_signals_are_sorted_filtered_and_their_columns_chosen():
    async def flow(app, pilot):
        await pilot.press("3")
        await pilot.pause()
        table = page(app)
        assert table.signals.series_index.series[table.row_order[0]].entity == "A:n2"
        await pilot.press("slash", *"stale:yes", "enter")
        assert [table.signals.series_index.series[r].entity for r in table.row_order] == ["n7/ew"]
        await pilot.press("escape", "less_than_sign")
        assert table.sort_column != "deviation"
        await pilot.press("r", "C", "a")
        assert table.hidden_columns
        await pilot.press("escape")

    run(flow, size=(120, 40))


def test_the_replay_steps_back_to_a_time_without_incidents():
    async def flow(app, pilot):
        assert app.state.player.is_at_end
        await pilot.press("left_square_bracket")
        assert app.state.player.index == len(app.state.feed.times()) - 2
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        assert "No incident up to this time" in screen_text(app)
        await pilot.press("t", *"+50", "enter")
        assert page(app).count == 3
        await pilot.press("t", *"soon", "enter")
        await pilot.pause()
        assert "is not a time" in screen_text(app)

    run(flow)


@pytest.mark.slow
def test_playing_from_the_end_starts_again_and_holds_at_the_end():
    async def flow(app, pilot):
        await pilot.press("p")
        assert app.state.player.playing
        assert app.state.player.index < len(app.state.feed.times()) - 1
        await pilot.press(*["full_stop"] * 4)
        for _ in range(100):
            await pilot.pause(0.05)
            if not app.state.player.playing:
                break
        assert app.state.player.is_at_end

    run(flow)


def test_a_live_console_advances_and_a_paused_one_stays():
    feed = film(live=True)

    async def flow(app, pilot):
        before = app.state.now
        feed.add(scene(snapshot(101)), frames(before + 1)[-1])
        app.pull()
        assert app.state.now > before
        await pilot.press("p")
        feed.add(scene(snapshot(102)), frames(before + 2)[-1])
        app.pull()
        await pilot.pause()
        assert app.state.now == before + 1
        assert "PAUSED" in screen_text(app)
        await pilot.press("p")
        assert app.state.now == before + 2

    run(flow, feed)


def test_the_cursor_stays_at_the_top_until_it_is_moved():
    feed = film((CHILD,), live=True)

    async def flow(app, pilot):
        assert app.selected_incident.id == CHILD.id
        feed.add(scene(snapshot(101, (ROOT, CHILD))), frames(app.state.now + 1)[-1])
        app.pull()
        assert app.selected_incident.id == ROOT.id
        await pilot.press("j")
        feed.add(scene(snapshot(102, (CHILD, *many(5)))), frames(app.state.now + 1)[-1])
        app.pull()
        assert app.selected_incident.id == CHILD.id

    run(flow, feed)


def test_a_recording_that_cannot_be_read_ends_the_console_with_its_problems():
    error = InputError([Problem("topology.yaml", 3, "nodes", "nothing", "a list")])

    def load(_heard):
        raise error

    async def whole():
        app = Console(ViewHistory(), DisplayNames(catalogue()), read=load)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
        return app

    app = asyncio.run(whole())
    assert app.return_value is error
    assert app.return_code == 2


def test_while_it_reads_the_screen_lives_and_leaving_stops_the_reading():
    heard, asked = threading.Event(), threading.Event()
    stopped = []

    def load(progress):
        progress("reading packets", 0.42)
        heard.set()
        asked.wait(10)
        try:
            for _ in range(1000):
                progress("reading packets", 0.43)
                threading.Event().wait(0.01)
        except Exception as error:
            stopped.append(error)
            raise

    async def whole():
        app = Console(ViewHistory(), DisplayNames(catalogue()), read=load)
        async with app.run_test(size=(80, 24)) as pilot:
            await asyncio.to_thread(heard.wait, 10)
            for _ in range(100):
                await pilot.pause(0.1)
                if "42 %" in screen_text(app):
                    break
            assert "reading packets" in screen_text(app)
            assert "42 %" in screen_text(app)
            await pilot.press("j", "enter", "p", "s", "escape", "3", "1")
            await pilot.press("q")
            asked.set()

    asyncio.run(whole())
    assert stopped


@pytest.mark.slow
def test_help_lists_the_keys_of_its_screen():
    text = shown((120, 70), ["question_mark"])
    here = [key for key in KEYS if not key.screens or "diagnoses" in key.screens]
    assert all(key.description in text for key in here if key.group in ("Act", "Look"))
    assert not [key.id for key in KEYS if key.group not in ("Act", "Look") and f"{{{key.id}}}" not in str(BRIEF_LINES)]


def test_a_key_without_effect_shows_a_message():
    assert "has no effect on this screen" in shown((80, 24), ["2", "f"])


def test_resizing_keeps_the_content():
    async def flow(app, pilot):
        await pilot.press("j")
        for size in ((200, 50), (40, 10), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert app.selected_incident.id == CHILD.id
        assert "Pipeline bubble on group B" in screen_text(app)

    run(flow)


def test_one_key_saves_a_recording(tmp_path):
    feed = film()
    feed.exporter = lambda folder, begin, end: f"{end - begin:.0f} s in {folder.name}"

    async def flow(app, pilot):
        await pilot.press("R")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "saved" in screen_text(app)
        assert "skewscope-2026" in screen_text(app)

    run(flow, feed, options=ConsoleOptions(recordings_folder=tmp_path))


def styles(options=None):
    found = []

    async def flow(app, _pilot):
        found.extend(s.style for strip in app.screen._compositor.render_strips() for s in strip if s.style)

    run(flow, options=options)
    return found


def test_without_colour_there_is_none_but_the_cursor_is_reversed(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    plain = styles(ConsoleOptions(colour=False))
    assert not any(c and not c.is_default for s in plain for c in (s.color, s.bgcolor))
    assert any(s.reverse for s in plain)
    monkeypatch.delenv("NO_COLOR")
    assert any(s.color and s.color.triplet for s in styles())


def test_the_palette_finds_entries_and_nodes():
    async def flow(app, pilot):
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Entry: Tensor-parallel straggler" in titles
        assert "Only node n3" in titles
        await pilot.press("colon")
        await pilot.pause()
        assert app.screen.__class__.__name__ == "CommandPalette"
        await pilot.press("escape")

    run(flow)


def test_the_mouse_chooses_sorts_scrolls_and_shows_screens():
    async def flow(app, pilot):
        await pilot.click("#list", offset=(5, 2))
        assert app.selected_incident.id == CHILD.id
        # A length on the line of time is its incident.
        await pilot.click("#bar", offset=(app.size.width - 20, 0))
        assert (app.selected_incident.id, app.state.player.is_at_end) == (ROOT.id, True)
        await pilot.click("#status", offset=(15, 0))
        await pilot.pause()
        assert page(app).name == "fabric"
        await pilot.press("3")
        await pilot.pause()
        await pilot.click("#list", offset=(2, 0))
        assert page(app).sort_column == "signal"
        table = app.current_screen.table
        table.on_mouse_scroll_down(MouseScrollDown(table, 1, 1, 0, 1, 0, False, False, False))
        assert page(app).cursor == 3
        await pilot.click("#bar", offset=(20, 0))
        await pilot.pause()
        assert not app.state.player.is_at_end

    run(flow, size=(120, 40))


def test_a_thousand_incidents_are_ranked_and_filtered_quickly():
    async def flow(app, pilot):
        # So many are a storm, which is folded by condition until a key says otherwise.
        assert page(app).count == 1
        assert page(app).rows[0].folded == 999
        await pilot.press("f")
        assert page(app).count == 1000
        await pilot.press("slash", *"node:n999", "enter")
        assert page(app).count == 1
        await pilot.press("escape")
        assert page(app).count == 1000

    run(flow, film(many()))


def test_the_catalogue_is_searched_and_left_again():
    async def flow(app, pilot):
        await pilot.press("4", "slash", *"stragler", "enter")
        await pilot.pause()
        assert page(app).current_entry == ("conditions", "tp-straggler")
        await pilot.press("escape")
        assert page(app).count > 1
        await pilot.press("y")
        await pilot.pause()

    run(flow, size=(120, 40))


def test_a_large_group_is_shown_without_names():
    members = tuple(f"n{n}" for n in range(8))
    topology = replace(TOPOLOGY, groups=(Group("A", "pipeline-parallel", members * 4),))
    feed = ViewHistory(topology)
    for frame in frames(T0 + 100)[-2:]:
        feed.add(scene(snapshot(frame.time - T0), topology), frame)
    assert "A" in shown((80, 24), ["2", "v"], feed)


def test_marked_incidents_are_acknowledged_snoozed_and_copied_together():
    options = ConsoleOptions(write=True)

    async def flow(app, pilot):
        await pilot.press("space", "space")
        await pilot.pause()
        assert [one.id for one in app.selected_incidents] == [ROOT.id, CHILD.id]
        assert app.selected_incident.id == ENDED.id
        assert [row[0] for row in screen_text(app).splitlines()[2:5]] == ["*", "*", " "]
        await pilot.press("y")
        await pilot.pause()
        await pilot.press("t")
        await pilot.pause()
        assert "Tensor-parallel straggler" in app.clipboard
        assert "Pipeline bubble" in app.clipboard
        await pilot.press("Y")
        assert [json.loads(line)["id"] for line in app.clipboard.splitlines()] == [ROOT.id, CHILD.id]
        await pilot.press("a")
        assert {one.did for one in options.operator_log.entries} == {"acknowledged"}
        assert [one.incident for one in options.operator_log.entries] == [ROOT.id, CHILD.id]
        assert app.selected_incidents == (app.selected_incident,)
        # Another one beside them is acknowledged with them; only then a second time takes all back.
        await pilot.press("M", "a", "M", "a")
        await pilot.pause()
        assert [one.did for one in options.operator_log.entries[2:]] == ["acknowledged", *["unacknowledged"] * 3]
        await pilot.press("M", "n", "2")
        await pilot.pause()
        assert {one.incident for one in options.operator_log.entries[-3:] if one.did == "snoozed"} == {
            ROOT.id,
            CHILD.id,
            ENDED.id,
        }

    run(flow, options=options)


def test_marks_are_undone_and_apply_only_to_listed_incidents():
    async def flow(app, pilot):
        await pilot.press("space", "g", "space")
        assert app.selected_incidents == (app.selected_incident,)
        await pilot.press("M", "slash", *"bubble", "enter")
        assert [one.id for one in app.selected_incidents] == [CHILD.id]
        await pilot.press("escape", "escape")
        assert page(app).count == 3
        assert app.selected_incidents == (app.selected_incident,)

    run(flow)


@pytest.mark.parametrize("number", ["2", "3", "4", "5"])
@pytest.mark.slow
def test_every_screen_copies_its_text(number):
    async def flow(app, pilot):
        await pilot.press(number, "j", "j", "y")
        assert len(app.clipboard.splitlines()) >= 2
        assert not app.clipboard.startswith("{")

    run(flow)
