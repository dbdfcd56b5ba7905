"""Orders over HTTP: from a target of a controller to the agent of its node, and to nobody else."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from skewscope.adapters.actions.readings import KEPT_S
from skewscope.adapters.agent.orders import OrderGuard, OrdersConfig, OrderWorker
from skewscope.adapters.agent.switch_commands import SwitchRights
from skewscope.adapters.formats.order_protocol import OrderResult
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint
from tests.adapters.controller.processes import AUTH, TOKENS, running

pytestmark = pytest.mark.slow
KEY = "k" * 32
TARGET = """
targets:
- {kind: open-vswitch, name: switch, node: n0, bridge: br0, key: {file: key}, members: {n0/ew: p0}, timeout: 2,
   flows: [{protocol: udp, destination_port: 4791}]}
"""
OUTPUTS = {
    "dump-ports": 'OFPST_PORT reply\n  port  "p0": rx pkts=3, bytes=300, drop=0\n',
    "dump-flows": "",
    "dump-meters": "OFPST_METER_CONFIG reply\n",
    "list": '{"data": [], "headings": ["name"]}',
}


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orders")
    (folder / "key").write_text(KEY)
    with running(folder, AUTH + TARGET) as found:
        yield found


def answer_command(commands) -> OrderResult:
    (command,) = commands
    return OrderResult(True, next(text for name, text in OUTPUTS.items() if name in command))


@pytest.fixture
def agent_token(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKENS["N0"])
    return str(path)


def worker_of(controller, token: str, key: str = KEY) -> OrderWorker:
    url = f"http://127.0.0.1:{controller.port}"
    guard = OrderGuard("n0", OrdersConfig(SwitchRights((), ("br0",), 1), key), time.time())
    return OrderWorker(url, Channel(ControllerEndpoint(url, token_file=token)), guard, time.time, answer_command)


def read_target(controller):
    time.sleep(KEPT_S + 0.1)  # What was read before for another test is kept for so long.
    (target,) = controller.json("/api/v1/targets", TOKENS["READ"])["targets"]
    return target


def read_beside(controller, worker: OrderWorker):
    """Returns what the API says of the target while an agent works."""
    worker.start()
    try:
        return read_target(controller)
    finally:
        worker.stop(10.0)


def test_an_agent_that_stops_refuses_what_it_is_given(controller, agent_token):
    worker = worker_of(controller, agent_token)
    worker.start()
    time.sleep(0.5)
    worker.stop()
    begun = time.monotonic()
    assert "refused by the agent: it stops" in str(read_target(controller))
    assert time.monotonic() - begun < KEPT_S + 1.5, "the refusal is told at once"
    worker.stop(10.0)


def test_an_agent_that_has_gone_gets_no_orders(controller, agent_token):
    with socket.create_connection(("127.0.0.1", controller.port)) as connection:
        head = f"GET /api/v1/orders?node=n0&wait=9 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKENS['N0']}"
        connection.sendall(f"{head}\r\n\r\n".encode())
        time.sleep(0.5)
    worker = worker_of(controller, agent_token)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read_target, controller)
        time.sleep(KEPT_S + 0.5)
        worker.start()
        assert "p0" in str(reading.result()["members"])
    worker.stop(10.0)


def test_an_agent_carries_out_the_orders_of_its_node(controller, agent_token):
    worker = worker_of(controller, agent_token)
    target = read_beside(controller, worker)
    assert "p0" in str(target["members"])
    assert worker.counts == {"done": 4, "failed": 0, "refused": 0}


def test_without_its_agent_a_target_says_so(controller):
    begun = time.monotonic()
    assert "the agent of n0 has not fetched the order within 2 s" in str(read_target(controller))
    assert time.monotonic() - begun < KEPT_S + 4


def test_an_agent_with_another_key_refuses_and_says_so(controller, agent_token):
    worker = worker_of(controller, agent_token, "l" * 32)
    assert "refused by the agent: a wrong signature" in str(read_beside(controller, worker))
    assert worker.counts["done"] == 0


@pytest.mark.parametrize(("token", "status"), [("", 401), ("READ", 403), ("ADMIN", 403), ("N0", 200)])
def test_only_the_agent_of_a_node_gets_its_orders(controller, token, status):
    assert controller.ask("/api/v1/orders?node=n0", TOKENS.get(token, ""))[0] == status


@pytest.mark.parametrize("node", ["n1", "", "*", "n0 "])
def test_an_agent_gets_no_orders_of_other_nodes(controller, node):
    assert controller.ask(f"/api/v1/orders?node={quote(node)}", TOKENS["N0"])[0] == 403


def test_an_order_is_handed_out_once_and_takes_one_result(controller):
    token = TOKENS["N0"]
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read_target, controller)
        orders = controller.json("/api/v1/orders?node=n0&wait=5", token)["orders"]
        assert len(orders) == 4
        assert controller.json("/api/v1/orders?node=n0", token)["orders"] == []
        path = f"/api/v1/orders/{orders[0]['id']}/result"
        json = {"Content-Type": "application/json"}
        assert controller.ask(path, TOKENS["ADMIN"], b'{"ok": true, "output": ""}', "POST", **json)[0] == 403
        assert controller.ask(path, token, b'{"ok": 3}', "POST", **json)[0] == 400
        assert controller.ask(path, token, b"[" * 60_000, "POST", **json)[0] == 400
        assert controller.ask(path, token, b'{"ok": false, "output": "no switch"}', "POST", **json)[0] == 204
        assert controller.ask(path, token, b'{"ok": true, "output": ""}', "POST", **json)[0] in (404, 409)
        assert "no switch" in str(reading.result())
    assert KEY not in str(orders)
    assert KEY not in controller.log()


def test_a_request_waits_for_an_order(controller):
    found: list[object] = []
    begun = time.monotonic()
    thread = threading.Thread(
        target=lambda: found.append(controller.json("/api/v1/orders?node=n0&wait=9", TOKENS["N0"]))
    )
    thread.start()
    time.sleep(0.5)
    read_target(controller)
    thread.join()
    assert found
    assert len(found[0]["orders"]) >= 1
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("wait", ["x", "-1", "1e9", "٣"])
def test_a_strange_wait_is_none(controller, wait):
    begun = time.monotonic()
    assert controller.ask(f"/api/v1/orders?node=n0&wait={quote(wait)}", TOKENS["N0"])[0] == 200
    assert time.monotonic() - begun < 2
