"""Scenarios and recordings through the engine: what it told, beside what was true."""

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from skewscope.adapters.assessment.corpus import START, Scenario, played
from skewscope.adapters.simulator.faults.registry import Target
from skewscope.engine.diagnosis import Diagnosis
from skewscope.engine.feed import Block, SeriesTable
from skewscope.engine.incidents import as_contract
from skewscope.engine.topology import beside
from skewscope.kb.load import catalogue
from skewscope.rules.load import rules


@dataclass(frozen=True, slots=True)
class Told:
    """One incident, as far as it is judged."""

    condition: str
    name: str
    also: tuple[str, ...]
    opened: float
    """Seconds after the start."""
    resolved: float
    confidence: float
    root: str
    """The condition of what explains it; '' for a root."""
    root_name: str
    rule: str
    impact: float | None


@dataclass(frozen=True, slots=True)
class Truth:
    """What was wrong, where, and when."""

    condition: str
    severity: str
    names: tuple[str, ...]
    """The entity's name, and others under which it is rightly told."""
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run and what was told in it."""

    name: str
    source: str
    """simulated or recorded."""
    nodes: int
    lasts: float
    told: tuple[Told, ...]
    truths: tuple[Truth, ...]


def run(found: Sequence[Scenario]) -> list[Run]:
    """What the engine makes of scenarios that are watched side by side; their prefixes differ."""
    known = catalogue()
    table = SeriesTable()
    playing = [played(scenario, known, table) for scenario in found]
    diagnosis = Diagnosis(rules(known).values(), known, beside(fleet.topology for fleet, _ in playing))
    lasts = max(int(scenario.lasts) for scenario in found)
    for n in range(lasts):
        now = [next(blocks, None) for _, blocks in playing]
        parts = [block for block in now if block is not None]
        columns = ((p.time for p in parts), (p.series for p in parts), (p.value for p in parts))
        diagnosis.step(START + n, Block(*(np.concatenate(list(column)) for column in columns)), table)
    everything = told(diagnosis, START)
    return [_own(scenario, everything) for scenario in found]


def _own(scenario: Scenario, everything: Sequence[Told]) -> Run:
    prefix = scenario.plan.prefix
    own = tuple(one for one in everything if one.name.startswith(prefix) and one.opened <= scenario.lasts)
    truths = (
        Truth(e.condition, e.severity, (e.at.name, *e.at.also), e.begin, e.end)
        for e in scenario.episodes
        if e.condition
    )
    return Run(scenario.name, "simulated", scenario.plan.nodes, scenario.lasts, own, tuple(truths))


def told(diagnosis: Diagnosis, start: float) -> tuple[Told, ...]:
    """All that a diagnosis told, oldest first."""
    found = list(as_contract(diagnosis.incidents, ""))
    by_id = {one.id: one for one in found}
    return tuple(
        Told(
            one.condition,
            one.name,
            one.also,
            one.opened_at - start,
            float("inf") if one.resolved_at is None else one.resolved_at - start,
            one.confidence,
            by_id[one.explained_by].condition if one.explained_by in by_id else "",
            by_id[one.explained_by].name if one.explained_by in by_id else "",
            one.rule,
            one.impact.change,
        )
        for one in found
    )


def run_all(found: Sequence[Scenario], workers: int, beside_each_other: int = 8) -> list[Run]:
    """All scenarios, in order: several at once in each of several processes."""
    named = [replace(s, plan=replace(s.plan, prefix=f"f{n}.")) for n, s in enumerate(found)]
    named = [_renamed(scenario) for scenario in named]
    size = max(1, min(beside_each_other, -(-len(named) // max(workers, 1))))
    order = sorted(range(len(named)), key=lambda n: -named[n].lasts)
    batches = [[named[n] for n in order[k : k + size]] for k in range(0, len(order), size)]
    if workers <= 1:
        ran = [run(batch) for batch in batches]
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            ran = list(pool.map(run, batches))
    by_name = {one.name: one for batch in ran for one in batch}
    return [by_name[scenario.name] for scenario in found]


def _renamed(scenario: Scenario) -> Scenario:
    """The same scenario, its targets called as they are in its fleet."""
    prefix = scenario.plan.prefix
    return replace(scenario, episodes=tuple(replace(e, at=_prefixed(e.at, prefix)) for e in scenario.episodes))


def _prefixed(at: Target, prefix: str) -> Target:
    return replace(at, name=f"{prefix}{at.name}", also=tuple(f"{prefix}{name}" for name in at.also))


def recorded(path: Path) -> Run:
    """A labelled recording, replayed."""
    from skewscope.adapters.replay import replay  # noqa: PLC0415

    labels = json.loads((path / "labels.json").read_text())
    outcome = replay(path)
    start = float(labels["start"])
    truths = tuple(
        Truth(one["condition"], one.get("severity", ""), (one["entity"],), one["start"] - start, one["end"] - start)
        for one in labels["labels"]
    )
    found = tuple(
        Told(
            one.condition,
            one.name,
            one.also,
            one.opened_at - start,
            float("inf") if one.resolved_at is None else one.resolved_at - start,
            one.confidence,
            "folded" if one.explained_by else "",
            "",
            one.rule,
            one.impact.change,
        )
        for one in outcome.incidents
    )
    return Run(path.name, "recorded", len(outcome.topology.nodes), outcome.duration_s, found, truths)
