"""Runs consoles without a terminal."""

import asyncio

from skewscope.tui.console.app import Console, ConsoleOptions
from skewscope.tui.render.detail import DisplayNames
from tests.tui.samples import catalogue, film


def screen_text(app):
    """Returns the text of the screen; the only use of Textual's private compositor."""
    strips = app.screen._compositor.render_strips()
    return "".join("".join(segment.text for segment in strip).rstrip() + "\n" for strip in strips)


def run(flow, feed=None, *, size=(80, 24), options=None, read=None, known=None):
    """Run a flow on a console that has loaded its data."""

    async def whole():
        app = Console(
            feed or film(),
            DisplayNames(known or catalogue()),
            options or ConsoleOptions(),
            read=read or (lambda _heard: None),
        )
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            await flow(app, pilot)
        return app

    return asyncio.run(whole())


def shown(size, keys=(), feed=None, **more):
    """Returns the text of the screen after some keys."""
    texts = []

    async def flow(app, pilot):
        await pilot.press(*keys)
        await pilot.pause()
        await pilot.pause()
        texts.append(screen_text(app))

    run(flow, feed, size=size, **more)
    return texts[0]
