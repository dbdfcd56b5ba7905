"""Measures the cost of an agent: processor time and memory on 8 interfaces, without packets, with some, with too many.

`python bench/agent_load.py [SECONDS]`, as root on Linux: it creates two network namespaces with eight pairs of veths,
sends real TCP between them, and in the last round as many small RoCEv2 datagrams as one core can send. It prints the
kernel's figures for the agent's process and the agent's own metrics.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NODE, PEER = "skewbench-a", "skewbench-b"
PORTS = 8
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = "http://127.0.0.1:9465/metrics"

ECHO = """
import socket, threading
def echo(client):
    while part := client.recv(65536):
        client.sendall(part)
def serve(address):
    with socket.create_server((address, 5001)) as server:
        while True:
            threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
threads = [threading.Thread(target=serve, args=(f"10.250.{n}.2",)) for n in range(8)]
[thread.start() for thread in threads]
"""
ROUNDS = """
import socket, time
links = [socket.create_connection((f"10.250.{n}.2", 5001)) for n in range(8)]
while True:
    for link in links:
        link.sendall(bytes(100_000))
    for link in links:
        got = 0
        while got < 100_000:
            got += len(link.recv(65536))
    time.sleep(0.05)
"""
FLOOD = """
import os, socket, struct
sends = []
for n in range(8):
    for pair in range(32):
        link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        link.bind((f"10.250.{n}.1", 0))
        link.connect((f"10.250.{n}.{100 + pair}", 4791))
        sends.append(link)
number = 0
while True:
    head = struct.pack(">BBHII", 0x04, 0, 0xFFFF, 9, number & 0xFFFFFF) + bytes(64)
    for link in sends:
        link.send(head)
    number += 1
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def wires() -> Iterator[None]:
    """Creates two namespaces joined by eight links."""
    for name in (NODE, PEER):
        with suppress(subprocess.CalledProcessError):
            ip("netns", "delete", name)
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    try:
        for n in range(PORTS):
            ip("link", "add", f"p{n}", "netns", NODE, "type", "veth", "peer", "name", f"q{n}", "netns", PEER)
            for name, device, end in ((NODE, f"p{n}", 1), (PEER, f"q{n}", 2)):
                ip("-n", name, "address", "add", f"10.250.{n}.{end}/24", "dev", device)
                ip("-n", name, "link", "set", device, "up")
            shown_link = subprocess.run(
                ["ip", "-n", PEER, "-o", "link", "show", f"q{n}"], capture_output=True, text=True, check=True
            )
            mac = re.search(r"link/ether (\S+)", shown_link.stdout)[1]
            for pair in range(32):
                ip("-n", NODE, "neigh", "add", f"10.250.{n}.{100 + pair}", "lladdr", mac, "dev", f"p{n}")
        yield
    finally:
        for name in (NODE, PEER):
            ip("netns", "delete", name)


def inside(name: str, *command: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["ip", "netns", "exec", name, *command], stderr=subprocess.PIPE)


@contextmanager
def running(name: str, code: str) -> Iterator[None]:
    process = inside(name, sys.executable, "-c", code)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def write_config(folder: Path, budget: int) -> Path:
    """Writes a configuration for eight ports, and its topology."""
    lines = ["version: 1", "nodes:", "  - name: n0", "    ports:"]
    own = "      - {{name: e{0}, network: east-west, addresses: [10.250.{0}.1], devices: [p{0}]}}"
    lines += [own.format(n) for n in range(PORTS)]
    lines += ["  - name: n1", "    ports:"]
    lines += [f"      - {{name: e{n}, network: east-west, addresses: [10.250.{n}.2]}}" for n in range(PORTS)]
    lines.append("groups: [{name: A, kind: tensor-parallel, members: [n0, n1]}]")
    (folder / "topology.yaml").write_text("\n".join(lines) + "\n")
    devices = ", ".join(f"p{n}" for n in range(PORTS))
    observe = f"observe: {{devices: [{devices}], budget: {budget}%}}\n"
    (folder / "agent.yaml").write_text(f"version: 1\nnode: n0\ntopology: topology.yaml\n{observe}")
    return folder / "agent.yaml"


def used(pid: int) -> float:
    """Returns the processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def most_memory(pid: int) -> float:
    """Returns the peak memory of a process, in MiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def page(pid: int) -> str:
    command = ["nsenter", "-t", str(pid), "-n", sys.executable, "-c"]
    code = f"import urllib.request as u; print(u.urlopen('{PAGE}', timeout=5).read().decode())"
    return subprocess.run([*command, code], capture_output=True, text=True, check=True).stdout


def metric_values(text: str, name: str) -> list[float]:
    return [float(v) for v in re.findall(rf"^skewscope_agent_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)]


def on_the_wire() -> int:
    """Returns the packets that the eight devices have sent and received."""
    said = subprocess.run(["ip", "-n", NODE, "-s", "-j", "link"], capture_output=True, text=True, check=True).stdout
    ports = [link["stats64"] for link in json.loads(said) if link["ifname"].startswith("p")]
    return sum(port[way]["packets"] for port in ports for way in ("rx", "tx"))


def measure(what: str, pid: int, seconds: float) -> None:
    time.sleep(8)  # until it has settled
    before, begun = used(pid), time.monotonic()
    counted, passed = sum(metric_values(page(pid), "packets_seen_total")), on_the_wire()
    time.sleep(seconds)
    took = time.monotonic() - begun
    share, wire = (used(pid) - before) / took, (on_the_wire() - passed) / took
    text = page(pid)
    packets = (sum(metric_values(text, "packets_seen_total")) - counted) / seconds
    sampled = metric_values(text, "sampled_share")
    print(
        f"{what:28} {share:7.1%} of a core, at most {most_memory(pid):5.1f} MiB,"
        f" {wire:9,.0f} packets/s on the wire, {packets:9,.0f} looked at,"
        f" share of flows {min(sampled, default=1):.2f} to {max(sampled, default=1):.2f},"
        f" {sum(metric_values(text, 'ticks_withheld_total')):.0f} port-seconds withheld so far"
    )


def main(seconds: float) -> None:
    where = f"{platform.machine()}, {os.cpu_count()} cores, {_model()}"
    print(f"{where}, Linux {platform.release()}, Python {platform.python_version()}")
    with wires(), tempfile.TemporaryDirectory() as folder:
        for budget in (25, 5):
            config = write_config(Path(folder), budget)
            agent = inside(NODE, sys.executable, "-m", "skewscope.adapters.agent", "--config", str(config))
            try:
                print(f"budget {budget}%, 8 interfaces, 1 Hz")
                measure("without packets", agent.pid, seconds)
                with running(PEER, ECHO):
                    time.sleep(1)
                    with running(NODE, ROUNDS):
                        measure("rounds of 100 kB, TCP", agent.pid, seconds)
                with running(NODE, FLOOD):
                    measure("a flood of RoCEv2", agent.pid, seconds)
            finally:
                agent.terminate()
                print(agent.communicate()[1].decode()[-1500:])


def _model() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else "processor unknown"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
