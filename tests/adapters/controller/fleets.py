"""A controller without a network: its work, fed with what a recording holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.incident_restore import RestoredIncidents
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.store import Store
from skewscope.adapters.controller.tick_pipeline import TickPipeline
from skewscope.adapters.inputs.recording import (
    Recording,
    RecordingData,
    clip_recording,
    demo_path,
    load,
    open_recording,
)
from skewscope.adapters.runtime.replay import tick_ends
from skewscope.adapters.runtime.runtime import build_runtime
from skewscope.adapters.sources.common.base import SourceBatch, SourceSeriesRegistry
from skewscope.kb.loader import catalogue


@cache
def demo(seconds: float) -> tuple[Recording, RecordingData]:
    """The first seconds of the recording that comes with Skewscope."""
    whole = open_recording(demo_path())
    begin = load(whole, catalogue(), workers=1).start
    recording = clip_recording(whole, None, begin + seconds)
    return recording, load(recording, catalogue(), workers=1)


@contextmanager
def working(folder: Path, recording: Recording, *, record: bool = False) -> Iterator[TickPipeline]:
    """The work of a controller whose store and recording are in a folder."""
    known = catalogue()
    gathering = Batcher(())
    store = Store(folder / "store.db")
    recorder = Recorder(folder / "recorded", recording.path / "topology.yaml") if record else None
    with build_runtime(recording.topology, known, gathering.table) as machine:
        gathering.select_signals(machine.engine.read_signals)
        yield TickPipeline(
            machine, gathering, store, RestoredIncidents.from_incidents(store.open_incidents()), recorder
        )


def batches(recording: Recording, loaded: RecordingData) -> Iterator[tuple[float, list[SourceBatch]]]:
    """The samples of each tick, as one source would hand them over: some together, some as rows of a table."""
    listing = SourceSeriesRegistry()
    for key in loaded.table.keys:
        listing.number(key)
    ends = list(tick_ends(loaded, recording))
    edges = np.searchsorted(loaded.block.time, ends, side="right").tolist()
    before = 0
    for t, edge in zip(ends, edges, strict=True):
        at = slice(before, edge)
        before = edge
        block = loaded.block
        yield t, [SourceBatch(listing, block.series[at], block.time[at], block.value[at])]
