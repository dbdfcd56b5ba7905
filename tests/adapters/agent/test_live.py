"""An agent on a real interface: two network namespaces, a pair of veths between them, and real TCP."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from skewscope.adapters.agent.observed_port import PER_FLOW_SIGNALS
from tests.lab.namespaces import missing, within
from tests.support.push_receiver import Receiver

# Tests may run side by side, each in a process of its own.
NODE, PEER = (f"skewt-{os.getpid()}-{end}" for end in "ab")
TRAFFIC = """
import socket, sys, threading, time
end = time.time() + float(sys.argv[3])

def echo(client):
    while part := client.recv(65536):
        client.sendall(part)

if sys.argv[1] == "listen":
    with socket.create_server((sys.argv[2], 5001)) as server:
        server.settimeout(0.2)
        while time.time() < end:
            try:
                client, _ = server.accept()
            except TimeoutError:
                continue
            threading.Thread(target=echo, args=(client,), daemon=True).start()
else:
    client = None
    while client is None:
        try:
            client = socket.create_connection((sys.argv[2], 5001))
        except ConnectionRefusedError:
            time.sleep(0.05)
    with client:
        while time.time() < end:
            client.sendall(bytes(20000))
            got = 0
            while got < 20000:
                got += len(client.recv(65536))
            time.sleep(0.05)
"""
TOPOLOGY = """
version: 1
nodes:
  - name: n0
    ports: [{name: ew, network: east-west, speed: 10 Gbit/s, addresses: [10.251.7.1], devices: [skewa]}]
  - name: n1
    ports: [{name: ew, network: east-west, speed: 10 Gbit/s, addresses: [10.251.7.2]}]
groups: [{name: A, kind: tensor-parallel, members: [n0, n1]}]
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


@pytest.fixture
def wire() -> Iterator[None]:
    """Two namespaces with a link between them."""
    for name in (NODE, PEER):
        with suppress(subprocess.SubprocessError):
            ip("netns", "delete", name)
        ip("netns", "add", name)
    try:
        ip("link", "add", "skewa", "netns", NODE, "type", "veth", "peer", "name", "skewb", "netns", PEER)
        for name, device, address in ((NODE, "skewa", "10.251.7.1/24"), (PEER, "skewb", "10.251.7.2/24")):
            ip("-n", name, "address", "add", address, "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in (NODE, PEER):
            ip("netns", "delete", name)


def inside(name: str, *command: str) -> "subprocess.Popen[str]":
    whole = ["ip", "netns", "exec", name, *command]
    return subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@contextmanager
def traffic(seconds: float) -> Iterator[None]:
    places = ((PEER, "listen"), (NODE, "send"))
    processes = [
        inside(place, sys.executable, "-c", TRAFFIC, what, "10.251.7.2", str(seconds)) for place, what in places
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@contextmanager
def agent(folder: Path, controller: str, more: str = "") -> Iterator["subprocess.Popen[str]"]:
    """A running agent in the node's namespace; the receiver is reached over a socket of the outside."""
    (folder / "topology.yaml").write_text(TOPOLOGY)
    (folder / "token").write_text("secret-of-the-test\n")
    config = f"version: 1\nnode: n0\nlisten: 'off'\ncontrollers: [{{url: '{controller}', token_file: token}}]\n{more}"
    (folder / "agent.yaml").write_text(config)
    command = [sys.executable, "-m", "skewscope.adapters.agent", "--config", str(folder / "agent.yaml")]
    process = inside(NODE, *command)
    try:
        yield process
    finally:
        process.terminate()
        _, told = process.communicate(timeout=20)
        assert "secret-of-the-test" not in told
        assert "Traceback" not in told, told


def until(true: Callable[[], bool], seconds: float = 25.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.1)


@contextmanager
def outside(port: int = 0) -> Iterator[Receiver]:
    """A receiver that an agent in the namespace reaches: it listens in there."""
    with within(NODE):
        receiver = Receiver(("127.0.0.1", port), TOPOLOGY)
    try:
        yield receiver
    finally:
        receiver.close()


@pytest.mark.slow
@pytest.mark.usefixtures("wire")
def test_counters_and_packets_of_a_real_interface_arrive(tmp_path: Path) -> None:
    with (
        outside() as receiver,
        agent(tmp_path, receiver.url, "observe: {devices: [skewa]}\nports: {skewa: ew}\n"),
        traffic(20),
    ):
        until(lambda: len(receiver.values("wire.peer_bytes")) >= 3 and len(receiver.values("wire.rtt")) >= 3)
    assert receiver.tokens == {"Bearer secret-of-the-test"}
    assert any(path.startswith("/api/v1/topology?node=n0") for path in receiver.paths)
    sent = receiver.values("port.tx_netdev_bytes")
    assert sent == sorted(sent)
    assert sent[-1] > sent[0]
    grown = receiver.values("wire.peer_bytes")
    assert grown == sorted(grown)
    # Twenty exchanges of 20 kB a second, at most: the same is counted by the driver and from the packets.
    assert 0 < grown[-1] - grown[0] <= 20 * 20_000 * len(grown)
    assert 0 < receiver.values("wire.rtt")[-1] < 0.05
    assert set(receiver.values("wire.retransmit_ratio")) <= {0.0}
    times = sorted({time for time, _ in receiver.rows.values()})
    assert all(time == int(time) for time in times)
    assert times[-1] - times[0] == len(times) - 1


@pytest.mark.usefixtures("wire")
@pytest.mark.slow
def test_no_row_is_lost_while_the_controller_is_away(tmp_path: Path) -> None:
    (tmp_path / "there.yaml").write_text(TOPOLOGY)
    with outside() as first:
        port = int(first.url.rpartition(":")[2])
        with agent(tmp_path, first.url, "topology: there.yaml\n"):
            until(lambda: len(first.rows) >= 4)
            first.close()
            time.sleep(2)
            with outside(port) as second:
                until(lambda: bool(second.rows) and max(second.rows) >= max(first.rows) + 8)
    both = {**first.rows, **second.rows}
    assert sorted(both) == list(range(1, max(both) + 1))


FLOOD = """
import socket, struct, sys, time
end = time.time() + float(sys.argv[1])
links = []
for number in range(3, 200):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.connect((f"10.251.7.{number}", 4791))
    links.append(link)
number = 0
while time.time() < end:
    for link in links:
        link.send(struct.pack(">BBHII", 4, 0, 0xFFFF, 9, number & 0xFFFFFF) + bytes(64))
    number += 1
    time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("wire")
def test_a_starved_agent_says_so_and_invents_nothing(tmp_path: Path) -> None:
    mac = _mac()
    for number in range(3, 200):
        ip("-n", NODE, "neigh", "replace", f"10.251.7.{number}", "lladdr", mac, "dev", "skewa")
    (tmp_path / "there.yaml").write_text(TOPOLOGY)
    more = "topology: there.yaml\nobserve: {devices: [skewa], budget: 1%, ring: 512 KiB}\n"
    with outside() as receiver, agent(tmp_path, receiver.url, more):
        flood = inside(NODE, sys.executable, "-c", FLOOD, "30")
        try:
            until(lambda: min(receiver.values("agent.observed_share"), default=1.0) < 0.5)
            least = max(receiver.rows)
            until(lambda: max(receiver.rows) >= least + 12)
        finally:
            flood.kill()
            flood.communicate()
    told = [(key.signal, value) for n, (_, row) in receiver.rows.items() if n > least + 4 for key, value in row.items()]
    # Not one packet of this flood is sent twice, late, or lost.
    assert {signal for signal, _ in told if signal.startswith("wire.")} <= PER_FLOW_SIGNALS
    assert {value for signal, value in told if "retransmit" in signal or "out_of_order" in signal} <= {0.0}
    assert any(signal == "port.tx_netdev_packets" for signal, _ in told)


def _mac() -> str:
    """The address of the other end."""
    told = subprocess.run(["ip", "-n", PEER, "-o", "link", "show", "skewb"], capture_output=True, text=True, check=True)
    return told.stdout.partition("link/ether ")[2].split()[0]


@pytest.mark.usefixtures("wire")
@pytest.mark.slow
def test_a_signal_ends_it_and_another_reloads_it(tmp_path: Path) -> None:
    (tmp_path / "there.yaml").write_text(TOPOLOGY)
    with outside() as receiver, agent(tmp_path, receiver.url, "topology: there.yaml\n") as process:
        until(lambda: len(receiver.rows) >= 2)
        assert not receiver.values("wire.rtt")
        with (tmp_path / "agent.yaml").open("a") as file:
            file.write("observe: {devices: [skewa]}\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: bool(receiver.values("agent.observed_share")))
        with (tmp_path / "agent.yaml").open("a") as file:
            file.write("nonsense: 1\n")
        process.send_signal(signal.SIGHUP)
        before = len(receiver.rows)
        until(lambda: len(receiver.rows) >= before + 4)
        process.terminate()
        assert process.wait(20) == 0
