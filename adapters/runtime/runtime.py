"""Rules, policies and the diagnosis of one fleet, put together: what plays a recording and what runs live share it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from skewscope.adapters.runtime.coverage import TelemetryCoverage
from skewscope.adapters.runtime.durable import best_matcher
from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.advice.matcher import PolicyEvaluator
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.engine import Engine, IncidentChange
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError
from skewscope.rules.loader import load as load_rules
from skewscope.rules.policy import load as load_policies


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was known at one time."""

    time: float
    """Seconds since 1970, by the data."""
    start: float
    end: float
    """Of the recording; live, of what was seen so far."""
    incidents: tuple[Incident, ...]
    """In the order of the contract."""
    sources: tuple[SourceState, ...]
    missing: tuple[str, ...]
    """What cannot be seen, and why, in sentences."""
    silenced: Mapping[str, str] = field(default_factory=dict)
    """The silence of each firing incident that has one."""


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when data is there, and the hash of all of it ('' where it goes on)."""

    start: float
    end: float
    input_hash: str = ""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A diagnosis and what it sees."""

    engine: Engine
    table: SeriesTable
    coverage: TelemetryCoverage

    def step(self, t: float, block: Block) -> tuple[IncidentChange, ...]:
        """What changed by the samples of the tick that ends at `t`."""
        return self.engine.step(t, block, self.table)

    def snapshot(self, t: float, span: Span) -> Snapshot:
        """What is known as of `t`."""
        seen = self.coverage.sources(t), self.coverage.missing()
        return Snapshot(t, span.start, span.end, self.incidents(span), *seen)

    def incidents(self, span: Span) -> tuple[Incident, ...]:
        """All incidents, in the order of the contract."""
        return self.engine.list_incidents(span.input_hash)


@contextmanager
def build_runtime(topology: Topology, known: Catalogue, table: SeriesTable) -> Iterator[Runtime]:
    """The machine for a topology; leaving ends the process that matches its policies.

    Raises:
        InputError: all that is wrong with the rules.
    """
    rules, problems = load_rules(known)
    policies, more = load_policies()
    if problems or more:
        raise InputError([*problems, *more])
    program = compile_policies(policies)
    matcher = best_matcher(program)
    try:
        diagnosis = Engine(rules.values(), known, topology, PolicyEvaluator(program, matcher))
        yield Runtime(diagnosis, table, TelemetryCoverage(topology, diagnosis, table))
    finally:
        matcher.close()
