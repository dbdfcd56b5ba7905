"""Logs of trainers with a line for each step: every form of line, evaluations, several processes and new begins."""

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs.known_formats import known_formats
from skewscope.adapters.inputs.recording import find_reader, input_readers
from skewscope.kb.problems import InputError
from tests.support.artefacts import STEP_LINES, TORCHTITAN

step_log = input_readers()["step-log"]

BEGIN = 1795341600.0
"""2026-11-22 10:00:00 UTC."""
DURATION, EVALUATION = "skewscope_step_duration", "skewscope_step_evaluation"


def read(text, metric=DURATION, name="out/train.log", **labels):
    """Returns (time, value) of each sample of a metric, by group."""
    series = step_log.read_series(io.BytesIO(text.encode()), name, labels)
    return {
        dict(one.labels)["group"]: list(zip(one.times.tolist(), one.values.tolist(), strict=True))
        for one in series
        if one.metric == metric
    }


def values(text):
    """Returns the step times of a log of one run."""
    (found,) = read(text).values()
    return [value for _, value in found]


LINES = {
    "MaxText": ("completed step: {n}, seconds: {s:.3f}, TFLOP/s/device: 134.924, loss: 10.374", 1),
    "verl": (
        "(TaskRunner pid=7) step:{n} - actor/lr:0.000 - timing_s/gen:9.5 - timing_s/step:{s:.9f} - perf/mfu:0.3",
        1,
    ),
    "Lingua": (
        "step: {n}  acc: 0  loss:  2.5  grad: 1.1e-01  wps: 3.1e+04  iter:  {s:.4f}  data: 0.001  lr: 1e-03",
        10,
    ),
    "nanotron": (
        "[default0]:[INFO|DP=0]: iteration: {n} / 999 | elapsed_time_per_iteration_ms: {s:.2f}K |",
        1,
    ),
    "OpenMMLab": ("Epoch [1][{n}/7517]\tlr: 0.00125, eta: 4:44:04, time: {s:.3f}, data_time: 0.031, loss: 0.46", 50),
    "OpenMMLab by steps": ("Iter(train) [ {n}/9000]  lr: 1e-03  eta: 2:00:00  time: {s:.4f}  data_time: 0.01", 10),
    "OpenMMLab of now": ("Epoch(train)   [9][{n}/7517]  lr: 1e-03  eta: 2:00:00  time: {s:.4f}  data_time: 0.01", 10),
    "detectron2": ("eta: 0:10:39  iter: {n}  total_loss: 2.0    time: 0.4281  last_time: {s:.4f}  data_time: 0.01", 20),
}


@pytest.mark.parametrize("form", LINES)
def test_the_time_of_a_step_is_read_as_each_trainer_writes_it(form):
    line, every = LINES[form]
    text = "".join(f"{line.format(n=every * n, s=s)}\n" for n, s in ((1, 9.0), (2, 1.25), (3, 1.5), (3, 1.5), (4, 1.0)))
    assert step_log.recognise(text.encode(), "x")
    (found,) = read(text).values()
    assert [value for _, value in found] == pytest.approx([1.25, 1.5, 1.0])
    # Times begin at 0 s, with the steps in between.
    assert found[-1][0] - found[0][0] == pytest.approx(every * 2.5)


def test_the_steps_of_torchtitan_are_those_between_its_dates_without_a_validation():
    assert read(TORCHTITAN) == {
        "train": [(BEGIN + 20.25, 1.0), (BEGIN + 30.25, 1.0), (BEGIN + 70.25, 1.0), (BEGIN + 80.75, 1.05)]
    }
    assert read(TORCHTITAN, EVALUATION) == {"train": [(BEGIN + 30.251, 1.0), (BEGIN + 60.25, 0.0)]}


def meters(every, means, epoch=0, length=400, first=0):
    return "".join(
        f"Epoch: [{epoch}][{first + every * n:3}/{length}]\tTime  {0.999 if n else mean:.3f} ({mean:6.3f})\tData 0.1\n"
        for n, mean in enumerate(means)
    )


@pytest.mark.parametrize("first", [0, 1])
def test_of_means_since_an_epoch_began_the_steps_between_lines_are_taken_apart(first):
    # A first step of 30 s, then one second each, from the 31st on two.
    done = [1, 11, 21, 31, 41]
    total = [30, 40, 50, 60, 80]
    text = meters(10, [t / d for t, d in zip(total, done, strict=True)], first=first)
    assert values(text) == pytest.approx([1.0, 1.0, 1.0, 2.0], rel=0.02)


def test_a_sample_is_as_long_as_the_digits_of_the_mean_need():
    text = meters(10, [0.1] * 40)
    (found,) = read(text).values()
    # The error grows with the number of steps, and so does the time between samples.
    steps = [0, *(round(time / 0.1) for time, _ in found)]
    assert all(b - a >= 10 * 0.001 * b / 0.1 for a, b in itertools.pairwise(steps[1:]))
    assert len(found) > 15


def test_each_epoch_begins_anew_and_its_first_line_is_no_sample():
    text = meters(10, [5.0, 5.0 / 11 + 10 / 11, 1.0]) + meters(10, [6.0, 6.0 / 11 + 20 / 11], epoch=1)
    assert values(text)[0::2] == pytest.approx([1.0, 2.0], rel=0.01)


def test_timm_and_swin_write_means_as_well():
    for line in (
        "Train: 0 [{:4}/1251 (  1%)]  Loss:  6.9 (6.9)  Time: {:.3f}s,  248.4/s  ({:.3f}s,  204.0/s)  LR: 1e-06",
        "[swin] (main.py 170): INFO Train: [0/300][{}/1251]\teta 3:02:11 lr 0.01\ttime {:.4f} ({:.4f})\tloss 6.9 (6.9)",
    ):
        text = "".join(
            f"{line.format(n, 0.412 if n else mean, mean)}\n"
            for n, mean in ((0, 4.0), (50, 103 / 51), (100, 203 / 101))
        )
        assert values(text) == pytest.approx([1.98, 2.0], rel=0.01)


def test_torchvision_writes_the_mean_of_the_last_twenty_steps():
    # The first step takes 21 s, the others one each.
    rows = ((0, 21.0), (10, 31 / 11), (20, 1.0), (30, 1.5))
    text = "".join(
        f"Epoch: [0]  [ {n}/999]  eta: 0:01:00  lr: 0.1  time: {s:.4f}  data: 0.1  max mem: 9\n" for n, s in rows
    )
    assert values(text) == pytest.approx([1.0, 1.0, 1.5], rel=1e-3)


def test_evaluations_are_no_steps_and_said_where_lines_are_dated():
    def at(second):
        return f"2026-11-22 10:00:{second:02},500 "

    text = "".join(
        (
            *(f"{at(n)}Epoch: [0][{n}/9] Time 1.0 (1.000)\n" for n in range(4)),
            f"{at(20)}Test: [0/99] Time 15.0 (15.0)\n",
            f"{at(25)}Val Epoch: [0][10/99] Time 0.5 (2.0)\n",
            f"{at(40)}Epoch: [1][0/9] Time 1.0 (1.000)\n",
            f"{at(41)}Epoch: [1][1/9] Time 1.0 (1.000)\n",
        )
    )
    (found,) = read(text).values()
    assert [time - BEGIN for time, _ in found] == [1.5, 2.5, 3.5, 41.5]
    assert [(time - BEGIN, value) for time, value in read(text, EVALUATION)["train"]] == [
        (pytest.approx(3.501), 1),
        (20.5, 1),
        (25.5, 1),
        (40.5, 0),
    ]


def test_a_step_that_contains_a_test_is_no_sample():
    line = "step:{} - timing_s/step:{} - {}timing_s/gen:1\n"
    text = "".join(
        line.format(n, s, "timing_s/testing:50 - " if n == 3 else "") for n, s in ((1, 9), (2, 2), (3, 55), (4, 2))
    )
    assert values(text) == [2, 2]


def test_of_several_processes_one_is_read():
    text = "".join(
        f"[rank{rank}]:2026-11-22 10:00:{10 * n + rank:02},000 - root - INFO - step: {n}  loss: 1.0  tps: 7,000\n"
        for n in range(1, 5)
        for rank in (1, 0, 2)
    )
    assert [value for _, value in read(text)["train"]] == [10, 10, 10]


def test_lines_that_come_late_are_left_out_and_a_job_that_goes_back_is_followed():
    line = "completed step: {}, seconds: {}.5, loss: 1\n"
    late = "".join(line.format(n, n) for n in (10, 11, 12, 11, 13, 12, 14))
    assert [value for _, value in read(late)["train"]] == [11.5, 12.5, 13.5, 14.5]
    back = late + "".join(line.format(n, 1) for n in (11, 12, 13, 14))
    assert [value for _, value in read(back)["train"]][4:] == [1.5, 1.5, 1.5, 1.5]


def test_a_job_that_begins_where_the_first_one_did_is_another_run():
    line = "completed step: {}, seconds: {}.5, loss: 1\n"
    text = "".join(line.format(n, s) for s in (1, 4) for n in range(6))
    found = read(text)
    assert list(found) == ["train", "train.2"]
    assert {value for _, value in found["train"]} == {1.5}
    assert {value for _, value in found["train.2"]} == {4.5}


def test_one_file_is_read_by_the_form_of_its_first_line():
    other = "Epoch: [0]  [ 1/999]  eta: 0:01:00  time: 9.0  data: 0.1\n"
    text = "".join(f"completed step: {n}, seconds: 1.5, loss: 1\n{other}" for n in range(4))
    assert {value for _, value in read(text)["train"]} == {1.5}


def dated(form, *rows):
    """Returns lines of (second after the begin, step)."""
    return "".join(form.format(at=f"{second // 60:02}:{second % 60:02}", n=n) + "\n" for second, n in rows)


DATED_FORMS = {
    "detectron2": "[11/22 10:{at} d2.utils.events]:  eta: 1:00  iter: {n}  loss: 2.0    time: 0.6  data_time: 0.1",
    "nanotron": "11/22/2026 10:{at} [INFO|host-test-1]: iteration: {n} / 99 | elapsed_time_per_iteration_ms: 1.5K |",
    "mmengine": "11/22 10:{at} - INFO - Epoch(train) [1][{n}/90]  data_time: 0.1  lr: 1.0  time: 1.5  loss: 0",
}


@pytest.mark.parametrize("form", DATED_FORMS)
def test_dates_without_a_year_or_with_the_month_first_are_read(form):
    text = dated(DATED_FORMS[form], (0, 0), (12, 8), (24, 16), (1224, 24))
    assert step_log.recognise(text.encode(), "x")
    found = read(text, name="log-2026-11-22.txt")["log-2026-11-22"]
    assert [time - BEGIN for time, _ in found] == [12, 24, 1224]
    assert found[0][1] == 1.5


def test_what_an_evaluation_takes_is_no_time_of_dated_steps():
    form = DATED_FORMS["detectron2"]
    text = dated(form, (0, 0), (12, 8), (24, 16)) + "[11/22 10:01:30 d2.evaluation.evaluator]: Inference done 11/50.\n"
    text += dated(form, (300, 24), (312, 32))
    found = read(text, name="log-2026-11-22.txt")["log-2026-11-22"]
    assert found == [(BEGIN + 12, 1.5), (BEGIN + 24, 1.5), (BEGIN + 312, 1.5)]


def test_of_dates_in_whole_seconds_a_sample_is_at_least_ten_seconds():
    text = dated(DATED_FORMS["detectron2"], *((3 * n, 2 * n) for n in range(9)))
    assert read(text, name="log-2026-11-22.txt")["log-2026-11-22"] == [(BEGIN + 12, 1.5), (BEGIN + 24, 1.5)]


def test_an_evaluation_of_which_only_the_end_is_printed_began_after_the_step_before_it():
    form = "2026-11-22 10:{at},000 - mmdet - INFO - Epoch [1][{n}/99]\tlr: 0.1, time: 1.500, data_time: 0.1, loss: 1"
    text = (
        dated(form, (0, 10), (15, 20)) + "2026-11-22 10:15:25,000 - mmdet - INFO - Epoch(val) [1][50]\tbbox_mAP: 0.2\n"
    )
    found = read(text + dated(form, (940, 30)), EVALUATION)["train"]
    # Often enough to count all the time.
    assert [round(time - BEGIN) for time, _ in found] == [15, 315, 615, 915, 925, 940]
    assert [value for _, value in found] == [1, 1, 1, 1, 1, 0]


TITAN = "[rank{r}]:[titan] 2026-11-22 10:{at},250 - root - INFO - {what}step: {n}  loss: 1.0  tps: 7,000"


def test_a_validation_that_another_rank_tells_later_moves_nothing_back():
    rows = [(0, "10:00", "", 20), (0, "10:30", "validate ", 20), (0, "10:31", "", 21), (1, "10:31", "validate ", 20)]
    text = "".join(f"{TITAN.format(r=r, at=at, what=what, n=n)}\n" for r, at, what, n in [*rows, (0, "10:32", "", 22)])
    assert values(text) == [1.0, 1.0]


def test_a_job_that_goes_back_by_one_line_has_no_long_step():
    rows = ((0, 90), (10, 100), (1210, 100), (1220, 110))
    text = dated(TITAN.replace("{r}", "0").replace("{what}", ""), *rows)
    assert values(text) == [1.0, 1.0]


def test_lines_with_earlier_dates_are_of_another_process_and_no_new_begin():
    form = TITAN.removeprefix("[rank{r}]:").replace("{what}", "")
    text = dated(form, *((10 * n, 10 * n) for n in range(1, 9))) + dated(form, *((10 * n, 10 * n) for n in range(1, 9)))
    assert read(text) == {"train": [(BEGIN + 10 * n + 0.25, 1.0) for n in range(2, 9)]}


def test_means_without_dates_never_wait_for_long():
    # With so short steps, the last digit of the mean is a third of a step after ten of them.
    first = 5.0
    text = "".join(
        f"Epoch: [0][{n}/20000] Time {0.03 if n else first:.3f} ({(first + 0.03 * n) / (n + 1):.3f})\n"
        for n in range(0, 20_000, 10)
    )
    (found,) = read(text).values()
    times = [time for time, _ in found]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    # Nine seconds, or 1.5 times the longest one before, are no stop.
    assert all(
        gap <= max(9.0, 1.5 * longest) for gap, longest in zip(gaps[1:], itertools.accumulate(gaps, max), strict=False)
    )
    assert times[-1] == pytest.approx(first + 0.03 * 20_000, rel=0.2)


def test_a_hostile_line_is_passed_over():
    for part in ("iter: 1  ", "Epoch: [1][1/2] ", "step:1 - ", "Train: 0 [1/2 (1%)]  Loss: ", "step: 1  loss: "):
        line = (part * (65_000 // len(part)) + " last_time: data_time: Time timing_s/step: tps:").encode()
        assert not step_log.recognise(line, "x")


def test_a_log_without_two_steps_is_refused_with_an_example():
    with pytest.raises(
        InputError,
        match=r"train\.log:1: found 1 lines .* no time between two steps.*, expected lines such as `completed step",
    ):
        read("completed step: 1, seconds: 1.5, loss: 1\n")


@given(st.lists(st.sampled_from([*STEP_LINES, "Test: [1/9]", "validate step: 3  loss: 1", "", "é\x00"]), max_size=40))
def test_any_order_of_lines_is_read_or_refused(lines):
    try:
        found = read("\n".join(lines))
    except InputError:
        return
    assert all(value > 0 for samples in found.values() for _, value in samples)


EPOCHS = {
    "YOLOX": "{d} | INFO | y:9 - epoch: {e1}/100, iter: {i}/3, mem: 9Mb, iter_time: 0.5s, data_time: 0.1s, loss: 1",
    "MXNet": "{d} Epoch[{e}] Batch [{i}]\tSpeed: 2267.26 samples/sec\tTrain-mae=20.4",
    "OpenMMLab": "{d} - mmdet - INFO - Epoch [{e1}][{i}/3]\tlr: 0.1, time: 0.500, data_time: 0.1, loss: 1",
    "timm": "{d} Train: {e} [{i}/3 (  4%)]  Loss: 6.93 (6.93)  Time: 0.500s, 248.4/s  (0.502s, 2/s)  Data: 0.008 (0.1)",
    "torchvision": "{d} Epoch: [{e}]  [{i}/3]  eta: 0:14:01  loss: 6.9 (6.9)  time: 0.5000  data: 0.0002",
    "nanochat": "{d} step {n} (0.05%) | loss: 9.2 | lrm: 1.0 | dt: 500.00ms | tok/sec: 1,300 | epoch: {e}",
    "verl": "{d} step:{n} - training/epoch:{e} - timing_s/step:0.5",
}
"""Lines of trainers that count epochs; those of e1 count from 1, i is the step in the epoch."""


@pytest.mark.parametrize("form", EPOCHS.values(), ids=EPOCHS)
def test_epochs_are_carried_where_lines_count_them(form):
    steps = [(epoch, step) for epoch in range(4) for step in (1, 2, 3)]
    text = "".join(
        form.format(d=f"2026-11-22 10:00:{n * 4:02d},500", e=epoch, e1=epoch + 1, i=step, n=n) + "\n"
        for n, (epoch, step) in enumerate(steps)
    )
    kind = find_reader(known_formats().choose(text.encode()).kind or "text")
    series = kind.read_series(io.BytesIO(text.encode()), "train.log", {})
    (found,) = [zip(one.times, one.values, strict=True) for one in series if one.metric == "skewscope_step_epoch"]
    begins = [time - BEGIN for (_, before), (time, value) in itertools.pairwise([(0, -1.0), *found]) if value != before]
    assert begins == pytest.approx([0.5, 12.5, 24.5, 36.5])
