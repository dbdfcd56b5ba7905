"""The controller process: server, signals and orderly shutdown."""

import asyncio
import gc
import logging
import signal
import sys
from pathlib import Path

from skewscope.adapters.controller import config
from skewscope.adapters.controller.allocation import configure_malloc
from skewscope.adapters.controller.auth import AccessControl
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.server import ControllerApp, create_server, open_socket
from skewscope.kb.problems import SkewscopeError

SHUTDOWN_TIMEOUT = 10.0
"""Seconds for the server's shutdown."""

SWITCH_INTERVAL = 0.001
"""Thread switch interval in seconds: the engine's thread must not delay requests."""

GC_THRESHOLDS = (100_000, 50, 1000)
"""Thresholds of garbage collection: few objects are in cycles, and a fleet has millions of names."""

log = logging.getLogger(__name__)


def run(path: Path) -> None:
    """Runs a controller until SIGTERM or SIGINT; SIGHUP reloads the config.

    Raises:
        InputError: the config, the store or the rules are invalid.
        SkewscopeError: it cannot listen.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*GC_THRESHOLDS)
    configure_malloc()
    asyncio.run(_serve(path))


async def _serve(path: Path) -> None:
    settings = config.read_at_start(path)
    with open_socket(settings.listen) as handshake:
        controller = create_controller(settings)
        await controller.start()
        app = ControllerApp(controller)
        web = create_server(app, settings.tls)
        stop = asyncio.Event()
        reloads = _install_signal_handlers(app, path, stop)
        serving = asyncio.create_task(web.serve([handshake]))
        serving.add_done_callback(lambda _: stop.set())
        host, port, *_ = handshake.getsockname()
        log.info("listening on %s port %d", host, port)
        try:
            await controller.run(stop)
        finally:
            web.should_exit = True
            await asyncio.wait([serving, *reloads], timeout=SHUTDOWN_TIMEOUT)
            app.close()


def create_controller(settings: config.ControllerConfig) -> Controller:
    """Returns the controller of a config: of one process, or of a fleet in shards."""
    if settings.fleet is None:
        return Controller(settings)
    from skewscope.adapters.fleet.fleet_controller import FleetController  # noqa: PLC0415 - few need it

    return FleetController(settings)


def _install_signal_handlers(app: ControllerApp, path: Path, stop: asyncio.Event) -> "set[asyncio.Task[None]]":
    """Installs signal handlers; returns the set of reloads in progress."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = asyncio.create_task(_reload(app, path))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    return reloads


async def _reload(app: ControllerApp, path: Path) -> None:
    """Applies the present config; an invalid one changes nothing."""
    try:
        settings = await asyncio.to_thread(config.read, path)
        kept = await app.controller.reload(settings)
    except SkewscopeError as error:
        log.error("the config was not reloaded: %s", error)  # noqa: TRY400 - all of it is in the message
        return
    app.access_control = AccessControl(app.controller.config)
    log.info("reloaded")
    for what in kept:
        log.warning("%s: changes there take effect after a restart", what)
