"""A simulated fleet played live: what a scraper gets, and what it cannot do."""

import itertools
import json
import socket
import threading
import urllib.error
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from skewscope.adapters.assessment.scenarios import build_scenario, run_scenario
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.simulator import live_server, recording_writer
from skewscope.adapters.simulator.exporter_naming import name_series
from skewscope.adapters.simulator.exporters import PROFILE_PERIODS
from skewscope.adapters.simulator.fleet import FleetPlan
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue
from skewscope.tui.cli.main import cli
from tests.support.telemetry import record, without_instance

KNOWN = catalogue()


def fetched(server, path=live_server.METRICS_PATH):
    with urllib.request.urlopen(server.url.removesuffix(live_server.METRICS_PATH) + path, timeout=10) as answer:
        assert answer.headers["Content-Length"]
        return answer.read().decode()


def fleet_of(seconds, names=True):
    """Pages, the fleet's topology, its table and its blocks."""
    table = SeriesTable()
    fleet, blocks = run_scenario(replace(build_scenario(FleetPlan(8), []), lasts=seconds), KNOWN, table)
    series = name_series(table.keys, KNOWN, fleet.topology) if names else recording_writer.canonical_series(table.keys)
    return (
        live_server.ExporterPages(table.keys, series, KNOWN, PROFILE_PERIODS["fine"]),
        fleet.topology,
        table,
        list(blocks),
    )


def small(periods=PROFILE_PERIODS["fine"], signals=("gpu.temperature",)):
    """Pages of one GPU."""
    keys = [SeriesKey(signal, "gpu", "n0/gpu0") for signal in signals]
    return live_server.ExporterPages(keys, recording_writer.canonical_series(keys), KNOWN, periods)


def block(*values):
    return Block(np.zeros(len(values)), np.arange(len(values), dtype=np.int32), np.array(values, float))


@pytest.mark.parametrize("names", [True, False], ids=["exporters", "canonical"])
def test_what_is_scraped_reads_back_as_what_was_simulated(tmp_path, names):
    pages, topology, table, blocks = fleet_of(3, names)
    live_server.play(blocks, pages, wait=lambda _: None)
    server = live_server.SimulatorServer(("127.0.0.1", 0), pages, topology)
    with live_server.serve_in_background(server):
        page, described = fetched(server), fetched(server, live_server.TOPOLOGY_PATH)
        parts = [fetched(server, path) for path in fetched(server, "/").split()[1:-1]]
    folder = record(tmp_path / "r", [{"kind": "prometheus-pages", "path": "pages"}], {"pages/1795177354.prom": page})
    (folder / "topology.yaml").write_text(described)
    read = load(open_recording(folder), KNOWN, workers=1)
    last = {table.keys[n]: v for b in blocks[-1:] for n, v in zip(b.series.tolist(), b.value.tolist(), strict=True)}
    found = zip(
        (without_instance(read.table.keys[n]) for n in read.block.series.tolist()),
        read.block.value.tolist(),
        strict=True,
    )
    assert dict(found) == pytest.approx(last, rel=1e-12)
    assert not read.unmapped
    samples = [line for line in page.splitlines() if not line.startswith("#")]
    assert sorted(samples) == sorted(line for part in parts for line in part.splitlines() if not line.startswith("#"))


def test_a_page_is_what_prometheus_reads():
    pages, _, _, blocks = fleet_of(1)
    live_server.play(blocks, pages, wait=lambda _: None)
    page = pages.render(live_server.METRICS_PATH).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert families["vllm:time_to_first_token_seconds"].type == "histogram"
    assert families["node_softnet_processed"].type == "counter"
    assert families["DCGM_FI_DEV_GPU_TEMP"].type == "gauge"
    assert families["DCGM_FI_DEV_GPU_TEMP"].samples[0].labels["gpu"] == "0"


def test_a_number_stays_until_its_exporter_has_its_turn_again():
    pages = small({**PROFILE_PERIODS["fine"], "dcgm": 3})
    assert pages.render(live_server.METRICS_PATH) == b""
    pages.update(block(50.0))
    for _ in range(2):
        pages.update(block())
        assert b" 50.0\n" in pages.render(live_server.METRICS_PATH)
    pages.update(block())
    assert pages.render(live_server.METRICS_PATH) == b""


def test_each_second_is_shown_when_its_time_has_come():
    waits = []
    live_server.play([block(1.0)] * 3, small(), wait=waits.append)
    assert waits[0] == 0.0
    assert waits[1] == pytest.approx(1.0, abs=0.5)
    assert waits[2] == pytest.approx(2.0, abs=0.5)


def test_what_is_not_there_is_told_and_nothing_can_be_sent():
    server = live_server.SimulatorServer(("127.0.0.1", 0), small(), Topology())
    with live_server.serve_in_background(server):
        for path in ("/metrics/nobody", "/../labels.json", "/metrics/"):
            with pytest.raises(urllib.error.HTTPError) as failed:
                fetched(server, path)
            assert failed.value.code == 404
        with pytest.raises(urllib.error.HTTPError) as failed:
            urllib.request.urlopen(urllib.request.Request(server.url, b"x"), timeout=10)
        assert failed.value.code == 501


def test_too_many_at_once_are_turned_away_and_others_served_after(monkeypatch):
    monkeypatch.setattr(live_server, "MAX_AT_ONCE", 2)
    server = live_server.SimulatorServer(("127.0.0.1", 0), small(), Topology((Node("n0"),)))
    with live_server.serve_in_background(server):
        where = server.server_address[:2]
        silent = [socket.create_connection(where, timeout=10) for _ in range(2)]
        with socket.create_connection(where, timeout=10) as third:
            assert third.recv(1) == b""
        for one in silent:
            one.close()
        for turn in itertools.count():
            try:
                assert fetched(server) == ""
                break
            except OSError:
                assert turn < 200
                threading.Event().wait(0.05)


def test_a_client_that_asks_for_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(live_server._Handler, "timeout", 0.1)
    server = live_server.SimulatorServer(("127.0.0.1", 0), small(), Topology())
    with (
        live_server.serve_in_background(server),
        socket.create_connection(server.server_address[:2], timeout=10) as silent,
    ):
        assert silent.recv(1) == b""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9500", ("127.0.0.1", 9500)),
        (":9500", ("127.0.0.1", 9500)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_an_address_is_of_this_machine_unless_told(text, found):
    assert live_server.parse_address(text) == found


@pytest.mark.parametrize("text", ["", "host", "host:", "1:65536", "1:-1", "1:٣", "9" * 5000])
def test_what_ends_on_no_port_is_no_address(text):
    with pytest.raises(ValueError, match="not end with a port"):
        live_server.parse_address(text)


def run(*words):
    return CliRunner().invoke(cli, ["simulate", *map(str, words)], catch_exceptions=False)


@pytest.mark.slow
def test_the_command_plays_a_scenario_and_ends(monkeypatch):
    shown = []
    monkeypatch.setattr(live_server, "play", lambda blocks, _pages: shown.append(len(next(blocks))))
    done = run("--serve", "0", "--nodes", 8, "--names", "exporters", "--condition", "gpu-thermal-throttle")
    assert done.exit_code == 0
    assert "8 nodes at http://127.0.0.1:" in done.output
    assert "gpu-thermal-throttle (medium)" in done.output
    assert shown[0] > 1000
    told = json.loads(run("--serve", "0", "--nodes", 8, "--json").output)
    assert told["plan"]["nodes"] == 8


def test_who_stops_it_gets_no_error(monkeypatch):
    def stopped(_blocks, _pages):
        raise KeyboardInterrupt

    monkeypatch.setattr(live_server, "play", stopped)
    assert run("--serve", "0", "--nodes", 8).exit_code == 0


@pytest.mark.slow
def test_what_cannot_be_served_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(live_server, "MAX_SERIES", 10_000)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for words, said in [
            (("--serve", taken.getsockname()[1], "--nodes", 8), "Address already in use"),
            (("--serve", "here"), "not end with a port"),
            (("--serve", "0", "--nodes", 64), "Simulate fewer nodes."),
            ((tmp_path / "new", "--serve", "0"), "one of the two"),
        ]:
            done = run(*words)
            assert done.exit_code == 2
            assert said in " ".join(done.output.split())
