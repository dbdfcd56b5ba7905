"""Changes the engine of a controller while it runs: the new one replays the last minutes before it takes over.

Its windows and holds are then as full as those of the engine before it, for everything that did not change. The engine
before it judges on meanwhile; only the ticks since then are replayed in its own thread.
"""

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.incident_restore import RestoredIncidents, match_key
from skewscope.adapters.controller.tick_pipeline import TickPipeline
from skewscope.adapters.mapping.engines import engine_counters, engine_signals
from skewscope.adapters.runtime.runtime import Runtime, Span, build_runtime
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue


@dataclass
class PreparedEngine:
    """An engine, the numbers of its series, and what ends with it."""

    topology: Topology
    runtime: Runtime
    batcher: Batcher
    stack: ExitStack
    until: float = -math.inf
    """End of the last tick that it has seen."""

    def replay(self, ticks: Iterable[tuple[float, list[SourceBatch]]]) -> None:
        """Lets it judge ticks that were judged before; nobody hears of it."""
        for t, batches in ticks:
            self.runtime.step(t, self.batcher.build_block(batches, t))
            self.until = t

    def take_over(self, before: TickPipeline) -> TickPipeline:
        """Returns the pipeline that goes on with this engine; incidents, silences and pending writes are kept."""
        self.replay(before.recent.since(self.until))
        # What was resolved before is known under another id.
        self.runtime.engine.forget_incidents(math.inf)
        present = self.runtime.incidents(Span(self.until, self.until))
        made = replace(
            before,
            _ticks=0,
            runtime=self.runtime,
            batcher=self.batcher,
            topology=self.topology,
            restored=RestoredIncidents.from_predecessor(before.incidents, present, before.restored.waits),
        )
        made.store_writer, made.recorder = before.store_writer, None
        # Whatever fired before goes on without a word.
        news = [one for one in present if one.state == "firing" and match_key(one) not in made.restored.waiting]
        made.pending_changes = tuple(IncidentChange(self.until, one.id, "opened") for one in news)
        return made


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
