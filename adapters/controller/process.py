"""The controller process: server, signals and orderly shutdown."""

import asyncio
import gc
import logging
import signal
import sys
from pathlib import Path

from skewscope.adapters.controller import config
from skewscope.adapters.controller.allocation import configure_malloc
from skewscope.adapters.controller.auth import AGENT
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.incident_pages import PageRenderer
from skewscope.adapters.controller.server import ControllerApp, create_server, open_socket
from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.runtime.tasks import record_failure, start_job
from skewscope.kb.problems import SkewscopeError

SHUTDOWN_TIMEOUT = 10.0
"""Seconds for the server's shutdown."""

SWITCH_INTERVAL = 0.001
"""Thread switch interval in seconds: the engine's thread must not delay requests."""

GC_THRESHOLDS = (100_000, 50, 1000)
"""Thresholds of garbage collection: few objects are in cycles, and a fleet has millions of names."""

log = logging.getLogger(__name__)


def run(path: Path, pages: PageRenderer | None = None) -> None:
    """Runs a controller until SIGTERM or SIGINT; SIGHUP reloads the config. `pages` renders pages for browsers.

    Raises:
        InputError: the config, the store or the rules are invalid.
        SkewscopeError: it cannot listen.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*GC_THRESHOLDS)
    configure_malloc()
    asyncio.run(_serve(path, pages))


async def _serve(path: Path, pages: PageRenderer | None) -> None:
    settings = config.read_at_start(path)
    with open_socket(settings.listen) as handshake:
        controller = create_controller(settings)
        controller.pictures = pages
        await controller.start()
        app = ControllerApp(controller, pages)
        web = create_server(app, settings.tls)
        stop = asyncio.Event()
        reloads = _install_signal_handlers(app, path, stop)
        serving = start_job("HTTP server", web.serve([handshake]))
        serving.add_done_callback(lambda _: stop.set())
        _warn_of_shared_token(settings)
        host, port, *_ = handshake.getsockname()
        log.info("listening on %s port %d", host, port)
        try:
            await controller.run(stop)
        except Exception as error:
            record_failure("ticks", error)
            raise SkewscopeError(f"the controller cannot go on: {type(error).__name__}: {error}") from error
        finally:
            is_broken = serving.done()
            web.should_exit = True
            await asyncio.wait([serving, *reloads], timeout=SHUTDOWN_TIMEOUT)
            app.close()
        if is_broken:
            raise SkewscopeError("the HTTP server has ended by itself; the log has the reason")


def _warn_of_shared_token(settings: config.ControllerConfig) -> None:
    if any(token.role == AGENT and token.name == config.ANY_NODE for token in settings.tokens):
        log.warning(
            "agents.tokens has a token for every node ('*'): who has it can report for each of them; "
            "agents.secret gives each node its own"
        )


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
        task = start_job("reload", _reload(app, path))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    return reloads


async def _reload(app: ControllerApp, path: Path) -> None:
    """Applies the present config; one that is invalid, or cannot be applied, changes nothing."""
    controller = app.controller
    controller.is_reloaded = False
    try:
        settings = await FILES.run(config.read, path)
        kept = await controller.reload(settings)
    except SkewscopeError as error:
        log.error("the config was not reloaded: %s", error)  # noqa: TRY400 - all of it is in the message
        return
    app.renew_access()
    controller.is_reloaded = True
    log.info("reloaded")
    _warn_of_shared_token(settings)
    for what in kept:
        log.warning("%s: changes there take effect after a restart", what)
