import io
import json
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import input_readers
from skewscope.adapters.inputs.step_lines import elapsed_seconds
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.line_reading import LineReader
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from tests.support.artefacts import LLAMAFACTORY, START

llamafactory_log = input_readers()["llamafactory-log"]

FIRST, SECOND = (70 + 624 * 10 / 89) / 2, 98_304 / 889.63
EVALUATED, FOURTH = (180 + 712 * 20 / 79) / 2, (225 + 518 * 30 / 69) / 2
"""Seconds of the lines of the sample: within what elapsed and remaining time allow, or by the tokens."""
BASIC = ((10, 60), (20, 100), (30, 140))


def read(text, name="out/train.jsonl", metric="skewscope_step_duration", **labels):
    """Returns (time, seconds of a step) of each sample, and the note."""
    found = llamafactory_log.read_series(io.BytesIO(text.encode()), name, labels)
    (series,) = (one for one in found if one.metric == metric)
    assert dict(series.labels) == {"group": labels.get("group", "train")}
    pairs = zip(series.times.tolist(), series.values.tolist(), strict=True)
    return [(pytest.approx(time), pytest.approx(value)) for time, value in pairs], series.note


def factory(*rows, key="loss"):
    """Returns lines of LLaMA-Factory of (steps, seconds)."""
    return "".join(
        json.dumps({"current_steps": n, "total_steps": 999, key: 1.5, "elapsed_time": str(timedelta(seconds=s))}) + "\n"
        for n, s in rows
    )


def test_a_job_that_stays_slower_is_one_incident_though_its_times_are_whole_seconds(tmp_path):
    chance, seconds, rows = random.Random(1), 0.0, []
    for n in range(1, 601):
        seconds += 10 * chance.gauss(1, 0.01) * (1.5 if n > 200 else 1.0)
        rows.append((10 * n, int(seconds)))
    (tmp_path / "trainer_log.jsonl").write_text(factory(*rows))
    found = replay(draft_recording([tmp_path / "trainer_log.jsonl"]).recording).incidents
    assert sorted(one.condition for one in found) == ["slow-steps"]


def test_llamafactory_gives_the_mean_time_of_steps_without_evaluations():
    found, note = read(LLAMAFACTORY)
    assert found == [(SECOND, (SECOND - FIRST) / 10), (FOURTH - EVALUATED + SECOND, (FOURTH - EVALUATED) / 10)]
    assert note == (
        "its lines have no date: times count from 0 s on without evaluations; the label start says when the job began"
    )


def test_with_the_begin_of_the_job_times_are_those_of_the_clock():
    found, note = read(LLAMAFACTORY, start=str(START), group="job")
    assert found == [(START + SECOND, (SECOND - FIRST) / 10), (START + FOURTH, (FOURTH - EVALUATED) / 10)]
    assert note == f"its lines have no date: times count from {START:.0f} s on"
    evaluated, _ = read(LLAMAFACTORY, metric="skewscope_step_evaluation", start=str(START), group="job")
    assert [value for _, value in evaluated] == [1.0, 0.0]
    assert evaluated[1][0] == START + EVALUATED


def test_older_lines_of_llamafactory_have_empty_fields_and_days():
    row = '{{"current_steps": {}, "total_steps": 9, "loss": {}, "eval_loss": null, "elapsed_time": "{}"}}\n'
    rows = (
        (5, 1.7, "23:59:00"),
        (10, "NaN", "1 day, 0:00:00"),
        (12, 1.7, "4 days, 0:01:00"),
        (13, "null", "5 days, 0:00:00"),
    )
    found, _ = read("".join(row.format(*each) for each in rows))
    assert found == [(86_400, 12.0), (4 * 86_400 + 60, (3 * 86_400 + 60) / 2)]


def test_a_prediction_has_steps_without_a_loss():
    text = factory((5, 19), (10, 29), (15, 49), key="percentage")
    assert read(text)[0] == [(29, 2.0), (49, 4.0)]
    assert read(factory(*BASIC) + factory((35, 900), key="percentage"))[0] == [(100, 4.0), (140, 4.0)]


def test_a_resumed_job_goes_on_where_it_ended():
    found, note = read(factory(*BASIC, (50, 400), (30, 20), (40, 60), (60, 160)))
    assert found == [(100, 4.0), (140, 4.0), (400, 13.0), (460, 4.0), (560, 5.0)]
    assert "new begins of the job: 1; each follows the part before it at once" in note


def test_lines_of_another_process_are_left_out():
    rows = [row for n in range(1, 9) for row in ((10 * n, 40 * n), (10 * n, 40 * n + 3), (10 * n - 10, 40 * n + 5))]
    found, note = read(factory(*rows))
    assert found == [(40.0 * n, 4.0) for n in range(2, 9)]
    assert "lines of another process that are left out: 8" in note


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(10, 3000)), min_size=2, max_size=20),
    st.integers(0, 100),
)
def test_what_llamafactory_writes_is_read_back_whoever_else_writes_the_same(parts, lag):
    step, elapsed, rows = 0, 0, []
    for steps, seconds in parts:
        step, elapsed = step + steps, elapsed + seconds
        rows.append((step, elapsed))
    expected = [seconds / steps for steps, seconds in parts[1:]]
    alone, _ = read(factory(*rows))
    assert [value for _, value in alone] == expected
    both, _ = read(factory(*(each for n, s in rows for each in ((n, s), (n, max(s - lag, 0))))))
    assert both == alone


@given(st.floats(1, 1e6), st.integers(1, 1000), st.integers(1, 1000), st.sampled_from(("remaining", "tokens")))
def test_the_time_is_as_exact_as_the_line_is(elapsed, step, left, basis):
    text = f'"total_steps": {step + left}, "remaining_time": "{timedelta(seconds=int(left * elapsed / step))}"}}'
    if basis == "tokens":
        text = f'"throughput": {10**9 / elapsed:.2f}, "total_tokens": {10**9}}}'
    line = f'{{"current_steps": {step}, "loss": 1.0, "elapsed_time": "{timedelta(seconds=int(elapsed))}", {text}'
    (parts,) = LineReader(catalogue().formats["llamafactory"], catalogue().signals).read(line)
    found = elapsed_seconds(parts.steps())
    most = min(0.5, step / left / 2) if basis == "remaining" else elapsed * 0.005 / (10**9 / elapsed)
    assert int(elapsed) - 1 <= found <= int(elapsed) + 1
    assert abs(found - elapsed) <= max(most, 1e-9 * elapsed) * 1.0001 or found == int(elapsed)


def test_steps_that_whole_seconds_cannot_measure_are_joined():
    rows = [(n, n * 0.4 // 1) for n in range(1, 101)]
    found, _ = read(factory(*rows))
    assert [value for _, value in found] == [pytest.approx(0.4, rel=0.05)] * 4


def test_damage_is_told_with_its_line():
    line = LLAMAFACTORY.splitlines()[-2]
    cut = line[: line.index('"remaining_time"')]
    found, note = read(f"{LLAMAFACTORY}{cut}")
    assert found == read(LLAMAFACTORY)[0]
    number = len(LLAMAFACTORY.splitlines()) + 1
    assert f"ends inside a line ({number}), which is left out" in note
    _, note = read(f"{LLAMAFACTORY}{cut}\n" + LLAMAFACTORY * 100)
    assert f"damaged lines that are left out: 1, first {number}" in note
    with pytest.raises(
        InputError, match=rf"train\.jsonl:{number}: found 2 of \d+ lines without .*, expected lines such"
    ):
        read(f"{LLAMAFACTORY}{cut}\n{cut}\n{LLAMAFACTORY}")


@pytest.mark.parametrize(
    "value",
    ['"99999999999999999999:00:00"', "1e999", '"-1:00:00"', "null", '"' + "9" * 70_000 + '"'],
)
def test_a_time_that_is_none_is_damage(value):
    row = '{"current_steps": 10, "loss": 1.0, "elapsed_time": ' + value + "}\n"
    with pytest.raises(InputError, match=r"train\.jsonl:4: found 2 of 5 lines without their step or their time"):
        read(factory(*BASIC) + row * 2)


def test_numbers_that_are_too_large_are_errors():
    rows = [f'{{"current_steps": {n}, "loss": 1.0, "elapsed_time": "999999 days, 999999:00:00"}}\n' for n in (1, 2)]
    with pytest.raises(InputError, match=r"train\.jsonl:\d+: found "):
        read(factory((1, 5)) + "".join(rows), start="99999999999")
    for start in ("now", "-1", "nan", "inf", "1e300"):
        with pytest.raises(InputError, match=r"start: found .*, expected a number of seconds"):
            read(factory(*BASIC), start=start)


def test_a_single_line_is_no_step():
    with pytest.raises(InputError, match=r"1 lines of .*, and no step: too little to judge, expected lines such as"):
        read(factory((10, 60)))
