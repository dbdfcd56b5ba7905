"""A controller's work: what it diagnoses live is what a replay of its recording gives."""

from pathlib import Path

import numpy as np

from skewscope.adapters.controller.store import Reader
from skewscope.adapters.recording import load, open_recording, within
from skewscope.adapters.replay import replay
from skewscope.kb.load import catalogue
from tests.controller.fleets import batches, demo, working


def told(incidents):
    return [i.as_json() | {"input_hash": ""} for i in incidents]


def test_the_same_samples_replayed_give_the_same_incidents_as_live(tmp_path: Path):
    # One fault that is over by then, and one that is not.
    recording, loaded = demo(75.0)
    with working(tmp_path, recording, record=True) as work:
        for t, handed in batches(recording, loaded):
            known = work.step(t, {"demo": handed})
        work.close(t)
    live = told(known.snapshot.incidents)
    assert [i["state"] for i in live] == ["resolved", "firing"]
    assert live == told(replay(tmp_path / "recorded").incidents)
    part = load(within(open_recording(tmp_path / "recorded"), None, loaded.start + 60.0), catalogue(), workers=1)
    assert len(part.block) == np.count_nonzero(loaded.block.time <= loaded.start + 60.0)
    assert {i["id"]: i["state"] for i in Reader(tmp_path / "store.db").incidents()} == {
        i["id"]: i["state"] for i in live
    }
