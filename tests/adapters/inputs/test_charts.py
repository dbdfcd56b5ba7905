"""Charts as people export them: CSV of Grafana, Weights & Biases and MLflow, JSON of Grafana's panels."""

import csv
import io
import json

import numpy as np
import pytest

from skewscope.adapters.inputs import csv as sample_table
from skewscope.adapters.inputs import grafana_json, series_table
from skewscope.adapters.inputs.series_names import SeriesContext, name_series
from skewscope.adapters.inputs.series_table import find_title, read_value
from skewscope.kb.problems import InputError

T = 1789372800
"""2026-09-14T08:00:00Z"""
A, B = (f'vllm:num_requests_waiting{{instance="{host}:8000"}}' for host in "ab")
WAITING = "vllm:num_requests_waiting"
PANEL = "Requests Waiting-data-2026-09-14 10_00_00.csv"


def table(rows, separator=",", end="\r\n"):
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=end).writerows(rows)
    return text.getvalue()


def read(module, text, name="export.csv"):
    assert module.recognise(text.encode(), name)
    return module.read_series(io.BytesIO(text.encode()), name, {})


def shown(series):
    return {(one.metric, *(text for _, text in one.labels)): one.values.tolist() for one in series}


CHARTS = {
    "legends": (
        [["Time", A, B], ["2026-09-14 08:00:00", "0", ""], [str((T + 15) * 1000), "1.5 K", "2"]],
        {(WAITING, "a:8000"): [0, 1500], (WAITING, "b:8000"): [2]},
    ),
    "labels that have the name": (
        [["Time", f'{{__name__="{WAITING}", instance="a:8000"}}'], ["2026-09-14T08:00:00Z", "3"]],
        {(WAITING, "a:8000"): [3]},
    ),
    "rows of series": ([["Series", "Time", "Value"], [A, str(T), "3"]], {(WAITING, "a:8000"): [3]}),
    "W&B, GPUs": (
        [
            ["Relative Time (Wall)", "run-7 - system/gpu.0.temp", "run-7 - system/gpu.0.temp__MAX"],
            ["0", "61", "62"],
            ["15", "62", "63"],
        ],
        {("skewscope_gpu_temperature", "0", "run-7"): [61, 62]},
    ),
    "W&B, history": (
        [
            ["_step", "_timestamp", "train/loss", "perf/step_time"],
            ["1", str(T), "2", "1200"],
            ["2", str(T + 1.2), "2", "1201"],
        ],
        {("train/loss",): [2, 2], ("skewscope_step_duration", "export"): [1.2, 1.201]},
    ),
    "MLflow": (
        [
            ["run_id", "key", "value", "step", "timestamp"],
            ["ab", "system/gpu_1_utilization_percentage", "95", "0", str(T * 1000)],
            ["ab", "train/step_time_ms", "1200", "0", str(T * 1000)],
        ],
        {("skewscope_gpu_util", "1", "ab"): [95], ("skewscope_step_duration", "ab"): [1.2]},
    ),
}


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_gives_its_series(chart, separator):
    rows, expected = CHARTS[chart]
    found = shown(read(series_table, "\ufeff" + table(rows, separator)))
    assert found == {key: pytest.approx(values) for key, values in expected.items()}
    assert not sample_table.recognise(table(rows, separator).encode(), "export.csv")


def test_the_title_in_the_name_of_the_file_says_what_plain_legends_are_of():
    text = "sep=,\r\n" + table([["Time", "a:8000"], ["2026-09-14 08:00:00", "7"]])
    (one,) = read(series_table, text, PANEL)
    assert (one.metric, one.labels, one.values.tolist()) == ("skewscope_serve_waiting", (("instance", "a:8000"),), [7])
    assert "Requests Waiting = serve.waiting" in one.note
    assert not series_table.recognise(text[7:].encode(), "chart.csv")


@pytest.mark.parametrize(
    ("file", "title"),
    [(PANEL, "Requests Waiting"), ("x/GPU Power-data-as-joinbyfield-2026-09-14 1.csv", "GPU Power"), ("a.csv", "")],
)
def test_titles_of_panels(file, title):
    assert find_title(file) == title


@pytest.mark.parametrize(
    ("text", "value"),
    [("45.5 %", 45.5), ("91 °C", 91), ("1.5 K", 1500), ("20 ms", 0.02), ("N/A", None), ("3 XB", None)],
)
def test_values_that_a_panel_formats(text, value):
    assert read_value(text) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("name", "title", "metric", "labels"),
    [
        ("node-a GPU 3", "GPU Temperature", "skewscope_gpu_temperature", {"node": "node-a", "gpu": "3"}),
        ("3", "GPU Utilization (%)", "skewscope_gpu_util", {"gpu": "3"}),
        ('{gpu="3", Hostname="a"}', "GPU Power (W)", "skewscope_gpu_power", {"gpu": "3", "Hostname": "a"}),
        ("run - system/gpu.0.gpu", "", "skewscope_gpu_util", {"gpu": "0", "node": "run"}),
        ("whatever", "", "whatever", {}),
    ],
)
def test_names_of_series(name, title, metric, labels):
    found = name_series(name, np.array([60.0, 61.0]), SeriesContext(title))
    assert (found.metric, found.labels) == (metric, labels)


@pytest.mark.parametrize("text", ["Time\n", 'a,"b\n'])
def test_a_table_without_times_is_refused_with_what_to_export(text):
    with pytest.raises(InputError, match=r"expected a column of times|no sample"):
        series_table.read_series(io.BytesIO(text.encode()), "export.csv", {})


def frame(*fields):
    """Returns a frame with a field of times and others, whose values are 1 and 2."""
    columns = [[T * 1000, T * 1000 + 15000], *([1, 2] for _ in fields)]
    return {"schema": {"meta": {}, "fields": [{"name": "Time", "type": "time"}, *fields]}, "data": {"values": columns}}


def in_fields(whole):
    """Returns a frame with the values in its fields."""
    pairs = zip(whole["schema"]["fields"], whole["data"]["values"], strict=True)
    return {"refId": "A", "fields": [{**field, "values": values} for field, values in pairs]}


BY_NAME = {"name": "Value", "type": "number", "labels": {"__name__": WAITING, "instance": "a:8000"}}
BY_LEGEND = {"name": "Value", "type": "number", "config": {"displayNameFromDS": A}}
BY_TITLE = {"name": "a:8000", "type": "number"}
PANELS = {
    "an answer": {"results": {"A": {"status": 200, "frames": [frame(BY_NAME)]}}},
    "frames": [frame(BY_LEGEND)],
    "panel data": {"state": "Done", "series": [in_fields(frame(BY_NAME))]},
    "targets": [{"target": A, "datapoints": [[1, T * 1000], [2, T * 1000 + 15000]]}],
}


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_gives_its_series(panel):
    (one,) = read(grafana_json, json.dumps(PANELS[panel]))
    assert (one.metric, one.labels) == (WAITING, (("instance", "a:8000"),))
    assert dict(zip(one.times, one.values, strict=True)) == {T: 1, T + 15: 2}


def test_the_title_of_a_panel_counts():
    panel = {"title": "Requests waiting", "snapshotData": [frame(BY_TITLE)]}
    (one,) = read(grafana_json, json.dumps({"dashboard": {"panels": [panel]}}))
    assert (one.metric, one.labels) == ("skewscope_serve_waiting", (("instance", "a:8000"),))


def test_a_panel_without_data_says_what_to_ask():
    panel = {"type": "timeseries", "targets": [{"expr": "sum(vllm:num_requests_waiting)"}]}
    with pytest.raises(InputError, match=r"Panel data, or ask Prometheus for them: sum.vllm:num_requests_waiting"):
        read(grafana_json, json.dumps(panel))


@pytest.mark.parametrize("text", ['{"frames": [7]}', '[{"datapoints": [3]}]', '{"frames": [', "[" * 5000])
def test_a_damaged_panel_is_refused(text):
    with pytest.raises(InputError, match=r"export\.json"):
        grafana_json.read_series(io.BytesIO(text.encode()), "export.json", {})


@pytest.mark.parametrize(
    ("header", "is_chart"), [("epoch,step,train/step_time_s,lr", True), ("ts_ms,step,rank,fwd_bwd_ms", False)]
)
def test_an_epoch_beside_a_step_is_no_time(header, is_chart):
    assert series_table.recognise(f"{header}\n0,50,0.81,0.0001\n".encode(), "metrics.csv") is is_chart
