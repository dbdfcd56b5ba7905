"""Exports of monitoring systems: answers of Prometheus, exports of VictoriaMetrics, line protocol of InfluxDB."""

import io
import json

import pytest

from skewscope.adapters.inputs import csv, influx_csv, influx_lines, otlp_json, prometheus_json
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.labelled import LabelledSeries
from skewscope.adapters.inputs.recording import load
from skewscope.adapters.mapping.name_mapping import parse_mapping
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.tui.render.report import verdict_line
from tests.support.artefacts import INFLUX_LINES, PROMETHEUS_JSON

T = 1795341600


def read(module, text):
    return module.read_series(io.BytesIO(text.encode()), "export.txt", {})


def shown(series: list[LabelledSeries]):
    return {
        (one.metric, *(text for _, text in one.labels)): dict(zip(one.times, one.values, strict=True)) for one in series
    }


def line(**fields):
    return json.dumps(fields) + "\n"


def vector(*series):
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": list(series)}})


def one_value(name, value="1", **labels):
    return {"metric": {"__name__": name, **labels}, "value": [T, value]}


def diagnosed(folder, name, text):
    """Returns keys of the series of a file, its warnings and its series without a place."""
    (folder / name).write_text(text)
    data = load(draft_recording([folder / name]).recording, catalogue(), workers=1)
    return {(key.signal, key.entity, key.selector) for key in data.table.keys}, data.warnings, data.unmapped


def test_answers_and_exports_may_follow_one_another_in_a_file():
    assert shown(read(prometheus_json, PROMETHEUS_JSON)) == {
        ("vllm:num_requests_waiting", "a:8000"): {T: 0.0, T + 15.5: 10.0},
        ("DCGM_FI_DEV_GPU_UTIL", "n0", "0"): {T: 97.0},
        ("vllm:num_requests_running", "a:8000"): {T: 1.0, T + 15: 2.5},
    }


@pytest.mark.parametrize("text", ["[{}]", "{}\n{}", '{{"data": {{"result": [{}], "resultType": "vector"}}}}'])
def test_the_list_of_series_of_an_answer_is_read_too(text):
    some = json.dumps(one_value("x", "NaN", a="1"))
    assert len(read(prometheus_json, text.format(some, some))) >= 1
    assert prometheus_json.recognise(text.format(some, some).encode(), "f.json")


def test_histograms_gaps_and_odd_numbers_of_an_export():
    bucket = {"__name__": "vllm:time_to_first_token_seconds_bucket", "le": "+Inf", "instance": "a:8000"}
    text = line(metric=bucket, values=[1, None, 3e2, "NaN"], timestamps=[T * 1000 + n for n in (2000, 0, 9000, 5000)])
    (one,) = read(prometheus_json, text)
    assert (one.times - T).tolist() == [0, 2, 5, 9]
    assert [str(value) for value in one.values] == ["nan", "1.0", "nan", "300.0"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            '{"status":"error","errorType":"bad_data","error":"parse error"}',
            "an answer that is an error .bad_data: parse",
        ),
        ('{"status":"success","data":[{"__name__":"up"}]}', "names without values, as an answer of /api/v1/series has"),
        ('{"status":"success","data":{"resultType":"vector","result":[]}}', "no series, expected an answer of"),
        ('{"status":"success","data":{"resultType":"scalar","result":[1795341600,"1"]}}', "a value without a series"),
        (vector({"metric": {"a": "1"}, "value": [T, "1"]}), "series without a name, as functions such as rate"),
        (vector({"metric": {"__name__": "x"}, "histogram": [T, {}]}), "native histograms"),
        (vector({"metric": {"__name__": "x"}, "value": [T, {}]}), "samples of x in another form"),
        (vector({"metric": {"__name__": "x"}, "value": [T]}), "samples of x in another form"),
        (vector({"metric": {"__name__": "x"}, "value": [T * 1000, "1"]}), "times of x that are none, expected seconds"),
        (line(metric={"__name__": "x"}, values=[1, 2], timestamps=[T * 1000]), "1 times and 2 values of x"),
        (line(metric={"__name__": "x"}, values=[1]), "samples of x in another form"),
        (line(metric={"__name__": "x"}, values=[[]], timestamps=[[]]), "samples of x in another form"),
        ('{"data":' * 5000, "nested too deeply|the end of the file"),
        ('{"status":"success","data":{"result":[{"metric"', "the end of the file, expected "),
    ],
)
def test_what_has_no_series_is_refused_with_the_reason(text, found):
    with pytest.raises(InputError, match=rf"export.txt.*found .*{found}"):
        read(prometheus_json, text)


def test_what_is_left_out_beside_series_is_a_warning():
    error = '{"status":"error","errorType":"timeout","error":"query timed out"}'
    nameless = vector({"metric": {"a": "1"}, "value": [T, "1"]}, {"metric": {"a": "2"}, "value": [T, "1"]})
    first, *_ = read(prometheus_json, vector(one_value("x")) + error + nameless + vector(one_value("y"))[:-40])
    assert "an answer that is an error (timeout: query timed out)" in first.note
    assert "series without a name" in first.note
    assert "({'a': '1'} and 1 more)" in first.note
    assert "the series in which it ends" in first.note


def test_the_last_line_of_an_export_may_be_cut_off():
    whole = line(metric={"__name__": "x"}, values=[1], timestamps=[T * 1000])
    (one,) = read(prometheus_json, whole + whole[: len(whole) // 2])
    assert "left out: the series in which it ends" in one.note
    with pytest.raises(InputError, match=r"export.txt:2: found 'x"):
        read(prometheus_json, whole + "x" + whole)


def test_a_blank_of_dcgm_is_no_value(tmp_path):
    (tmp_path / "q.json").write_text(vector(one_value("DCGM_FI_DEV_GPU_TEMP", "2147483632", gpu="0", Hostname="n0")))
    data = load(draft_recording([tmp_path / "q.json"]).recording, catalogue(), workers=1)
    assert [str(value) for value in data.block.value] == ["nan"]


def test_series_that_are_not_used_are_named_with_the_reason(tmp_path):
    text = vector(
        one_value("DCGM_FI_DEV_GPU_TEMP", gpu="0", Hostname="n0"), one_value("DCGM_FI_DEV_GPU_TEMP", Hostname="n0")
    )
    _, _, unmapped = diagnosed(tmp_path, "q.json", text)
    assert [(one.metric, one.reason) for one in unmapped] == [
        ("DCGM_FI_DEV_GPU_TEMP", "no label says which GPU it is of")
    ]


def test_the_names_of_telegraf_are_those_of_signals(tmp_path):
    keys, _, _ = diagnosed(tmp_path, "telegraf.influx", INFLUX_LINES)
    assert {(signal, name) for signal, name, _ in keys} == {
        ("gpu.sm_clock", "n0/gpu0"),
        ("gpu.power", "n0/gpu0"),
        ("port.rx_netdev_bytes", "n0/eth0"),
        ("port.tx_netdev_bytes", "n0/eth0"),
        ("host.cpu_util", "n0"),
    }


def test_what_describes_a_gpu_tells_no_series_apart(tmp_path):
    text = "".join(
        f"nvidia_smi,host=n0,index=2,pstate=P{n},compute_mode=Default,name=A temperature_gpu=50i {T + n}\n"
        f"amd_rocm_smi,host=n1,gpu_id=0x740f,name=card3 temperature_sensor_junction=5{n} {T + n}\n"
        for n in range(2)
    )
    keys, _, _ = diagnosed(tmp_path, "t.influx", text)
    assert {key[:2] for key in keys} == {("gpu.temperature", "n0/gpu2"), ("gpu.hotspot_temperature", "n1/gpu3")}
    assert len(keys) == 2


def test_words_of_four_octets_are_counted_as_octets(tmp_path):
    text = f"infiniband,device=mlx5_0,host=n0,port=1 port_rcv_data=5i,out_of_sequence=2u {T}000000000\n"
    (tmp_path / "t.influx").write_text(text)
    data = load(draft_recording([tmp_path / "t.influx"]).recording, catalogue(), workers=1)
    values = dict(zip([data.table.keys[n].signal for n in data.block.series], data.block.value, strict=True))
    assert values == {"port.rx_bytes": 20.0, "rdma.out_of_sequence": 2.0}


def test_escapes_texts_and_truths_of_line_protocol():
    point = influx_lines.parse_point(r'my\ m\,x,a\ b=c\,d\=e,f=\\g x\ y=1e3,s="a \"b\", c=1",t=true,n=-.5 12')
    assert point[1:] == ({"x y": 1000.0, "t": 1.0, "n": -0.5}, 12.0)
    assert influx_lines.parse_name(point.key) == ("my m,x", {"a b": "c,d=e", "f": r"\g"})


@pytest.mark.parametrize("time", [T, T * 1000, T * 10**6, T * 10**9])
def test_the_unit_of_times_follows_from_their_size(time):
    assert influx_lines.parse_point(f"m,a=b x=1 {time}").time == T


@pytest.mark.parametrize(
    "text",
    [
        "m", "m,a=b", "m x", "m x=", "m x=1,", "m x=abc", 'm x="open', "m x=1 later", "m x=1 1 2",
        "m,a x=1 1", "level=info,step=3 loss=1.5", "m x=1" + "0" * 400 + "e 1",
    ],
)  # fmt: skip
def test_what_is_no_line_protocol_is_refused_with_its_line(text):
    with pytest.raises(InputError, match=r"export.txt:2: found .*, expected `measurement,tag=text"):
        read(influx_lines, f"\n{text}\n")


def test_damaged_lines_and_missing_times_are_told():
    good = f"m,a=b x=1 {T}\n"
    first, *_ = read(influx_lines, good * 150 + "broken\n" + "m,a=b x=2\n" + "m,a=b x")
    assert "1 damaged lines are left out, first line 151" in first.note
    assert "1 lines have no time: that of the file is taken" in first.note
    assert "ends inside a line (153)" in first.note


def test_pages_that_telegraf_scraped_are_of_the_scraped_server(tmp_path):
    server = "host=watcher,url=http://a:8000/metrics"
    text = (
        f"prometheus,{server},model_name=m vllm:num_requests_waiting=3 {T}000000000\n"
        f"vllm:num_requests_running,{server},model_name=m gauge=2 {T}000000000\n"
        f"vllm:time_to_first_token_seconds,{server},model_name=m 0.5=1,+Inf=2,sum=1.5,count=2 {T}000000000\n"
    )
    keys, _, unmapped = diagnosed(tmp_path, "t.influx", text)
    assert {name for _, name, _ in keys} == {"vllm-a"}
    assert {signal for signal, _, _ in keys} == {"serve.waiting", "serve.running", "serve.ttft"}
    assert not unmapped


def test_one_moment_is_never_enough_to_call_all_well(tmp_path):
    (tmp_path / "q.json").write_text(
        vector(*(one_value("DCGM_FI_DEV_GPU_UTIL", "97", gpu=str(n), Hostname="n0") for n in range(8)))
    )
    result = replay(draft_recording([tmp_path / "q.json"]).recording)
    assert (result.incidents, result.is_enough) == ((), False)
    assert "all samples are of one moment" in "".join(text for text, *_ in verdict_line(result))


def draft_mapped(folder, signal, entity):
    (folder / "q.csv").write_text("time,mine\n1795341600,3\n1795341610,4\n")
    mapping = parse_mapping(
        f"version: 1\nmetrics: [{{metric: mine, signal: {signal}, entity: {entity}}}]\n", "m.yaml", catalogue()
    )
    return draft_recording([folder / "q.csv"], mapping=mapping)


def test_a_mapping_may_name_a_replica_and_no_node(tmp_path):
    draft = draft_mapped(tmp_path, "serve.waiting", "{replica: chat-0}")
    assert "a node that stands for all of chat-0" in [each.what for each in draft.assumptions]
    data = load(draft.recording, catalogue(), workers=1)
    assert [(key.kind, key.entity) for key in data.table.keys] == [("replica", "chat-0")]


def test_series_that_name_no_place_are_refused_with_what_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"1 series of known metrics .* none of which says where .*labels node, host"):
        draft_mapped(tmp_path, "pool.queue", "{pool: chat}")


def test_a_gpu_has_the_index_that_a_series_with_its_uuid_has(tmp_path):
    info = one_value("nvidia_smi_gpu_info", uuid="a", index="2", instance="n0:9835")
    other = one_value("nvidia_smi_temperature_gpu", uuid="b", index="1", host="n1", pstate="P0")
    keys, _, _ = diagnosed(
        tmp_path, "q.json", vector(one_value("nvidia_smi_temperature_gpu", uuid="a", instance="n0:9835"), info, other)
    )
    assert keys == {("gpu.temperature", "n0/gpu2", ""), ("gpu.temperature", "n1/gpu1", "")}


def otlp_line(time, value, **metric):
    """Returns a line of OpenTelemetry's file exporter with one point."""
    point = {"timeUnixNano": str(time * 10**9), "asDouble": value}
    host = {"attributes": [{"key": "host.name", "value": {"stringValue": "n0"}}]}
    metrics = [{**metric, "sum": {"aggregationTemporality": 1, "dataPoints": [point]}}]
    return line(resourceMetrics=[{"resource": host, "scopeMetrics": [{"metrics": metrics}]}])


def test_deltas_of_opentelemetry_are_summed_up():
    text = otlp_line(T + 10, 3.0, name="node_x_total") + otlp_line(T, 2.0, name="node_x_total")
    assert otlp_json.recognise(text.encode(), "f.json")
    assert shown(read(otlp_json, text)) == {("node_x_total", "n0"): {T: 2.0, T + 10: 5.0}}
    cut, *_ = read(otlp_json, text + text[:40])
    assert cut.note == "ends inside a metric, which is left out"


@pytest.mark.parametrize("text", ["{}", '{"resourceMetrics": [7]}', '{"resourceMetrics": [{"scopeMetrics": 3}]}'])
def test_what_is_no_metric_of_opentelemetry_is_refused(text):
    with pytest.raises(InputError, match="resourceMetrics, as the file exporter"):
        read(otlp_json, text)


FLUX_HEAD = (
    "#group,false,false,true,true,false\r\n#datatype,string,long,dateTime:RFC3339,double,string\r\n#default,,,,,\r\n"
)
FLUX = ",result,table,_time,_value,_field,_measurement,host,index\r\n,,0,2026-11-22T10:00:00Z,{},{},nvidia_smi,n0,3\r\n"
FLUX_FIELDS = (("91", "temperature_gpu"), ("20", "power_draw"))
TABLES = {
    "annotated Flux": FLUX_HEAD
    + FLUX.format("91", "temperature_gpu")
    + "\r\n"
    + FLUX_HEAD
    + FLUX.format("20", "power_draw"),
    "plain Flux": FLUX.format("91", "temperature_gpu") + "\r\n" + FLUX.format("20", "power_draw"),
    "Telegraf": f"timestamp,name,host,index,temperature_gpu,power_draw\n{T},nvidia_smi,n0,3,91,20\n",
}


@pytest.mark.parametrize("table", TABLES)
def test_tables_of_influxdb_and_telegraf_are_read_as_line_protocol(table):
    text = TABLES[table]
    assert influx_csv.recognise(text.encode(), "t.csv")
    assert not csv.recognise(text.encode(), "t.csv")
    assert shown(read(influx_csv, text)) == {
        ("nvidia_smi_temperature_gpu", "3", "n0"): {T: 91.0},
        ("nvidia_smi_power_draw", "3", "n0"): {T: 20.0},
    }


def test_the_idle_share_of_a_processor_becomes_the_busy_one():
    text = f"timestamp,name,host,cpu,usage_idle\n{T},cpu,n0,cpu-total,80\n{T},cpu,n0,cpu3,7\n"
    assert shown(read(influx_csv, text)) == {("skewscope_host_cpu_util", "n0"): {T: pytest.approx(0.2)}}


@pytest.mark.parametrize("text", ["timestamp,name,host,value\n1,x,a,2\n", "time,gpu,power\n1,2,3\n", "", "a,b,c,d\n"])
def test_other_tables_are_none_of_influxdb(text):
    assert not influx_csv.recognise(text.encode(), "t.csv")


@pytest.mark.parametrize("text", ["time,gpu,power\n1,2,3\n", "", "a,b,c,d\n", "timestamp,name,host\nnever,cpu,n0\n"])
def test_a_table_without_samples_is_refused(text):
    with pytest.raises(InputError, match="no row with a time and a number"):
        read(influx_csv, text)


@pytest.mark.parametrize("names", [["up", "vllm:x"], [{"__name__": "up", "instance": "a:8000"}]])
def test_names_without_values_say_what_to_ask_for(names):
    with pytest.raises(InputError, match=r"names without values.*query_range -d query=up "):
        read(prometheus_json, json.dumps({"status": "success", "data": names}))
