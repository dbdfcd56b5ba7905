"""What agents push, as a source: who announced what, what came twice, and whose clock is off."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skewscope.adapters.clock import Clock
from skewscope.adapters.controller.roll import Heard
from skewscope.adapters.sources.base import Batch, Sink
from skewscope.adapters.wire_rows import MOST_COLUMNS, Announced, BadRowsError, Hello, Row, decode
from skewscope.engine.feed import SeriesKey
from skewscope.engine.topology import Topology

NAME = "agents"
BOOTS = 2
"""Starts of an agent that are remembered of a node: rows of the one before may still be under way."""
OFF = 2.0
"""Seconds by which a clock may be off before it is told."""
HEARD = 30.0
"""Seconds over which the newest row of an agent tells how far its clock is off."""
LOOK = 5.0
"""Seconds between two looks at who is silent."""
SILENT = 10.0
"""Seconds without a row after which an agent is called silent."""
MOST_TEXTS = 4_000_000
"""Names that are kept once for all who have them."""
WHOLE = ("node",)
PARTS = ("port", "gpu")


class UnknownTablesError(Exception):
    """Rows of tables that were not announced; the agent is to announce them again."""

    def __init__(self, tables: Iterable[int]) -> None:
        self.tables = sorted(tables)
        super().__init__(f"unknown tables {self.tables}")


class ForeignNodeError(Exception):
    """A node that is none of the topology, or that the sender may not speak for."""


class BusyError(Exception):
    """More waits than is judged in time; the agent is to keep its rows and send them again."""

    def __init__(self) -> None:
        super().__init__("too much waits to be judged; send it again in a moment")


class Table:
    """The series of one table of an agent."""

    __slots__ = ("__weakref__", "keys", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys: list[SeriesKey] = []

    @property
    def ranks(self) -> Sequence[int]:
        """All come by their canonical names, which rank 0 (`names.CANONICAL`): so many zero bytes say just that."""
        return bytes(len(self.keys))


@dataclass(slots=True)
class Boot:
    """One start of an agent."""

    tables: dict[int, Table] = field(default_factory=dict)
    columns: int = 0
    taken: int = -1
    """The highest sequence that was taken."""


@dataclass(slots=True)
class Agent:
    """The agent of one node."""

    node: str
    version: str = ""
    boots: dict[str, Boot] = field(default_factory=dict)
    last: float = 0.0
    """When it was heard last, by our clock."""
    repeated: int = 0
    foreign: int = 0
    """Series of others that it announced, and that do not count."""
    offset: float = 0.0
    """Seconds that its clock is behind ours, at most: the time that a row travels is in it."""
    _since: float = 0.0

    def timed(self, row: float, arrived: float) -> None:
        """Learns from a row how far the clock is off: the youngest of a while tells, for older ones were kept back."""
        late = arrived - row
        if arrived - self._since > HEARD or late < self.offset:
            self.offset, self._since = late, arrived


@dataclass
class Receiver:
    """All agents of a fleet."""

    topology: Topology
    clock: Clock
    sink: Sink = field(init=False)
    agents: dict[str, Agent] = field(default_factory=dict)
    wanted: frozenset[str] | None = None
    """Signals whose series are of use to anybody; None for all, as where everything is recorded."""
    _texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sink = Sink(self.clock)

    def take(self, body: bytes, allowed: str | None = None) -> int:
        """Takes a body in; gives the highest sequence taken of this start of its agent, -1 for none yet.

        Args:
            body: as it was sent.
            allowed: the only node that the sender may speak for; None for any of the topology.

        Raises:
            BadRowsError: it is none.
            ForeignNodeError: it speaks for somebody it must not.
            UnknownTablesError: of a table that was not announced; no row of the body was taken.
            BusyError: no row of it was taken for now.
        """
        hello, *frames = decode(body)
        assert isinstance(hello, Hello)
        self._check(hello.node, allowed)
        agent = self.agents.setdefault(hello.node, Agent(hello.node))
        agent.version, agent.last = hello.version, self.clock.now()
        boot = self._boot(agent, hello.boot)
        rows = []
        for frame in frames:
            if isinstance(frame, Announced):
                self._announce(agent, boot, frame, bound=allowed is not None)
            elif isinstance(frame, Row):
                rows.append(frame)
        self._take_rows(agent, boot, rows)
        return boot.taken

    def heard(self) -> list[Heard]:
        """Those that were heard since the start."""
        return [Heard(one.node, one.version, one.last) for one in self.agents.values() if one.boots]

    def expect(self, agents: Iterable[Heard]) -> None:
        """Misses agents of before as if they had been heard just now."""
        for node, version, _ in agents:
            if node in self.topology.node:
                self.agents.setdefault(node, Agent(node, version, last=self.clock.now()))

    def ask_again(self) -> None:
        """Forgets what was announced; agents tell it again with their next rows."""
        for agent in self.agents.values():
            for boot in agent.boots.values():
                boot.tables, boot.columns = {}, 0

    def _check(self, node: str, allowed: str | None) -> None:
        if node not in self.topology.node:
            raise ForeignNodeError(f"{node!r} is no node of the topology")
        if allowed is not None and node != allowed:
            raise ForeignNodeError(f"this sender may speak for {allowed!r} only, not for {node!r}")

    def _boot(self, agent: Agent, name: str) -> Boot:
        boot = agent.boots.pop(name, None) or Boot()
        agent.boots[name] = boot  # the newest stands last
        while len(agent.boots) > BOOTS:
            del agent.boots[next(iter(agent.boots))]
        return boot

    def _announce(self, agent: Agent, boot: Boot, told: Announced, *, bound: bool) -> None:
        table = boot.tables.get(told.table)
        if table is None:
            table = boot.tables[told.table] = Table(f"{agent.node}/{told.table}")
        known = len(table.keys)
        if told.first > known:
            raise UnknownTablesError([told.table])
        # What is announced once more is what it was: a number never changes its meaning.
        new = told.series[known - told.first :]
        again = zip(told.series, table.keys[told.first :], strict=False)
        if any(key != before for key, before in again if before is not NOBODY):
            raise BadRowsError(f"other series under numbers of table {told.table} that were announced before")
        boot.columns += len(new)
        if boot.columns > MOST_COLUMNS:
            raise BadRowsError(f"more than {MOST_COLUMNS} series of one agent")
        for key in new:
            own = not bound or self._of(key, agent.node)
            agent.foreign += not own
            kept = own and (self.wanted is None or key.signal in self.wanted)
            table.keys.append(self._short(key) if kept else NOBODY)

    def _short(self, key: SeriesKey) -> SeriesKey:
        """The same with texts that are kept once: a fleet repeats them thousands of times."""
        keep = self._texts.setdefault if len(self._texts) < MOST_TEXTS else self._texts.get
        entity = keep(key.entity, key.entity)
        return SeriesKey(sys.intern(key.signal), sys.intern(key.kind), entity, keep(key.selector, key.selector))

    def _of(self, key: SeriesKey, node: str) -> bool:
        """Whether a series is something that a node's own agent can know."""
        entity = key.entity.split(">", maxsplit=1)[0]
        if key.kind in WHOLE:
            return entity == node
        if key.kind in (*PARTS, "peer"):
            return entity.split("/", maxsplit=1)[0] == node
        if key.kind == "link":
            return any(end.split("/", maxsplit=1)[0] == node for end in entity.split("--"))
        group = self.topology.group.get(entity.split(":", maxsplit=1)[0])
        members = {group.front_end, *(self.topology.node_of[m] for m in group.members)} if group else set()
        return key.kind in ("rank", "group", "replica") and node in members

    def _take_rows(self, agent: Agent, boot: Boot, rows: list[Row]) -> None:
        tables = boot.tables
        if unknown := {r.table for r in rows if r.table not in tables or len(r.values) > len(tables[r.table].keys)}:
            raise UnknownTablesError(unknown)
        if rows and self.sink.crowded:
            raise BusyError
        for row in rows:
            if row.sequence <= boot.taken:
                agent.repeated += 1
                continue
            boot.taken = row.sequence
            agent.timed(row.time, agent.last)
            self.sink.put(Batch(tables[row.table], None, row.time, row.values))

    def trouble(self) -> str:
        """What is wrong with agents, in a phrase; '' when nothing is."""
        now = self.clock.now()
        silent = sum(now - agent.last > SILENT for agent in self.agents.values())
        off = sum(abs(agent.offset) > OFF for agent in self.agents.values() if now - agent.last <= SILENT)
        said = [f"{silent} of {len(self.agents)} agents are silent"] if silent else []
        return ", ".join([*said, f"the clocks of {off} are off by more than {OFF:g} s"] if off else said)


@dataclass
class Pushed:
    """All agents as one source."""

    receiver: Receiver
    clock: Clock
    name: str = NAME
    period: float = 0.0
    """Who is silent is known of each agent."""

    async def run(self, sink: Sink) -> None:
        """Has what agents push put into the sink."""
        self.receiver.sink = sink
        while True:
            sink.trouble = self.receiver.trouble()
            await self.clock.sleep(LOOK)


NOBODY = SeriesKey("", "", "")
"""What a series becomes that is somebody else's, or of no use: no rule reads it."""
