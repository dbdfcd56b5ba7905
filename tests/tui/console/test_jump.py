"""Jumps by the letters beside rows and the pane."""

import pytest

from tests.tui.consoles import run, screen_text, shown
from tests.tui.samples import film, many


def lines_with_letters(text):
    return [each for each in text.splitlines() if each[:1] in tuple("abcdefgh") and each[1:2] in "✖!✓~ "]


def test_each_row_and_the_pane_show_a_letter_and_the_footer_says_what_to_type():
    text = shown((80, 24), (";",))
    assert [each[0] for each in lines_with_letters(text)] == ["a", "b", "c"]
    assert "─p: incident" in text
    assert "type the letter beside a row" in text.splitlines()[-1]


@pytest.mark.parametrize(("key", "row"), [("c", 2), ("b", 1), ("a", 0), ("z", 0), ("escape", 0)])
def test_a_letter_moves_to_its_row_and_any_other_key_changes_nothing(key, row):
    places = []

    async def flow(app, pilot):
        await pilot.press(";", key)
        await pilot.pause()
        places.append((app.current_screen.model.cursor, app.current_screen.is_jumping, screen_text(app)))

    run(flow)
    (cursor, is_jumping, text) = places[0]
    assert (cursor, is_jumping) == (row, False)
    assert not lines_with_letters(text)


def test_the_letter_of_the_pane_lets_keys_scroll_it_and_that_of_a_row_leaves_it():
    async def flow(app, pilot):
        await pilot.press(";", "p")
        assert app.current_screen.pane_scrolls
        await pilot.press(";", "p")
        assert app.current_screen.pane_scrolls
        await pilot.press(";", "b")
        assert (app.current_screen.pane_scrolls, app.current_screen.model.cursor) == (False, 1)

    run(flow)


def test_a_number_shows_its_screen_and_a_letter_is_no_command():
    async def flow(app, pilot):
        await pilot.press("ctrl+o", "q")
        assert app.is_running
        await pilot.press(";", "3")
        await pilot.pause()
        assert app.current_screen.model.name == "signals"
        await pilot.press(";", "d")
        assert app.current_screen.model.cursor == 3

    run(flow)


def test_letters_are_those_of_the_rows_in_sight():
    async def flow(app, pilot):
        await pilot.press("f", "f", "G", ";")
        await pilot.pause()
        table = app.current_screen.table
        assert table.row_beside("a") == table.scroll_offset.y > 0
        assert table.row_beside("Z") is None
        await pilot.press("a")
        assert app.current_screen.model.cursor == table.scroll_offset.y

    run(flow, film(many()))
