"""Receives the rows that agents push: table announcements, duplicates, clock offsets."""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Protocol

from skewscope.adapters.controller.agent_registry import AgentRecord
from skewscope.adapters.controller.work_allowance import WorkAllowance
from skewscope.adapters.formats.row_protocol import (
    MAX_COLUMNS,
    BadRowsError,
    HelloFrame,
    RowFrame,
    SeriesFrame,
    WireFrame,
    decode_frames,
    unpack,
)
from skewscope.adapters.mapping.senders import Sender, SenderRule
from skewscope.adapters.runtime.clock import Clock
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.senders import natural_sender
from skewscope.engine.model.topology import Topology

SOURCE_NAME = "agents"
MAX_BOOTS = 2
"""Boots remembered per agent: rows of the previous one may still be in transit."""
MAX_CLOCK_OFFSET = 2.0
"""Clock offset in seconds above which a warning is given."""
OFFSET_WINDOW = 30.0
"""Seconds over which the newest row of an agent determines its clock offset."""
CHECK_PERIOD = 5.0
"""Seconds between two checks for silent agents."""
SILENT_AFTER = 10.0
"""Seconds without a row after which an agent counts as silent."""
MAX_NAMED = 3
"""Nodes that a problem names."""
VALUE_BYTES = 8
FRAME_COST, SERIES_COST = 32, 2
"""Values that a frame and an announced series count for, besides its bytes."""
BROKEN_COST = 16_384
"""Values that a body counts for that cannot be unpacked."""
WORK_RATE, WORK_BURST = float(MAX_COLUMNS), 16.0 * MAX_COLUMNS
"""Values a second that one sender may send in the long run, and at once after a pause. An agent with all its series
sends a tenth of that; after an hour without a controller it sends the rest at this rate."""
CHECKED_SERIES = 256
"""Announced series after which a body may give way."""
SECOND_COST = 80.0 * MAX_COLUMNS
"""Values that a second of a processor counts for, whatever it was spent on: a sender may use an eightieth of one, and a
fifth of a second at once. To announce all series of an agent takes a few hundredths."""
ANNOUNCE_RATE = MAX_COLUMNS / 3600.0
"""Series a second that one agent may announce in the long run, after MAX_COLUMNS at once: under ever new boots, one
node could otherwise fill the controller's memory with series."""
BOOT_TIMEOUT = 600.0
"""Seconds after which the boot before the present one is forgotten: no row of it is in transit any more."""
NAMED_FOR = 60.0
"""Seconds for which a problem names a sender that was refused."""
FOREIGN_NAMED_FOR = 600.0
"""The same of one that announced series of others: that is done once."""


class UnknownTablesError(Exception):
    """Rows of tables that were not announced; the agent must announce them again."""

    def __init__(self, tables: Iterable[int]) -> None:
        self.tables = sorted(tables)
        super().__init__(f"unknown tables {self.tables}")


class ForeignNodeError(Exception):
    """A node that the topology lacks, or that the sender must not report for."""


class RowsMovedError(Exception):
    """Another server takes the rows of the node."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(f"send the rows of this node to {url}")


class ReceiverBusyError(Exception):
    """Too many batches wait, or one sender sent too much; the agent must keep its rows and send them again."""

    def __init__(self, why: str = "too many batches wait; send it again in a moment", wait: float = 1.0) -> None:
        self.wait = wait
        """Seconds after which it may succeed."""
        super().__init__(why)


class OverShareError(ReceiverBusyError):
    """A sender has sent more than its share."""


class AgentTable:
    """The series of one table of an agent."""

    __slots__ = ("__weakref__", "keys", "name", "owner", "senders")

    def __init__(self, name: str, owner: str = "") -> None:
        self.name, self.owner = name, owner
        self.keys: list[SeriesKey] = []
        self.senders: dict[SeriesKey, str] = {}

    @property
    def ranks(self) -> Sequence[int]:
        """[series] uint8 zeros: canonical names have rank 0 (`names.CANONICAL_RANK`)."""
        return bytes(len(self.keys))


@dataclass(slots=True)
class AgentBoot:
    """One boot of an agent."""

    tables: dict[int, AgentTable] = field(default_factory=dict)
    columns: int = 0
    last_sequence: int = -1
    """The highest received sequence number."""
    last_seen: float = 0.0


@dataclass(slots=True)
class AgentState:
    """The agent of one node."""

    node: str
    version: str = ""
    boots: dict[str, AgentBoot] = field(default_factory=dict)
    last_seen: float = 0.0
    """Time of its last row, by the controller's clock."""
    repeated_rows: int = 0
    foreign: Counter[str] = field(default_factory=Counter)
    """Announced series of other entities, which are ignored, by reason."""
    foreign_at: float = -math.inf
    """Time of the last one."""
    refused_bodies: int = 0
    """Bodies refused because it sent more than its share."""
    refused_at: float = -math.inf
    """Time of the last one."""
    announcements: WorkAllowance = field(default_factory=lambda: WorkAllowance(ANNOUNCE_RATE, float(MAX_COLUMNS)))
    clock_offset: float = 0.0
    """Seconds that its clock is behind the controller's, at most: includes the latency of a row."""
    _offset_since: float = 0.0

    @property
    def foreign_series(self) -> int:
        """Announced series of other entities, which are ignored."""
        return self.foreign.total()

    def update_offset(self, row: float, arrived: float) -> None:
        """Updates the clock offset from a row: the youngest row of a window counts, since older ones were delayed."""
        late = arrived - row
        if arrived - self._offset_since > OFFSET_WINDOW or late < self.clock_offset:
            self.clock_offset, self._offset_since = late, arrived


class OtherBodies(Protocol):
    """Bodies that may be received in the middle of a long one."""

    def is_way_due(self) -> bool:
        """Returns whether the body has been received for long without a pause."""

    def give_way(self) -> None:
        """Receives bodies of others, and rests."""


@dataclass
class AgentReceiver:
    """All agents of a fleet."""

    topology: Topology
    clock: Clock
    sink: BatchSink = field(init=False)
    agents: dict[str, AgentState] = field(default_factory=dict)
    wanted_signals: frozenset[str] | None = None
    """Signals that are read; None for all, as when everything is recorded."""
    speakers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By group: nodes that may say something of the group and its members, besides its front end."""
    cpu_time: Callable[[], float] = time.thread_time
    """Seconds that the thread has used of a processor."""
    _shares: dict[str, WorkAllowance] = field(default_factory=dict)
    """Allowance of each node."""
    others: OtherBodies | None = None
    """To which a long body gives way."""
    _given: float = 0.0
    """Seconds of a processor that they used, so far."""
    _forgets: bool = False
    """Whether the announced tables are to be forgotten before the next body is received."""
    _taken: str = ""
    """The node whose body is being received when way is given."""
    _lock: RLock = field(default_factory=RLock)
    """Bodies are received in a thread of their own, and small ones in the middle of a long one."""

    def __post_init__(self) -> None:
        self.sink = BatchSink(self.clock)

    def receive(self, body: bytes, allowed: str | None = None) -> int:
        """Receives a body; returns the highest sequence received of this boot, -1 for none.

        Args:
            body: as it was sent.
            allowed: the only node that the sender may report for; None for any of the topology.

        Raises:
            BadRowsError: the body is invalid; no row of it was used, but series before the fault may be announced.
            ForeignNodeError: the sender must not report for the node.
            UnknownTablesError: a table was not announced; no row of the body was used.
            ReceiverBusyError: too many batches wait, or the sender is over its share; no row of the body was used.
        """
        if allowed is not None:
            self._check_share(allowed)
        begun, given, sender = self.cpu_time(), self._given, allowed
        try:
            frames = self._read_frames(self._unpack(body, allowed), allowed)
            hello = next(frames)
            assert isinstance(hello, HelloFrame)
            sender = hello.node
            # Each frame is taken before the next one is read: those of one body would fill much memory.
            with self._lock:
                return self._take(hello, frames, bound=allowed is not None)
        finally:
            if sender is not None:
                own = self.cpu_time() - begun - (self._given - given)
                self._share_of(sender).use(SECOND_COST * own)

    def _unpack(self, body: bytes, allowed: str | None) -> bytes:
        try:
            return unpack(body)
        except BadRowsError:
            if allowed is not None:
                self._share_of(allowed).use(BROKEN_COST)
            raise

    def _read_frames(self, unpacked: bytes, allowed: str | None) -> Iterator[WireFrame]:
        """Yields the frames of a body; what is read counts, whether or not the body is valid."""
        frames = decode_frames(unpacked)
        work, share = len(unpacked) / VALUE_BYTES, self._share_of(allowed) if allowed is not None else None
        try:
            hello = next(frames)
            assert isinstance(hello, HelloFrame)
            self._check_node(hello.node, allowed)
            # Who may report for every node is bounded by node too, but not before the node is known.
            share = share or self._check_share(hello.node)
            yield hello
            for frame in frames:
                work += FRAME_COST + (SERIES_COST * len(frame.series) if isinstance(frame, SeriesFrame) else 0)
                self._give_way_if_due(hello.node)
                yield frame
        finally:
            if share is not None:
                share.use(work)

    def _give_way_if_due(self, node: str) -> None:
        """Lets others be received in the middle of a long body; of the same node, nothing is until it is complete."""
        if self.others is None or self._taken or not self.others.is_way_due():
            return
        self._taken, begun = node, self.cpu_time()
        try:
            self.others.give_way()
        finally:
            self._taken = ""
            self._given += self.cpu_time() - begun

    def _take(self, hello: HelloFrame, frames: Iterable[WireFrame], *, bound: bool) -> int:
        if hello.node == self._taken:
            why = f"another body of {hello.node!r} is being received; send it again in a moment"
            raise ReceiverBusyError(why)
        self._forget_tables()
        agent = self.agents.setdefault(hello.node, AgentState(hello.node))
        agent.version, agent.last_seen = hello.version, self.clock.now()
        boot = self._get_boot(agent, hello.boot)
        rows, texts = [], dict[str, str]()
        for frame in frames:
            if isinstance(frame, SeriesFrame):
                self._announce(agent, boot, frame, texts, bound=bound)
            elif isinstance(frame, RowFrame):
                rows.append(frame)
        self._store_rows(agent, boot, rows)
        return boot.last_sequence

    def agent_records(self) -> list[AgentRecord]:
        """Returns the agents seen since the start."""
        return [AgentRecord(one.node, one.version, one.last_seen) for one in list(self.agents.values()) if one.boots]

    def expect_agents(self, agents: Iterable[AgentRecord]) -> None:
        """Expects the agents of the last run as if they had just sent a row."""
        for node, version, _ in agents:
            if node in self.topology.node:
                self.agents.setdefault(node, AgentState(node, version, last_seen=self.clock.now()))

    def request_announcements(self) -> None:
        """Forgets the announced tables; agents announce them again with their next rows.

        It does not wait for a body that is being received: then the next body begins with it.
        """
        self._forgets = True
        if self._lock.acquire(blocking=False):
            try:
                self._forget_tables()
            finally:
                self._lock.release()

    def _forget_tables(self) -> None:
        if not self._forgets:
            return
        self._forgets = False
        for agent in list(self.agents.values()):
            agent.announcements.used = 0.0
            for boot in agent.boots.values():
                boot.tables, boot.columns = {}, 0

    def _share_of(self, node: str) -> WorkAllowance:
        return self._shares.setdefault(node, WorkAllowance(WORK_RATE, WORK_BURST))

    def _check_share(self, node: str) -> WorkAllowance:
        """Returns the allowance of a node."""
        share, now = self._share_of(node), self.clock.now()
        if not share.has_room(now):
            self._note_refusal(self.agents.setdefault(node, AgentState(node)))
            why = f"more than {WORK_RATE:.0f} values a second from {node!r}; send it again in {share.wait:.0f} s"
            raise OverShareError(why, share.wait)
        return share

    def _note_refusal(self, agent: AgentState) -> None:
        agent.refused_bodies += 1
        agent.refused_at = self.clock.now()

    def _check_node(self, node: str, allowed: str | None) -> None:
        if node not in self.topology.node:
            raise ForeignNodeError(f"{node!r} is not a node of the topology")
        if allowed is not None and node != allowed:
            raise ForeignNodeError(f"this sender may report for {allowed!r} only, not for {node!r}")

    def _get_boot(self, agent: AgentState, name: str) -> AgentBoot:
        boot = agent.boots.pop(name, None) or AgentBoot()
        agent.boots[name] = boot  # The newest boot is last.
        boot.last_seen = agent.last_seen
        gone = [one for one, known in agent.boots.items() if agent.last_seen - known.last_seen > BOOT_TIMEOUT]
        for one in [*list(agent.boots)[:-MAX_BOOTS], *gone]:
            agent.boots.pop(one, None)
        return boot

    def _announce(
        self, agent: AgentState, boot: AgentBoot, payload: SeriesFrame, texts: dict[str, str], *, bound: bool
    ) -> None:
        """Takes in series; `texts` holds the names of the body, each once: an agent repeats them hundreds of times."""
        table = boot.tables.get(payload.table)
        if table is None:
            table = boot.tables[payload.table] = AgentTable(f"{agent.node}/{payload.table}", agent.node)
        sender, rule = self._sender_of(agent.node, bound=bound), SenderRule(self.topology)
        is_appointed, known = bool(sender.groups) or sender.is_fleet, len(table.keys)
        if payload.first > known:
            raise UnknownTablesError([payload.table])
        # A repeated announcement must be identical: a number never changes its meaning.
        new = payload.series[known - payload.first :]
        again = zip(payload.series, table.keys[payload.first :], strict=False)
        if any(key != before for key, before in again if before is not DISCARDED_SERIES):
            raise BadRowsError(f"other series under numbers of table {payload.table} that were announced before")
        if not agent.announcements.has_room(self.clock.now()):
            self._note_refusal(agent)
            why = f"more than {MAX_COLUMNS} new series of {agent.node!r} in an hour; announce them later"
            raise ReceiverBusyError(why, agent.announcements.wait)
        boot.columns += len(new)
        if boot.columns > MAX_COLUMNS:
            raise BadRowsError(f"more than {MAX_COLUMNS} series of one agent")
        earlier = [one.tables[payload.table].keys for one in agent.boots.values() if payload.table in one.tables]
        fresh = 0
        for number, key in enumerate(new, known):
            if number % CHECKED_SERIES == 0:
                self._give_way_if_due(agent.node)
            reason = rule.find_objection(sender, key)
            if reason:
                agent.foreign[reason] += 1
                agent.foreign_at = self.clock.now()
            elif is_appointed and natural_sender(key.kind, key.entity, self.topology) != agent.node:
                table.senders[key] = agent.node
            kept = not reason and (self.wanted_signals is None or key.signal in self.wanted_signals)
            # An agent that starts again and again announces what it did before.
            fresh += kept and all(number >= len(keys) or keys[number] != key for keys in earlier)
            table.keys.append(_intern(key, texts) if kept else DISCARDED_SERIES)
        agent.announcements.use(fresh)

    def _sender_of(self, node: str, *, bound: bool) -> Sender:
        """Returns the sender that an agent is: of its node, or of the fleet where its token is for every node."""
        groups = frozenset(group for group, nodes in self.speakers.items() if node in nodes)
        return Sender(node, frozenset((node,)), groups, is_fleet=not bound)

    def _store_rows(self, agent: AgentState, boot: AgentBoot, rows: list[RowFrame]) -> None:
        tables = boot.tables
        if unknown := {r.table for r in rows if r.table not in tables or len(r.values) > len(tables[r.table].keys)}:
            raise UnknownTablesError(unknown)
        if rows and self.sink.is_crowded:
            raise ReceiverBusyError
        for row in rows:
            self._give_way_if_due(agent.node)
            if row.sequence <= boot.last_sequence:
                agent.repeated_rows += 1
                continue
            boot.last_sequence = row.sequence
            agent.update_offset(row.time, agent.last_seen)
            self.sink.put(SourceBatch(tables[row.table], None, row.time, row.values))

    def count_foreign(self) -> dict[str, int]:
        """Returns how many series of others each node has announced that did so lately."""
        now, agents = self.clock.now(), list(self.agents.values())
        return {one.node: one.foreign_series for one in agents if abs(now - one.foreign_at) <= FOREIGN_NAMED_FOR}

    def count_refusals(self) -> dict[tuple[str, str], int]:
        """Returns how many series were refused, by node of the agent and reason."""
        return {(one.node, why): n for one in list(self.agents.values()) for why, n in dict(one.foreign).items()}

    def trouble(self) -> str:
        """Returns a problem with agents in words; '' for none."""
        now, agents = self.clock.now(), list(self.agents.values())
        # A clock that was set back makes times lie ahead.
        silent = sum(abs(now - agent.last_seen) > SILENT_AFTER for agent in agents)
        off = sum(
            abs(agent.clock_offset) > MAX_CLOCK_OFFSET for agent in agents if abs(now - agent.last_seen) <= SILENT_AFTER
        )
        text = [f"{silent} of {len(agents)} agents are silent"] if silent else []
        foreign = sorted(self.count_foreign())
        refused = sorted(agent.node for agent in agents if abs(now - agent.refused_at) <= NAMED_FOR)
        text += [f"{_name_some(foreign)} sent series of others, which were refused"] if foreign else []
        text += [f"{_name_some(refused)} sent more than its share"] if refused else []
        return ", ".join([*text, f"the clocks of {off} are off by more than {MAX_CLOCK_OFFSET:g} s"] if off else text)


def _intern(key: SeriesKey, texts: dict[str, str]) -> SeriesKey:
    """Returns an equal key whose texts are kept once."""
    entity, selector = (texts.setdefault(text, text) for text in (key.entity, key.selector))
    return SeriesKey(sys.intern(key.signal), sys.intern(key.kind), entity, selector)


def _name_some(nodes: Sequence[str]) -> str:
    rest = len(nodes) - MAX_NAMED
    return ", ".join(nodes[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


@dataclass
class AgentSource:
    """All agents as one source."""

    receiver: AgentReceiver
    clock: Clock
    name: str = SOURCE_NAME
    period: float = 0.0
    """Zero: silence is tracked per agent."""

    async def run(self, sink: BatchSink) -> None:
        """Lets the rows of agents flow into the sink."""
        self.receiver.sink = sink
        while True:
            sink.trouble = self.receiver.trouble()
            foreign = self.receiver.count_foreign()
            sink.refusals = self.receiver.count_refusals()
            sink.unmapped = {("", f"{node} sent them of others, which is refused"): n for node, n in foreign.items()}
            await self.clock.sleep(CHECK_PERIOD)


DISCARDED_SERIES = SeriesKey("", "", "")
"""Replaces series of other entities and unread ones: no rule reads it."""
