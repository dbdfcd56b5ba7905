"""The running lab: its network, a process for each node, and clients."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab import state
from tests.lab.cluster import EXPORTER, FRONT, NODES, NORTH_SOUTH, PAGE, Replica, address
from tests.lab.load import Demand, Load
from tests.lab.namespaces import inside
from tests.lab.network import Network, network

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("ip", "tc", "nft")
EXPORTS = ("netdev", "netclass", "netstat", "sockstat", "softnet")
USUAL = Demand()
PATIENCE = 5.0
"""Seconds that a process may take to end."""


@dataclass
class Lab:
    """The running lab."""

    network: Network
    replicas: Sequence[Replica]
    folder: Path
    load: Load

    def set(self, node: str, **faults: float) -> None:
        """Sets the faults of a node; none without arguments."""
        state.write(self.folder / f"{node}.json", faults)

    def pages(self) -> dict[str, tuple[str, str]]:
        """Returns the pages to scrape by address: the exporter and its node."""
        found = {f"{address(one.nodes[0], NORTH_SOUTH)}:{PAGE}": ("vllm", one.nodes[0]) for one in self.replicas}
        if exporter():
            found |= {f"{address(node, NORTH_SOUTH)}:{EXPORTER}": ("node", node) for node in NODES}
        return found


def exporter() -> str:
    """Returns the path of node_exporter; '' where it is not installed."""
    return shutil.which("prometheus-node-exporter") or shutil.which("node_exporter") or ""


@contextmanager
def process(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a process for the duration of a context, with its output in a file."""
    with log.open("ab") as said:
        started = subprocess.Popen(command, stdout=said, stderr=said, cwd=ROOT)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def running(name: str, replicas: Sequence[Replica], folder: Path, demand: Demand = USUAL) -> Iterator[Lab]:
    """Runs a lab for the duration of a context; `folder` holds the files and output of its processes."""
    with network(name) as made, ExitStack() as stack:
        for one in replicas:
            for node in one.nodes:
                command = (sys.executable, "-m", "tests.lab.worker", node, one.mode, ",".join(one.nodes))
                whole = inside(made.node(node), *command, str(folder / f"{node}.json"))
                stack.enter_context(process(whole, folder / f"{node}.log"))
        for node in NODES if exporter() else ():
            stack.enter_context(process(inside(made.node(node), *_exporting(node)), folder / "exporter.log"))
        fronts = {one.name: (address(one.nodes[0], NORTH_SOUTH), FRONT) for one in replicas}
        load = Load(made.switch, fronts, demand)
        load.start()
        stack.callback(load.stop)
        yield Lab(made, replicas, folder, load)


def _exporting(node: str) -> list[str]:
    collectors = [f"--collector.{each}" for each in EXPORTS]
    listen = f"--web.listen-address={address(node, NORTH_SOUTH)}:{EXPORTER}"
    return [exporter(), "--collector.disable-defaults", *collectors, listen]
