"""Assembly of rules, policies, matcher and engine for one fleet; replays and the controller share it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from skewscope.adapters.runtime.coverage import TelemetryCoverage
from skewscope.adapters.runtime.durable import best_matcher
from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.advice.advice import PolicyEvaluator
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
    """State of a diagnosis at one time."""

    time: float
    """Seconds since 1970, by the data."""
    start: float
    end: float
    """Time span of the recording; live: of the samples so far."""
    incidents: tuple[Incident, ...]
    """In the order of the contract."""
    sources: tuple[SourceState, ...]
    missing: tuple[str, ...]
    """Missing telemetry and what is unknown without it, in sentences."""
    silenced: Mapping[str, str] = field(default_factory=dict)
    """Id of the silence of each silenced incident, by incident id."""


@dataclass(frozen=True, slots=True)
class Span:
    """Time span of the data, and its hash ('' while more arrives)."""

    start: float
    end: float
    input_hash: str = ""


@dataclass(frozen=True, slots=True)
class Runtime:
    """An engine with its series table and coverage."""

    engine: Engine
    table: SeriesTable
    coverage: TelemetryCoverage

    def step(self, t: float, block: Block) -> tuple[IncidentChange, ...]:
        """Processes the samples of the tick that ends at `t` and returns the changes to incidents."""
        return self.engine.step(t, block, self.table)

    def snapshot(self, t: float, span: Span) -> Snapshot:
        """Returns the state at `t`."""
        sources, missing = self.coverage.sources(t), self.coverage.missing()
        return Snapshot(t, span.start, span.end, self.incidents(span), sources, missing)

    def incidents(self, span: Span) -> tuple[Incident, ...]:
        """Returns all incidents, in the order of the contract."""
        return self.engine.list_incidents(span.input_hash)


@contextmanager
def build_runtime(topology: Topology, known: Catalogue, table: SeriesTable) -> Iterator[Runtime]:
    """Builds the runtime of a topology; leaving the context ends the matcher's process.

    Raises:
        InputError: all problems of the rules and policies.
    """
    rules, problems = load_rules(known)
    policies, more = load_policies()
    if problems or more:
        raise InputError([*problems, *more])
    program = compile_policies(policies)
    matcher = best_matcher(program)
    try:
        engine = Engine(rules.values(), known, topology, PolicyEvaluator(program, matcher))
        yield Runtime(engine, table, TelemetryCoverage(topology, engine, table))
    finally:
        matcher.close()
