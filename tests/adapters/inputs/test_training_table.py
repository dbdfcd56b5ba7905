"""Tables with a row for each step of a training job, as scripts, loggers and trackers write them."""

import io
import json
import random

import pytest

from skewscope.adapters.inputs import training_table
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import InputError

START = 1_795_507_200


def steps(slow):
    """Yields (time, step, seconds of a step) each ten steps; the last hundred rows are of slower ones."""
    rng, time = random.Random(1), float(START)
    for row in range(1, 301):
        seconds = 1.8 * rng.gauss(1, 0.02) * (1.5 if slow and row > 200 else 1.0)
        time += 10 * seconds
        yield time, 10 * row, seconds


TABLES = {
    "times alone": ("_timestamp,_step,train/loss", lambda t, s, d: f"{t:.2f},{s},2.1"),
    "a rate without times": ("step,loss,tokens_per_sec", lambda t, s, d: f"{s},2.1,{5e5 / d:.1f}"),
    "steps per second": ("epoch,step,train_loss,steps_per_sec", lambda t, s, d: f"{s // 1000},{s},2.1,{1 / d:.4f}"),
    "another word for a step": ("iteration,loss,throughput(samples/s)", lambda t, s, d: f"{s},2.1,{1e3 / d:.1f}"),
    "seconds since the begin": ("step,elapsed_s,loss", lambda t, s, d: f"{s},{t - START:.2f},2.1"),
    "relative times": ("Relative Time (Process),Step,a - loss", lambda t, s, d: f"{t - START:.2f},{s},2.1"),
    "a time that each step took": ("step;loss;time", lambda t, s, d: f"{s};2.1;{d:.4f}"),
    "in milliseconds": ("iter\tloss\tdt_ms", lambda t, s, d: f"{s}\t2.1\t{1e3 * d:.1f}"),
    "a rate of each GPU": ("step,mfu,tokens/sec/gpu", lambda t, s, d: f"{s},{0.8 / d:.3f},{5e5 / d:.1f}"),
}


def table(form, slow=True):
    head, row = TABLES[form]
    return "\n".join([head, *(row(*one) for one in steps(slow))]) + "\n"


def answer(tmp_path, text, name="metrics.csv"):
    path = tmp_path / name
    path.write_text(text)
    assert find_kind(path) == "training-table"
    return [one.condition for one in replay(draft_recording([path]).recording).incidents]


@pytest.mark.parametrize("form", TABLES)
def test_a_job_that_slows_down_is_seen_in_any_table_of_its_steps(tmp_path, form):
    assert answer(tmp_path, table(form)) in (["slow-steps"], ["lost-throughput"])
    assert not answer(tmp_path, table(form, slow=False))


def test_rows_as_objects_of_json_and_a_metric_as_mlflow_stores_it(tmp_path):
    rows = (json.dumps({"step": step, "loss": 2.1, "time": round(time, 2)}) for time, step, _ in steps(slow=True))
    assert answer(tmp_path, "\n".join(rows), "log.jsonl") == ["slow-steps"]
    lines = (f"{1e3 * time:.0f} 2.1 {step}" for time, step, _ in steps(slow=True))
    assert answer(tmp_path, "\n".join(lines), "loss") == ["slow-steps"]


def test_cells_are_empty_in_rows_of_other_metrics():
    head = "lr,step,rate/batches_per_sec,loss\n"
    rows = "".join(f"0.1,{n},,\n,{n},{2.0},\n,{n},,1.5\n" for n in range(9, 500, 10))
    series = training_table.read_series(io.BytesIO((head + rows).encode()), "a.csv", {})
    assert [(one.metric, len(one.times), one.values[0]) for one in series] == [("skewscope_step_duration", 49, 0.5)]
    assert series[0].times[1] - series[0].times[0] == 5.0


@pytest.mark.parametrize(
    "text",
    [
        "step,rank,time\n1,0,5\n2,1,6\n",
        "batch,throughput\n1,20\n2,30\n",
        "step,loss\n1,2.0\n2,2.1\n",
        "step,model\n1,2.0\n2,2.1\n",
        "step,time\nwarm-up,5\nmain,6\n",
        "step,time\n5,1\n3,2\n",
        "loss,time\n1,5\n2,6\n",
        '{"step": 1, "time": 5}\n{"other": [\n{}\n',
        "",
    ],
)
def test_other_tables_are_none(text):
    assert not training_table.recognise(text.encode(), "a.csv")


def test_without_two_steps_nothing_is_known():
    with pytest.raises(InputError, match="no two steps"):
        training_table.read_series(io.BytesIO(b"step,time\n1,100\n"), "a.csv", {})


@pytest.mark.parametrize(("pause", "symptoms"), [(80.0, ["regular-pauses"]), (6.0, [])])
def test_pauses_between_rows_count_by_what_they_take_of_the_time(tmp_path, pause: float, symptoms: list[str]) -> None:
    rows = [f"{row * 10},{1.79e9 + row * 18.2 + row % 3 * 0.1 + row // 10 * pause:.3f},2.5" for row in range(1, 201)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["step,wall_time,loss", *rows]))
    found = replay(draft_recording([path]).recording).incidents
    assert [one.condition for one in found] == symptoms
    assert all(one.candidates[0] == "checkpoint-stall" for one in found)


RETRIES = {
    "apart": "DeviceStatsMonitor.on_train_batch_end/num_alloc_retries,step,train/device/batches_per_sec",
    "with times": "Step,Relative Time (Process),proud-fog-3 - memory/num_alloc_retries",
}


@pytest.mark.parametrize("form", RETRIES)
def test_allocations_that_are_tried_again_are_told_with_their_cause(tmp_path, form):
    lines = [RETRIES[form]]
    for row in range(1, 201):
        count = max(row - 120, 0) * 7
        if form == "apart":
            lines += [f"{count},{row * 50},", f",{row * 50},{1.3 + row % 7 * 0.004:.4f}"]
        else:
            lines.append(f"{row * 50},{row * 38.2 + row % 3 * 0.2:.2f},{count}")
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join(lines))
    (found,) = replay(draft_recording([path]).recording).incidents
    assert found.condition == "new-errors"
    assert found.candidates[0] == "gpu-memory-fragmentation"
