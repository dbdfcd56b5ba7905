"""What a controller of one process stores of the demo's rows, while nobody disturbs it."""

import tempfile
from pathlib import Path

from skewscope.adapters.controller.agent_receiver import AgentReceiver
from skewscope.adapters.controller.store import StoreReader
from tests.adapters.controller.fleets import demo, working
from tests.adapters.fleet.shards import SECONDS, StillClock, demo_rows


def stored(path):
    """Returns events and incidents of a store."""
    reader = StoreReader(path)
    return [(e.incident, e.t, e.what) for e in reader.events(0)], reader.incidents()


def undisturbed(folder: Path | None = None):
    """Returns events and incidents that a controller of one process stores."""
    folder = folder or Path(tempfile.mkdtemp())
    clock, recording = StillClock(), demo(SECONDS)[0]
    with working(folder, recording) as pipeline:
        receiver = AgentReceiver(recording.topology, clock)
        for t, bodies in demo_rows():
            clock.time = t - 0.4
            for _, body in bodies:
                receiver.receive(body)
            pipeline.step(t, {"agents": receiver.sink.take()})
        pipeline.store.close()
    return stored(folder / "store.db")
