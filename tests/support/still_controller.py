"""A controller whose clock stands still, with its application, for a test."""

import asyncio

from skewscope.adapters.controller import config
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.server import ControllerApp
from tests.adapters.controller.clocks import FakeClock


def play(path, test):
    """Runs a test with a controller that has begun, and its application."""

    async def run():
        controller = Controller(config.read(path), FakeClock(1_700_000_000.0))
        await controller.start()
        app = ControllerApp(controller)
        try:
            await test(controller, app)
        finally:
            app.close()
            await controller._close()

    asyncio.run(run())
