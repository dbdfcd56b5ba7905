"""Exports of monitoring services and collectors: what each says is read, in the units and at the places it names."""

import io
import json

import numpy as np
import pytest

from skewscope.adapters.inputs.recognition import find_kind
from skewscope.adapters.inputs.recording import input_readers
from skewscope.adapters.inputs.series_names import SeriesContext, find_parts, name_series

BEGIN = 1_795_168_800


def read(kind, text, name="a.json"):
    """Returns values by metric and labels."""
    found = input_readers()[kind].read_series(io.BytesIO(text.encode()), name, {})
    return {(one.metric, one.labels): one.values.tolist() for one in found}


def telegraf(width, time):
    tags = {"host": "n1", "index": "5", "name": "NVIDIA A100"}
    fields = {"pcie_link_width_current": width, "pstate": "P0"}
    return {"fields": fields, "name": "nvidia_smi", "tags": tags, "timestamp": time}


POINTS = [telegraf(16, BEGIN), telegraf(4, (BEGIN + 10))]
TELEGRAF = ("nvidia_smi_pcie_link_width_current", (("gpu", "5"), ("host", "n1")))


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, POINTS)),
        "\n".join(map(json.dumps, POINTS)) + '\n{"fields": {"pcie_li',
        json.dumps({"metrics": POINTS}),
        json.dumps({"metrics": POINTS}, indent=1),
    ],
)
def test_points_of_telegraf(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert find_kind(tmp_path / "a.json") == "telegraf-json"
    assert read("telegraf-json", text)[TELEGRAF] == [16.0, 4.0]


CLOUDWATCH = {
    "MetricDataResults": [
        {
            "Id": "m1",
            "Label": "p5-1 nvidia_smi_temperature_gpu 2",
            "Timestamps": ["2026-11-20T10:01:00+00:00", "2026-11-20T10:00:00+00:00"],
            "Values": [88.0, 64.0],
            "StatusCode": "Complete",
        }
    ]
}
STATISTICS = {
    "Label": "GPU Temperature p5-1",
    "Datapoints": [{"Timestamp": "2026-11-20T10:00:00Z", "Average": 64.5, "Unit": "None"}],
}
DATADOG = {
    "status": "ok",
    "series": [
        {
            "metric": "nvidia_smi.temperature_gpu",
            "scope": "gpu_index:2,host:n7",
            "pointlist": [[BEGIN * 1000.0, 64.0], [BEGIN * 1000.0 + 6e4, None], [BEGIN * 1000.0 + 12e4, 88.0]],
        }
    ],
}


@pytest.mark.parametrize(
    ("answer", "metric", "labels", "values"),
    [
        (CLOUDWATCH, "nvidia_smi_temperature_gpu", {"node": "p5-1", "gpu": "2"}, [64.0, 88.0]),
        (STATISTICS, "skewscope_gpu_temperature", {"node": "p5-1"}, [64.5]),
        (DATADOG, "nvidia_smi_temperature_gpu", {"node": "n7", "gpu": "2"}, [64.0, 88.0]),
    ],
)
def test_answers_of_services(tmp_path, answer, metric, labels, values):
    (tmp_path / "a.json").write_text(json.dumps(answer))
    assert find_kind(tmp_path / "a.json") == "cloud-series"
    assert read("cloud-series", json.dumps(answer)) == {(metric, tuple(sorted(labels.items()))): values}


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        (["4120,0", "9120,0", "14120,5"], [4120.0, 9120.0, 14120.0]),
        (["100.5,0", "50.5,0", "200.0,0", "1.0,0"], [0.0, 505.0, 2505.0, 2515.0]),
    ],
)
def test_files_of_collectd_are_counters_or_rates(tmp_path, rows, values):
    folder = tmp_path / "n1" / "interface-ens5"
    folder.mkdir(parents=True)
    file = folder / "if_dropped-2026-11-20"
    file.write_text("epoch,rx,tx\n" + "".join(f"{BEGIN + 10 * n}.5,{row}\n" for n, row in enumerate(rows)))
    assert find_kind(file) == "collectd-csv"
    found = read("collectd-csv", file.read_text(), str(file))
    assert found["skewscope_port_rx_netdev_drops", (("device", "ens5"), ("node", "n1"))] == values


def chart(cells, name="TTFT-data-2026-11-20 11_31_02.csv", head='"Time","p95 TTFT vllm-0"'):
    rows = "".join(f'"2026-11-20 10:0{n}:00","{cell}"\n' for n, cell in enumerate(cells))
    return read("series-table", f"\ufeff{head}\n{rows}", name)


@pytest.mark.parametrize("cells", [("310 ms", "1.24 s"), ("0.310", "1.24"), ("310", "1240")])
def test_latencies_with_and_without_units_are_means_of_a_histogram(cells):
    found = chart(cells)
    place = (("instance", "vllm-0"), ("quantile", "p95"))
    sums = found["skewscope_serve_ttft_sum", place]
    counts = found["skewscope_serve_ttft_count", place]
    assert sums[1] - sums[0] == pytest.approx(1.24 * (counts[1] - counts[0]))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("TTFT vllm-0", ("TTFT", "vllm-0")),
        ("vllm-1 - TTFT", ("TTFT", "vllm-1")),
        ("GPU Temperature n1", ("GPU Temperature", "n1")),
        ("p99 Requests waiting a:8000", ("Requests waiting", "a:8000")),
        ("n1 DCGM_FI_DEV_GPU_TEMP 3", ("DCGM_FI_DEV_GPU_TEMP", "n1 gpu 3")),
        ("loss of a run that falls", None),
        ("vllm-0", None),
        ("Power Draw (W)", None),
    ],
)
def test_a_name_is_divided_into_what_and_where(name, parts):
    assert find_parts(name) == parts


def test_a_name_without_a_signal_stays_as_it_is():
    assert name_series("max of something", np.array([1.0]), SeriesContext()).metric == "max of something"


GOOGLE = {
    "timeSeries": [
        {
            "metric": {
                "type": "compute.googleapis.com/instance/disk/throttled_read_ops_count",
                "labels": {"device_name": "d2"},
            },
            "resource": {"type": "gce_instance", "labels": {"instance_id": "441"}},
            "metricKind": "DELTA",
            "points": [
                {"interval": {"endTime": f"2026-10-06T09:0{minute}:00Z"}, "value": {"int64Value": "7"}}
                for minute in (3, 2, 1)
            ],
        }
    ]
}
AZURE = {
    "value": [
        {
            "id": "/subscriptions/0/virtualMachines/nd-3/providers/Microsoft.Insights/metrics/x",
            "name": {"value": "Data Disk IOPS Consumed Percentage"},
            "timeseries": [{"data": [{"average": 100.0, "timeStamp": "2026-10-06T09:00:00Z"}], "metadatavalues": []}],
            "type": "Microsoft.Insights/metrics",
            "unit": "Percent",
        }
    ]
}


def test_series_of_google_and_azure(tmp_path):
    for name, document, metric, labels, values in (
        ("g", GOOGLE, "instance_disk_throttled_read_ops_count_total", (("disk", "d2"),), [7.0, 14.0, 21.0]),
        ("a", AZURE, "Data Disk IOPS Consumed Percentage", (("node", "nd-3"),), [100.0]),
    ):
        text = json.dumps(document)
        (tmp_path / f"{name}.json").write_text(text)
        assert find_kind(tmp_path / f"{name}.json") == "cloud-series"
        assert read("cloud-series", text) == {(metric, labels): values}
