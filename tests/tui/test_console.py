import asyncio
import threading

import pytest

from skewscope.kb.problems import InputError, Problem
from skewscope.tui.app import Console, TextScreen
from skewscope.tui.detail import Words
from skewscope.tui.keymap import KEYS
from tests.tui.samples import CHILD, ENDED, ROOT, catalogue, healthy, outcome

SIZES = [(80, 24), (120, 40), (200, 50)]


def screen_text(app):
    """What stands on the screen; the only place that asks Textual's private compositor."""
    strips = app.screen._compositor.render_strips()
    return "".join("".join(segment.text for segment in strip).rstrip() + "\n" for strip in strips)


def run(flow, *, load=lambda _progress: outcome(), size=(80, 24), **options):
    """Run a flow on a console that has read its data."""

    async def whole():
        app = Console(load, Words(catalogue()), **options)
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await flow(app, pilot)
        return app

    return asyncio.run(whole())


def shown(size, keys=(), **options):
    texts = []

    async def flow(app, pilot):
        await pilot.press(*keys)
        await pilot.pause()
        texts.append(screen_text(app))

    run(flow, size=size, **options)
    return texts[0]


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_the_first_screen_is_as_it_was_accepted(golden, size):
    golden(f"diagnoses_{size[0]}x{size[1]}", shown(size))


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_the_full_detail_is_as_it_was_accepted(golden, size):
    golden(f"detail_{size[0]}x{size[1]}", shown(size, ["enter"]))


@pytest.mark.parametrize(
    ("name", "size", "options", "keys"),
    [
        ("healthy_80x24", (80, 24), {"load": lambda _p: healthy()}, ()),
        ("ascii_80x24", (80, 24), {"ascii_": True}, ()),
        ("bare_50x12", (50, 12), {}, ()),
        ("tiny_18x4", (18, 4), {}, ()),
        ("help_80x24", (80, 24), {}, ("question_mark",)),
        ("catalogue_80x24", (80, 24), {}, ("K",)),
    ],
)
def test_other_screens_are_as_they_were_accepted(golden, name, size, options, keys):
    golden(name, shown(size, keys, **options))


def test_ascii_means_ascii():
    assert shown((80, 24), ascii_=True).isascii()


def styles(**options):
    found = []

    async def flow(app, _pilot):
        found.extend(s.style for strip in app.screen._compositor.render_strips() for s in strip if s.style)

    run(flow, **options)
    return found


def test_without_colour_there_is_none_but_the_cursor_is_reversed(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    plain = styles(colour=False)
    assert not any(c and not c.is_default for s in plain for c in (s.color, s.bgcolor))
    assert any(s.reverse for s in plain)
    monkeypatch.delenv("NO_COLOR")
    assert any(s.color and s.color.triplet for s in styles())


def test_the_cursor_moves_and_the_detail_follows():
    async def flow(app, pilot):
        assert app.selected is not None
        assert app.selected.id == ROOT.id
        await pilot.press("j")
        assert app.selected.id == CHILD.id
        assert "Pipeline bubble on group B" in screen_text(app)
        await pilot.press("G")
        assert app.selected.id == ENDED.id
        await pilot.press("g")
        assert app.selected.id == ROOT.id

    run(flow)


def test_a_filter_narrows_while_it_is_typed_and_escape_clears_it():
    async def flow(app, pilot):
        await pilot.press("slash", *"bubble")
        await pilot.pause()
        assert [row.incident.id for row in app.rows] == [CHILD.id]
        await pilot.press("enter")
        assert "/bubble" in screen_text(app)
        await pilot.press("escape")
        assert len(app.rows) == 3

    run(flow)


def test_escape_never_quits_and_enter_goes_in_and_out():
    async def flow(app, pilot):
        await pilot.press("enter")
        assert app.maximised
        await pilot.press("escape", "escape", "escape")
        assert not app.maximised
        assert app.is_running

    run(flow)


def test_the_replay_can_be_stepped_back_to_when_nothing_was_wrong():
    async def flow(app, pilot):
        assert app.player.ended
        await pilot.press("left_square_bracket")
        assert app.player.index == 2
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        assert "Nothing had been found yet" in screen_text(app)
        await pilot.press("t", *"+50", "enter")
        assert len(app.rows) == 3
        await pilot.press("t", *"soon", "enter")
        assert len(app.rows) == 3

    run(flow)


def test_playing_from_the_end_starts_again_and_holds_at_the_end():
    async def flow(app, pilot):
        await pilot.press("p")
        assert (app.player.index, app.player.playing) == (0, True)
        await pilot.press(*["full_stop"] * 4)
        for _ in range(100):
            await pilot.pause(0.05)
            if not app.player.playing:
                break
        assert app.player.ended

    run(flow)


def test_a_recording_that_cannot_be_read_ends_the_console_with_its_problems():
    error = InputError([Problem("topology.yaml", 3, "nodes", "nothing", "a list")])

    def load(_progress):
        raise error

    async def whole():
        app = Console(load, Words(catalogue()))
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
        return outcome()

    async def whole():
        app = Console(load, Words(catalogue()))
        async with app.run_test(size=(80, 24)) as pilot:
            await asyncio.to_thread(heard.wait, 10)
            await pilot.pause(0.4)
            assert "reading packets" in screen_text(app)
            assert "42 %" in screen_text(app)
            await pilot.press("j", "enter", "p", "s", "escape")
            await pilot.press("q")
            asked.set()

    asyncio.run(whole())
    assert stopped


def test_help_lists_every_key_and_closes():
    async def flow(app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, TextScreen)
        await pilot.press("escape")
        assert not isinstance(app.screen, TextScreen)

    run(flow)
    assert all(key.does in shown((120, 50), ["question_mark"]) for key in KEYS)


def test_no_key_does_two_things():
    keys = [key for entry in KEYS for key in entry.keys.split(",")]
    assert len(keys) == len(set(keys))
