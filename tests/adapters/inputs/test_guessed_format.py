"""Lines of unknown tools are read where names and units fit; everything else is left alone."""

import datetime as dt
import time

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs.guessed_format import guess_format, render_format
from skewscope.kb.builders import build_format
from skewscope.kb.line_reading import LineReader
from skewscope.kb.loader import catalogue
from skewscope.tui.cli.main import cli

BEGIN = dt.datetime(2026, 11, 22, 10, 0, 0, tzinfo=dt.UTC)


def at(seconds):
    return (BEGIN + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def taken(lines):
    """What is read of the last line, by signal or part of a step."""
    guess = guess_format(lines)
    if guess is None:
        return {}
    reader = LineReader(guess.format, catalogue().signals)
    return {one.signal: one.value for found in reader.read(lines[-1]) for one in found.readings}


STEP, TIME, RATE, SAMPLES = "step number", "step duration", "step rate", "step.sample_rate"
FITTING = {
    "seconds behind": ("step {n} | loss 2.01 | step_time 0.4{d}s | lr 1e-4", {STEP: 19, TIME: 0.49}),
    "milliseconds in the name": (
        "level=info step={n} loss=1.8 step_time_ms=41{d}.5 tokens_per_sec=1234{d}",
        {STEP: 19, TIME: 0.4195, SAMPLES: 12349},
    ),
    "JSON": (
        '{{"step": {n}, "loss": 2.31, "iter_time": 0.4{d}, "samples_per_sec": 1234.{d}}}',
        {STEP: 19, TIME: 0.49, SAMPLES: 1234.9},
    ),
    "per step": (" {n}0/900 [=====>....] - ETA: 1:2{d} - loss: 0.52 - 41{d}ms/step", {STEP: 190, TIME: 0.419}),
    "seconds per step": ("Iter {n:6d} Train Loss 1.21  1.4{d} s/it", {STEP: 19, TIME: 1.49}),
    "a mean in brackets": (
        "Epoch: [1][{n}/400]\tTime 0.41{d} (0.987)\tLoss 2.3 (2.4)",
        {"step epoch": 1, STEP: 19, "step length": 400, TIME: 0.419},
    ),
    "samples": ("iter {n}: 234{d}.5 images/sec +/- 0.0 (jitter = 0.2) 7.91", {STEP: 19, SAMPLES: 2349.5}),
    "steps a second": ("INFO:tensorflow:global_step/sec: 2.31{d}", {RATE: 2.319}),
    "names like units": (
        "Iter {n}: Train loss 2.3, It/sec 0.5{d}, Tokens/sec 220.{d}, Peak mem 12.3 GB",
        {STEP: 19, RATE: 0.59, SAMPLES: 220.9},
    ),
    "data beside it": ("iter: {n}/900, mem: 9000Mb, iter_time: 0.508s, data_time: 0.00{d}s", {STEP: 19, TIME: 0.508,
                       "step.data_time": 0.009}),
    "an engine": (
        "running requests: {n}, waiting requests: 35{d}, kv cache usage: 99.{d}%",
        {"serve.running": 19, "serve.waiting": 359, "serve.kv_usage": 0.999},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITTING)
def test_numbers_whose_names_and_units_fit_are_read(name):
    form, wanted = FITTING[name]
    lines = [form.format(n=n, d=n % 10) for n in range(1, 20)]
    assert taken(lines) == pytest.approx(wanted)
    begun_in_the_middle = [lines[3][20:], *lines[4:8], "Traceback", "", *lines[8:]]
    assert taken(begun_in_the_middle) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("[Epoch {e} step {n}/10] step_time 0.4{n}s", {"step epoch": 2, STEP: 9, "step length": 10, TIME: 0.49}),
        ("epoch {e}, batch {n}, step_time 0.4{n}s", {"step epoch": 2, STEP: 9, TIME: 0.49}),
        ("epoch {e}, step {all}, step_time 0.4{n}s", {STEP: 29, TIME: 0.49}),  # the job counts on
        ("epoch {e}.{n}, step {n}, step_time 0.4{n}s", {STEP: 9, TIME: 0.49}),
    ],
)
def test_steps_that_begin_anew_with_each_epoch_are_of_one_run(form, wanted):
    lines = [form.format(e=n // 10, n=n % 10, all=n) for n in range(30)]
    assert taken(lines) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "form",
    [
        "the quick brown fox",
        "{n} 0.5 0.3 0.{d}",
        "step {n} loss 2.{d}",  # no time anywhere
        "epoch {n} accuracy 0.9{d}",
        "temperature 5{d} C fan {d}00 rpm",
        '10.0.0.{d} - - [22/Nov/2026:10:00:0{d} +0000] "POST /v1/completions HTTP/1.1" 200 51{d} 0.5{d}',
        "step {n} eta 1{d}s remaining 2{d} s",
        "iter = {n}, num requests = 4{d}, elapsed_time = 0.0{d}s",  # rounds of an engine
        "throughput 123{d} tokens/s",  # of an engine or of a job
        "latency {d}.2 ms",
        "step {n} step_time {n}",  # whole numbers without a unit
        "elapsed_time: 900.{d} secs.nsecs",  # neither of a step nor dated
    ],
)
def test_what_names_and_units_leave_open_is_not_guessed(form):
    assert taken([form.format(n=n, d=n % 10) for n in range(1, 20)]) == {}


@pytest.mark.parametrize(
    ("form", "each", "wanted"),
    [
        ("step {n} loss 2.3 time {ms}", 0.5, {STEP: 19, TIME: 0.5}),
        ("step {n} loss 2.3 time {s}", 0.5, {STEP: 19, TIME: 0.5}),
        ("step {n} loss 2.3 time {s}", 4.0, {STEP: 19, TIME: 4.0}),
        ("step {n} loss 2.3 step_time 0.5s", 4.0, {STEP: 19}),  # a part of it, or something else
        ("step {n}0 loss 2.3 time 4.0 s", 4.0, {STEP: 190}),  # of ten steps
        ("step {n} loss 2.3", 4.0, {STEP: 19}),
    ],
)
def test_dates_of_lines_confirm_a_time_of_a_step_or_refute_it(form, each, wanted):
    lines = [f"{at(n * each)} {form.format(n=n, s=each, ms=each * 1000)}" for n in range(1, 20)]
    assert taken(lines) == pytest.approx(wanted)


def test_two_lines_do_not_repeat():
    assert guess_format(["step 1 step_time 0.4s", "step 2 step_time 0.5s"]) is None


def test_a_saved_format_reads_what_was_guessed(tmp_path):
    lines = [f"| step {n} | loss <{n}> | step_time 0.4{n % 10}s | {{x}}" for n in range(1, 60)]
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines))
    saved = tmp_path / "guessed.yaml"
    answer = CliRunner().invoke(cli, ["diagnose", str(log), "--save-format", str(saved)])
    assert "guessed from 59 lines such as `| step 1 | loss <1> |" in " ".join(answer.stdout.split())
    made = build_format(yaml.safe_load(saved.read_text()), "guessed.yaml")
    reader = LineReader(made, catalogue().signals)
    (sample,) = made.samples
    readings = [one for found in reader.read(sample.lines) for one in found.readings]
    assert [{"signal": one.signal, "value": one.value} for one in readings] == list(sample.gives)
    assert [one.value for found in reader.read(lines[-1]) for one in found.readings] == [59, 0.49]


def test_where_nothing_was_guessed_no_format_is_saved(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("time,host,gpu,sm_clock_mhz\n" + "".join(f"{n},h,0,1410\n" for n in range(9)))
    answer = CliRunner().invoke(cli, ["diagnose", str(table), "--save-format", str(tmp_path / "f.yaml")])
    assert answer.exit_code == 2
    assert "found no text whose format was guessed" in answer.stderr


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=60), max_size=12))
def test_no_text_fails(lines):
    if guess := guess_format(lines * 3):
        render_format(guess)


def test_long_lines_take_little_time():
    begin = time.process_time()
    guess_format(["a-" * 2000 + " 1", "a b " * 900 + "1", "1 " * 2000, "step 1" + " step" * 700, "(" * 4000] * 80)
    assert time.process_time() - begin < 10


def test_of_lines_without_times_or_lengths_each_step_counts_as_a_second(tmp_path):
    rate = [52000.0 if n < 120 else 30000.0 for n in range(200)]
    lines = [f"step {n}/200 | loss 2.{n % 10} | lr 3e-4 | tok/s {rate[n] + n % 7:.1f}" for n in range(200)]
    (tmp_path / "train.log").write_text("\n".join(lines))
    told = CliRunner().invoke(cli, ["diagnose", str(tmp_path / "train.log")])
    assert told.exit_code == 1
    assert "each counts as one second" in " ".join(told.output.split())
    assert "Less work is done on group train" in told.output
