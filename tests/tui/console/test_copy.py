"""Commands, texts and pages are copied, and where they are is said."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from skewscope.engine.model.incident import Advice
from skewscope.kb.loader import catalogue as load_catalogue
from skewscope.tui.console import copy_commands
from skewscope.tui.console.app import ConsoleOptions
from skewscope.tui.console.clipboard import Delivery, deliver, run_with_input
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.share import incident_markdown
from tests.tui.consoles import run, screen_text
from tests.tui.samples import CHILD, ENDED, ROOT, film

ADVISED = replace(
    ROOT, mitigations=(Advice("deweight-replica", "router", ""), Advice("quarantine-node", "scheduler", ""))
)


def pressed(*keys, incidents=(ADVISED,), options=None):
    """Returns what is in the clipboard, and the screen, after some keys."""
    found = []

    async def flow(app, pilot):
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        found.append((app.clipboard, screen_text(app)))

    run(flow, film(incidents), size=(120, 40), known=load_catalogue(), options=options)
    return found[0]


def test_the_first_command_that_can_be_run_and_its_undo_take_one_key_each():
    copied, shown = pressed("c")
    assert copied == f"scontrol update NodeName=n2 State=DRAIN Reason='{ROOT.id}'"
    assert "copied Drain n2" in shown
    assert pressed("u")[0] == "scontrol update NodeName=n2 State=RESUME"


def test_another_command_is_copied_from_its_plan():
    assert pressed("m", "2", "c")[0].startswith("set server BACKEND/SERVER weight 50%")


def test_why_there_is_no_command_is_said():
    copied, shown = pressed("j", "c", incidents=(ADVISED, CHILD))
    assert (copied, "see the incident that explains it." in shown) == ("", True)


def test_what_only_reads_is_copied_and_has_no_undo():
    unadvised = replace(ROOT, mitigations=())
    assert pressed("c", incidents=(unadvised,))[0] == "nvidia-smi dmon -s pucv -c 3"
    copied, shown = pressed("u", incidents=(unadvised,))
    assert (copied, "nothing is changed" in shown) == ("", True)


def test_incidents_are_shared_as_markdown_and_as_a_page(tmp_path):
    copied, _ = pressed("y", "m")
    sentence = "n2 holds up group A: every rank waits for it"
    assert copied.startswith(f"**✖ {sentence}**, 94 % sure, since 2026-11-20 12:19:11 UTC")
    assert "▶ A n2" in copied
    assert "12.3 ms, peers 1.07 ms" in copied
    options = ConsoleOptions(recordings_folder=tmp_path)
    _, shown = pressed("y", "h", options=options)
    (page,) = tmp_path.iterdir()
    assert "scontrol update NodeName=n2" in page.read_text()
    assert "wrote" in shown
    assert "link to its page" not in pressed("y")[1]


def test_a_copied_text_is_kept_in_a_file_and_the_message_says_where(tmp_path, monkeypatch):
    monkeypatch.setattr(copy_commands, "deliver", lambda text, folder: deliver(text, folder, {}))
    monkeypatch.chdir(tmp_path)  # a whole path may be longer than the line
    copied, shown = pressed("c", options=ConsoleOptions(state_folder=Path("kept")))
    assert (tmp_path / "kept" / "copied.txt").read_text() == copied
    assert "copied.txt" in shown


def test_names_form_no_markup():
    hostile = replace(ROOT, name="a`b*[x](http://y)", mitigations=())
    text = incident_markdown(hostile, DisplayNames(load_catalogue(), (hostile,)))
    assert "\\`b\\*\\[x\\]" in text


@pytest.mark.parametrize(
    ("environment", "tmux_works", "through_terminal", "words"),
    [
        ({}, False, True, "by the terminal"),
        ({"SSH_TTY": "/dev/pts/1"}, False, True, "by the terminal"),
        ({"TMUX": "x"}, True, False, "by tmux"),
        ({"TMUX": "x"}, False, True, "may not take it"),
        ({"STY": "x"}, False, True, "may not take it"),
    ],
)
def test_tmux_is_handed_the_text_and_what_may_be_lost_is_not_called_copied(
    tmp_path, environment, tmux_works, through_terminal, words
):
    asked = []

    def fake_run(command, content):
        asked.append((command, content))
        return tmux_works

    found = deliver("drain n2", tmp_path, environment, fake_run)
    assert found.through_terminal is through_terminal
    assert words in found.words
    assert (tmp_path / "copied.txt").read_text() == "drain n2"
    assert (tmp_path / "copied.txt").stat().st_mode & 0o777 == 0o600
    assert asked == ([(["tmux", "load-buffer", "-w", "-"], b"drain n2")] if "TMUX" in environment else [])


def test_a_folder_that_cannot_be_written_is_not_named(tmp_path):
    (tmp_path / "file").write_text("")
    assert deliver("x", tmp_path / "file" / "below", {}) == Delivery(True, "by the terminal")


def test_a_program_that_is_not_there_has_not_succeeded():
    assert not run_with_input([os.devnull + "-no-such-program"], b"")


def test_the_next_incident_is_one_that_nothing_explains():
    other = replace(ENDED, id="other")
    found = []

    async def flow(app, pilot):
        for key in (")", ")", "("):
            await pilot.press({"(": "left_parenthesis", ")": "right_parenthesis"}[key])
            await pilot.pause()
            found.append(app.selected_incident.id)

    run(flow, film((ROOT, other)), size=(120, 40))
    assert found == ["other", "other", ROOT.id]


def test_keys_of_the_footer_can_be_clicked():
    async def flow(app, pilot):
        footer = app.screen.query_one("#footer")
        column = "".join(text for text, _ in footer.lines[0]).index("a ack")
        await pilot.click("#footer", offset=(column, 0))
        await pilot.pause()
        assert [one.did for one in app.state.operator_log.entries] == ["acknowledged"]

    run(flow, size=(120, 40))
