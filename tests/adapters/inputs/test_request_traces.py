"""Traces of requests: JSON of Jaeger, OpenTelemetry, Tempo and Zipkin."""

import contextlib
import io
import json

import pytest

from skewscope.adapters.inputs import request_traces
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.adapters.inputs.request_traces import part_of
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import InputError

T = 1789372800
SPANS = (("root", "POST /v1/completions", 0, 16), ("a", "queue", 0, 12), ("b", "prefill_forward", 12, 13))
MORE = (("c", "kv_transfer", 12.5, 13.5), ("d", "decode_loop", 13.5, 16))


def jaeger(spans, code=200):
    """Returns a trace as Jaeger's interface exports it."""
    common = {"traceID": "t", "logs": []}
    found = [
        {
            **common,
            "spanID": id_,
            "operationName": name,
            "references": [] if id_ == "root" else [{"refType": "CHILD_OF", "spanID": "root"}],
            "startTime": int((T + begin) * 1e6),
            "duration": int((end - begin) * 1e6),
            "processID": "p1" if id_ == "root" else "p2",
            "tags": [{"key": "http.status_code", "value": code}] if id_ == "root" else [],
        }
        for id_, name, begin, end in spans
    ]
    processes = {"p1": {"tags": []}, "p2": {"tags": [{"key": "hostname", "value": "gpu-0"}]}}
    return json.dumps({"data": [{"traceID": "t", "spans": found, "processes": processes}], "errors": None})


def otlp(spans, outer="resourceSpans"):
    """Returns a trace as OpenTelemetry's file exporter writes it, or Tempo answers it."""
    found = [
        {
            "traceId": "t",
            "spanId": id_,
            "parentSpanId": "" if id_ == "root" else "root",
            "name": name,
            "startTimeUnixNano": str(int((T + begin) * 1e9)),
            "endTimeUnixNano": str(int((T + end) * 1e9)),
        }
        for id_, name, begin, end in spans
    ]
    resource = {"attributes": [{"key": "host.name", "value": {"stringValue": "gpu-0"}}]}
    return json.dumps({outer: [{"resource": resource, "scopeSpans": [{"spans": found}]}]})


def zipkin(spans):
    """Returns a trace as Zipkin answers it."""
    return json.dumps(
        [
            {
                "traceId": "t",
                "id": id_,
                **({} if id_ == "root" else {"parentId": "root"}),
                "name": name,
                "timestamp": int((T + begin) * 1e6),
                "duration": int((end - begin) * 1e6),
                "localEndpoint": {"serviceName": "x"},
                "tags": {"instance": "gpu-0"},
            }
            for id_, name, begin, end in spans
        ]
    )


def read(text):
    return request_traces.read_series(io.BytesIO(text.encode()), "traces.json", {})


def last(series):
    return {one.metric.removeprefix("skewscope_serve_"): float(one.values[-1]) for one in series}


FORMS = {
    "jaeger": jaeger,
    "otlp": otlp,
    "tempo": lambda spans: otlp(spans, "batches"),
    "tempo 2": lambda spans: f'{{"trace": {otlp(spans)}}}',
    "zipkin": zipkin,
    "zipkin, a list of traces": lambda spans: f"[{zipkin(spans)}]",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_trace_gives_the_parts_of_its_request(form):
    text = FORMS[form](SPANS + MORE)
    assert request_traces.recognise(text.encode(), "f")
    series = read(text)
    values = last(series)
    assert values["e2e_sum"] == pytest.approx(16)
    parts = [values[f"{name}_time_sum"] for name in ("queue", "prefill", "kv_xfer", "decode")]
    # The half second in which prefill and transfer overlap is the transfer's.
    assert parts == pytest.approx([12, 0.5, 1, 2.5])
    assert (
        series[0].note == "the slowest request took 16 s: queue 12 s (75%), prefill 0.5 s (3%), "
        "transfer 1 s (6%), decode 2.5 s (16%)"
    )


@pytest.mark.parametrize("form", FORMS)
def test_traces_that_are_cut_anywhere_give_samples_or_a_clear_error(form):
    text = FORMS[form](SPANS)
    for end in range(0, len(text), 37):
        with contextlib.suppress(InputError):
            assert read(text[:end])


def test_facts_in_attributes_count():
    trace = json.loads(otlp(SPANS[:1]))
    facts = {
        "gen_ai.latency.time_in_queue": {"doubleValue": 9.5},
        "gen_ai.latency.time_to_first_token": {"doubleValue": 10},
        "gen_ai.usage.completion_tokens": {"intValue": "31"},
    }
    trace["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = [
        {"key": key, "value": value} for key, value in facts.items()
    ]
    values = last(read(json.dumps(trace)))
    assert (values["queue_time_sum"], values["ttft_sum"], values["generation_tokens_total"]) == (9.5, 10, 31)
    assert values["tpot_sum"] == pytest.approx(0.2)


def test_an_error_of_the_root_is_a_failure():
    values = last(read(jaeger(SPANS, code=503)))
    assert (values["failure_total"], values["success_total"]) == (1, 0)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("PrefillWaitingQueue", "queue"),
        ("decode.prealloc", "queue"),
        ("kv_send", "transfer"),
        ("NixlReadBlocks", "transfer"),
        ("decode", "decode"),
        ("Decoder.load", ""),
        ("POST /generate", ""),
    ],
)
def test_names_of_spans(name, part):
    assert part_of(name) == part


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (SPANS, {"burst-admission-backlog"}),
        ((SPANS[0], ("c", "kv_transfer", 1, 12)), {"kv-transfer-bottleneck"}),
        ((SPANS[0], ("d", "decode", 1, 16)), set()),
    ],
)
def test_one_slow_request_is_enough_where_its_spans_say_why(tmp_path, spans, expected):
    path = tmp_path / "trace.json"
    path.write_text(jaeger(spans))
    assert find_kind(path) == "request-traces"
    found = replay(draft_recording([path]).recording).incidents
    assert {one.condition for one in found} == expected
