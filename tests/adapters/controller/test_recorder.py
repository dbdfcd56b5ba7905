"""The recorder of a controller."""

import os

import numpy as np
import pytest

from skewscope.adapters.controller.recorder import Recorder, RecordingRetention
from skewscope.adapters.inputs.recording import demo_path
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.problems import InputError


class Columns:
    """One series."""

    name = "page"
    keys = (SeriesKey("host.load", "node", "n0"),)
    ranks = b"\0"


def test_a_page_without_samples_is_recorded_as_nothing(tmp_path):
    recorder = Recorder(tmp_path / "recording", demo_path() / "topology.yaml", RecordingRetention())
    empty, one = np.array([]), np.array([1.0])
    recorder.record(1000.0, {"page": [SourceBatch(Columns(), np.array([], np.int32), empty, empty)]})
    recorder.record(1001.0, {"page": [SourceBatch(Columns(), np.array([0], np.int32), 1000.5 * one, one)]})
    recorder.close()
    assert list((tmp_path / "recording").glob("*page*"))


def record_minutes(recorder, begin, count):
    for n in range(count + 1):
        at = np.array([begin + 60.0 * n])
        recorder.record(float(at[0]), {"page": [SourceBatch(Columns(), np.array([0], np.int32), at, np.ones(1))]})


def begins(folder):
    return sorted(int(path.name.partition("-")[0]) for path in folder.glob("*.wide.parquet"))


def test_a_jump_of_the_clock_deletes_no_recording_and_time_that_is_recorded_does(tmp_path):
    folder = tmp_path / "recording"
    recorder = Recorder(folder, demo_path() / "topology.yaml", RecordingRetention(max_age=1200.0))
    record_minutes(recorder, 6000.0, 3)
    record_minutes(recorder, 300_000_000.0, 3)
    assert begins(folder)[:3] == [6000, 6060, 6120]
    record_minutes(recorder, 6600.0, 3)
    assert 300_000_000 in begins(folder)
    record_minutes(recorder, 7200.0, 30)
    assert begins(folder)[0] >= 7200 + 1800 - 1200 - 120
    assert max(begins(folder)) < 10_000, "what a wrong clock dated later than now is the oldest"
    recorder.close()


def test_a_recording_is_for_its_user_alone(tmp_path):
    before = os.umask(0)
    try:
        recorder = Recorder(tmp_path / "recorded", demo_path() / "topology.yaml")
        record_minutes(recorder, 6000.0, 2)
        recorder.close()
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "recorded").iterdir()}
    assert modes == {0o600}
    assert (tmp_path / "recorded").stat().st_mode & 0o777 == 0o700


def test_a_folder_is_recorded_by_one_controller_whose_unfinished_files_others_leave_alone(tmp_path):
    folder = tmp_path / "recorded"
    recorder = Recorder(folder, demo_path() / "topology.yaml")
    record_minutes(recorder, 6000.0, 1)
    unfinished = sorted(path.name for path in folder.glob("*.part"))
    with pytest.raises(InputError, match="another controller records"):
        Recorder(folder, demo_path() / "topology.yaml")
    assert unfinished == sorted(path.name for path in folder.glob("*.part")) != []
    recorder.close()
    Recorder(folder, demo_path() / "topology.yaml").close()
