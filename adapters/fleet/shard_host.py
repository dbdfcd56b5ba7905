"""A shard that runs: it ticks with the clock, keeps its journal, and answers polls with its newest report."""

import logging
import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.adapters.controller.agent_receiver import ForeignNodeError, ReceiverBusyError, UnknownTablesError
from skewscope.adapters.controller.allocation import return_free_memory
from skewscope.adapters.fleet.journal import ROWS, TICK, Journal, JournalRecord
from skewscope.adapters.fleet.shard_engine import ShardEngine
from skewscope.adapters.fleet.shard_report import ShardReport
from skewscope.adapters.fleet.state_codec import StateError
from skewscope.adapters.formats.row_protocol import BadRowsError
from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.runtime.clock import Clock, SystemClock
from skewscope.engine.engine import TICK_S
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.loader import catalogue, installed_catalogue, load_with_site, use_catalogue
from skewscope.kb.problems import InputError
from skewscope.kb.site_files import SiteFiles
from skewscope.kb.yamlfile import parse

SNAPSHOT_S = 10.0
"""Seconds of data between two snapshots."""
MAX_LOG_BYTES = 1 << 30
"""Bytes of a log after which a snapshot is made at once."""
MAX_CATCH_UP = 60.0
"""Seconds that a shard was away and that it judges tick by tick afterwards; more are passed over."""
SETTLE_S = 3.0
"""Seconds that a shard that returns waits at most for the rows that its agents have kept, before it judges."""
SETTLE_STEP_S = 0.05
HEARD_S = 5.0
"""Seconds without a row after which a shard that returns does not wait for an agent."""
ANY_NODE = b"*"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What a shard is made from."""

    name: str
    topology: Topology
    folder: Path
    """Of its journal."""
    grace: float = 0.25
    """Seconds after the end of a tick in which its samples may still arrive."""
    snapshot_s: float = SNAPSHOT_S
    """Seconds of data between two snapshots."""
    also_read: frozenset[str] = frozenset()
    """Signals that are kept though neither rules nor symptoms read them."""
    site: SiteFiles | None = None
    """The knowledge of the site, which the shard's machine need not have as files."""


class ShardHost:
    """One running shard. Rows, ticks and polls may come from different threads."""

    def __init__(self, plan: ShardPlan, clock: Clock | None = None) -> None:
        """Opens the journal and goes on where the shard stopped.

        Raises:
            SkewscopeError: the rules are invalid, or the journal cannot be used.
        """
        self.plan, self.clock, self.url = plan, clock or SystemClock(), ""
        use_catalogue(load_with_site(plan.site) if plan.site else installed_catalogue())
        self.engine = ShardEngine(plan.topology, catalogue(), plan.also_read)
        self.journal = Journal(plan.folder, self.engine.fingerprint)
        self.journal.open()
        self.trouble = ""
        """Why the journal cannot be written; '' while it can."""
        self._log_lock, self._tick_lock = threading.Lock(), threading.Lock()
        self._acknowledged = 0
        self._snapshot_at = -math.inf
        self.is_restored = self._recover()
        self._report = self.engine.report(plan.name)

    # --- recovery

    def _recover(self) -> bool:
        """Goes on where the shard stopped, also after a change of its topology; returns whether it could."""
        is_restored = self._load(self.engine)
        if not is_restored:
            is_restored = self._take_over()
            if not is_restored:
                self.journal.clear()
            self._write_snapshot()
        self.journal.keep_topology(lambda: format_topology(self.plan.topology))
        return is_restored

    def _take_over(self) -> bool:
        """Takes over what the shard knew while it had another topology; returns whether there was anything."""
        text = self.journal.read_topology()
        if not text:
            return False
        try:
            before = ShardEngine(parse_valid_topology(parse(text)), catalogue(), self.plan.also_read)
        except InputError as error:
            log.warning("%s: %s", self.plan.name, error)
            return False
        self.journal.fingerprint = before.fingerprint
        try:
            if not self._load(before):
                return False
        finally:
            self.journal.fingerprint = self.engine.fingerprint
        self.engine.take_over(before)
        return True

    def _load(self, engine: ShardEngine) -> bool:
        """Loads the newest usable snapshot and repeats what was logged since; returns whether there was one."""
        for number in self.journal.snapshots():
            try:
                engine.load(self.journal.read_snapshot(number))
            except StateError as error:
                log.warning("%s: %s", self.plan.name, error)
                continue
            # Not the time after the log: a shard that dies again and again would never write another one.
            self._snapshot_at = engine.time
            for record in self.journal.records_since(number):
                _repeat(engine, record)
            return True
        return False

    # --- rows

    def receive(self, body: bytes, allowed: str | None) -> int:
        """Receives rows of an agent; once it returns they survive the end of this process.

        Returns the highest sequence number received of this boot. Raises what `AgentReceiver.receive` raises, and
        ReceiverBusyError where the journal cannot be written.
        """
        now = self.clock.now()
        with self._log_lock:
            try:
                found = self.engine.receive(body, allowed, now)
            except (UnknownTablesError, BadRowsError):
                # Some of it may have been used.
                self._log(ROWS, now, _pack_body(body, allowed))
                raise
            self._log(ROWS, now, _pack_body(body, allowed))
        return found

    def _log(self, kind: int, at: float, payload: bytes = b"") -> None:
        try:
            self.journal.append(kind, at, payload)
        except OSError as error:
            self.trouble = f"the journal of {self.plan.name} cannot be written: {error}"
            raise ReceiverBusyError(self.trouble) from error

    # --- ticks

    @property
    def is_judging(self) -> bool:
        """Whether the samples of a tick are being judged, or the state is being written."""
        return self._tick_lock.locked()

    def tick(self, t: float) -> None:
        """Judges the tick that ends at `t` seconds since 1970."""
        with self._tick_lock:
            self.engine.acknowledge(self._acknowledged)
            with self._log_lock:
                block = self.engine.take_block(t)
                try:
                    self._log(TICK, t)
                except ReceiverBusyError:
                    log.exception("%s goes on without its journal", self.plan.name)
            self.engine.step(t, block)
            if t - self._snapshot_at >= self.plan.snapshot_s or self.journal.log_bytes > MAX_LOG_BYTES:
                with self._log_lock:
                    self._write_snapshot()
            self._report = replace(self.engine.report(self.plan.name), url=self.url)

    def _write_snapshot(self) -> None:
        try:
            self.journal.write_snapshot(self.engine.dump())
            self.trouble = ""
        except (OSError, StateError) as error:
            self.trouble = f"the state of {self.plan.name} cannot be kept: {error}"
            log.error(self.trouble)  # noqa: TRY400 - all of it is in the message
        # While a shard grows to its fleet, a tenth of its memory is left free in between.
        return_free_memory()
        self._snapshot_at = self.engine.time

    def run(self, stop: threading.Event) -> None:
        """Ticks with the clock until stopped; what was missed is judged first, in its order."""
        if self.is_restored:
            self._settle(stop)
        while not stop.is_set():
            for t in self._due_ticks(self.clock.now()):
                self.tick(t)
            now = self.clock.now()
            following = (math.floor(now - self.plan.grace) + 1) * TICK_S + self.plan.grace
            stop.wait(max(following - now, 0.001))

    def _settle(self, stop: threading.Event) -> None:
        """Waits until the agents that reported until the end have sent what they kept."""
        begun, started = self.clock.now(), self.clock.uptime()
        agents = self.engine.agent_records()
        newest = max((one.last_seen for one in agents), default=begun)
        missing = {one.node for one in agents if one.last_seen > newest - HEARD_S}
        while missing and self.clock.uptime() - started < SETTLE_S and not stop.wait(SETTLE_STEP_S):
            missing -= {one.node for one in self.engine.agent_records() if one.last_seen >= begun}

    def _due_ticks(self, now: float) -> Iterable[float]:
        """Returns the ends of the ticks that are due: one, or all that were missed while the shard was away."""
        last, end = self.engine.time, float(math.floor(now - self.plan.grace))
        if not math.isfinite(last) or end - last > MAX_CATCH_UP or last - end > MAX_CATCH_UP:
            return (end,)
        return [last + n * TICK_S for n in range(1, round((end - last) / TICK_S) + 1)]

    # --- reports

    def poll(self, acknowledged: int, life: str = "") -> ShardReport:
        """Returns the newest report.

        Args:
            acknowledged: number of the last tick whose changes are safe elsewhere.
            life: the life of the shard to which the number belongs.
        """
        if life == self.engine.life:
            self._acknowledged = max(self._acknowledged, acknowledged)
        found = self._report
        ticks = tuple(tick for tick in found.ticks if life != found.life or tick.number > acknowledged)
        troubles = (*found.troubles, *([self.trouble] if self.trouble else []))
        return replace(found, ticks=ticks, troubles=troubles, url=self.url)

    def close(self) -> None:
        """Keeps the state and closes the journal."""
        with self._tick_lock, self._log_lock:
            self._write_snapshot()
            self.journal.close()


def _repeat(engine: ShardEngine, record: JournalRecord) -> None:
    if record.kind == TICK:
        engine.step(record.time, engine.take_block(record.time))
        return
    size = record.payload[0]
    allowed, body = record.payload[1 : 1 + size], record.payload[1 + size :]
    try:
        engine.receive(body, None if allowed == ANY_NODE else allowed.decode(), record.time)
    except (UnknownTablesError, BadRowsError, ForeignNodeError, ReceiverBusyError):
        return  # So it was answered then, too.


def _pack_body(body: bytes, allowed: str | None) -> bytes:
    name = ANY_NODE if allowed is None else allowed.encode()[:255]
    return bytes([len(name)]) + name + body
