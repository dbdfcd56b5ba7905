"""`skewscope diagnose` on files and on a server, and what it says where there is nothing to diagnose."""

import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from skewscope.adapters.runtime.replay import replay
from skewscope.tui.cli.main import cli

BEGIN = 1750000000.0
SERIES = [
    {"__name__": "DCGM_FI_DEV_SM_CLOCK", "Hostname": "gpu-host", "gpu": str(gpu), "instance": "10.0.0.1:9400"}
    for gpu in range(8)
]
SAMPLES = {gpu: [[BEGIN + t, str(1980 - 900 * (gpu == 3 and t > 30))] for t in range(45)] for gpu in range(8)}


class FakePrometheus(BaseHTTPRequestHandler):
    """Answers as a Prometheus server with one metric."""

    names = ("DCGM_FI_DEV_SM_CLOCK", "up", "my_own_thing")
    asked = ()

    def do_GET(self):
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        type(self).asked = (*self.asked, parts.path)
        if parts.path.endswith("/values"):
            data = list(self.names)
        elif "[" not in query["query"]:
            data = {"resultType": "vector", "result": [{"metric": one, "value": [BEGIN, "1980"]} for one in SERIES]}
        else:
            data = {"resultType": "matrix", "result": list(self.matrix(query))}
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def matrix(self, query):
        end = float(query["time"])
        begin = end - int(query["query"].rpartition("[")[2].removesuffix("ms]")) / 1000
        for labels in SERIES:
            values = [pair for pair in SAMPLES[int(labels["gpu"])] if begin <= pair[0] <= end]
            yield {"metric": labels, "values": values}

    def log_message(self, *_):
        pass


@contextmanager
def server(handler):
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def test_discovery_lists_what_lives_and_not_what_lived():
    """A server marks series of a pod that was deleted as stale: they are no answer at the present time."""
    asked = type("Asked", (FakePrometheus,), {})
    with server(asked) as url:
        found = CliRunner().invoke(cli, ["topology", "discover", "--prometheus", url])
    assert found.exit_code == 0
    assert not [path for path in asked.asked if path.endswith("/series")]


def run(*words):
    return CliRunner().invoke(cli, ["diagnose", *map(str, words)])


def test_a_server_is_diagnosed_saved_and_redacted(tmp_path):
    with server(FakePrometheus) as url:
        found = run(url, "--since", "1h", "--until", BEGIN + 3000, "--save", tmp_path / "saved", "--why")
        assert found.exit_code == 1, found.output
    assert "Assumed 1 node: from the label `Hostname` (certain)" in found.stdout
    assert "gpu-host/gpu3" in found.stdout
    assert "my_own_thing" in found.stdout
    assert "up," not in found.stdout
    again = run(tmp_path / "saved", "--redact", "--json", "--html", tmp_path / "page.html")
    assert [json.loads(line)["entity"]["name"] for line in again.stdout.splitlines()] == ["node-1/gpu3"]
    page = (tmp_path / "page.html").read_text()
    assert "node-1/gpu3" in page
    assert "gpu-host" not in page + again.output


@pytest.mark.parametrize(("most", "told"), [("", "6000 bytes"), ("50", "50 parts of JSON or of a pickle")])
def test_an_answer_that_is_too_large_is_asked_for_in_halves(monkeypatch, most, told):
    monkeypatch.setenv("SKEWSCOPE_MAX_PARTS", most)
    if not most:
        monkeypatch.setattr("skewscope.adapters.discovery.prometheus.MAX_ANSWER_BYTES", 6000)
    asked = type("Counted", (FakePrometheus,), {})
    with server(asked) as url:
        found = run(url, "--since", BEGIN - 1000, "--until", BEGIN + 45, "--json")
    assert found.exit_code == 2
    assert f"a page of more than {told}" in found.stderr
    assert len([path for path in asked.asked if path.endswith("/query")]) > 2


def test_the_newest_samples_are_enough_unless_a_span_is_asked_for(monkeypatch):
    monkeypatch.setattr("skewscope.tui.cli.diagnose.ENOUGH_SAMPLES", 100)
    until = ("--until", BEGIN + 45, "--no-progress")
    with server(FakePrometheus) as url:
        found, whole = run(url, *until), run(url, "--since", "1h", *until)
    assert "Read are the last 5 min, 100 samples or more; --since 1h asks for more." in found.stdout
    assert "Read are" not in whole.stdout


def test_ticks_of_a_wanted_length_are_saved_with_the_recording(tmp_path):
    with server(FakePrometheus) as url:
        span = ("--since", BEGIN - 1, "--until", BEGIN + 45)
        found = run(url, *span, "--tick", 2, "--save", tmp_path / "r", "--no-progress")
    assert "Each 2 s of data are judged at a time; --tick 1 is slower and finer." in found.stdout
    again = replay(tmp_path / "r")
    assert again.tick_s == 2
    assert again.incidents
    assert {incident.opened_at % 2 for incident in again.incidents} == {0}


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ((), "found no metric, expected metrics of exporters"),
        (("a", "b"), "found 2 metrics, none of them known (a, b)"),
    ],
)
def test_a_server_without_known_metrics(names, error):
    with server(type("Bare", (FakePrometheus,), {"names": names})) as url:
        found = run(url)
    assert found.exit_code == 2
    assert error in found.stderr


def test_a_server_without_samples_in_the_span():
    with server(FakePrometheus) as url:
        found = run(url, "--until", "2025-01-01T00:00:00Z")
    assert found.exit_code == 2
    assert "found no sample in 3600 s" in found.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("http://127.0.0.1:1",), "Is it running, and is the address right?"),
        (("http://",), "found an invalid address"),
        (("nothing-here",), "found no such file or folder, expected the path of one, or the URL of a server"),
        (("prometheus:9090",), "A server is given as http://prometheus:9090."),
        (("http://a", "b"), "Give one server, or files and folders."),
        (("a", "--console", "--json"), "Give either --console, or --json or --html."),
        (("a", "--console"), "--console needs a terminal; --html FILE writes the answer as a page."),
        ((__file__, "--mapping", "nothing.yaml"), "no readable file"),
        ((shutil.__file__,), "found a file of no known kind"),
    ],
)
def test_what_cannot_be_diagnosed(words, error):
    found = run(*words)
    assert found.exit_code == 2
    assert error in found.stderr


def test_discovery_says_from_which_label():
    with server(FakePrometheus) as url:
        found = CliRunner().invoke(cli, ["topology", "discover", "--prometheus", url])
    assert found.exit_code == 0
    assert "found 8 GPUs: from the highest index on each node (likely)" in found.stderr
    assert 'name: "gpu-host"' in found.stdout


PAGES = ("dcgm", "node_exporter", "vllm")
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
{jobs}
"""
JOB = (
    "- {{job_name: {page}, honor_labels: true, metrics_path: /metrics/{page}, "
    "static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}"
)


def wait_for(url):
    for _ in range(300):
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(url)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("prometheus"), reason="Prometheus is not installed")
def test_a_real_prometheus_leads_to_the_injected_fault(tmp_path):
    ports = 19555, 19556
    jobs = "\n".join(JOB.format(page=page, port=ports[0]) for page in PAGES)
    (tmp_path / "prometheus.yml").write_text(CONFIG.format(jobs=jobs))
    simulate = [sys.executable, "-m", "skewscope.tui.cli.main", "simulate", "--serve", str(ports[0])]
    simulate += ["--names", "exporters", "--nodes", "8", "--seconds", "115", "--severity", "heavy", "--seed", "3"]
    store = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    store += [f"--web.listen-address=127.0.0.1:{ports[1]}", "--log.level=error"]
    with (
        subprocess.Popen([*simulate, "--condition", "gpu-thermal-throttle"], stdout=subprocess.DEVNULL) as fleet,
        subprocess.Popen(store) as prometheus,
    ):
        try:
            wait_for(f"http://127.0.0.1:{ports[1]}/-/ready")
            fleet.wait(180)
            found = run(f"http://127.0.0.1:{ports[1]}", "--json")
        finally:
            fleet.terminate()
            prometheus.terminate()
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert ("gpu-thermal-throttle", "node0000/gpu1") in [(one["condition"], one["entity"]["name"]) for one in told]


def engine_dump(labels):
    """Returns an OpenMetrics text of two engines for six minutes; a queue grows at the second one after three."""
    rows = {"vllm:num_requests_running": [], "vllm:num_requests_waiting": []}
    for t in range(0, 360, 5):
        for n, own in enumerate(labels):
            waits = (t - 180) // 5 if n == 1 and t > 180 else t % 2
            for name, value in (("vllm:num_requests_running", 10 + t % 3), ("vllm:num_requests_waiting", waits)):
                rows[name].append(f"{name}{{{own}}} {value} {BEGIN + t:.0f}")
    parts = [line for name, lines in rows.items() for line in (f"# TYPE {name} gauge", *sorted(lines))]
    return "\n".join([*parts, "# EOF", ""])


@pytest.mark.parametrize("label", ["instance", "pod"])
def test_of_two_engines_on_one_host_the_ill_one_is_named(tmp_path, label):
    labels = {
        "instance": ['instance="n0:8000"', 'instance="n0:8001"'],
        "pod": ['instance="n0",pod="vllm-8000"', 'instance="n0",pod="vllm-8001"'],
    }[label]
    path = tmp_path / "engines.om"
    path.write_text(engine_dump(labels))
    done = CliRunner().invoke(cli, ["diagnose", str(path), "--json", "--no-progress"])
    found = [json.loads(line)["entity"]["name"] for line in done.stdout.splitlines()]
    assert found
    assert all(name.endswith("8001") for name in found), found


def test_without_a_label_that_is_known_neither_engine_is_used_and_the_label_is_named(tmp_path):
    path = tmp_path / "engines.om"
    name = "node_netstat_Tcp_RetransSegs"
    steady = "".join(f'{name}{{instance="n0:9100"}} 1 {BEGIN + t:.0f}\n' for t in range(0, 360, 15))
    dump = engine_dump(['instance="n0",slot="8000"', 'instance="n0",slot="8001"']).removesuffix("# EOF\n")
    path.write_text(f"{dump}# TYPE {name} unknown\n{steady}# EOF\n")
    done = CliRunner().invoke(cli, ["diagnose", str(path), "--no-progress"])
    text = " ".join(done.stdout.split())
    assert "no diagnosis and no symptom" in text
    assert "(slot 8000 and 8001), so neither is used: `engine: {slot: ...}` of a group" in text


def quiet_table(path, rows=240):
    """A table of eight GPUs that do the same, sampled for minutes."""
    lines = [f"{BEGIN + t},h,{gpu},{1410 + (t + gpu) % 2}" for t in range(rows) for gpu in range(8)]
    path.write_text("time,host,gpu,sm_clock_mhz\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "content"), [("notes.txt", "hello\n"), ("bad.csv", "time,host,x\n1,h\n"), ("empty.log", "")]
)
def test_nothing_found_is_no_all_clear_where_a_named_file_was_not_read(tmp_path, name, content):
    good = quiet_table(tmp_path / "good.csv")
    assert run(good).exit_code == 0
    (tmp_path / name).write_text(content)
    found = run(good, tmp_path / name)
    assert (found.exit_code, run(good, tmp_path / name, "--json").exit_code) == (3, 3)
    assert "could not be read, and nothing is seen in the rest" in " ".join(found.stdout.split())
    assert name in found.stdout


VLLM = (
    "INFO 11-22 10:0{n}:00 [loggers.py:273] Engine 000: Avg prompt throughput: 12.5 tokens/s, Avg generation "
    "throughput: 80.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.0%, "
    "Prefix cache hit rate: 50.0%\n"
)
FEW = {
    "gpus.csv": lambda n: f"{BEGIN + n},h,0,1410\n" if n else "time,host,gpu,sm_clock_mhz\n",
    "server.log": lambda n: VLLM.format(n=n),
    "train.log": lambda n: f"2026-11-22 10:00:{n:02} step {n} loss 2.0 step_time 1.00s\n",
    "metrics.om": lambda n: f'DCGM_FI_DEV_SM_CLOCK{{Hostname="h",gpu="0"}} 1410 {BEGIN + n:.0f}\n',
    "smi.csv": lambda n: (
        f"2026/11/22 10:00:{n:02}.000, 0, 1410 MHz\n" if n else "timestamp, index, clocks.current.sm [MHz]\n"
    ),
    "gpu.influx": lambda n: f"nvidia_smi,host=h,index=0 clocks_current_sm=1410i {int(BEGIN + n)}000000000\n",
}  # fmt: skip


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("readings", [2, 4])
def test_few_readings_that_show_nothing_are_no_all_clear(tmp_path, name, readings):
    path = tmp_path / name
    path.write_text("".join(map(FEW[name], range(readings + 1))))
    found = run(path)
    assert found.exit_code == 3, found.stdout
    assert "too little to judge" in found.stdout
    as_json = run(path, "--json")
    assert (as_json.exit_code, as_json.stdout) == (3, "")
    assert "too little to judge" in as_json.stderr


@pytest.mark.parametrize("name", ["gpus.csv", "server.log", "train.log", "metrics.om"])
def test_many_healthy_readings_are_an_all_clear(tmp_path, name):
    path = tmp_path / name
    text = "".join(map(FEW[name], range(60)))
    path.write_text(text if name != "server.log" else "".join(VLLM.replace("0{n}", f"{n:02}") for n in range(60)))
    assert run(path).exit_code == 0


def test_a_clock_that_fell_further_than_its_load_is_no_all_clear(tmp_path):
    path = tmp_path / "smi.csv"
    path.write_text(
        "timestamp, index, utilization.gpu [%], clocks.current.sm [MHz]\n"
        + "".join(
            f"2026/11/22 10:{n // 6:02}:{n % 6}0.000, 0, {97 if n < 30 else 60} %, {1410 if n < 30 else 345} MHz\n"
            for n in range(60)
        )
    )
    found = run(path)
    assert found.exit_code == 3, found.stdout
    text = " ".join(found.stdout.split())
    assert "Clock of the multiprocessors of smi/gpu0 is 345 MHz since 10:05:00 UTC, at least 1,410 MHz before" in text
