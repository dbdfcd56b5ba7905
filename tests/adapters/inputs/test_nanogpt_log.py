import io

import pytest

from skewscope.adapters.inputs.recognition import find_kind
from skewscope.adapters.inputs.recording import input_readers
from tests.support.artefacts import NANOGPT, START

nanogpt_log = input_readers()["nanogpt-log"]


def read(text, name="out/train.jsonl", **labels):
    """Returns (time, seconds of a step) of each sample, and the note."""
    found = nanogpt_log.read_series(io.BytesIO(text.encode()), name, labels)
    (series,) = [one for one in found if one.metric == "skewscope_step_duration"]
    assert dict(series.labels) == {"group": labels.get("group", "train")}
    pairs = zip(series.times.tolist(), series.values.tolist(), strict=True)
    return [(pytest.approx(time), pytest.approx(value)) for time, value in pairs], series.note


def test_nanogpt_gives_the_time_of_single_steps_but_not_of_those_with_an_evaluation():
    found, note = read(NANOGPT)
    assert found == [(14, 0.5), (19.1, 0.51)]
    assert "begin at 0 s" in note
    more = "step 30: train loss 9.0, val loss 9.0\niter 30: loss 9.0, time 30000.00ms, mfu 1.00%\n"
    more += "iter 40: loss 8.9, time 500.00ms, mfu 30.00%\n"
    found, _ = read(NANOGPT + more)
    assert found == [(14, 0.5), (19.1, 0.51), (19.1 + 9 * 0.51 + 30 + 5, 0.5)]


@pytest.mark.parametrize(
    "line",
    [
        "step {:4d}/19560 | loss 7.123456 (+0.12z)| norm 1.2345 (+nanz)| lr 0.1 | {:.2f} ms | 30.1% bf16 MFU | 9 tok/s",
        "step {:4d}/50 | train loss 5.270007 | norm 30.3765 | lr 1.00e-04 | ({:.2f} ms | 5678 tok/s)",
        "step {:4d}/74: train loss 4.367631 ({:.6f} ms, 50797 tok/s)",
        "step {:05d}/21400 (0.05%) | loss: 9.2 | lrm: 1.0 | dt: {:.2f}ms | tok/sec: 1,300 | mfu: 48.1 | epoch: 1",
        "step {:05d} (0.1%) | loss: 9.206382 | lrm: 1.00 | dt: {:.0f}ms | tok/sec: 1,300 | epoch: 1",
        "step {:06d} | loss 10.398314 | lrm 0.0250 | dt_ms {:.1f}",
        "2026-11-22 iter {}: loss nan, time {:.2f}ms, mfu 0.00%",
    ],
)
def test_the_lines_of_its_kin_have_the_time_of_a_step(line):
    text = "".join(line.format(n, ms) + "\n" for n, ms in ((1, 9000), (2, 500), (3, 750)))
    assert nanogpt_log.recognise(text.encode(), "x")
    assert read(text)[0] == [(9.5, 0.5), (10.25, 0.75)]


NANOCHAT = "step {:05d}/00900 (1.00%) | loss: 3.7 | lrm: 1.00 | dt: {:.2f}ms | tok/sec: 37,749 | mfu: 12.13\n"


def nanochat(*steps):
    return "".join(NANOCHAT.format(n, ms) for n, ms in steps)


def saved(clock):
    return f"2025-11-11 {clock},302 - nanochat.checkpoint_manager - INFO - Saved model file to: /d20/model_000500.pt\n"


def test_what_passed_between_stamps_besides_the_steps_is_spread_over_them():
    text = saved("01:00:00") + nanochat(*((n, 10_000) for n in range(1, 12)))
    # 100 s of steps after the first one, whose stamp is that of the line before, and 20 s of evaluations.
    found, note = read(text + saved("01:02:10") + nanochat((12, 10_000)))
    begin = 1762822800.302
    assert [time for time, _ in found] == [begin + 12 * n for n in range(1, 11)] + [begin + 130]
    assert all(value == 10.0 for _, value in found)
    assert "some steps have no time" in note
    # What is more than the steps took is a pause.
    found, _ = read(text + saved("01:08:00") + nanochat((12, 10_000)))
    assert [time for time, _ in found] == [begin + 10 * n for n in range(1, 11)] + [begin + 480]


def test_a_run_that_begins_at_its_first_step_is_a_job_of_its_own():
    text = nanochat(*((n, 500) for n in range(5)), *((n, 900) for n in range(3)), (7, 900), (3, 900))
    series = nanogpt_log.read_series(io.BytesIO(text.encode()), "out/train.jsonl", {})
    found = {dict(one.labels)["group"]: one.values.tolist() for one in series}
    assert found == {"train": [0.5] * 4, "train.2": [0.9] * 3}


def test_a_late_line_of_another_process_begins_no_run():
    late = nanochat(*((n, 500) for n in range(5)), (1, 500), *((n, 500) for n in range(5, 9)))
    assert read(late)[0] == [(0.5 * n, 0.5) for n in range(2, 10)]


def test_of_very_many_runs_the_last_ones_are_one_job(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.inputs.training_steps.MAX_RUNS", 3)
    text = nanochat(*((n, 500) for n in range(4))) * 6
    series = nanogpt_log.read_series(io.BytesIO(text.encode()), "out/train.jsonl", {})
    assert {dict(one.labels)["group"] for one in series} == {"train", "train.2", "train.3"}


def speedrun(*rows, unit="ms", key="train_loss"):
    return "".join(f"step:{n}/5100 {key}:3.5 train_time:{t}{unit} step_avg:7.00ms\n" for n, t in rows)


def test_modded_nanogpt_gives_differences_of_its_time():
    rows = [
        (1, 24_389),
        (9, 25_500),
        (10, 25_678),
        (11, 110),
        (12, 258),
        (20, 1458),
        (30, 2958),
        (30, 3009),
        (31, 3108),
    ]
    found, note = read(speedrun(*rows))
    assert found == [(25.5, (25.5 - 24.389) / 8), (25.678 + 1.458, 1.348 / 9), (25.678 + 2.958, 0.15)]
    assert "new begins" not in note
    assert "another process" not in note
    seconds = speedrun((0, "0.5"), (25, "5.500"), (50, "11.750"), unit="s", key="val_loss")
    assert read(seconds)[0] == [(5.5, 0.2), (11.75, 0.25)]


def test_stamps_of_a_launcher_are_the_times_of_modded_nanogpt():
    lines = speedrun((0, 0), (10, 2000), (20, 5000)).splitlines()
    text = "".join(f"2026-11-22 10:00:{10 * n:02d} {line}\n" for n, line in enumerate(lines))
    assert read(text) == ([(START + 10, 0.2), (START + 20, 0.3)], "")


def test_a_log_that_begins_with_its_source_and_a_table_of_gpus_is_recognised(tmp_path):
    source = 'print0(f"step:{step}/{train_steps} train_time:{training_time_ms:.0f}ms")\n' * 1000
    (tmp_path / "a.txt").write_text(f"{source}{speedrun((1, 200), (50, 9000))}")
    assert find_kind(tmp_path / "a.txt") == "nanogpt-log"


def test_the_end_of_a_log_that_falls_back_may_be_a_new_job():
    found, note = read(speedrun((10, 2000), (20, 4000), (0, 10), (10, 2010)))
    assert found == [(4, 0.2), (6.01, 0.2)]
    assert "new begins of the job: 1" in note
