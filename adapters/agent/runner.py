"""The agent process: the clock, signals of the operating system, and the loop that ticks each whole second."""

import logging
import secrets
import signal
import threading
import time
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from skewscope.adapters.agent import metrics_server, self_metrics
from skewscope.adapters.agent.agent import NodeAgent
from skewscope.adapters.agent.config import AgentConfig, load
from skewscope.adapters.agent.observer import ObserverClocks
from skewscope.adapters.agent.port_map import TopologyClient, read_topology
from skewscope.adapters.formats.row_protocol import HelloFrame
from skewscope.adapters.runtime.channel import Channel
from skewscope.adapters.runtime.clock import read_uptime
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import load_signals
from skewscope.kb.problems import InputError

log = logging.getLogger("skewscope.agent")

LATE_AFTER = 0.5
"""Seconds after a whole second from which a tick counts as late."""
FIRST_POLL_PERIOD, POLL_PERIOD = 2.0, 60.0
"""Seconds between two requests for the topology, before and after the first answer."""


def run(path: Path) -> None:
    """Runs an agent until it is stopped.

    Raises:
        InputError: all problems of its configuration.
    """
    AgentRunner(path).run()


class AgentRunner:
    """One run of an agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        config = load(path)
        hello = HelloFrame(config.node, secrets.token_hex(8), _version())
        self._agent = NodeAgent(config, load_signals(), hello, ObserverClocks(time.time, time.thread_time))
        self._late_ticks = 0
        self._ticked_at = read_uptime()
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._pending_topology: list[Topology] = []
        self._server: metrics_server.MetricsServer | None = None
        self._polling_stop = threading.Event()

    def run(self) -> None:
        """Ticks until a signal arrives."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        signal.signal(signal.SIGHUP, lambda *_: self._reload.set())
        config = self._agent.config
        self._agent.start(_load_topology(config))
        self._start_server(config)
        self._start_polling(config)
        log.info("node %s runs on a %s, %d controllers", config.node, config.runs_on, len(config.controllers))
        try:
            self._run_ticks()
        finally:
            self._polling_stop.set()
            self._stop_server()
            self._agent.stop()

    def _run_ticks(self) -> None:
        due = int(time.time()) + 1
        while not self._stop.wait(min(max(due - time.time(), 0), 1)):
            if self._reload.is_set():
                self._reload.clear()
                self._reload_config()
            if self._pending_topology:
                self._agent.update_topology(self._pending_topology.pop())
                self._pending_topology.clear()
            due = self._tick(time.time(), due)

    def _tick(self, now: float, due: int) -> int:
        """Ticks if it is time; returns the time of the next tick."""
        if now < due:
            # Further away than a tick can be: the clock was changed.
            return due if due - now <= 1 else int(now) + 1
        before, self._ticked_at = self._ticked_at, read_uptime()
        if now - due > LATE_AFTER:
            # A clock that was set forward passes over seconds in which nothing was late.
            self._late_ticks += max(int(min(now - due, self._ticked_at - before)), 1)
            due = int(now)
        self._agent.tick(float(due))
        return due + 1

    def _reload_config(self) -> None:
        """Applies the present configuration file; an invalid one is reported and ignored."""
        try:
            config = load(self._path)
            if config.node != self._agent.config.node:
                log.error("%s: a new node name needs a restart; nothing was changed", self._path)
                return
            topology = _load_topology(config)
        except InputError as error:
            log.error(  # noqa: TRY400 - where it was raised says nothing to an operator
                "the new configuration is invalid, nothing was changed:\n%s", error
            )
            return
        before = self._agent.config
        self._agent.reload(config, topology)
        if config.listen != before.listen:
            self._stop_server()
            self._start_server(config)
        self._polling_stop.set()
        self._start_polling(config)
        log.info("reloaded %s", self._path)

    def _start_server(self, config: AgentConfig) -> None:
        if config.listen is None:
            return
        answers = metrics_server.MetricsProviders(self._metrics, lambda: self_metrics.health(self._agent, time.time()))
        try:
            self._server = metrics_server.MetricsServer(config.listen, answers)
        except OSError as error:
            log.error(  # noqa: TRY400 - as above
                "cannot listen on %s:%d: %s; the agent continues without", *config.listen, error.strerror
            )
            return
        self._server.start()

    def _stop_server(self) -> None:
        if self._server:
            self._server.stop()
            self._server = None

    def _metrics(self) -> str:
        agent = self._agent
        fresh = [table for table in agent.tables.snapshot() if not table.is_stale(time.time())]
        return metrics_server.render_metrics(fresh, self_metrics.self_metrics(agent, self._late_ticks), agent.catalogue)

    def _start_polling(self, config: AgentConfig) -> None:
        """Requests the topology from controllers periodically, unless a file gives it."""
        if config.topology or not config.controllers:
            return
        self._polling_stop = threading.Event()
        request = TopologyClient([(c.url, Channel(c)) for c in config.controllers], config.node)
        start_thread("topology", partial(self._poll_topology, request, self._polling_stop))

    def _poll_topology(self, request: TopologyClient, ended: threading.Event) -> None:
        wait = 0.0
        while not ended.wait(wait):
            if (found := request.poll()) is not None:
                self._pending_topology[:] = [found]
            wait = POLL_PERIOD if request.has_answered else FIRST_POLL_PERIOD


def _load_topology(config: AgentConfig) -> Topology | None:
    return read_topology(Path(config.topology)) if config.topology else None


def _version() -> str:
    try:
        return version("skewscope")
    except PackageNotFoundError:
        return "unknown"
