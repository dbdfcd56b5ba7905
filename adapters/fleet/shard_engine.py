"""One shard as a value: rows in, ticks out, and its whole state as bytes. It reads no clock, no file, no network.

The times of rows and ticks come from the caller, so that what was logged can be repeated with the same result.
"""

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from skewscope.adapters.controller.agent_receiver import AgentReceiver
from skewscope.adapters.controller.agent_registry import AgentRecord
from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.engine_change import expect_series
from skewscope.adapters.controller.uncertainty import UncertaintyCheck
from skewscope.adapters.fleet.key_pool import KeyPool
from skewscope.adapters.fleet.shard_report import ShardCounts, ShardReport, ShardTick
from skewscope.adapters.fleet.state_codec import Buffer, decode_state, encode_state, fingerprint, name_objects
from skewscope.adapters.mapping.engines import engine_counters, engine_signals
from skewscope.adapters.runtime.runtime import TelemetryCoverage
from skewscope.adapters.sources.common.base import BatchSink
from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.advice.advice import PolicyEvaluator, ReferenceMatcher
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.engine import Engine
from skewscope.engine.ingest.feed import Block, SampleFrame, empty_block
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError
from skewscope.rules.loader import load_builtin as load_rules
from skewscope.rules.policy import load_in_use as load_policies

COVERAGE_TICKS = 10
"""Ticks between two computations of coverage."""
FORGET_TICKS = 600
"""Ticks between two clean-ups."""
RESOLVED_SECONDS = 3600.0
"""Seconds that a resolved incident stays known."""
MAX_UNACKNOWLEDGED = 100_000
"""Ticks with changes that are kept while nobody acknowledges them; the oldest are dropped."""


@dataclass
class GivenClock:
    """A clock that shows what the caller says."""

    time: float = 0.0

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return self.time

    def uptime(self) -> float:
        """The same seconds: nobody sets this clock."""
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Never called: a shard does not wait."""
        raise NotImplementedError


def describe_topology(topology: Topology) -> str:
    """Returns all of a topology as a text for hashes: equal for equal ones, and a hundred times faster than YAML."""
    return repr((topology.nodes, topology.groups, topology.pools))


def _constant_time() -> float:
    return 0.0


@dataclass
class _ShardState:
    """Everything that the next ticks depend on."""

    engine: Engine
    batcher: Batcher
    receiver: AgentReceiver
    sink: BatchSink
    life: str
    t: float = -math.inf
    number: int = 0
    """Number of the last tick."""
    unacknowledged: list[ShardTick] = field(default_factory=list)


class ShardEngine:
    """Engine, agents and unheard results of one shard. Rows may be received while a tick is judged."""

    def __init__(self, topology: Topology, catalogue: Catalogue, also_read: Iterable[str] = ()) -> None:
        """Builds a shard that has seen nothing.

        Raises:
            InputError: all problems of the rules and policies.
        """
        self.topology, self.catalogue = topology, catalogue
        self._clock = GivenClock()
        self._lock = Lock()
        self._pool = KeyPool()
        self._samples = 0
        self._telemetry: tuple[tuple[SourceState, ...], tuple[str, ...]] = ((), ())
        self._node_coverage: Mapping[str, float] = {}
        self._engine_coverage: Mapping[str, float] = {}
        self._also_read = tuple(sorted(also_read))
        self._rules, problems = load_rules(catalogue)
        policies, more = load_policies(catalogue)
        if problems or more:
            raise InputError([*problems, *more])
        self._program = compile_policies(policies)
        self._of_engines, self._counters = engine_signals(catalogue), engine_counters(catalogue)
        self._named = name_objects(
            catalogue,
            self._rules,
            clock=self._clock,
            topology=topology,
            program=self._program,
            of_engines=self._of_engines,
            counters=self._counters,
            cpu_time=_constant_time,
        )
        hashes = (self._rules[id_].hash for id_ in sorted(self._rules))
        self._fingerprint = fingerprint(describe_topology(topology), catalogue.version, *self._also_read, *hashes)
        self._present: _ShardState | None = None

    @property
    def _state(self) -> _ShardState:
        """The state; one that has seen nothing is built only where none was loaded, since that takes long."""
        if self._present is None:
            self._use_state(self._create_state())
        assert self._present is not None
        return self._present

    def _create_state(self) -> _ShardState:
        # Plain Python, with the same conclusions: a process beside the shard could not be part of its state.
        evaluator = PolicyEvaluator(self._program, ReferenceMatcher(self._program))
        engine = Engine(
            *(self._rules.values(), self.catalogue, self.topology, evaluator),
            symptoms=True,
            also_read=self._also_read,
        )
        batcher = Batcher(topology=self.topology, of_engines=self._of_engines, counters=self._counters)
        batcher.select_signals(engine.read_signals)
        receiver = AgentReceiver(self.topology, self._clock, wanted_signals=engine.read_signals)
        # What a body costs must be the same when it is repeated.
        receiver.cpu_time = _constant_time
        return _ShardState(engine, batcher, receiver, receiver.sink, secrets.token_hex(8))

    def _use_state(self, state: _ShardState) -> None:
        """Goes on from a state, and sets up what is derived from it."""
        self._present = state
        self._coverage = TelemetryCoverage(self.topology, state.engine, state.batcher.table)
        self._uncertainty = UncertaintyCheck(state.engine)

    @property
    def engine(self) -> Engine:
        """The engine; another one after `load`."""
        return self._state.engine

    @property
    def life(self) -> str:
        """Names what the shard knows: it stays over restarts from its state."""
        return self._state.life

    @property
    def time(self) -> float:
        """End of the last tick, seconds since 1970; -inf before the first."""
        return self._state.t

    # --- rows and ticks

    def receive(self, body: bytes, allowed: str | None, now: float) -> int:
        """Receives rows of an agent at a time; see `AgentReceiver.receive`."""
        with self._lock:
            self._clock.time = max(self._clock.time, now)
            return self._state.receiver.receive(body, allowed)

    def agent_records(self) -> list[AgentRecord]:
        """Returns the agents that have sent rows."""
        with self._lock:
            return self._state.receiver.agent_records()

    def take_block(self, t: float) -> Block:
        """Returns the samples of the tick that ends at `t`; rows that come from now on belong to later ticks."""
        with self._lock:
            self._clock.time = max(self._clock.time, t)
            return self._state.batcher.build_block(self._state.sink.take(), t)

    def step(self, t: float, block: Block | None = None, frames: Sequence[SampleFrame] = ()) -> ShardTick:
        """Judges the tick that ends at `t`, and keeps its changes until they are acknowledged.

        Args:
            t: seconds since 1970.
            block: what `take_block` returned; None without samples.
            frames: samples in dense form.
        """
        state = self._state
        given = empty_block() if block is None else block
        changes = state.engine.step(t, given, state.batcher.table, frames)
        state.t, state.number = t, state.number + 1
        self._samples = len(given) + sum(len(column) for frame in frames for column in frame.values)
        tick = ShardTick(state.number, t, changes)
        if changes:
            state.unacknowledged.append(tick)
            del state.unacknowledged[:-MAX_UNACKNOWLEDGED]
        if state.number % FORGET_TICKS == 0:
            state.engine.forget_incidents(t - RESOLVED_SECONDS)
        return tick

    def acknowledge(self, number: int) -> None:
        """Forgets the changes of the ticks up to a number."""
        kept = [tick for tick in self._state.unacknowledged if tick.number > number]
        self._state.unacknowledged = kept

    def list_incidents(self) -> tuple[Incident, ...]:
        """Returns all incidents, in the order of the contract."""
        return self.engine.list_incidents()

    def report(self, name: str) -> ShardReport:
        """Returns the state after the last tick, under the name of the shard."""
        state = self._state
        if state.number and (not self._telemetry[0] or state.number % COVERAGE_TICKS == 0):
            self._telemetry = self._coverage.sources(state.t), self._coverage.missing()
            self._node_coverage = self._coverage.coverage_by_node(state.t)
            self._engine_coverage = self._coverage.coverage_by_engine(state.t)
        incidents = self.list_incidents()
        firing = (one for one in incidents if one.state == "firing")
        full = state.batcher.describe_overflow()
        claimed = state.batcher.claimed_replicas
        return ShardReport(
            *(name, state.life, state.t, tuple(state.unacknowledged), state.number, incidents, *self._telemetry),
            dict(self._node_coverage),
            ShardCounts(
                self._samples,
                len(state.batcher.table.keys),
                self.engine.sample_counts.dropped,
                state.batcher.superseded_values,
            ),
            (*([full] if full else []), *(claimed[replica] for replica in sorted(claimed))),
            agents=tuple((one.node, one.version, one.last_seen) for one in state.receiver.agent_records()),
            engine_coverage=dict(self._engine_coverage),
            uncertain=frozenset(one.id for one in firing if self._uncertainty.is_unknown(one)),
        )

    # --- state

    @property
    def fingerprint(self) -> str:
        """Names the code and fleet for which states are valid."""
        return self._fingerprint

    def dump(self) -> list[Buffer]:
        """Returns the state after the last tick; do not call it while a tick is judged.

        The buffers of large arrays show the memory of the engine itself: write them before the next tick.
        """
        with self._lock:
            return [*self._dump_pool(encode_state(self._state, self._named, self._pool))]

    def _dump_pool(self, state: list[Buffer]) -> list[Buffer]:
        chunks = self._pool.pack()
        return [len(chunks).to_bytes(4, "little"), *chunks, *state]

    def load(self, buffers: Sequence[Buffer]) -> None:
        """Goes on from a state that `dump` returned, in a shard of the same fingerprint; it uses their memory.

        Raises:
            StateError: the bytes are no state.
        """
        count = int.from_bytes(buffers[0], "little")
        pool = KeyPool.unpack(bytes(chunk) for chunk in buffers[1 : 1 + count])
        state: Any = decode_state(buffers[1 + count :], self._named, pool)
        with self._lock:
            self._pool = pool
            self._use_state(state)

    def take_over(self, before: "ShardEngine") -> None:
        """Goes on with what a shard of another topology knows of what both have; there is no tick of it after this.

        Windows, healthy pasts, holds, incidents and what nobody has acknowledged are kept. Agents announce their series
        again. Incidents of nodes that are here no more are left out.
        """
        then = before._state  # noqa: SLF001 - one of its own kind
        made = self._create_state()
        engines = (made.engine, made.batcher), (then.engine, then.batcher)
        numbers = np.array(expect_series(*engines, then.t), np.intp)
        made.batcher.take_over(then.batcher, numbers, then.t)
        made.engine.take_over(then.engine, made.batcher.table, numbers)
        receiver = then.receiver
        receiver.topology = self.topology
        receiver.agents = {node: agent for node, agent in receiver.agents.items() if node in self.topology.node}
        receiver.request_announcements()
        with self._lock:
            self._clock = self._named["clock"] = before._clock  # noqa: SLF001 - that of the receiver
            self._use_state(
                replace(then, engine=made.engine, batcher=made.batcher, receiver=receiver, sink=receiver.sink)
            )
