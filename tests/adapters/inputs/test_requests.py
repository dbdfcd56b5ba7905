"""Rows of requests: tables of benchmarks, access logs of proxies and servers."""

import contextlib
import io
import json
import time

import pytest

from skewscope.adapters.inputs import access_log, request_table
from skewscope.adapters.inputs.cell_values import to_time
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.adapters.inputs.recording import load
from skewscope.adapters.inputs.request_fields import find_fields, server_name, settle_units
from skewscope.adapters.inputs.request_rows import FAILED, OK, REFUSED, outcome_of
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

T = 1789372800
"""2026-09-14T08:00:00Z"""
AGENT = '"-" "python-requests/2.31"'
POST = '"POST /v1/chat/completions HTTP/1.1"'
NGINX = f"10.1.1.9 - - [14/Sep/2026:08:00:02 +0000] {POST} 200 812 {AGENT}"
ENVOY = f"[2026-09-14T08:00:00.000Z] {POST} 200 -"
ENVOY_REST = '812 4000 2000 400 "-" "curl/8" "8f2d" "llm" "10.0.0.1:8000"'
ALB = (
    "https 2026-09-14T08:00:02.000000Z app/llm/3f 203.0.113.1:43443 10.0.0.7:8000 0.001 1.998 0.001 200 200 2779 26"
    ' "POST https://llm.example.com:443/v1 HTTP/1.1" "curl/8.5" ECDHE TLSv1.2 arn:aws:x "Root=1" "-" "-" 0'
)
HAPROXY = (
    "Sep 14 08:00:02 lb haproxy[9]: 10.1.1.9:5001 [14/Sep/2026:08:00:00.000] fe llm/gpu0 0/100/1/300/2000 200 812 "
    f"- - ---- 12/12/4/4/0 0/0 {POST}"
)
REPLICA = "10.0.0.1:8000"
LINES = {
    "nginx with names": (f'{NGINX} rt=2.000 uct="0.001" uht="0.400" urt="1.999" ua="{REPLICA}"', REPLICA, 2.0, 0.4),
    "nginx in order": (f'{NGINX} "-" 2.000 1.999 {REPLICA}', REPLICA, 2.0, None),
    "nginx after a second try": (f'{NGINX} rt=2.000 ua="10.0.0.7:8000, {REPLICA}"', REPLICA, 2.0, None),
    "ingress-nginx": (f"{NGINX} 812 2.000 [llm-vllm-8000] [] {REPLICA} 9 1.999 200 8f2d", REPLICA, 2.0, None),
    "traefik": (f'{NGINX} 17 "llm@docker" "http://{REPLICA}" 2000ms', REPLICA, 2.0, None),
    "envoy": (f"{ENVOY} {ENVOY_REST}", REPLICA, 2.0, 0.4),
    "istio": (f'{ENVOY} via_upstream - "-" {ENVOY_REST} outbound|8000||vllm 10.2.2.2:33 - default', REPLICA, 2.0, 0.4),
    "haproxy": (HAPROXY, "gpu0", 2.0, 0.4),
    "load balancer of AWS": (ALB, "10.0.0.7:8000", 2.0, 1.999),
}
ROWS = {
    "nginx": {
        "time_iso8601": "2026-09-14T08:00:02Z",
        "request_time": "2.000",
        "status": "200",
        "upstream_addr": REPLICA,
    },
    "envoy": {"start_time": "2026-09-14T08:00:00Z", "duration": 2000, "response_code": 200, "upstream_host": REPLICA},
    "traefik": {
        "StartUTC": "2026-09-14T08:00:00Z",
        "Duration": 2_000_000_000,
        "DownstreamStatus": 200,
        "ServiceAddr": REPLICA,
    },
    "caddy": {"ts": T, "request": {"method": "POST", "uri": "/v1"}, "duration": 2.0, "status": 200},
    "nested": {
        "metadata": {"request_start_ns": T * 10**9, "request_end_ns": (T + 2) * 10**9},
        "metrics": {
            "time_to_first_token": {"value": 400.0, "unit": "ms"},
            "output_token_count": {"value": 11, "unit": "tokens"},
        },
    },
    "moments": {"arrival": T, "first_token": T + 0.4, "finished": T + 2, "prompt_len": 5, "worker": 3},
}


def read(module, text, **labels):
    return module.read_series(io.BytesIO(text.encode()), "requests.txt", labels)


def last(series):
    """Returns the last value of each metric by server and metric without its common begin."""
    return {
        (dict(one.labels).get("instance"), one.metric.removeprefix("skewscope_serve_")): float(one.values[-1])
        for one in series
    }


@pytest.mark.parametrize("form", LINES)
def test_a_line_of_each_proxy_gives_server_and_times(form):
    line, server, seconds, first = LINES[form]
    assert access_log.recognise(line.encode(), "f")
    series = read(access_log, line + "\r\n")
    values = last(series)
    assert values[server, "e2e_sum"] == pytest.approx(seconds)
    assert values.get((server, "ttft_sum")) == (None if first is None else pytest.approx(first))
    assert values[server, "success_total"] == 1
    assert series[0].times[0] == pytest.approx(T)


def test_haproxy_states_the_wait_in_its_queue():
    assert last(read(access_log, HAPROXY))["gpu0", "queue_time_sum"] == pytest.approx(0.1)
    assert not request_table.recognise(HAPROXY.encode(), "f")


@pytest.mark.parametrize("form", ROWS)
def test_a_row_of_json_of_each_maker_gives_times(form):
    text = json.dumps(ROWS[form])
    assert request_table.recognise(text.encode(), "f")
    for whole in (text + "\n" + text + "\n", f"[{text}, {text}]"):
        values = {metric: value for (_, metric), value in last(read(request_table, whole)).items()}
        assert values["e2e_sum"] == pytest.approx(4.0)
        assert values["success_total"] == 2


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_with_milliseconds_and_words_for_the_outcome(separator, end):
    rows = [
        ["request_id", "start_time", "ttft_ms", "latency_ms", "input_tokens", "output_tokens", "status", "replica"],
        ["0", "2026-09-14T08:00:00Z", "400", "2000", "5", "17", "success", "r0"],
        ["1", "2026-09-14T08:00:01Z", "", "3000", "5", "0", "error", "r1"],
    ]
    values = last(read(request_table, end.join(separator.join(row) for row in rows) + end))
    assert values["r0", "ttft_sum"] == pytest.approx(0.4)
    assert values["r0", "tpot_sum"] == pytest.approx(0.1)
    assert (values["r1", "failure_total"], values["r1", "success_total"]) == (1, 0)


def test_a_unit_that_no_name_states_follows_from_the_values():
    rows = [{"start": 100.5 + n, "latency": 2000 + n, "ttft": 300, "worker": 1} for n in range(40)]
    fields = settle_units(find_fields(rows[0]), rows)
    assert fields.uses["duration"].divisor == fields.uses["first_token"].divisor == 1e3
    assert "latency (ms)" in fields.describe()


@pytest.mark.parametrize(
    ("code", "outcome"), [(200, OK), (302, OK), (404, REFUSED), (400, REFUSED), (429, FAILED), (499, FAILED)]
)
def test_outcomes_of_codes(code, outcome):
    assert outcome_of(code) == outcome
    assert outcome_of(503) == outcome_of(0) == outcome_of(-1) == FAILED


def test_checks_of_health_are_no_requests():
    check = NGINX.replace("POST /v1/chat/completions", "GET /health")
    series = read(access_log, f"{NGINX} rt=2.000\n{check} rt=0.001\n")
    assert last(series)["requests", "success_total"] == 1


def test_lines_of_uvicorn_count_failures_only():
    lines = [f"2026-09-14 08:00:0{n} INFO:     10.1.1.9:50 - {POST} {503 if n > 5 else 200} X" for n in range(9)]
    values = last(read(access_log, "\n".join(lines)))
    assert (values["requests", "success_total"], values["requests", "failure_total"]) == (6, 3)


@pytest.mark.parametrize(
    ("module", "text", "found"),
    [
        (access_log, f"{NGINX}\n", "no line that says how long"),
        (access_log, "hello\n", "'hello'"),
        (request_table, "time,value\n1,2\n", "the columns time, value"),
        (request_table, "start,latency,status\n", "no rows"),
        (request_table, '{"start": "never", "latency": 2, "status": 200}', "no request with times in 1 rows"),
    ],
)
def test_what_is_no_request_is_refused_with_its_reason(module, text, found):
    with pytest.raises(InputError, match=found):
        read(module, text)


@pytest.mark.parametrize("header", ["time,step_time,gpu", "timestamp,power_w,util", "Time,a:8000,b:8000", "a,b"])
def test_tables_of_samples_are_no_requests(header):
    assert not request_table.recognise(header.encode() + b"\n1,2,3\n", "t.csv")


def test_times_of_access_logs_have_zones():
    assert to_time("14/Sep/2026:10:00:00 +0200") == to_time("2026-09-14T08:00:00Z") == T
    assert to_time("14/Sep/2026:02:30:00 -0530") == T
    assert to_time("1789372800123", 0) == T + 0.123


def test_names_of_servers():
    assert server_name("http://10.0.0.1:8000/v1") == REPLICA
    assert server_name("<NOSRV>") == server_name("-") == server_name(None) == ""


@pytest.mark.parametrize("part", ["x", "1", '"', '\\"', "[", "a=", "a ", "1.", '"a" '])
def test_long_lines_take_little_time(part):
    begin = time.process_time()
    for text in (part * 30_000, NGINX + " " + part * 30_000):
        access_log.recognise(text.encode(), "f")
        with contextlib.suppress(InputError):
            read(access_log, text)
    assert time.process_time() - begin < 5


def rows_of_replicas(count, slow_from):
    """Yields lines of requests to three replicas, the second of which slows down at a request."""
    yield "start_time,ttft,latency,output_tokens,replica,status"
    for n in range(count):
        ttft, token = (0.3 + 0.01 * (n % 7), 0.03 + 0.0005 * (n % 5))
        if n % 3 == 1 and n >= slow_from:
            ttft, token = 3 * ttft, 4 * token
        yield f"{T + n},{ttft:.3f},{ttft + 199 * token:.3f},200,r{n % 3},200"


@pytest.mark.parametrize(("slow_from", "expected"), [(240, {"gpu-fail-slow"}), (1000, set())])
def test_a_replica_that_slows_down_is_found_among_its_peers(tmp_path, slow_from, expected):
    path = tmp_path / "bench.csv"
    path.write_text("\n".join(rows_of_replicas(480, slow_from)) + "\n")
    assert find_kind(path) == "request-table"
    draft = draft_recording([path])
    data = load(draft.recording, catalogue(), workers=1)
    assert {key.entity.rpartition("-")[2] for key in data.table.keys} == {"r0", "r1", "r2"}
    found = replay(draft.recording).incidents
    assert {each.condition for each in found if not each.explained_by} == expected


def test_what_a_proxy_turns_away_is_counted_at_the_proxy():
    refused = f'{ENVOY.replace("200 -", "503 UO")} 812 81 0 - "-" "curl/8" "8f2d" "llm" "-"'
    text = f"{ENVOY} {ENVOY_REST}\n{refused}\n".encode()
    series = access_log.read_series(io.BytesIO(text), "envoy.log", {})
    failures = (one for one in series if one.metric == "skewscope_serve_failure_total")
    assert {dict(one.labels)["instance"]: one.values[-1] for one in failures} == {REPLICA: 0.0, "envoy": 1.0}
