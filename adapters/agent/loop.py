"""The rim: the clock, the signals of the operating system, and the loop that calls the agent each whole second."""

import logging
import secrets
import signal
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from skewscope.adapters.agent import own, page
from skewscope.adapters.agent.agent import Agent
from skewscope.adapters.agent.config import Config, load
from skewscope.adapters.agent.observer import Clocks
from skewscope.adapters.agent.where import Asked, from_file
from skewscope.adapters.channel import Channel
from skewscope.adapters.wire_rows import Hello
from skewscope.engine.topology import Topology
from skewscope.kb.load import signals
from skewscope.kb.problems import InputError

log = logging.getLogger("skewscope.agent")

TOLERATED = 0.5
"""Seconds after a whole second at which a tick counts as late."""
ASK_FIRST, ASK_LATER = 2.0, 60.0
"""Seconds between two questions for the topology, before the first answer and after it."""


def run(path: Path) -> None:
    """Runs an agent until it is told to end.

    Raises:
        InputError: its configuration has faults.
    """
    Loop(path).run()


class Loop:
    """One run of an agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        config = load(path)
        hello = Hello(config.node, secrets.token_hex(8), _version())
        self._agent = Agent(config, signals(), hello, Clocks(time.time, time.thread_time))
        self._late = 0
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._news: list[Topology] = []
        self._server: page.Server | None = None
        self._asking = threading.Event()

    def run(self) -> None:
        """Ticks until a signal says stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        signal.signal(signal.SIGHUP, lambda *_: self._reload.set())
        config = self._agent.config
        self._agent.start(_topology(config))
        self._serve(config)
        self._ask(config)
        log.info("node %s runs on a %s, %d controllers", config.node, config.runs_on, len(config.controllers))
        try:
            self._ticks()
        finally:
            self._asking.set()
            self._unserve()
            self._agent.stop()

    def _ticks(self) -> None:
        due = int(time.time()) + 1
        while not self._stop.wait(min(max(due - time.time(), 0), 1)):
            if self._reload.is_set():
                self._reload.clear()
                self._reloaded()
            if self._news:
                self._agent.moved(self._news.pop())
                self._news.clear()
            due = self._tick(time.time(), due)

    def _tick(self, now: float, due: int) -> int:
        """Ticks if it is time; gives when the next tick is due."""
        if now < due:
            # Further away than a tick can be: the clock was set back.
            return due if due - now <= 1 else int(now) + 1
        if now - due > TOLERATED:
            self._late += max(int(now - due), 1)
            due = int(now)
        self._agent.tick(float(due))
        return due + 1

    def _reloaded(self) -> None:
        """Takes on the configuration as it is now; one with faults is told and left."""
        try:
            config = load(self._path)
            if config.node != self._agent.config.node:
                log.error("%s: another node's name takes a restart; nothing was changed", self._path)
                return
            topology = _topology(config)
        except InputError as error:
            log.error(  # noqa: TRY400 - where it was raised says nothing to an operator
                "nothing was changed, for the new configuration has faults:\n%s", error
            )
            return
        before = self._agent.config
        self._agent.reload(config, topology)
        if config.listen != before.listen:
            self._unserve()
            self._serve(config)
        self._asking.set()
        self._ask(config)
        log.info("reloaded %s", self._path)

    def _serve(self, config: Config) -> None:
        if config.listen is None:
            return
        answers = page.Answers(self._metrics, lambda: own.health(self._agent, time.time()))
        try:
            self._server = page.Server(config.listen, answers)
        except OSError as error:
            log.error(  # noqa: TRY400 - as above
                "cannot listen on %s:%d: %s; the agent goes on without", *config.listen, error.strerror
            )
            return
        self._server.start()

    def _unserve(self) -> None:
        if self._server:
            self._server.stop()
            self._server = None

    def _metrics(self) -> str:
        agent = self._agent
        fresh = [table for table in agent.tables.all() if not table.stale(time.time())]
        return page.text(fresh, own.own(agent, self._late), agent.catalogue)

    def _ask(self, config: Config) -> None:
        """Asks controllers for the topology from time to time, where no file says it."""
        if config.topology or not config.controllers:
            return
        self._asking = threading.Event()
        asked = Asked([(c.url, Channel(c)) for c in config.controllers], config.node)
        threading.Thread(target=self._keep_asking, args=(asked, self._asking), name="topology", daemon=True).start()

    def _keep_asking(self, asked: Asked, ended: threading.Event) -> None:
        wait = 0.0
        while not ended.wait(wait):
            if (found := asked.news()) is not None:
                self._news[:] = [found]
            wait = ASK_LATER if asked.answered else ASK_FIRST


def _topology(config: Config) -> Topology | None:
    return from_file(Path(config.topology)) if config.topology else None


def _version() -> str:
    try:
        return version("skewscope")
    except PackageNotFoundError:
        return "unknown"
