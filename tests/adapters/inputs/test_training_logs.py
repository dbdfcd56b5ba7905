import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs import mlperf_log, nemo_log
from skewscope.adapters.inputs.recording import input_readers
from skewscope.adapters.inputs.training_steps import job_name
from skewscope.kb.problems import InputError
from tests.support.artefacts import DEEPSPEED, MEGATRON, MLPERF, NEMO, NEMO_BAR, START

deepspeed_log = input_readers()["deepspeed-log"]
megatron_log = input_readers()["megatron-log"]

EPOCH = "skewscope_step_epoch"
DURATION, RATE, COMPUTE = "skewscope_step_duration", "skewscope_step_sample_rate", "skewscope_step_compute_time"


def read(module, text, name="logs/train-rank3.log", **labels):
    return module.read_series(io.BytesIO(text.encode()), name, labels)


def samples(series):
    """Returns (seconds after the start, value) of each sample by metric and rank."""
    return {
        (one.metric, dict(one.labels).get("rank", "")): [
            (pytest.approx(t - START), pytest.approx(v)) for t, v in zip(one.times, one.values, strict=True)
        ]
        for one in series
    }


def test_megatron_gives_step_times_rates_and_what_ranks_compute():
    series = read(megatron_log, MEGATRON)
    assert samples(series) == {
        (DURATION, ""): [(20.5, 1.5), (22, 1.6)],
        (RATE, ""): [(20.5, 128 / 1.5), (22, 80)],
        (COMPUTE, "0"): [(20.5, 1.2)],
        (COMPUTE, "1"): [(20.5, 1.31)],
    }
    assert {dict(one.labels)["group"] for one in series} == {"train"}
    assert {one.note for one in series} == {""}


def test_megatron_without_stamps_begins_at_zero_and_says_so():
    lines = [
        f" iteration {n:8d}/ 500 | elapsed time per iteration (ms): {ms:.1f} |" for n, ms in ((10, 900), (20, 1000))
    ]
    series = read(megatron_log, "\n".join(lines), group="job")
    assert [(one.times.tolist(), one.values.tolist()) for one in series] == [([pytest.approx(10.9)], [1.0])]
    assert "begin at 0 s" in series[0].note
    assert series[0].labels == (("group", "job"),)


def test_the_names_that_megatron_deepspeed_uses_are_read_and_lines_of_a_launcher_before_them():
    text = """\
0: [2026-11-22 10:00:10][INFO][training:1609] -  iteration=       1/  317892 | elapsed_time_per_iteration_ms=108893.2 |
0: [2026-11-22 10:00:20][INFO][training:1609] -  iteration=       2/  317892 | elapsed_time_per_iteration_ms=9500.0 | \
global_batch_size=  768 | lm loss=11.133188 |
"""
    assert samples(read(megatron_log, text)) == {(DURATION, ""): [(20, 9.5)], (RATE, ""): [(20, 768 / 9.5)]}


def test_megatron_deepspeed_of_bigscience_prints_seconds_behind_the_name_of_the_rank():
    text = "2026-11-22 10:00:00 launch\n" + "".join(
        f"[default7]: iteration {n:8d}/ 115311 | consumed samples: {2048 * n} | consumed tokens: {4194304 * n} | "
        f"elapsed time per iteration (s): {seconds:.2f} | learning rate: 7.610E-06 | global batch size:  2048 | "
        f"samples per second: {2048 / seconds:.3f} | TFLOPs: 145.31 |\n"
        for n, seconds in ((7, 300.0), (8, 102.4), (9, 204.8))
    )
    assert samples(read(megatron_log, text)) == {
        (DURATION, ""): [(102.4, 102.4), (307.2, 204.8)],
        (RATE, ""): [(102.4, 20.0), (307.2, 10.0)],
    }


OLD_BAR = "Epoch 0:   1%|          | {}/77225 [{}<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, \
global_step={}, consumed_samples=1.63e+6]"


def test_nemos_old_progress_bar_has_a_clock_but_no_time_of_a_step():
    bars = [(794, "9:07:00", "793.0"), (795, "9:07:41", "794.0"), (795, "9:07:41", "794.0"), (798, "9:09:41", "8e+2")]
    text = "\r".join(OLD_BAR.format(*bar) for bar in bars)
    assert nemo_log.recognise(text.encode(), "x")
    stamped = read(nemo_log, "[NeMo I 2026-11-22 19:07:00 exp_manager:396] x\n" + text)
    assert samples(stamped) == {(DURATION, ""): [(32_820 + 41, 41.0), (32_820 + 161, 40.0)]}
    (relative,) = read(nemo_log, text)
    assert relative.values.tolist() == [41.0, 40.0]
    assert "begin at 0 s" in relative.note


def test_nemos_old_progress_bar_starts_anew_with_each_epoch():
    first = [OLD_BAR.format(n, f"00:{10 * n:02d}", n) for n in (1, 2, 3)]
    second = [bar.replace("Epoch 0", "Epoch 1") for bar in first]
    (series,) = read(nemo_log, "\r".join([*first, *second]))
    assert (series.times.tolist(), series.values.tolist()) == ([20.0, 30.0, 50.0, 60.0], [10.0] * 4)


def test_deepspeed_up_to_0_9_names_the_rank_twice_in_a_breakdown():
    text = "".join(
        f"[2026-11-22 10:00:{n:02d},390] [INFO] [logging.py:68:log_dist] [Rank {rank}] rank={rank} time (ms) | "
        f"forward: {100.0 * n} | backward: 747.31 | backward_inner: 50.00 | backward_allreduce: 232.00 | step: 663.59\n"
        for n, rank in ((1, 0), (2, 3))
    )
    text += "[2026-11-22 10:00:03,000] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.4, MemAllocated=0.26GB\n"
    found = samples(read(deepspeed_log, text))
    assert found[COMPUTE, "0"] == [(1.39, 0.15)]
    assert found[COMPUTE, "3"] == [(2.39, 0.25)]
    assert found["skewscope_step_comm_time", "3"] == [(2.39, 0.232)]
    assert found[RATE, ""] == [(3.0, 83.4)]


def test_a_clock_ahead_of_utc_is_corrected():
    series = read(megatron_log, MEGATRON, utc_offset="+01:00")
    assert series[0].times[0] - START == pytest.approx(20.5 - 3600)


def test_an_iteration_that_several_ranks_print_counts_once():
    line = " [2026-11-22 10:00:{:02d}] iteration {}/ 9 | elapsed time per iteration (ms): 1000.0 |\n"
    text = "".join(line.format(n, n) * 3 for n in (1, 2, 3))
    assert samples(read(megatron_log, text)) == {(DURATION, ""): [(2, 1), (3, 1)]}


def test_nemo_gives_step_times_from_the_newest_stamp_on():
    series = read(nemo_log, NEMO)
    assert samples(series) == {(DURATION, ""): [(2.5, 2.5), (4.5, 2.0)], (RATE, ""): [(2.5, 12.8), (4.5, 16)]}
    assert "some steps have no time" in series[0].note


def test_nemos_progress_bar_counts_each_step_once_and_sees_the_pause_between_them():
    # The third step takes 10.5 s, and the bar's clock shows 29.5 s of validation before it.
    assert samples(read(nemo_log, NEMO_BAR)) == {(DURATION, ""): [(50, 10.0), (90, 10.5)]}


def test_deepspeed_gives_steps_by_their_stamps_rates_and_the_breakdown_of_a_rank():
    found = samples(read(deepspeed_log, DEEPSPEED))
    assert found == {
        (DURATION, ""): [(15, 0.5)],
        (EPOCH, ""): [(10.004, 0), (15.004, 0)],
        (RATE, ""): [(10.004, 111.25), (15.004, 112.5)],
        (COMPUTE, "0"): [(10.005, 0.35075)],
        ("skewscope_step_comm_time", "0"): [(10.005, 0.0495)],
    }


def test_the_lines_that_deepspeed_printed_at_first_are_read():
    line = "worker-0: [INFO 2026-11-22 10:00:{:02d}] 0/{}, SamplesPerSec=1292.5\n"
    found = samples(read(deepspeed_log, line.format(5, 50) + line.format(5, 75) + line.format(15, 100)))
    assert found == {(DURATION, ""): [(15, 0.2)], (RATE, ""): [(5, 1292.5), (5, 1292.5), (15, 1292.5)]}


def test_deepspeeds_pipeline_engine_prints_no_times():
    text = "".join(
        f"steps: {n} loss: 0.5000 iter time (s): {s:.3f} samples/sec: {128 / s:.3f}\n"
        for n, s in ((10, 1.25), (20, 1.6))
    )
    series = {one.metric: one for one in read(deepspeed_log, text)}
    assert (series[DURATION].times.tolist(), series[DURATION].values.tolist()) == ([pytest.approx(17.25)], [1.6])
    assert series[RATE].values.tolist() == [102.4, 80.0]


def test_mlperf_gives_the_throughput_that_it_tracks_and_the_step_time_by_the_batch_size():
    assert samples(read(mlperf_log, MLPERF)) == {(DURATION, ""): [(210, 3.2)], (RATE, ""): [(210, 2.5)]}


def test_mlperf_without_a_throughput_has_that_of_its_blocks():
    text = "".join(line for line in MLPERF.splitlines(keepends=True) if "tracked_stats" not in line)
    assert samples(read(mlperf_log, text)) == {(DURATION, ""): [(210, 4.0)], (RATE, ""): [(210, 2.0)]}


def test_mlperf_that_tracks_each_step_has_its_time():
    text = MLPERF.replace('{"throughput": 2.5, "new": 1}', '{"train_step_time": 5.25}')
    step = text.splitlines()[2]
    assert samples(read(mlperf_log, f"{text}{step}\n")) == {(DURATION, ""): [(210, 5.25)]}


RATE_EVENT = ':::MLLOG {{"time_ms": {}, "event_type": "POINT_IN_TIME", "key": "throughput", "value": {}}}\n'


def test_mlperf_up_to_round_2_1_has_events_that_are_rates():
    begin, *_, stop = MLPERF.splitlines(keepends=True)
    rates = "".join(RATE_EVENT.format(1795341600000 + 1000 * s, v) for s, v in ((10, 4.0), (12, 2.0), (14, '"?"')))
    found = samples(read(mlperf_log, begin + rates + stop))
    assert found == {(DURATION, ""): [(10, 2.0), (12, 4.0)], (RATE, ""): [(10, 4.0), (12, 2.0)]}


def test_mlperf_counts_a_rate_once_that_statistics_give_as_well():
    event = RATE_EVENT.format(1795341810000, 2.5)
    lines = MLPERF.splitlines(keepends=True)
    for place in (2, 3, 4):
        text = "".join([*lines[:place], event, *lines[place:]])
        assert samples(read(mlperf_log, text)) == {(DURATION, ""): [(210, 3.2)], (RATE, ""): [(210, 2.5)]}


TRACKED = (
    ':::MLLOG {{"time_ms": {}, "key": "tracked_stats", "value": {{"throughput": {}}}, "metadata": {{"step": {}}}}}\n'
)


def tracked_rates(rates, seconds):
    """A log of rates, 50 steps of 8 samples apart, that took so many seconds."""
    time, text = 1795341600000, MLPERF.splitlines(keepends=True)[0]
    for n, (rate, passed) in enumerate(zip(rates, seconds, strict=True), start=1):
        time += round(1000 * passed)
        text += TRACKED.format(time, rate, 50 * n)
    return text


def test_mlperf_takes_rates_apart_that_are_means_since_the_begin():
    # Fifty steps take 5 s, and once 15 s.
    seconds = [9.0, *[5.0] * 6, 15.0, *[5.0] * 5]
    means = [8 * 50 * n / sum(seconds[:n]) for n in range(1, len(seconds) + 1)]
    found = samples(read(mlperf_log, tracked_rates(means, seconds)))
    assert [value for _, value in found[(DURATION, "")]] == [one / 50 for one in seconds[1:]]
    assert [value for _, value in found[(RATE, "")]] == [8 * 50 / one for one in seconds[1:]]


@pytest.mark.parametrize("seconds", [[9.0, *[5.0] * 6, 15.0, *[5.0] * 5], [9.0, *[5.0] * 5]])
def test_mlperf_leaves_rates_as_they_are_that_are_of_the_newest_steps(seconds):
    rates = [8 * 50 / one for one in seconds]
    found = samples(read(mlperf_log, tracked_rates(rates, seconds)))
    assert [value for _, value in found[(RATE, "")]] == rates


@pytest.mark.parametrize(
    "event",
    ['{"key": "tracked_stats"', "[1]", '{"time_ms": "now"}', '{"time_ms": true}', "[" * 5000, '{"time_ms": 1e400}'],
)
def test_a_damaged_event_of_mlperf_is_an_error_with_its_line(event):
    with pytest.raises(InputError, match=r"train-rank3\.log:2: "):
        read(mlperf_log, MLPERF.splitlines()[0] + "\n:::MLLOG " + event)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a/train.log", "train"),
        ("rank_12.out", "rank_12"),
        ("job-7-rank0.log.gz", "job-7"),
        ("stdout", "stdout"),
        ("", "job"),
    ],
)
def test_the_name_of_a_job_is_that_of_its_log(file, name):
    assert job_name(file) == name


@given(st.lists(st.integers(1, 10**7), min_size=2, max_size=20))
def test_what_megatron_prints_is_read_back(times):
    lines = [
        f" [2026-11-22 10:{n:02d}:00.0] iteration {n + 1:8d}/ 99 | elapsed time per iteration (ms): {ms / 10:.1f} |"
        for n, ms in enumerate(times)
    ]
    (series,) = read(megatron_log, "\n".join(lines))
    assert series.values.tolist() == pytest.approx([ms / 1e4 for ms in times[1:]])
    assert (series.times - START).tolist() == [60.0 * n for n in range(1, len(times))]
