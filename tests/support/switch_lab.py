"""A user-space Open vSwitch in a folder, between hosts that are network namespaces; and the agent of its node."""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skewscope.adapters.actions.orders import OrderBook
from skewscope.adapters.agent.orders import OrderGuard, OrdersConfig, run_order
from skewscope.adapters.agent.switch_commands import KINDS, SwitchRights
from skewscope.adapters.formats.order_protocol import OrderError, OrderResult
from tests.lab import namespaces
from tests.lab.namespaces import inside, run

PROGRAMS = ("ip", "ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
BRIDGE = "br0"
HOSTS = ("a", "b", "c", "m")
"""Hosts; to the last one copies are sent."""
ROCE = 4791
KEY = "k" * 32
ECT0 = 2
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
CE = 3


def missing() -> str:
    """Returns why no switch can run here; '' where one can."""
    return namespaces.missing(PROGRAMS)


def address(host: str) -> str:
    return f"10.9.0.{HOSTS.index(host) + 1}"


@dataclass
class SwitchLab:
    """A running switch and its hosts."""

    folder: Path
    name: str

    @property
    def space(self) -> str:
        """Returns the namespace of the switch: several switches would use devices of the same names."""
        return f"{self.name}-switch"

    def host(self, host: str) -> str:
        """Returns the namespace of a host."""
        return f"{self.name}-{host}"

    def port(self, host: str) -> str:
        """Returns the port of the switch where a host is."""
        return f"{self.name}-{host}"

    def start(self) -> None:
        """Starts the switch and connects the hosts."""
        run("ovsdb-tool", "create", f"{self.folder}/conf.db", str(SCHEMA))
        run("ip", "netns", "add", self.space)
        run("ip", "-n", self.space, "link", "set", "lo", "up")
        self.start_switch()
        self.vsctl("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev")
        for host in HOSTS:
            space, port = self.host(host), self.port(host)
            run("ip", "netns", "add", space)
            run("ip", "-n", self.space, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "-n", self.space, "link", "set", port, "up")
            run("ip", "-n", space, "addr", "add", f"{address(host)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            # The switch reads packets as they are sent: with offload their checksums would not be there yet.
            with namespaces.within(space):
                _switch_offload_off("eth0")
            self.vsctl("add-port", BRIDGE, port)

    def start_switch(self) -> None:
        """Starts the two daemons; without a flow, but with the bridges and mirrors of its database."""
        at = ["--detach", "--no-chdir"]
        logs = [[f"--log-file={self.folder}/{n}.log", f"--pidfile={self.folder}/{n}.pid"] for n in ("ovsdb", "vswitch")]
        env = {**os.environ, "OVS_RUNDIR": str(self.folder)}
        base, database = str(self.folder), f"unix:{self.folder}/db.sock"
        server = ["ovsdb-server", f"{base}/conf.db", f"--remote=p{database}", f"--unixctl={base}/ovsdb.ctl"]
        switch = ["ovs-vswitchd", database, f"--unixctl={base}/vswitch.ctl"]
        for command in ([*server, *logs[0], *at], [*switch, *logs[1], *at]):
            subprocess.run(inside(self.space, *command), env=env, check=True, capture_output=True, timeout=20)
            if command[0] == "ovsdb-server":
                self.vsctl("--no-wait", "init")

    def stop_switch(self) -> None:
        """Ends the two daemons."""
        for name in ("vswitch", "ovsdb"):
            with contextlib.suppress(OSError, ValueError):
                process = int((self.folder / f"{name}.pid").read_text())
                os.kill(process, 15)
                for _ in range(200):
                    os.kill(process, 0)
                    time.sleep(0.02)

    def stop(self) -> None:
        """Ends the switch and removes the hosts."""
        self.stop_switch()
        for space in (self.space, *map(self.host, HOSTS)):
            with contextlib.suppress(RuntimeError, subprocess.SubprocessError):
                run("ip", "netns", "delete", space)

    def vsctl(self, *arguments: str) -> str:
        """Returns the output of `ovs-vsctl`."""
        return self._output("ovs-vsctl", f"--db=unix:{self.folder}/db.sock", "--timeout=10", *arguments)

    def ofctl(self, command: str, *arguments: str) -> str:
        """Returns the output of `ovs-ofctl` for the bridge."""
        at = f"unix:{self.folder}/{BRIDGE}.mgmt"
        return self._output("ovs-ofctl", "-O", "OpenFlow15", command, at, *arguments)

    def _output(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert not done.returncode, f"{command}: {done.stderr}"
        return done.stdout

    def flows(self) -> list[str]:
        """Returns all flows except the one that every bridge has."""
        return [
            line for line in self.ofctl("dump-flows").splitlines() if "cookie=" in line and "priority=0 " not in line
        ]

    def rights(self, kinds: tuple[str, ...] = KINDS) -> SwitchRights:
        """Returns what orders may change at this switch."""
        return SwitchRights(kinds, (BRIDGE,), 1000, str(self.folder))


def _switch_offload_off(device: str) -> None:
    """Lets the kernel compute checksums of packets that are sent, as `ethtool -K DEVICE tx off` does."""
    value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, SIOCETHTOOL, request.ljust(40, b"\0"))


@contextmanager
def switch_lab(folder: Path) -> Iterator[SwitchLab]:
    """Runs a switch and its hosts for the duration of a context."""
    place = Path("/tmp") / f"skewscope-ovs-{os.getpid()}-{abs(hash(folder)) % 10**6}"
    place.mkdir()
    made = SwitchLab(place, f"ov{os.getpid() % 10**6}")
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(place, ignore_errors=True)


@asynccontextmanager
async def node_agent(book: OrderBook, rights: SwitchRights) -> AsyncIterator[OrderGuard]:
    """Carries out the orders of a book as the agent of its node does, for the duration of a context."""
    guard = OrderGuard(book.node, OrdersConfig(rights, KEY), time.time())

    async def work() -> None:
        while True:
            for item in book.fetch():
                try:
                    _, commands = guard.admit(item["order"], item["signature"], time.time())
                except OrderError as error:
                    book.report(item["id"], OrderResult(False, str(error)))
                    continue
                book.report(item["id"], await asyncio.to_thread(run_order, commands))
            await book.wait(1.0)

    task = asyncio.create_task(work())
    try:
        yield guard
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@dataclass
class Received:
    """What arrived at a host."""

    packets: int = 0
    marked: int = 0
    """Packets with the ECN codepoint CE."""


def send_packets(lab: SwitchLab, count: int, rate: float, port: int = ROCE) -> tuple[Received, Received]:
    """Sends UDP packets of 1,000 bytes from a to b, so many in a second.

    Returns what arrived at b, and how many copies at m.
    """
    found, copies = Received(), Received()
    done = threading.Event()
    with namespaces.within(lab.host("b")):
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        into.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        into.bind((address("b"), port))
    with namespaces.within(lab.host("m")):
        mirror = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        mirror.bind(("eth0", 0x0800))
    with namespaces.within(lab.host("a")):
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT0)
    with into, mirror, out:
        into.settimeout(0.2)
        mirror.settimeout(0.2)
        threads = [
            threading.Thread(target=_receive, args=(into, found, done)),
            threading.Thread(target=_receive_copies, args=(mirror, copies, done)),
        ]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        for number in range(count):
            out.sendto(bytes(1000), (address("b"), port))
            time.sleep(max(begun + number / rate - time.monotonic(), 0))
        time.sleep(0.2)
        done.set()
        for thread in threads:
            thread.join()
    return found, copies


def _receive(into: socket.socket, found: Received, done: threading.Event) -> None:
    while not done.is_set():
        with contextlib.suppress(TimeoutError):
            _, ancillary, *_ = into.recvmsg(2000, 100)
            found.packets += 1
            found.marked += any(data[0] & 3 == CE for _, _, data in ancillary)


def _receive_copies(mirror: socket.socket, found: Received, done: threading.Event) -> None:
    while not done.is_set():
        with contextlib.suppress(TimeoutError):
            packet = mirror.recv(2000)
            found.packets += packet[23] == socket.IPPROTO_UDP
