"""A controller's work: what it diagnoses live is what a replay of its recording gives."""

from pathlib import Path

from skewscope.adapters.controller.store import Reader
from skewscope.adapters.recording import open_recording, within
from skewscope.adapters.replay import replay
from tests.controller.fleets import batches, demo, working


def told(incidents):
    return [i.as_json() | {"input_hash": ""} for i in incidents]


def test_the_same_samples_replayed_give_the_same_incidents_as_live(tmp_path: Path):
    recording, loaded = demo()
    with working(tmp_path, recording, record=True) as work:
        for t, handed in batches(recording, loaded):
            known = work.step(t, {"demo": handed})
        work.close(t)
    live = told(known.snapshot.incidents)
    assert live
    assert live == told(replay(tmp_path / "recorded").incidents)
    part = within(open_recording(tmp_path / "recorded"), None, loaded.start + 130.0)
    assert told(replay(part).incidents) == told(replay(within(recording, None, loaded.start + 130.0)).incidents)
    assert {i["id"]: i["state"] for i in Reader(tmp_path / "store.db").incidents()} == {
        i["id"]: i["state"] for i in live
    }
