"""An agent as a process: it starts where little is installed, serves its pages, and ends when it is told to."""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from skewscope.adapters.agent import metrics_server
from skewscope.adapters.agent.metrics_server import SelfMetric
from skewscope.adapters.agent.tables import RowTables
from tests.support.agent_trees import known, on_node, on_port, tree

ABSENT = ("textual", "networkx", "durable", "durable_rules_engine", "pyarrow", "jsonschema", "rich", "pytest")
BLOCKED = "import sys; sys.modules.update(dict.fromkeys({!r}))\n"
MODULE = "import runpy; runpy.run_module('skewscope.adapters.agent', run_name='__main__', alter_sys=True)"
COMMAND = "from skewscope.tui.cli.main import main; main()"


def started(code: str, absent: tuple[str, ...], *arguments: str) -> "subprocess.Popen[str]":
    script = BLOCKED.format(absent) + f"sys.argv = ['skewscope', *{list(arguments)!r}]\n" + code
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def configured(folder: Path, port: int, more: str = "") -> str:
    tree(folder, {"sys/class/net/p0/statistics/rx_bytes": 77, "sys/class/net/p0/carrier": 1})
    path = folder / "agent.yaml"
    path.write_text(f"version: 1\nnode: n0\nroot: {folder}\nports: {{p0: ew}}\nlisten: 127.0.0.1:{port}\n{more}")
    return str(path)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


@pytest.mark.parametrize(
    ("code", "absent", "first"),
    [(MODULE, (*ABSENT, "click"), ()), (COMMAND, ABSENT, ("agent",))],
    ids=["python -m", "skewscope agent"],
)
@pytest.mark.slow
def test_it_runs_where_the_rest_of_skewscope_could_not(tmp_path, code, absent, first):
    port = free_port()
    config = configured(tmp_path, port)
    process = started(code, absent, *first, "--config", config)
    try:
        text, end = "", time.monotonic() + 30
        while "skewscope_port_rx_netdev_bytes" not in text:
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.2)
            try:
                text = got(f"http://127.0.0.1:{port}/metrics")
            except OSError:
                continue
        assert got(f"http://127.0.0.1:{port}/healthz") == "ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            got(f"http://127.0.0.1:{port}/else")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        (sample,) = families["skewscope_port_rx_netdev_bytes"].samples
        assert (sample.value, sample.labels) == (77.0, {"node": "n0", "port": "ew"})
        assert families["skewscope_agent_cpu_seconds"].samples[0].value > 0
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 0, told
    assert "Traceback" not in told


@pytest.mark.parametrize(("code", "first"), [(MODULE, ()), (COMMAND, ("agent",))])
@pytest.mark.slow
def test_a_check_tells_all_faults_and_an_exit_code(tmp_path, code, first):
    good, bad = configured(tmp_path, 1), tmp_path / "bad.yaml"
    bad.write_text("version: 1\nnode: 5\nwhat: 1\n")
    process = started(code, ABSENT, *first, "--check", "--config", good)
    assert process.communicate(timeout=60) == (f"{good}: fine.\n", "")
    assert process.returncode == 0
    process = started(code, ABSENT, *first, "--check", "--config", str(bad))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "bad.yaml:2: node:" in told
    assert "bad.yaml:3: what:" in told
    process = started(code, ABSENT, *first, "--config", str(bad))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "bad.yaml:3" in told
    assert "Traceback" not in told


def test_a_page_holds_names_of_the_catalogue_and_the_agents_own_and_is_one_document():
    tables = RowTables()
    samples = [(on_port("port.rx_netdev_bytes", "device=p0"), 5.0), (on_node("dpu.arm_cpu"), 0.25)]
    tables.fill("one", 1_000_000.0, [("a", samples)])
    tables.fill("two", 1_000_000.0, [("b", [(on_port("port.carrier"), 1.0)])])
    tables.fill("two", 1_000_001.0, [("b", [(on_port("port.state"), 1.0)])])
    own = [
        SelfMetric("rows", "counter", "Rows.", (((("controller", 'a"b'),), 3.0),)),
        SelfMetric("late", "gauge", "Late.", (((), 0.0),)),
    ]
    text = metrics_server.render_metrics(tables.snapshot(), own, known())
    found = {s.name: (s.labels, s.value) for f in text_string_to_metric_families(text) for s in f.samples}
    assert found["skewscope_port_rx_netdev_bytes_total"] == ({"node": "n0", "port": "ew", "device": "p0"}, 5.0)
    assert found["skewscope_dpu_arm_cpu"] == ({"node": "n0"}, 0.25)
    assert found["skewscope_agent_rows_total"] == ({"controller": 'a"b'}, 3.0)
    assert "skewscope_port_carrier" not in found
    assert metrics_server.render_metrics([], [], known()) == "# EOF\n"


def comes_to(refused, address):
    """Whether its page is refused, or not, within a while: who connects is taken in when the server gets to it."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            now = got(f"http://127.0.0.1:{address[1]}/metrics") != "# EOF\n"
        except OSError:
            now = True
        if now == refused:
            return True
        time.sleep(0.1)
    return False


def test_nothing_is_asked_of_it_beyond_what_it_can_answer():
    answers = metrics_server.MetricsProviders(lambda: "# EOF\n", lambda: (False, "the last tick was 9 s ago"))
    server = metrics_server.MetricsServer(("127.0.0.1", 0), answers)
    server.start()
    try:
        address = server.server_address[:2]
        with pytest.raises(urllib.error.HTTPError, match="503"):
            got(f"http://127.0.0.1:{address[1]}/healthz")
        idle = [socket.create_connection(address) for _ in range(metrics_server.MAX_AT_ONCE)]
        assert comes_to(True, address), "it takes more than it can answer"
        for one in idle:
            one.close()
        assert comes_to(False, address), "it did not recover"
    finally:
        server.stop()
