import io

import pytest

from skewscope.adapters.inputs.recording import input_readers
from skewscope.kb.problems import InputError
from tests.support.artefacts import SWIFT

swift_log = input_readers()["swift-log"]


def read(text, name="out/train.jsonl", **labels):
    """Returns (time, seconds of a step) of each sample, and the note."""
    series, *_ = swift_log.read_series(io.BytesIO(text.encode()), name, labels)
    assert series.metric == "skewscope_step_duration"
    assert dict(series.labels) == {"group": labels.get("group", "train")}
    pairs = zip(series.times.tolist(), series.values.tolist(), strict=True)
    return [(pytest.approx(time), pytest.approx(value)) for time, value in pairs], series.note


def test_swift_gives_the_mean_time_of_steps_by_its_speed_without_evaluations():
    found, note = read(SWIFT)
    first, second, third = 1 / 0.15, 10 / 0.195, 20 / 0.124
    assert found == [(second, (second - first) / 9), (third - (111 - second), (third - 111) / 10)]
    assert "without evaluations" in note


def swift(*rows):
    row = '{{"loss": 1.0, "global_step/max_steps": "{}/999", "elapsed_time": "{}", "train_speed(iter/s)": {}}}\n'
    return "".join(row.format(*each) for each in rows)


def test_times_of_swift_have_all_units_and_a_speed_that_does_not_fit_is_not_used():
    rows = (
        (100, "1d 0h 0m 5s", 0.5),
        (200, "1d 0h 5m", 0.0),
        (300, "1d 1h 0m 0s", 9),
        (310, "90050s", 310 / 90_050.25),
    )
    found, _ = read(swift(*rows))
    assert [value for _, value in found] == [2.95, 33, 5.025]


def test_what_swift_prints_and_what_megatron_swift_writes_is_read():
    printed = "[INFO:swift] begin\n{'loss': 1.9, 'train_speed(iter/s)': 0.5, 'epoch': 0.1, 'global_step': 50}\n"
    printed += "{'loss': 1.8, 'train_speed(iter/s)': 0.4, 'epoch': 0.1, 'global_step': 60}\n"
    assert read(printed)[0] == [(150, 5.0)]
    megatron = '{"loss": 1.0, "iteration": "%s/99", "elapsed_time": "%s", "train_speed(s/it)": %s}\n'
    text = megatron % (10, "1m 0s", 6.0) + megatron % (20, "1m 40s", 5.01)
    assert read(text)[0] == [(100.2, 4.02)]


def test_the_summary_of_swift_is_no_line_of_steps():
    summary = '{"last_model_checkpoint": "/o/2026-01-01 00:00:00", "log_history": [' + '{"loss": 1, "step": 1}, ' * 9000
    found, note = read(f"{SWIFT}{summary}0]}}\n")
    assert found == read(SWIFT)[0]
    assert "damaged" not in note
    assert "ends inside" not in note


def test_damage_is_told_with_its_line():
    line = SWIFT.splitlines()[-1]
    cut = line[: line.index('"remaining_time"')]
    found, note = read(f"{SWIFT}{cut}")
    assert found == read(SWIFT)[0]
    number = len(SWIFT.splitlines()) + 1
    assert f"ends inside a line ({number}), which is left out" in note
    _, note = read(f"{SWIFT}{cut}\n" + SWIFT * 100)
    assert f"damaged lines that are left out: 1, first {number}" in note
    with pytest.raises(
        InputError, match=rf"train\.jsonl:{number}: found 2 of \d+ lines without .*, expected lines such"
    ):
        read(f"{SWIFT}{cut}\n{cut}\n{SWIFT}")
