"""A controller that is told to read its config again goes on with everything that did not change."""

import re
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

from skewscope.adapters.formats.row_protocol import ROWS_PATH, HelloFrame, RowFrame, SeriesFrame, encode
from skewscope.adapters.inputs.recording import demo_path, load, open_recording
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.loader import catalogue
from tests.adapters.controller.processes import running
from tests.support.loopback import Says, Server

NODES = ("n0", "n1")
KEYS = tuple(SeriesKey("host.softnet_squeezed", "node", node) for node in NODES)
EVERY = 0.02
SPARE = "- name: spare\n  ports: [{name: ew, network: east-west, speed: 1 Gbit/s, addresses: [10.9.9.9]}]\n"


class Fleet(threading.Thread):
    """Two agents that send without a pause, and send again whatever was not taken."""

    def __init__(self, found):
        super().__init__(daemon=True)
        self.found, self.stop, self.taken = found, threading.Event(), dict.fromkeys(NODES, 0)
        self.statuses = set()

    def run(self):
        begun = time.time() - 1.0
        while not self.stop.wait(EVERY):
            for node, key in zip(NODES, KEYS, strict=True):
                number = self.taken[node] + 1
                row = RowFrame(number, begun + number * EVERY, 0, np.array([float(number)]))
                self.statuses.add(self._sent(node, [row]) or self._sent(node, [SeriesFrame(0, 0, (key,)), row]))

    def _sent(self, node, frames):
        """The status of an answer, 0 where series are to be announced first."""
        status, _, answer = self.found.ask(ROWS_PATH, body=encode([HelloFrame(node, "boot", "1"), *frames]))
        if status == 409:
            return 0
        if status == 200:
            self.taken[node] = int(re.search(rb"\d+", answer)[0])
        return status


@pytest.fixture
def page():
    """A page that says how often it was asked for."""
    asked = []

    def answer(_):
        asked.append(time.time())
        return Says(200, b'skewscope_host_softnet_squeezed{node="n2"} 1\n')

    with Server(answer) as server:
        yield server.server_port, asked


def told(found):
    return {one["name"]: one for one in found.json("/api/v1/sources")["sources"]}


def recorded(folder):
    """How many values of each node's agent stand in a recording."""
    loaded = load(open_recording(folder), catalogue(), workers=1)
    count = Counter(loaded.table.keys[number] for number in loaded.block.series)
    return {node: count[key] for node, key in zip(NODES, KEYS, strict=True)}


@pytest.mark.slow
def test_another_topology_and_other_sources_lose_no_row(tmp_path, page):
    port, asked = page
    with running(tmp_path, "record: {path: recorded}\n") as found:
        fleet = Fleet(found)
        fleet.start()
        found.until(lambda: min(fleet.taken.values()) > 20)
        config = tmp_path / "skewscope.yaml"
        config.write_text(
            config.read_text()
            + f"sources: [{{kind: scrape, name: p, targets: ['127.0.0.1:{port}'], reports_for: fleet}}]\n"
        )
        topology = (demo_path() / "topology.yaml").read_text()
        (tmp_path / "topology.yaml").write_text(topology.replace("nodes:\n", f"nodes:\n{SPARE}", 1))
        found.process.send_signal(signal.SIGHUP)
        found.until(lambda: "reloaded" in found.log() and asked and told(found)["p"]["values"])
        assert "spare" in found.ask("/api/v1/topology")[2].decode()
        # One more fault than before: nothing of it counts, and all goes on as it is.
        before = dict(fleet.taken)
        config.write_text(config.read_text() + "nonsense: 1\n")
        found.process.send_signal(signal.SIGHUP)
        found.until(lambda: "was not reloaded" in found.log() and min(fleet.taken.values()) > max(before.values()) + 20)
        fleet.stop.set()
        fleet.join(20)
        sources = told(found)
        assert fleet.statuses == {200}
        assert sources["agents"]["values"] == sum(fleet.taken.values())
        assert sources["agents"]["dropped"] == 0
    assert recorded(tmp_path / "recorded") == fleet.taken
