"""Signed orders: what an agent carries out, and what it refuses."""

import json
import stat
import sys
import time
from dataclasses import replace

import pytest

from skewscope.adapters.agent.config import check, load
from skewscope.adapters.agent.orders import OrderGuard, OrdersConfig, OrderWorker, run_order
from skewscope.adapters.agent.switch_commands import BUILDERS, OWNER, SwitchRights, build_commands
from skewscope.adapters.formats.order_protocol import (
    LIFETIME,
    MAX_OUTPUT,
    OPERATIONS,
    Order,
    OrderError,
    OrderResult,
    open_order,
    parse_result,
    sign_order,
)
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint
from skewscope.kb.problems import InputError
from tests.support.loopback import Asked, Says, Server

KEY, OTHER_KEY = "k" * 32, "l" * 32
NOW = 1_000_000.0
RIGHTS = SwitchRights(("limit", "mark"), ("br0",), 1000, "/run/ovs")
COOKIE = f"{OWNER | 5:#018x}"
METER = {"bridge": "br0", "meter": "32768", "rate": "1000", "burst": "10"}
FLOW = {"bridge": "br0", "cookie": COOKIE, "in_port": "p0", "mark": "1"}


def make_order(**changes) -> Order:
    base = Order("a" * 32, "n0", "dump-flows", (("bridge", "br0"),), NOW, NOW + 5, "b" * 32)
    return replace(base, **changes)


def guard_of(rights: SwitchRights = RIGHTS) -> OrderGuard:
    return OrderGuard("n0", OrdersConfig(rights, KEY), NOW - 100)


def build(*arguments) -> list[str]:
    (command,) = build_commands(*arguments)
    return command


def admit(guard: OrderGuard, order: Order, key: str = KEY, now: float = NOW) -> list[str]:
    text = order.encode()
    (command,) = guard.admit(text, sign_order(text, key), now)[1]
    return command


def test_a_signed_order_becomes_a_command_line():
    assert admit(guard_of(), make_order()) == [
        *("ovs-ofctl", "-O", "OpenFlow15", "--names", "dump-flows", "unix:/run/ovs/br0.mgmt"),
        "cookie=0x5c09000000000000/0xffff000000000000",
    ]


@pytest.mark.parametrize(
    ("order", "key", "now", "why"),
    [
        (make_order(), OTHER_KEY, NOW, "a wrong signature"),
        (make_order(node="n1"), KEY, NOW, "an order for 'n1'"),
        (make_order(), KEY, NOW + 5, "expired"),
        (make_order(issued=NOW - 101, expires=NOW - 50), KEY, NOW - 60, "before the start"),
        (make_order(expires=NOW + LIFETIME + 1), KEY, NOW, "valid for too long"),
        (make_order(expires=NOW), KEY, NOW - 1, "valid for too long"),
        (make_order(issued=NOW + 61, expires=NOW + 62), KEY, NOW, "not yet"),
        (make_order(expires=float("1e308"), issued=1e308), KEY, NOW, "valid for too long"),
        (make_order(operation="rm"), KEY, NOW, "unknown operation 'rm'"),
        (make_order(parameters=(("bridge", "br1"),)), KEY, NOW, "the bridge br1 is not allowed"),
        (make_order(id="x"), KEY, NOW, "an id that is none"),
    ],
)
def test_an_order_that_must_not_be_carried_out_is_refused(order, key, now, why):
    with pytest.raises(OrderError, match=why):
        admit(guard_of(), order, key, now)


def test_an_order_is_carried_out_once():
    guard = guard_of()
    admit(guard, make_order())
    with pytest.raises(OrderError, match="given before"):
        admit(guard, make_order())
    with pytest.raises(OrderError, match="given before"):
        admit(guard, make_order(id="c" * 32))
    admit(guard, make_order(nonce="c" * 32))


def test_a_changed_order_has_a_wrong_signature():
    text = make_order().encode()
    signature = sign_order(text, KEY)
    open_order(text, signature, KEY)
    for position in range(0, len(text), 7):
        changed = text[:position] + chr(ord(text[position]) ^ 1) + text[position + 1 :]
        with pytest.raises(OrderError, match="a wrong signature"):
            open_order(changed, signature, KEY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 4000,
        "x" * 5000,
        "{}",
        make_order().encode().replace('"node":"n0"', '"node":3'),
        make_order().encode().replace('"bridge":"br0"', '"bridge":[]'),
        make_order().encode().replace("1000000.0", "NaN"),
        make_order().encode().replace("1000000.0", "1000000"),
        make_order().encode().replace("{", '{"more":1,', 1),
    ],
)
def test_what_is_signed_but_no_order_is_refused(text):
    with pytest.raises(OrderError):
        guard_of().admit(text, sign_order(text, KEY), NOW)


@pytest.mark.parametrize("value", [None, 3, b"x", {}, "é"])
def test_a_signature_of_another_type_is_refused(value):
    with pytest.raises(OrderError):
        open_order(make_order().encode(), value, KEY)
    with pytest.raises(OrderError):
        open_order(value, "x", KEY)


def test_each_operation_has_a_builder():
    assert BUILDERS.keys() == OPERATIONS


def test_commands_of_changes():
    meter = build("meter-add", METER, RIGHTS, NOW)
    assert meter[-1] == "meter=32768 kbps burst bands=type=drop rate=1000 burst_size=10"
    given = FLOW | {"protocol": "udp", "source": "10.0.0.0/8", "destination_port": "4791", "meter": "32769"}
    flow = build("flow-add", given | {"until": f"{NOW + 90:.0f}"}, RIGHTS, NOW)
    assert flow[-1] == (
        f"cookie={COOKIE},hard_timeout=90,priority=40000,udp,in_port=p0,nw_src=10.0.0.0/8,tp_dst=4791,"
        "actions=meter:32769,mod_nw_ecn:3,NORMAL"
    )
    assert build("flow-del", {"bridge": "br0", "cookie": COOKIE}, RIGHTS, NOW)[-1] == f"cookie={COOKIE}/-1"


def test_a_flow_always_ends_by_itself():
    for until, seconds in (("", 3600), ("1", 1), (f"{NOW + 10**6:.0f}", 3600)):
        assert f",hard_timeout={seconds}," in build("flow-add", FLOW | {"until": until}, RIGHTS, NOW)[-1]


@pytest.mark.parametrize(
    ("operation", "changes", "why"),
    [
        ("meter-add", {"rate": "999"}, "the least that is allowed is 1000"),
        ("meter-add", {"rate": "-5"}, "rate is"),
        ("meter-add", {"rate": "1e9"}, "rate is"),
        ("meter-add", {"burst": "0"}, "burst is 0"),
        ("meter-add", {"meter": "7"}, "meter is 7"),
        ("meter-add", {"meter": "all"}, "meter is 'all'"),
        ("meter-add", {"file": "/etc/passwd"}, "unknown parameter 'file'"),
        ("flow-add", {"cookie": "0x0000000000000007"}, "a cookie of somebody else"),
        ("flow-add", {"cookie": "0x7"}, "cookie is"),
        ("flow-add", {"in_port": "p0,actions=drop"}, "in_port is"),
        ("flow-add", {"in_port": "-p"}, "in_port is"),
        ("flow-add", {"protocol": "udp,actions=drop"}, "protocol is"),
        ("flow-add", {"source": "10.0.0.1,actions=drop"}, "source is"),
        ("flow-add", {"source": "::1"}, "not an IPv4 network"),
        ("flow-add", {"destination_port": "4791"}, "without tcp or udp"),
        ("flow-add", {"protocol": "udp", "destination_port": "65536"}, "65536"),
        ("flow-add", {"mark": ""}, "without a meter, a mark or a drop"),
        ("flow-add", {"drop": "1"}, "block is not allowed"),
        ("flow-add", {"bridge": "br0;x"}, "bridge is"),
        ("flow-del", {"cookie": "0x5c0900000000000x"}, "cookie is"),
        ("mirror-add", {"port": "p0", "output": "p1"}, "mirror is not allowed"),
    ],
)
def test_parameters_are_checked(operation, changes, why):
    base = METER if operation.startswith("meter") else {k: v for k, v in FLOW.items() if k in ("bridge", "cookie")}
    base = FLOW if operation == "flow-add" else base
    with pytest.raises(OrderError, match=why):
        build_commands(operation, base | changes, RIGHTS, NOW)


@pytest.mark.parametrize("kinds", [(), ("mark",)])
def test_a_kind_that_is_not_allowed_is_refused(kinds):
    with pytest.raises(OrderError, match="limit is not allowed"):
        build_commands("meter-add", METER, replace(RIGHTS, kinds=kinds), NOW)


@pytest.mark.parametrize(
    ("script", "ok", "part"),
    [
        ("print('fine')", True, "fine"),
        ("import sys; sys.exit('bad')", False, "exit code 1: bad"),
        (f"print('x' * {MAX_OUTPUT + 1})", False, "more than"),
    ],
)
def test_results_are_bounded(script, ok, part):
    result = run_order([[sys.executable, "-c", script]])
    assert result.ok is ok
    assert part in result.output
    assert len(result.output) <= MAX_OUTPUT


def test_a_command_that_hangs_or_is_missing_is_a_failure(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.agent.orders.COMMAND_TIMEOUT", 0.2)
    assert run_order([["sleep", "5"], ["true"]]) == OrderResult(False, "sleep: no end within 0.2 s")
    assert not run_order([["/none"]]).ok


@pytest.mark.parametrize(
    "content", [None, [], {"ok": True}, {"ok": 1, "output": ""}, {"ok": True, "output": "x" * (MAX_OUTPUT + 1)}]
)
def test_a_strange_result_is_an_error(content):
    with pytest.raises(OrderError):
        parse_result(content)


def test_a_worker_carries_out_reports_and_refuses(caplog):
    texts = [make_order().encode(), make_order(node="n1", nonce="c" * 32).encode()]
    orders = [{"id": "a" * 32, "order": text, "signature": sign_order(text, KEY)} for text in texts]
    asked: list[Asked] = []

    def answer(request: Asked) -> Says:
        asked.append(request)
        return Says(body=json.dumps({"orders": orders}).encode()) if request.method == "GET" else Says(204)

    commands = []
    with Server(answer) as server:
        channel = Channel(ControllerEndpoint(server.url))
        worker = OrderWorker(
            server.url, channel, guard_of(), lambda: NOW, lambda c: commands.append(c) or OrderResult(True, "x")
        )
        assert worker.poll() == 2
        channel.close()
    assert len(commands) == 1
    assert asked[0].path.startswith("/api/v1/orders?node=n0&wait=")
    assert [one.json for one in asked[1:]] == [
        {"ok": True, "output": "x"},
        {"ok": False, "output": "refused by the agent: an order for 'n1'"},
    ]
    assert worker.counts == {"done": 1, "failed": 0, "refused": 1}
    assert "is refused: an order for 'n1'" in caplog.text


@pytest.mark.parametrize("body", [b"", b"[]", b'{"orders": 3}', b'{"orders": [3]}', b"[" * 100_000])
def test_a_strange_list_of_orders_is_an_error(body):
    with Server(lambda _asked: Says(body=body)) as server:
        channel = Channel(ControllerEndpoint(server.url))
        with pytest.raises(ValueError, match="answer"):
            OrderWorker(server.url, channel, guard_of(), time.time).poll()
        channel.close()


CONFIG = """version: 1
node: n0
ports: {p0: rail0}
controllers: [{url: "http://127.0.0.1:1"}]
"""


def test_orders_are_off_unless_configured(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text(CONFIG)
    assert load(path).orders is None


def test_the_section_is_read_and_checked(tmp_path):
    path, key = tmp_path / "agent.yaml", tmp_path / "orders.key"
    key.write_text(KEY + "\n")
    key.chmod(stat.S_IRUSR)
    path.write_text(CONFIG + "orders: {key_file: orders.key, kinds: [limit], bridges: [br0], lowest_rate: 5000}\n")
    orders = load(path).orders
    assert orders == OrdersConfig(SwitchRights(("limit",), ("br0",), 5000), KEY)
    assert KEY not in repr(orders)
    key.chmod(stat.S_IRUSR | stat.S_IWUSR)
    key.write_text("short")
    path.write_text(
        CONFIG + "orders: {key_file: orders.key, kinds: [erase], bridges: ['-x'], lowest_rate: 0, folder: x}\n"
    )
    with pytest.raises(InputError) as error:
        load(path)
    found = " ".join(problem.found for problem in error.value.problems)
    for part in ("a key of 5 characters", "erase", "'-x'", "(0)", "'x'"):
        assert part in found
    assert {problem.line for problem in check(path)} == {5}
