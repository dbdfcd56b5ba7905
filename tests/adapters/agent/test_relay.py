"""Pages of exporters, relayed as numbers: mapped as the controller would map them, and harmless whatever they say."""

import socket
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest

from skewscope.adapters.agent.collectors.kernel_files import ReadFailures
from skewscope.adapters.agent.config import RelayTarget
from skewscope.adapters.agent.relay import PageRelay, fetch
from skewscope.adapters.formats.openmetrics import ExpositionReader
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Group, Node, Topology
from tests.support.agent_trees import known, on_node

TOPOLOGY = Topology((Node("n0", gpus=8),), (Group("A", "tensor-parallel", ("n0",), "n0"),))
TARGET = RelayTarget("http://10.0.0.1:9400/metrics", 10.0, 1.0, 1 << 20)
UP = on_node("host.up", "source=10.0.0.1:9400")
PAGE = b"""\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="elsewhere"} 87
DCGM_FI_DEV_GPU_UTIL{gpu="9",Hostname="elsewhere"} 3
nobody_knows_this 1
node_netstat_Tcp_InSegs 12
node_netstat_Tcp_OutSegs 1 1000
"""


def relay(names: MetricResolver | None = None) -> PageRelay:
    told: list[object] = []
    return PageRelay(
        TARGET, "n0", names or MetricResolver(known(), TOPOLOGY), ReadFailures(), lambda t, s: told.append((t, s))
    )


def test_a_page_becomes_numbers_of_this_node_whatever_host_it_names():
    found = dict(relay().read(1_000_000.0, lambda _: PAGE))
    assert found[SeriesKey("gpu.util", "gpu", "n0/gpu0")] == 87
    assert found[on_node("host.tcp_in_segs")] == 12
    assert found[UP] == 1.0
    assert len(found) == 3  # a sample of 1970 and a GPU that is not there are left out


@pytest.mark.parametrize("page", [b"<html>", b'{"a": 1}', b"\xff\xfe", b"a b c d e\n", b"x" * 100_000])
def test_a_page_that_is_none_is_told_as_an_exporter_that_does_not_answer(page):
    one = relay()
    assert dict(one.read(1.0, lambda _: page)) == {UP: 0.0}
    assert dict(one.read(2.0, lambda _: PAGE))[UP] == 1.0


def test_label_text_that_never_ends_is_forgotten(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.agent.relay.MAX_REMEMBERED", 5000)
    one = relay()
    for number in range(50):
        page = f'node_netstat_Tcp_InSegs{{id="{number:0200}"}} 1\n'.encode()
        assert len(one.read(float(number), lambda _, page=page: page)) == 2
    assert one._exposition.cached_bytes <= 5000


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_pages_of_real_engines_are_relayed_as_a_recording_would_have_them(shared, name):
    page = (shared / f"fixtures/ai-dynamo-dynamo/{name}.prom").read_bytes()
    names = MetricResolver(known(), TOPOLOGY)
    found = dict(relay(names).read(1.0, lambda _: page))
    intake = SeriesRegistry()
    path = shared / f"fixtures/ai-dynamo-dynamo/{name}.prom"
    with path.open("rb") as file:
        block = ExpositionReader(names.target_lookup({"node": "n0"}, intake)).read(file, name, 1.0)
    every = {
        (intake.keys[n], intake.ranks[n]): v for n, v in zip(block.series.tolist(), block.value.tolist(), strict=True)
    }
    best: dict[tuple[str, str, str], int] = {}
    for key, rank in every:
        place = (key.signal, key.kind, key.entity)
        best[place] = min(rank, best.get(place, rank))
    assert {k: v for k, v in found.items() if k != UP} == {
        key: value for (key, rank), value in every.items() if rank == best[key.signal, key.kind, key.entity]
    }
    assert len(found) > 10


class Exporter:
    """Answers one request with bytes, slowly or for ever if wanted."""

    def __init__(self, *parts: bytes, pause: float = 0.0) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/metrics"
        self._parts, self._pause = parts, pause
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            client, _ = self._server.accept()
            with client:
                client.recv(4096)
                for part in self._parts:
                    client.sendall(part)
                    time.sleep(self._pause)
        except OSError:
            pass

    def close(self) -> None:
        self._server.close()


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


def test_a_page_is_fetched():
    with closing(Exporter(HEAD, PAGE)) as exporter:
        assert fetch(replace(TARGET, url=exporter.url)) == PAGE


@pytest.mark.parametrize(
    ("parts", "pause"),
    [
        ([b"HTTP/1.1 500 No\r\n\r\n"], 0),
        ([HEAD, *[b"x" * 9000] * 9], 0),
        ([HEAD, b"x", b"x"], 1.0),
        ([], 1.0),
        ([b"nonsense"], 0),
        ([HEAD, *[b"x 1\n"] * 50], 0.05),
    ],
    ids=["refused", "endless", "stalled", "silent", "no http", "trickling"],
)
def test_an_exporter_that_lies_hangs_or_floods_costs_no_more_than_its_time(parts, pause):
    with closing(Exporter(*parts, pause=pause)) as exporter:
        target = replace(TARGET, url=exporter.url, timeout=0.3, max_bytes=20_000)
        one = PageRelay(target, "n0", MetricResolver(known(), TOPOLOGY), ReadFailures(), lambda *_: None)
        begun = time.monotonic()
        found = one.read(1.0)
        assert [value for key, value in found if key.signal == "host.up"] == [0.0]
        assert time.monotonic() - begun < 2.4
