"""Makes a recording of a running lab: packets of all ports, pages scraped each second, and labels."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
import zstandard

from tests.lab.cluster import EXPORTER, NODES, PAGE, PORTS, device, topology
from tests.lab.load import Demand
from tests.lab.namespaces import enter, inside
from tests.lab.network import Network
from tests.lab.running import Lab, process, running
from tests.lab.scenarios import Scenario

FILTER = f"ip and not port {EXPORTER} and not port {PAGE}"
SNAP = 96
"""Bytes that are kept of each packet."""
LISTENING = 1.0
"""Seconds after which tcpdump listens."""


@dataclass(frozen=True)
class Times:
    """Start and end of the fault and of the recording, in seconds after the start."""

    begin: float
    end: float
    all: float


def record(scenario: Scenario, folder: Path, times: Times, seed: int = 1) -> None:
    """Runs a scenario and writes its recording to a folder that is empty or does not exist."""
    work = folder / "work"
    work.mkdir(parents=True)
    (folder / "pcap").mkdir()
    with (
        running("lab", scenario.replicas, work, Demand(seed=seed)) as lab,
        capturing(lab.network, folder),
        scraping(lab, folder),
    ):
        start = time.time()
        sleep_until(start + times.begin)
        scenario.begin(lab)
        begun = time.time()
        sleep_until(start + times.end)
        scenario.end(lab)
        ended = time.time()
        sleep_until(start + times.all)
    label = {"condition": scenario.condition, "entity": scenario.entity, "start": begun, "end": ended}
    told = {"start": start, "end": time.time(), "labels": [label] if scenario.condition else []}
    (folder / "labels.json").write_text(json.dumps(told, indent=1), "utf-8")
    _written(folder / "topology.yaml", topology(scenario.replicas))
    inputs = [*packed_captures(folder), *_pages(folder)]
    span = {"start": told["start"], "end": told["end"]}
    _written(folder / "recording.yaml", {"version": 1, "topology": "topology.yaml", **span, "inputs": inputs})


def sleep_until(moment: float) -> None:
    """Waits for a time, in seconds since 1970."""
    time.sleep(max(moment - time.time(), 0.0))


@contextmanager
def capturing(network: Network, folder: Path, ports: Sequence[str] = PORTS) -> Iterator[None]:
    """Captures the packets of these ports of all nodes for the duration of a context."""
    with ExitStack() as stack:
        for node in NODES:
            for port in ports:
                file = str(folder / "pcap" / f"{node}-{port}.pcap")
                dump = ("tcpdump", "-i", device(node, port), "-s", str(SNAP), "-B", "16384", "-Z", "root", "-w", file)
                command = inside(network.switch, *dump, FILTER)
                stack.enter_context(process(command, folder / "work" / "tcpdump.log"))
        time.sleep(LISTENING)
        yield


@contextmanager
def scraping(lab: Lab, folder: Path) -> Iterator[None]:
    """Fetches all pages each second for the duration of a context."""
    stop = threading.Event()
    thread = threading.Thread(target=_scrape, args=(lab, folder, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _scrape(lab: Lab, folder: Path, stop: threading.Event) -> None:
    enter(lab.network.switch)
    while not stop.wait(1.0 - time.time() % 1.0):
        for where, (job, node) in lab.pages().items():
            now = time.time()
            try:
                with urllib.request.urlopen(f"http://{where}/metrics", timeout=0.8) as answer:
                    text = answer.read()
            except OSError:
                continue
            file = folder / "pages" / f"{job}-{node}" / f"{now:.3f}.prom"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)


def packed_captures(folder: Path) -> Iterator[dict[str, Any]]:
    """Compresses the captures of a recording and returns its inputs."""
    packer = zstandard.ZstdCompressor(level=6)
    for file in sorted((folder / "pcap").glob("*.pcap")):
        packed = file.with_suffix(".pcap.zst")
        with file.open("rb") as whole, packed.open("wb") as small:
            packer.copy_stream(whole, small)
        file.unlink()
        node, port = file.stem.split("-")
        yield {"kind": "pcap", "path": f"pcap/{packed.name}", "labels": {"node": node, "port": port}}


def _pages(folder: Path) -> Iterator[dict[str, Any]]:
    for each in sorted((folder / "pages").glob("*")):
        job, _, node = each.name.partition("-")
        labels = {"job": job, "node": node}
        yield {"kind": "prometheus-pages", "path": f"pages/{each.name}", "labels": labels}


def _written(path: Path, data: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
