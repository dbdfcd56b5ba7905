"""Receives the rows that agents push: table announcements, duplicates, clock offsets."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skewscope.adapters.controller.agent_registry import AgentRecord
from skewscope.adapters.formats.row_protocol import MAX_COLUMNS, BadRowsError, HelloFrame, RowFrame, SeriesFrame, decode
from skewscope.adapters.runtime.clock import Clock
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch
from skewscope.engine.ingest.feed import SeriesKey
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
MAX_TEXTS = 4_000_000
"""Maximum number of interned texts."""
NODE_KINDS = ("node",)
PART_KINDS = ("port", "gpu")


class UnknownTablesError(Exception):
    """Rows of tables that were not announced; the agent must announce them again."""

    def __init__(self, tables: Iterable[int]) -> None:
        self.tables = sorted(tables)
        super().__init__(f"unknown tables {self.tables}")


class ForeignNodeError(Exception):
    """A node that the topology lacks, or that the sender must not report for."""


class ReceiverBusyError(Exception):
    """Too many batches wait; the agent must keep its rows and send them again."""

    def __init__(self) -> None:
        super().__init__("too many batches wait; send it again in a moment")


class AgentTable:
    """The series of one table of an agent."""

    __slots__ = ("__weakref__", "keys", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys: list[SeriesKey] = []

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


@dataclass(slots=True)
class AgentState:
    """The agent of one node."""

    node: str
    version: str = ""
    boots: dict[str, AgentBoot] = field(default_factory=dict)
    last_seen: float = 0.0
    """Time of its last row, by the controller's clock."""
    repeated_rows: int = 0
    foreign_series: int = 0
    """Announced series of other entities, which are ignored."""
    clock_offset: float = 0.0
    """Seconds that its clock is behind the controller's, at most: includes the latency of a row."""
    _offset_since: float = 0.0

    def update_offset(self, row: float, arrived: float) -> None:
        """Updates the clock offset from a row: the youngest row of a window counts, since older ones were delayed."""
        late = arrived - row
        if arrived - self._offset_since > OFFSET_WINDOW or late < self.clock_offset:
            self.clock_offset, self._offset_since = late, arrived


@dataclass
class AgentReceiver:
    """All agents of a fleet."""

    topology: Topology
    clock: Clock
    sink: BatchSink = field(init=False)
    agents: dict[str, AgentState] = field(default_factory=dict)
    wanted_signals: frozenset[str] | None = None
    """Signals that are read; None for all, as when everything is recorded."""
    _texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sink = BatchSink(self.clock)

    def receive(self, body: bytes, allowed: str | None = None) -> int:
        """Receives a body; returns the highest sequence received of this boot, -1 for none.

        Args:
            body: as it was sent.
            allowed: the only node that the sender may report for; None for any of the topology.

        Raises:
            BadRowsError: the body is invalid.
            ForeignNodeError: the sender must not report for the node.
            UnknownTablesError: a table was not announced; no row of the body was used.
            ReceiverBusyError: too many batches wait; no row of the body was used.
        """
        hello, *frames = decode(body)
        assert isinstance(hello, HelloFrame)
        self._check_node(hello.node, allowed)
        agent = self.agents.setdefault(hello.node, AgentState(hello.node))
        agent.version, agent.last_seen = hello.version, self.clock.now()
        boot = self._get_boot(agent, hello.boot)
        rows = []
        for frame in frames:
            if isinstance(frame, SeriesFrame):
                self._announce(agent, boot, frame, bound=allowed is not None)
            elif isinstance(frame, RowFrame):
                rows.append(frame)
        self._store_rows(agent, boot, rows)
        return boot.last_sequence

    def agent_records(self) -> list[AgentRecord]:
        """Returns the agents seen since the start."""
        return [AgentRecord(one.node, one.version, one.last_seen) for one in self.agents.values() if one.boots]

    def expect_agents(self, agents: Iterable[AgentRecord]) -> None:
        """Expects the agents of the last run as if they had just sent a row."""
        for node, version, _ in agents:
            if node in self.topology.node:
                self.agents.setdefault(node, AgentState(node, version, last_seen=self.clock.now()))

    def request_announcements(self) -> None:
        """Forgets the announced tables; agents announce them again with their next rows."""
        for agent in self.agents.values():
            for boot in agent.boots.values():
                boot.tables, boot.columns = {}, 0

    def _check_node(self, node: str, allowed: str | None) -> None:
        if node not in self.topology.node:
            raise ForeignNodeError(f"{node!r} is not a node of the topology")
        if allowed is not None and node != allowed:
            raise ForeignNodeError(f"this sender may report for {allowed!r} only, not for {node!r}")

    def _get_boot(self, agent: AgentState, name: str) -> AgentBoot:
        boot = agent.boots.pop(name, None) or AgentBoot()
        agent.boots[name] = boot  # The newest boot is last.
        while len(agent.boots) > MAX_BOOTS:
            del agent.boots[next(iter(agent.boots))]
        return boot

    def _announce(self, agent: AgentState, boot: AgentBoot, payload: SeriesFrame, *, bound: bool) -> None:
        table = boot.tables.get(payload.table)
        if table is None:
            table = boot.tables[payload.table] = AgentTable(f"{agent.node}/{payload.table}")
        known = len(table.keys)
        if payload.first > known:
            raise UnknownTablesError([payload.table])
        # A repeated announcement must be identical: a number never changes its meaning.
        new = payload.series[known - payload.first :]
        again = zip(payload.series, table.keys[payload.first :], strict=False)
        if any(key != before for key, before in again if before is not DISCARDED_SERIES):
            raise BadRowsError(f"other series under numbers of table {payload.table} that were announced before")
        boot.columns += len(new)
        if boot.columns > MAX_COLUMNS:
            raise BadRowsError(f"more than {MAX_COLUMNS} series of one agent")
        for key in new:
            own = not bound or self._belongs_to(key, agent.node)
            agent.foreign_series += not own
            kept = own and (self.wanted_signals is None or key.signal in self.wanted_signals)
            table.keys.append(self._intern(key) if kept else DISCARDED_SERIES)

    def _intern(self, key: SeriesKey) -> SeriesKey:
        """Returns an equal key with interned texts: a fleet repeats them thousands of times."""
        keep = self._texts.setdefault if len(self._texts) < MAX_TEXTS else self._texts.get
        entity = keep(key.entity, key.entity)
        return SeriesKey(sys.intern(key.signal), sys.intern(key.kind), entity, keep(key.selector, key.selector))

    def _belongs_to(self, key: SeriesKey, node: str) -> bool:
        """Returns whether a node's own agent can observe a series."""
        entity = key.entity.split(">", maxsplit=1)[0]
        if key.kind in NODE_KINDS:
            return entity == node
        if key.kind in (*PART_KINDS, "peer"):
            return entity.split("/", maxsplit=1)[0] == node
        if key.kind == "link":
            return any(end.split("/", maxsplit=1)[0] == node for end in entity.split("--"))
        group = self.topology.group.get(entity.split(":", maxsplit=1)[0])
        members = {group.front_end, *(self.topology.node_of[m] for m in group.members)} if group else set()
        return key.kind in ("rank", "group", "replica") and node in members

    def _store_rows(self, agent: AgentState, boot: AgentBoot, rows: list[RowFrame]) -> None:
        tables = boot.tables
        if unknown := {r.table for r in rows if r.table not in tables or len(r.values) > len(tables[r.table].keys)}:
            raise UnknownTablesError(unknown)
        if rows and self.sink.is_crowded:
            raise ReceiverBusyError
        for row in rows:
            if row.sequence <= boot.last_sequence:
                agent.repeated_rows += 1
                continue
            boot.last_sequence = row.sequence
            agent.update_offset(row.time, agent.last_seen)
            self.sink.put(SourceBatch(tables[row.table], None, row.time, row.values))

    def trouble(self) -> str:
        """Returns a problem with agents in words; '' for none."""
        now = self.clock.now()
        silent = sum(now - agent.last_seen > SILENT_AFTER for agent in self.agents.values())
        off = sum(
            abs(agent.clock_offset) > MAX_CLOCK_OFFSET
            for agent in self.agents.values()
            if now - agent.last_seen <= SILENT_AFTER
        )
        text = [f"{silent} of {len(self.agents)} agents are silent"] if silent else []
        return ", ".join([*text, f"the clocks of {off} are off by more than {MAX_CLOCK_OFFSET:g} s"] if off else text)


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
            await self.clock.sleep(CHECK_PERIOD)


DISCARDED_SERIES = SeriesKey("", "", "")
"""Replaces series of other entities and unread ones: no rule reads it."""
