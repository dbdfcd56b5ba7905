"""A controller that runs, pushed to over HTTP by who may and who may not."""

import http.client

import numpy as np
import pytest

from bench.prometheus_server import encode_snappy, encode_write_request, labels
from skewscope.adapters.controller.api import API_PREFIX, ROUTES
from skewscope.adapters.formats.row_protocol import ROWS_PATH
from tests.adapters.controller.prometheus import Scraping, Serving, prometheus
from tests.adapters.controller.test_api import AUTH, TOKENS, running
from tests.adapters.sources.test_otlp import JSON

SOURCES = """
sources:
  - {kind: remote-write, name: prom}
  - {kind: remote-write, name: other, path: /api/v1/write/other}
  - {kind: otlp, name: collector}
"""
FLEET = "0123456789abcdef-fleet"


def body():
    of = labels({"__name__": "node_netstat_Tcp_RetransSegs", "node": "n0"})
    return encode_snappy(encode_write_request([of], np.array([1_795_000_000_250]), np.eye(1)))


def answer_to_a_size(port, size):
    """What is said to somebody who announces so many bytes."""
    talk = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    talk.putrequest("POST", "/api/v1/write")
    talk.putheader("Content-Length", str(size))
    talk.endheaders()
    return talk.getresponse().status


def values(controller, token=""):
    return {one["name"]: one["values"] for one in controller.json(f"{API_PREFIX}/sources", token)["sources"]}


def standings(controller):
    return {one["name"]: (one["up"], one["trouble"]) for one in controller.json(f"{API_PREFIX}/sources")["sources"]}


@pytest.mark.slow
def test_what_is_pushed_arrives_at_its_source_and_nothing_else_is_taken(tmp_path):
    with running(tmp_path, SOURCES) as controller:
        point = '{"timeUnixNano": "1795000000000000000", "asInt": "3"}'
        gauge = f'{{"name": "skewscope_host_up", "gauge": {{"dataPoints": [{point}]}}}}'
        of = '{"attributes": [{"key": "host.name", "value": {"stringValue": "n0"}}]}'
        request = f'{{"resourceMetrics": [{{"resource": {of}, "scopeMetrics": [{{"metrics": [{gauge}]}}]}}]}}'
        assert controller.ask("/api/v1/write", body=body())[0] == 204
        assert controller.ask("/api/v1/write/other", body=body())[0] == 204
        status, headers, answer = controller.ask(
            "/v1/metrics", body=request.encode(), **{"Content-Type": JSON["content-type"]}
        )
        assert (status, headers["Content-Type"], answer) == (200, "application/json", b"{}")
        assert controller.ask("/api/v1/write", body=b"garbage")[0] == 400
        assert answer_to_a_size(controller.port, 17 << 20) == 413
        assert controller.ask("/api/v1/write/nobody", body=body())[0] in (404, 405)
        controller.until(lambda: values(controller) == {"prom": 1, "other": 1, "collector": 1})


@pytest.mark.slow
def test_what_is_served_is_described_and_what_is_described_is_served(tmp_path):
    with running(tmp_path, SOURCES + "auth: {anonymous: admin}\n") as controller:
        paths = controller.json(f"{API_PREFIX}/openapi.json")["paths"]
        described = {(path, method.upper()) for path, told in paths.items() for method in told}
        pushed = {"/api/v1/write", "/api/v1/write/other", "/v1/metrics", ROWS_PATH}
        assert described == {(one.path, one.method) for one in ROUTES} | {(path, "POST") for path in pushed}
        for path, method in described:
            told = paths[path][method.lower()]
            bodies = list(told.get("requestBody", {}).get("content", ())) or ["application/json"]
            assert told["summary"].endswith(".")
            for content in bodies:
                headers = {"Content-Type": content, "Last-Event-ID": "nonsense"}
                body = b"nonsense" if method == "POST" else None
                asked = path.format(id="x", kind="node", name="n0")
                status, _, answer = controller.ask(asked, "", body, method, **headers)
                assert str(status) in told["responses"], (path, method, answer)
        for path, method in described:
            asked = path.format(id="x", kind="node", name="n0")
            assert controller.ask(asked + "/more", method=method)[0] in (404, 405)
            assert controller.ask(asked, method="PUT")[0] in (404, 405)


@pytest.mark.slow
def test_only_who_speaks_for_all_nodes_may_push(tmp_path):
    token = tmp_path / "fleet"
    token.write_text(FLEET)
    more = AUTH.replace("agents: {tokens: [", "agents: {tokens: [{node: '*', file: fleet}, ")
    with running(tmp_path, SOURCES + more) as controller:
        answers = [controller.ask("/api/v1/write", t, body())[0] for t in ("", TOKENS["N0"], TOKENS["ADMIN"], FLEET)]
        assert answers[1:] == [403, 403, 204]
        assert answers[0] in (401, 403)


@pytest.mark.slow
@prometheus
def test_a_real_prometheus_pushes_to_a_controller_and_is_asked_by_it(tmp_path):
    text = "".join(f'node_netstat_Tcp_RetransSegs{{node="n{n}"}} 17\n' for n in range(3))
    with Serving(text) as page, Scraping(tmp_path) as server:
        more = f"""sources:
  - {{kind: scrape, name: directly, targets: ["{page.place}"], honor_labels: true, reports_for: fleet}}
  - {{kind: remote-write, name: pushed}}
  - {{kind: prometheus-query, name: asked, url: "http://{server.address}", period: 1}}
  - {{kind: prometheus-query, name: in steps, url: "http://{server.address}", period: 1, step: 1}}
"""
        names = ("asked", "directly", "in steps", "pushed")
        with running(tmp_path, more) as controller:
            server.begin(page.place, f"127.0.0.1:{controller.port}")
            controller.until(lambda: standings(controller) == dict.fromkeys(names, (True, "")), 60)
            assert min(values(controller).values()) >= 3
            # It would try for long to get rid of its last samples once nobody takes them.
            server.begin(page.place)
