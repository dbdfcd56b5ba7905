import io
from itertools import pairwise

import pytest

from skewscope.adapters.inputs import tqdm_log
from skewscope.adapters.inputs.log_recognition import BLOCK_BYTES
from skewscope.kb.problems import InputError
from tests.support.artefacts import TQDM


def bar(done, elapsed, total=1000, name="", unit="s/it"):
    clock = f"{elapsed // 3600}:{elapsed // 60 % 60:02}" if elapsed >= 3600 else f"{elapsed // 60:02}"
    return f"{name} {100 * done // total:3}%|##   | {done}/{total} [{clock}:{elapsed % 60:02}<1:00:00,  2.00{unit}]"


def steps(first, last, start, each=5):
    """Returns the states of the bar of some steps, each of which takes so many seconds."""
    return [bar(n, start + each * (n - first)) for n in range(first, last + 1)]


def read(*lines, name="out/train.log", metric="skewscope_step_duration", **labels):
    """Returns (time, seconds of a step up to a thousandth) of each sample, and the note."""
    text = "\r".join(lines) + "\n"
    found = tqdm_log.read_series(io.BytesIO(text.encode()), name, labels)
    (series,) = (one for one in found if one.metric == metric)
    assert dict(series.labels) == {"group": labels.get("group", "train")}
    return list(zip(series.times.tolist(), series.values.round(3).tolist(), strict=True)), series.note


def test_a_step_has_the_mean_time_of_ten_seconds_at_least():
    found, note = read(*TQDM.splitlines())
    # The time of the first step is not known.
    assert found == [(time, 2.0) for time in range(12, 93, 10)]
    assert "times count from 0 s on" in note
    assert read(*TQDM.splitlines(), start="1795341600")[0][0] == (1795341614.0, 2.0)


def test_a_bar_that_is_drawn_often_tells_more_of_its_seconds():
    # Eight steps a second, then two: the second of the clock begins within one of them.
    quick = [bar(n, n // 8, total=9000) for n in range(1, 401)]
    slow = [bar(n, 50 + (n - 400) // 2, total=9000) for n in range(401, 441)]
    found, _ = read(*quick, *slow)
    # When the first second began is not known.
    assert found[:20] == [(time, 0.125) for time in range(10, 50, 2)]
    assert found[21:] == [(time, 0.5) for time in (55.0, 60.0, 65.0)]


@pytest.mark.parametrize("apart", [0.05, 0.5, -0.4])
def test_bars_of_processes_whose_clocks_differ_give_no_time_that_is_none(apart):
    lines = [bar(n, int(max(0.13 * n + late, 0)), total=9000) for n in range(2000) for late in (0, apart)]
    found, _ = read(*lines)
    assert len(found) >= 20
    # Before it is known that there are several, a second may be that of another one.
    assert all(value == pytest.approx(0.13, rel=0.1) for _, value in found[2:])


def test_the_first_sample_after_an_evaluation_is_right():
    lines, now = [], 0.0
    for n in range(1, 2001):
        now += 0.05
        lines.append(bar(n, int(now), total=9000))
        if n % 400 == 0:
            lines += [bar(k, k // 4, total=40) for k in range(41)]
            now += 10.7
    found, _ = read(*lines)
    assert all(value == pytest.approx(0.05, rel=0.15) for _, value in found)


def test_a_part_of_a_file_in_which_bars_are_drawn_often_is_known_as_one_of_steps():
    lines = [f"{bar(n, n // 40, total=90_000)}\n{{'loss': 1.{n}}}" for n in range(1, 1500)]
    part = "\r".join(lines).encode()[:BLOCK_BYTES]
    assert tqdm_log.recognise(part, "a.log")
    assert not tqdm_log.recognise(part[:-1], "a.log")


def test_steps_that_take_as_long_as_those_before_are_new_samples():
    (series,) = tqdm_log.read_series(io.BytesIO("\r".join(steps(1, 60, 5)).encode()), "train.log", {})
    assert all(before != after for before, after in pairwise(series.values.tolist()))
    assert series.values.tolist() == pytest.approx([5.0] * len(series.values))


def test_what_passes_while_another_bar_advances_is_no_time_of_a_step():
    evaluation = [bar(n, 40 * n, total=3, unit="it/s") for n in range(4)]
    lines = [*steps(1, 20, 5), "{'loss': 1.0}", *evaluation, *steps(21, 40, 230)]
    found, note = read(*lines)
    assert {value for _, value in found} == {5.0}
    # The clock stands still from step 20, at 100 s, until step 21.
    assert [time for time, _ in found][8:12] == [95.0, 105.0, 115.0, 125.0]
    assert "without evaluations" in note
    assert [time for time, _ in read(*lines, start="0")[0]][8:10] == [100.0, 240.0]
    # Where it does not, the pause has a reason.
    evaluated, _ = read(*lines, start="0", metric="skewscope_step_evaluation")
    assert evaluated == [(pytest.approx(100.001), 1.0), (230.0, 0.0)]


def test_a_bar_that_does_not_advance_interrupts_nothing():
    outer = (bar(1, 100 + 5 * n, total=3, name="Epochs:") for n in range(20))
    lines = [line for step in steps(1, 20, 5) for line in (next(outer), step)]
    assert read(*lines)[0] == read(*steps(1, 20, 5))[0]


def test_times_count_where_all_lines_have_one():
    lines = [f"2026-11-22 10:00:{n:02} {line}" for n, line in enumerate(steps(1, 20, 5))]
    assert read(*lines)[0][0] == (1795341603.0, 5.0)
    assert read(*lines, *steps(21, 22, 105))[0][0] == (15.0, 5.0)


def test_the_bars_of_epochs_follow_each_other_at_once():
    first, second = ([f"Epoch {n}: {line}" for line in steps(0, 30, 0)] for n in (1, 2))
    found, note = read(*first, *second)
    assert {value for _, value in found} == {5.0}
    assert found[-1][0] == 285.0
    assert "new begins of the job: 1" in note
    # Its loader starts anew, too.
    late = [f"Epoch 2: {line}" for line in (bar(0, 0), *steps(1, 30, 65))]
    assert read(*first, *late)[0] == found


def test_a_bar_that_begins_after_many_steps_has_no_sample_for_these():
    found, _ = read(bar(0, 0), *steps(501, 540, 5))
    assert {value for _, value in found} == {5.0}
    found, _ = read(*steps(1, 60, 5), bar(0, 0), *steps(61, 90, 7))
    assert {value for _, value in found} == {5.0}


@pytest.mark.parametrize("names", [("", ""), ("rank0:", "rank1:"), ("GPU a:", "GPU b:")])
def test_the_same_bar_of_other_processes_is_left_out(names):
    ranks = [[name + line for line in steps(1, 40, 20 + late, 20)] for name, late in zip(names, (1, 0), strict=True)]
    found, note = read(*(line for both in zip(*ranks, strict=True) for line in both))
    assert {value for _, value in found} == {20.0}
    assert len(found) == 38
    assert "new begins" not in note


def test_the_bar_that_ran_longest_is_that_of_the_steps():
    downloads = [bar(n, n, name="Fetching files:", unit="it/s") for n in range(70)]
    days = [bar(n, 80_000 + 40 * n) for n in range(40)]
    assert {value for _, value in read(*downloads, *days)[0]} == {40.0}
    days = [line.replace("[", "[1 day, ") for line in days]
    assert read(*days)[0][0][0] == 86_400 + 80_040


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["no bar at all"], id="no bar"),
        pytest.param([bar(n, 30 * n, total=8) for n in range(9)], id="few steps"),
        pytest.param([bar(n, 5 * n) for n in range(9)], id="less than a minute"),
        pytest.param([bar(n, 20 * n, name="Processed prompts:") for n in range(30)], id="what a server answers"),
        pytest.param([f"{line[:-5]}examples/s]" for line in steps(1, 30, 5)], id="another unit"),
    ],
)
def test_other_bars_are_none_of_steps(lines):
    with pytest.raises(InputError, match=r"no step in \d+ lines"):
        read(*lines)
    assert not tqdm_log.recognise("\n".join([*lines, "loss"]).encode(), "a.log")


def test_a_log_without_a_loss_is_not_taken_for_one_of_a_training():
    lines = "\n".join(steps(1, 30, 5))
    assert tqdm_log.recognise(f"{lines}, loss=1.2".encode(), "a.log")
    assert not tqdm_log.recognise(lines.encode(), "a.log")


def test_more_states_than_are_kept_are_refused(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_BAR_STATES", "20")
    assert read(*[line for line in steps(1, 20, 5) for _ in range(3)])[0]
    with pytest.raises(InputError, match="more than 20 states of progress bars"):
        read(*steps(1, 21, 5))


def test_lines_that_are_full_of_parts_of_bars_have_none():
    parts = [
        "a " * 30 + " " * 65_000 + "%|",
        ("a " * 20 + " " * 500) * 110 + "%|",
        "1%|" * 20_000,
        "1%|#| 1/" * 8000,
        "x" * 60_000 + "1%|",
        "1%|" + "#" * 60_000,
        "1%|#| 1/2 [" * 6000,
    ]
    with pytest.raises(InputError, match="no step in 1 lines"):
        read(*parts)
