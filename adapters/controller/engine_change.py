"""Changes the engine of a controller while it runs: the new one goes on with what the one before it knows.

All that both have is taken over, by signal and entity: newest values, windows, healthy pasts, levels, holds, incidents.
The engine before it judges on until the new one is ready. The change itself takes a second for 200,000 series.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.tick_pipeline import TickPipeline
from skewscope.adapters.mapping.engines import engine_counters, engine_signals
from skewscope.adapters.runtime.runtime import Runtime, Span, build_runtime
from skewscope.engine.engine import Engine
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue
from skewscope.rules.loader import load_builtin

KEPT_S = 3600.0
"""Seconds of silence after which a series is not taken over: its label may never come back."""


@dataclass
class PreparedEngine:
    """An engine, the numbers of its series, and what ends with it."""

    topology: Topology
    runtime: Runtime
    batcher: Batcher
    stack: ExitStack
    _numbers: list[int] = field(default_factory=list)
    """[series] their numbers in the table of the engine before."""

    def expect_series(self, before: TickPipeline) -> None:
        """Makes room for the series of another engine, which may go on meanwhile: this takes longest."""
        engine, then = self.runtime.engine, before.runtime.engine
        self._numbers += expect_series((engine, self.batcher), (then, before.batcher), before.t, self._numbers)

    def take_over(self, before: TickPipeline) -> TickPipeline:
        """Returns the pipeline that goes on with this engine; incidents, silences and pending writes are kept.

        Call it in the thread of the engine before, of which there is no tick after it.
        """
        self.expect_series(before)
        numbers = np.array(self._numbers, np.intp)
        span = Span(before.t, before.t)
        earlier = before.runtime.incidents(span)
        self.batcher.take_over(before.batcher, numbers, before.t)
        self.runtime.engine.take_over(before.runtime.engine, self.batcher.table, numbers)
        known = {one.id for one in self.runtime.incidents(span)}
        before.restored.end(before.t, [one for one in earlier if one.id not in known])
        made = replace(
            before, _ticks=0, needs_room=False, runtime=self.runtime, batcher=self.batcher, topology=self.topology
        )
        made.store_writer, made.recorder = before.store_writer, None
        made.runtime.coverage.gone = before.gone
        return made


def expect_series(
    now: tuple[Engine, Batcher], before: tuple[Engine, Batcher], t: float, known: Sequence[int] = ()
) -> list[int]:
    """Makes room in one engine for the series of another one that are alive and have a place there.

    Args:
        now: engine and batcher that get the series.
        before: engine and batcher that have them.
        t: end of the last tick of the other engine, seconds since 1970.
        known: numbers in the other's table of the series that have their room already.

    Returns the numbers in the other's table of the new series, in the order of the new table.
    """
    (engine, batcher), (then, other) = now, before
    keys = other.table.keys
    times = then.newest_times(len(keys))
    newest = float(np.fmax.reduce(times, initial=-np.inf))
    lives = (times >= newest - KEPT_S) & ~other.silent_mask(times, t)
    live = np.setdiff1d(np.flatnonzero(lives), np.array(known, np.intp))
    some = [n for n in live.tolist() if engine.has_place(keys[n])]
    for n in some:
        batcher.table.number(keys[n])
    if some:
        engine.expect_series(batcher.table)
    return some


def can_take_over(before: Catalogue, now: Catalogue) -> bool:
    """Returns whether an engine with one catalogue can go on with windows and pasts of one with another.

    What they hold belongs to the rules and the signals.
    """
    if before is now:
        return True
    then, rules = ({id_: rule.hash for id_, rule in load_builtin(known)[0].items()} for known in (before, now))
    return before.signals == now.signals and then == rules


def prepare_engine(topology: Topology, catalogue: Catalogue, also_read: Iterable[str] = ()) -> PreparedEngine:
    """Returns an engine for a topology that has seen nothing yet.

    Raises:
        InputError: all problems of the rules and policies.
    """
    batcher = Batcher(topology=topology, of_engines=engine_signals(catalogue), counters=engine_counters(catalogue))
    stack = ExitStack()
    runtime = stack.enter_context(build_runtime(topology, catalogue, batcher.table, also_read))
    batcher.select_signals(runtime.engine.read_signals)
    return PreparedEngine(topology, runtime, batcher, stack)
