"""The year of a log whose lines have none: what says it, and that it is told."""

import datetime as dt
import os

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording, save_recording
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.kb.loader import catalogue

LINE = "INFO {} [loggers.py:273] Engine 000: Avg prompt throughput: 12.5 tokens/s, Running: 3 reqs, Waiting: 2 reqs\n"
TABLE = "time,host,gpu,DCGM_FI_DEV_SM_CLOCK\n{},h,0,1410\n"
WRITTEN = dt.datetime(2025, 3, 1, 12, tzinfo=dt.UTC).timestamp()


def first_time(folder, day, name="vllm.log", **others):
    """Returns when the log begins, and what was assumed of its year."""
    log = folder / name
    log.write_text(LINE.format(f"{day} 10:00:00") + LINE.format(f"{day} 10:00:10"))
    os.utime(log, (WRITTEN, WRITTEN))
    for other, text in others.items():
        (folder / other.replace("_", ".")).write_text(text)
    draft = draft_recording([folder])
    loaded = load(draft.recording, catalogue(), None, 1)
    times = [
        t for t, n in zip(loaded.block.time, loaded.block.series, strict=True) if "serve" in loaded.table.keys[n].signal
    ]
    told = [f"{each.what}: {each.basis}" for each in draft.assumptions if "the year" in each.what]
    return dt.datetime.fromtimestamp(min(times), dt.UTC).date().isoformat(), told


@pytest.mark.parametrize(
    ("day", "date"),
    [("02-27", "2025-02-27"), ("03-01", "2025-03-01"), ("03-02", "2025-03-02"), ("12-24", "2024-12-24")],
)
def test_alone_it_is_that_of_the_files_time(tmp_path, day, date):
    assert first_time(tmp_path, day) == (date, [f"the year {date[:4]} of vllm.log: when the file was written"])


@pytest.mark.parametrize(
    ("day", "time", "date"),
    [
        ("11-22", "1732269600", "2024-11-22"),
        ("11-22", "2023-11-22T10:00:00Z", "2023-11-22"),
        ("12-31", "2026-01-01T00:30:00Z", "2025-12-31"),
        ("01-01", "2025-12-31T23:30:00Z", "2026-01-01"),
    ],
)
def test_beside_others_it_is_the_one_nearest_to_their_times(tmp_path, day, time, date):
    told = [f"the year {date[:4]} of vllm.log: the times of a.csv"]
    assert first_time(tmp_path, day, a_csv=TABLE.format(time)) == (date, told)


def test_a_date_in_the_name_counts_first_and_is_no_assumption(tmp_path):
    assert first_time(tmp_path, "11-22", "vllm-2021-11-22.log") == ("2021-11-22", [])


def test_a_saved_recording_keeps_the_year(tmp_path):
    (tmp_path / "vllm.log").write_text(LINE.format("01-02 10:00:00") * 2)
    os.utime(tmp_path / "vllm.log", (WRITTEN, WRITTEN))
    save_recording(draft_recording([tmp_path / "vllm.log"]), tmp_path / "saved")
    loaded = load(open_recording(tmp_path / "saved"), catalogue())
    assert dt.datetime.fromtimestamp(loaded.block.time[0], dt.UTC).year == 2025
    assert not any("no year" in text for text in loaded.warnings)


@pytest.mark.parametrize("before", ["", "Nov 21 09:00:00 gpu-07 kernel: up\n", "INFO 11-21 09:00:00 [a.py:1] up\n"])
@pytest.mark.parametrize("other", ["Nov 20 08:00:00 gpu-07", "INFO 09-14 08:00:00"])
def test_of_two_dates_in_a_line_the_first_one_counts(before, other):
    times = LineTimes({"year": "2026"}, "x.log", 0.0)
    for line in f"{before}2026-11-22 10:00:00 {other} it waits".splitlines():
        found = times.find(line)
    assert found == 1795341600
