"""The controller as a process: asked over HTTP, pushed to, reloaded, killed and started again."""

import json
import signal
import socket
import time

import numpy as np
import pytest

from skewscope.adapters.controller.api import ROUTES
from skewscope.adapters.controller.config import ROLES
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.formats.row_protocol import (
    MAX_PACKED_BYTES,
    ROWS_PATH,
    HelloFrame,
    RowFrame,
    SeriesFrame,
    encode,
)
from skewscope.adapters.inputs.recording import demo_path, open_recording
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.processes import AUTH, KEYS, TOKENS, Sender, running

READ = [
    route.path.format(id="x", kind="node", name="n0")
    for route in ROUTES
    if route.role and route.role != "admin" and route.method == "GET"
]
FOR_AGENTS = [route.path for route in ROUTES if route.allows_agents]
# Pages of signed links are there only where links are configured.
OPEN = [route.path for route in ROUTES if not route.role and "{" not in route.path]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with running(tmp_path_factory.mktemp("guarded"), AUTH) as found:
        yield found


@pytest.mark.parametrize("path", READ)
def test_without_the_right_token_nothing_is_told(guarded, path):
    assert guarded.ask(path)[0] == 401
    assert guarded.ask(path, "wrong-0123456789abcdef")[0] == 401
    assert guarded.ask(path, TOKENS["N0"])[0] == (200 if path in FOR_AGENTS else 403)
    assert guarded.ask(path, Authorization=f"Basic {TOKENS['READ']}")[0] == 401
    if path.endswith("events"):
        return
    # What nobody looked at before is filmed from the next tick on.
    good = (200, 204, 503) if path.endswith("scene") else (200, 404)
    assert guarded.ask(path, TOKENS["READ"])[0] in good
    assert guarded.ask(path, TOKENS["ADMIN"])[0] in good


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.method != "GET" and route.role and not route.allows_agents],
    ids=lambda route: route.summary,
)
def test_what_changes_something_is_for_its_role_and_those_above_it(guarded, route):
    path = route.path.format(id="x")
    for token in ("", "wrong-0123456789abcdef"):
        assert guarded.ask(path, token, b"{}", route.method)[0] == 401
    roles = {"N0": "none", "READ": "read", "APPROVE": "approve", "ADMIN": "admin"}
    for name, role in roles.items():
        status = guarded.ask(path, TOKENS[name], b"{}", route.method)[0]
        assert (status == 403) == (ROLES.index(role) < ROLES.index(route.role)), (name, status)


@pytest.mark.parametrize("path", [ROWS_PATH, f"{ROWS_PATH}?x=1", *READ, *OPEN])
@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_in_no_other_way_anything_is_told_or_changed(guarded, path, method):
    status, _, text = guarded.ask(path, method=method)
    assert text == b"" or json.loads(text).keys() == {"error"}
    assert status in (401, 404, 405) or (status == 200 and method == "HEAD" and path in OPEN)


@pytest.mark.parametrize("path", OPEN)
def test_some_things_are_for_everybody(guarded, path):
    assert guarded.ask(path)[0] == 200


def test_the_description_has_every_route(guarded):
    told = guarded.json("/api/v1/openapi.json")
    assert set(told["paths"]) == {route.path for route in ROUTES} | {ROWS_PATH}
    assert told["paths"]["/api/v1/incidents"]["get"]["x-role"] == "read"


def test_a_page_in_a_browser_reaches_nothing_by_a_name(guarded):
    assert guarded.ask("/healthz", Host="evil.example")[0] == 403
    assert guarded.ask("/healthz", Host=f"localhost:{guarded.port}")[0] == 200


def test_the_topology_is_sent_once(guarded):
    status, headers, text = guarded.ask("/api/v1/topology", TOKENS["READ"])
    assert status == 200
    assert parse_valid_topology(parse(text.decode())) == open_recording(demo_path()).topology
    assert guarded.ask("/api/v1/topology?node=n0", TOKENS["N0"])[0] == 200, "an agent has to know its place"
    again = guarded.ask("/api/v1/topology", TOKENS["READ"], **{"If-None-Match": headers["ETag"]})
    assert (again[0], again[2]) == (304, b"")


def test_health_is_told_with_its_age(guarded):
    told = guarded.json("/api/v1/health/node/n0", TOKENS["READ"])
    assert (told["score"], told["state"], told["reasons"], told["coverage"]) == (None, "unknown", [], 0.0)
    assert 0 <= told["age_s"] < 10
    for path, status in (("node/n99", 404), ("planet/n0", 404), ("group/" + "x" * 300, 404)):
        assert guarded.ask(f"/api/v1/health/{path}", TOKENS["READ"])[0] == status
    _, _, missing = guarded.ask("/api/v1/health/gpu/n0%2Fgpu0", TOKENS["READ"])
    assert b"the topology has no gpu 'n0/gpu0'" in missing
    assert "/api/v1/health/{kind}/{name}" in guarded.json("/api/v1/openapi.json")["paths"]


def test_rows_come_from_their_own_agent_only(guarded):
    body = encode(
        [HelloFrame("n0", "b", "1"), SeriesFrame(0, 0, KEYS), RowFrame(5, time.time(), 0, np.array([1.0, 2.0]))]
    )
    for token, status in (("", 401), (TOKENS["ADMIN"], 403), ("nobody-0123456789abcdef", 401)):
        assert guarded.ask(ROWS_PATH, token, body)[0] == status
    status, _, answer = guarded.ask(ROWS_PATH, TOKENS["N0"], body)
    assert (status, json.loads(answer)) == (200, {"taken": 5})
    other = encode([HelloFrame("n1", "b", "1")])
    assert guarded.ask(ROWS_PATH, TOKENS["N0"], other)[0] == 403
    unknown = encode([HelloFrame("n0", "c", "1"), RowFrame(1, 1.0, 3, np.zeros(1))])
    status, _, answer = guarded.ask(ROWS_PATH, TOKENS["N0"], unknown)
    assert (status, json.loads(answer)) == (409, {"unknown": [3]})
    assert guarded.ask(ROWS_PATH, TOKENS["N0"], b"no rows")[0] == 400
    assert guarded.ask(ROWS_PATH, TOKENS["N0"], b"", **{"Content-Length": str(MAX_PACKED_BYTES + 1)})[0] == 413
    (source,) = guarded.json("/api/v1/sources", TOKENS["READ"])["sources"]
    assert (source["name"], source["values"]) == ("agents", 2)


@pytest.mark.slow
def test_a_fault_is_told_kept_and_carried_over_a_kill(tmp_path):
    """A node's host counters end while its wire goes on: told over events, still there after SIGKILL, once."""
    with running(tmp_path, "record: {path: rec}") as found:
        watch = Watch(found.port)
        sender = Sender(found)
        sender.send(8, 10.0)
        sender.send(14, np.nan, pause=0.02, ahead=1.0)
        found.until(lambda: (sender.send(1, np.nan), found.json("/api/v1/incidents")["incidents"])[1], 40)
        (one,) = found.json("/api/v1/incidents?state=firing")["incidents"]
        assert (one["condition"], one["entity"]["name"]) == ("telemetry-blackout", "n0")
        assert '"what": "opened"' in watch.read_until(one["id"])
        assert found.json(f"/api/v1/incidents/{one['id']}")["history"][0]["what"] == "opened"
        assert found.json("/api/v1/health/node/n0")["reasons"][0]["incident"] == one["id"]
        found.process.kill()
        found.process.wait()
    with running(tmp_path) as again:
        (still,) = again.json("/api/v1/incidents?state=firing")["incidents"]
        assert (still["id"], still["opened_at"]) == (one["id"], one["opened_at"])
        assert again.json("/api/v1/health/node/n0")["reasons"][0]["incident"] == one["id"]
        again.until(lambda: again.json("/api/v1/sources")["sources"][0]["trouble"] == "1 of 1 agents are silent")
        (tmp_path / "skewscope.yaml").write_text((tmp_path / "skewscope.yaml").read_text() + "oops: 1\n")
        again.process.send_signal(signal.SIGHUP)
        again.until(lambda: "unknown field 'oops'" in again.log())
        (tmp_path / "skewscope.yaml").write_text("version: 1\ntopology: topology.yaml\nlisten: {port: 1}\n" + AUTH)
        again.process.send_signal(signal.SIGHUP)
        again.until(lambda: "listen: changes there take effect after a restart" in again.log())
        assert again.ask("/metrics")[0] == 401
    assert again.process.returncode == 0
    assert StoreReader(tmp_path / "skewscope.db").verify_audit()[0] == 5  # started, opened, started, reloaded, stopped


class Watch:
    """Reads server-sent events."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        self.text = ""
        self.read_until(": hello")

    def read_until(self, word):
        while word not in self.text:
            self.text += self.socket.recv(4096).decode()
        return self.text
