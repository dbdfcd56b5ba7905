"""Rules, policies and the diagnosis of one fleet, put together: what plays a recording and what runs live share it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from skewscope.adapters.coverage import Sight
from skewscope.adapters.durable import best_matcher
from skewscope.adapters.scene import SourceState
from skewscope.engine.diagnosis import Diagnosis
from skewscope.engine.feed import Block, SeriesTable
from skewscope.engine.incident import Incident
from skewscope.engine.incidents import Change, as_contract
from skewscope.engine.matcher import Policies
from skewscope.engine.policy import compile_policies
from skewscope.engine.topology import Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError
from skewscope.rules.load import load as load_rules
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
class Machine:
    """A diagnosis and what it sees."""

    diagnosis: Diagnosis
    table: SeriesTable
    sight: Sight

    def step(self, t: float, block: Block) -> tuple[Change, ...]:
        """What changed by the samples of the tick that ends at `t`."""
        return self.diagnosis.step(t, block, self.table)

    def snapshot(self, t: float, span: Span) -> Snapshot:
        """What is known as of `t`."""
        seen = self.sight.sources(t), self.sight.missing()
        return Snapshot(t, span.start, span.end, self.incidents(span), *seen)

    def incidents(self, span: Span) -> tuple[Incident, ...]:
        """All incidents, in the order of the contract."""
        return tuple(as_contract(self.diagnosis.incidents, span.input_hash))


@contextmanager
def assembled(topology: Topology, known: Catalogue, table: SeriesTable) -> Iterator[Machine]:
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
        diagnosis = Diagnosis(rules.values(), known, topology, Policies(program, matcher))
        yield Machine(diagnosis, table, Sight(topology, diagnosis, table))
    finally:
        matcher.close()
