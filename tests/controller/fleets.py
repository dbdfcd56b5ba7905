"""A controller without a network: its work, fed with what a recording holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from skewscope.adapters.controller.carried import Carried
from skewscope.adapters.controller.gathering import Gathering
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.store import Store
from skewscope.adapters.controller.work import Work
from skewscope.adapters.machine import assembled
from skewscope.adapters.recording import Loaded, Recording, demo_path, load, open_recording, within
from skewscope.adapters.replay import ticks
from skewscope.adapters.sources.base import Batch, Listing
from skewscope.kb.load import catalogue


def demo(seconds: float) -> tuple[Recording, Loaded]:
    """The first seconds of the recording that comes with Skewscope."""
    whole = open_recording(demo_path())
    begin = load(whole, catalogue(), workers=1).start
    recording = within(whole, None, begin + seconds)
    return recording, load(recording, catalogue(), workers=1)


@contextmanager
def working(folder: Path, recording: Recording, *, record: bool = False) -> Iterator[Work]:
    """The work of a controller whose store and recording are in a folder."""
    known = catalogue()
    gathering = Gathering(())
    store = Store(folder / "store.db")
    recorder = Recorder(folder / "recorded", recording.path / "topology.yaml") if record else None
    with assembled(recording.topology, known, gathering.table) as machine:
        gathering.read(machine.diagnosis.detector.panel)
        yield Work(machine, gathering, store, Carried.of(store.open_incidents()), recorder)


def batches(recording: Recording, loaded: Loaded) -> Iterator[tuple[float, list[Batch]]]:
    """The samples of each tick, as one source would hand them over: some together, some as rows of a table."""
    listing = Listing()
    for key in loaded.table.keys:
        listing.number(key)
    ends = list(ticks(loaded, recording))
    edges = np.searchsorted(loaded.block.time, ends, side="right").tolist()
    before = 0
    for t, edge in zip(ends, edges, strict=True):
        at = slice(before, edge)
        before = edge
        block = loaded.block
        yield t, [Batch(listing, block.series[at], block.time[at], block.value[at])]
