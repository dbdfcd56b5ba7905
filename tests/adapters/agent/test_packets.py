"""What the agent makes of packets: which the kernel lets through, what a port tells, and what it does when starved."""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.agent.bpf import FULL_SHARE, SNAP_LENGTH, build_program
from skewscope.adapters.agent.budget import CALM_TICKS, FlowSampling
from skewscope.adapters.agent.observed_port import PER_FLOW_SIGNALS, ObservedPort
from skewscope.adapters.agent.observer import ObserverClocks, PacketObserver
from skewscope.adapters.agent.packet_ring import FRAME_SIZE, HEADER, to_frames
from skewscope.adapters.formats.packet_headers import address_key, decode
from skewscope.engine.wire.reducer import PortReducer
from skewscope.engine.wire.view import GroupView, PortView
from skewscope.kb.loader import load_signals
from tests.support import packet_bytes as make

START = 1_000_000.0
OWN, PEER, THIRD = "10.0.0.1", "10.0.0.2", "10.0.0.3"

# The program, in a real kernel: sockets of the Unix family run filters as well.


class Filter:
    """Says what the kernel makes of frames."""

    def __init__(self, share: int) -> None:
        self._out, self._in = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._in.setblocking(False)
        code = build_program(share)
        held = np.frombuffer(code, np.uint8).copy()
        told = struct.pack("HP", len(code) // 8, held.ctypes.data)
        self._in.setsockopt(socket.SOL_SOCKET, 26, told)

    def close(self) -> None:
        self._out.close()
        self._in.close()

    def passed(self, frame: bytes) -> int:
        """Bytes that are left of a frame."""
        try:
            self._out.send(frame)
            return len(self._in.recv(65536))
        except (BlockingIOError, PermissionError):
            return 0


def segment(src: str = OWN, dst: str = PEER, sport: int = 1000, dport: int = 80, **how: object) -> bytes:
    return make.ethernet(make.ipv4(src, dst, make.TCP, make.tcp(sport, dport, **how)), make.IPV4)


PASSING = [
    segment(payload=bytes(1000)),
    make.ethernet(make.ipv4(OWN, PEER, make.TCP, make.tcp(1, 2), options=bytes(8)), make.IPV4),
    make.ethernet(make.ipv6("fd00::1", "fd00::2", make.TCP, make.tcp(1, 2)), make.IPV6),
    make.ethernet(make.ipv4(OWN, PEER, make.UDP, make.roce(make.WRITE_ONLY, 7, 9)), make.IPV4),
    make.ethernet(make.ipv6("fd00::1", "fd00::2", make.UDP, make.roce(make.WRITE_ONLY, 7, 9)), make.IPV6),
    make.ethernet(make.ipv4(OWN, PEER, make.TCP, make.tcp(1, 2)), make.IPV4, vlans=(7,)),
    make.ethernet(make.ipv6("fd00::1", "fd00::2", make.UDP, make.roce(make.WRITE_ONLY, 7, 9)), make.IPV6, vlans=(7,)),
]
STOPPED = [
    make.ethernet(make.arp(OWN, PEER), make.ARP),
    make.ethernet(make.ipv4(OWN, PEER, make.UDP, make.udp(4791, 53, bytes(40))), make.IPV4),
    make.ethernet(make.ipv6("fd00::1", "fd00::2", make.UDP, make.udp(1, 2)), make.IPV6),
    make.ethernet(make.ipv4(OWN, PEER, 1, bytes(40)), make.IPV4),
    b"",
    bytes(13),
    segment()[:20],
]


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="no filters of Linux here")
def test_what_a_job_sends_passes_cut_to_its_headers_and_nothing_else_does():
    with closing(Filter(FULL_SHARE)) as whole, closing(Filter(0)) as none:
        assert [whole.passed(frame) for frame in PASSING] == [min(len(frame), SNAP_LENGTH) for frame in PASSING]
        assert [whole.passed(frame) for frame in STOPPED] == [0] * len(STOPPED)
        assert [none.passed(frame) for frame in PASSING] == [0] * len(PASSING)


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="no filters of Linux here")
@given(st.integers(1, 255), st.ip_addresses(v=4), st.ip_addresses(v=4), st.integers(1, 65535), st.integers(1, 65535))
def test_both_ways_of_a_connection_are_in_the_sample_or_neither_is(share, one, other, sport, dport):
    with closing(Filter(share)) as some, closing(Filter(min(share + 40, 255))) as more:
        there, back = segment(str(one), str(other), sport, dport), segment(str(other), str(one), dport, sport)
        assert bool(some.passed(there)) == bool(some.passed(back))
        # A larger sample holds the smaller one.
        assert more.passed(there) >= some.passed(there)


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="no filters of Linux here")
@pytest.mark.parametrize("share", [8, 64, 128])
def test_a_sample_is_about_as_large_as_was_asked_for(share):
    flows = [segment(OWN, f"10.0.{n % 7}.{n % 50}", 32768 + n, 5000 + n % 3) for n in range(4000)]
    with closing(Filter(share)) as some:
        passed = sum(some.passed(frame) > 0 for frame in flows)
    assert passed / len(flows) == pytest.approx(share / FULL_SHARE, rel=0.25)


# A port whose ring is filled by the test.


class Ring:
    """Gives frames when their time has come; keeps to the sample that it is told."""

    def __init__(self, sent: list[tuple[float, bytes]], clock: "Clock") -> None:
        self.sent = sorted(sent)
        self.clock = clock
        self.full = 0
        self.share = FULL_SHARE
        self.closed = False

    def set_share(self, share: int) -> None:
        self.share = share

    def drain(self, most: int) -> np.ndarray:
        found = []
        while self.sent and self.sent[0][0] <= self.clock.time and len(found) < most:
            time, frame = self.sent.pop(0)
            if flow_of(frame) < self.share:
                found.append(framed(time, frame))
        return np.stack(found) if found else np.empty((0, FRAME_SIZE), np.uint8)

    def count_drops(self) -> int:
        full, self.full = self.full, 0
        return full

    def close(self) -> None:
        self.closed = True


def flow_of(frame: bytes) -> int:
    """0 to 255 for the pair of ports of a frame."""
    ports = struct.unpack(">HH", frame[34:38])
    return (sum(ports) * 0x9E3779B1 & 0xFFFFFFFF) >> 24


def framed(time: float, frame: bytes) -> np.ndarray:
    """A frame as the kernel lays it into a ring."""
    out = np.zeros(FRAME_SIZE, np.uint8)
    head = out.view(HEADER)
    head["status"], head["size"], head["captured"], head["at"] = 1, len(frame), min(len(frame), SNAP_LENGTH), 66
    head["seconds"], head["nanoseconds"] = int(time), round(time % 1 * 1e9)
    out[66 : 66 + min(len(frame), SNAP_LENGTH)] = np.frombuffer(frame[:SNAP_LENGTH], np.uint8)
    return out


class Clock:
    """A time that the test moves, and processor time that looking at packets takes."""

    def __init__(self) -> None:
        self.time = START
        self.used = 0.0


def exchange(rounds: int, gap: float = 0.01, first: float = START, flows: int = 1) -> Iterator[tuple[float, bytes]]:
    """Data both ways on some connections, each answered at once: nothing is lost."""
    for number in range(rounds):
        at = first + number * gap
        for flow in range(flows):
            port, seq = 1000 + flow, number * 100
            there = {"seq": seq, "ack": seq, "flags": make.ACK, "payload": bytes(100)}
            yield at, segment(OWN, PEER, port, 80, **there)
            yield at + 0.001, segment(PEER, OWN, 80, port, seq=seq, ack=seq + 100, flags=make.ACK, payload=bytes(100))
            yield at + 0.002, segment(OWN, PEER, port, 80, seq=seq + 100, ack=seq + 100, flags=make.ACK)


def view() -> PortView:
    group = GroupView("A", "tensor-parallel", 0, ("n0", "n1"), {address_key(OWN): 0, address_key(PEER): 1})
    peers = {address_key(PEER): "n1/ew", address_key(THIRD): "n2/ew"}
    return PortView("n0/ew", "n0", "east-west", frozenset([address_key(OWN)]), peers, (group,))


def observed(sent: list[tuple[float, bytes]], clock: Clock) -> ObservedPort:
    return ObservedPort(Ring(sent, clock), view(), START)


def test_a_frame_of_the_ring_is_the_packet_that_was_sent():
    frame = segment(payload=bytes(900), seq=7)
    packets = decode(to_frames(framed(START + 0.25, frame).reshape(1, -1)))
    assert (packets.time[0], packets.length[0], packets.size[0], packets.seq[0]) == (START + 0.25, 900, len(frame), 7)


@given(st.lists(st.floats(0.001, 0.4), min_size=8, max_size=20))
@settings(max_examples=10, deadline=None)
def test_however_often_one_looks_a_port_tells_what_a_recording_of_it_would(waits):
    clock = Clock()
    sent = list(exchange(300))
    port = observed(list(sent), clock)
    found, first = [], START
    for wait in [*waits, *[0.4] * 5]:
        clock.time += wait
        port.fetch_packets(10_000)
        while clock.time >= first + 1:
            found.append(dict(port.tick(first, clock.time)))
            first += 1
    reducer = PortReducer(view())
    whole = decode(to_frames(np.stack([framed(*one) for one in sent])))
    for number, told in enumerate(found):
        begin = START + number
        some = reducer.reduce(whole.take((whole.time >= begin) & (whole.time < begin + 1)), begin, 1)
        assert told == {key: value[-1] for key, value in zip(some.keys, some.values, strict=True)}
    assert any(key.signal == "wire.rtt" for key in found[1])


def test_after_a_full_ring_nothing_is_told_until_the_next_whole_tick_and_then_nothing_of_before():
    clock = Clock()
    sent = list(exchange(500))
    # What the ring had no room for: every third packet of half a second.
    kept = [one for n, one in enumerate(sent) if not (START + 1.2 < one[0] < START + 1.7 and n % 3 == 0)]
    port = observed(kept, clock)
    told = []
    for number in range(5):
        clock.time = START + number + 1.02
        port.fetch_packets(10_000)
        port.ring.full = 50 if number == 1 else 0
        told.append(port.tick(START + number, clock.time))
    assert [one is None for one in told] == [False, True, True, False, False]
    assert (port.packets_lost, port.ticks_withheld) == (50, 2)
    later = [(key.signal, value) for one in told[3:] for key, value in one]
    assert {value for signal, value in later if "retransmit" in signal or "out_of_order" in signal} == {0.0}
    grown = [value for signal, value in later if signal == "wire.peer_bytes"]
    assert grown[0] == pytest.approx(100 * 100)


# The budget.


def looked(observer: PacketObserver, clock: Clock, seconds: float, cost: float) -> None:
    """Lets time pass; each packet looked at takes processor time."""
    end, before = clock.time + seconds, sum(port.packets_seen for port in observer.ports)
    while clock.time < end:
        clock.time += 0.1
        observer.poll()
        every = sum(port.packets_seen for port in observer.ports)
        clock.used += (every - before) * cost
        before = every


def starved(
    flows: int, seconds: int, cost: float, budget: float
) -> tuple[PacketObserver, Clock, list[tuple[float, dict]]]:
    clock, told = Clock(), []
    port = observed(list(exchange(10 * seconds, 0.1, flows=flows)), clock)
    observer = PacketObserver(
        [port], budget, ObserverClocks(lambda: clock.time, lambda: clock.used), lambda t, s: told.append((t, dict(s)))
    )
    looked(observer, clock, seconds + 0.1, cost)
    return observer, clock, told


def by_signal(told: list[tuple[float, dict]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for _, samples in told:
        for key, value in samples.items():
            found.setdefault(key.signal, []).append(value)
    return found


def test_enough_is_looked_at_whole():
    observer, _, told = starved(flows=4, seconds=6, cost=1e-4, budget=0.25)
    assert {samples_share(samples) for _, samples in told} == {1.0}
    assert observer.cpu_seconds < 0.25
    assert len(by_signal(told)["wire.peer_bytes"]) >= 5


def samples_share(samples: dict) -> float:
    return next(value for key, value in samples.items() if key.signal == "agent.observed_share")


def test_a_starved_observer_keeps_its_budget_says_so_and_invents_nothing():
    flows, cost, budget = 40, 2.5e-4, 0.1
    observer, clock, told = starved(flows, 25, cost, budget)
    # All of it would take thirty packets a flow and second.
    assert flows * 30 * cost > 2 * budget
    shares = [samples_share(samples) for _, samples in told]
    assert shares[-1] < 0.6
    assert clock.used / 25 < 1.2 * budget
    assert observer.cpu_seconds <= budget
    found = by_signal(told[3:])
    assert set(found) - {"agent.observed_share"} <= PER_FLOW_SIGNALS
    assert found["wire.rtt"]
    assert found["wire.rtt"][-1] == pytest.approx(0.001, rel=0.01)
    assert {value for name in found if "retransmit" in name or "out_of_order" in name for value in found[name]} == {0.0}
    times = [time for time, _ in told]
    assert times == [START + 1 + n for n in range(len(times))]


def test_when_less_comes_all_of_it_is_looked_at_again():
    observer, clock, told = starved(40, 10, 2.5e-4, 0.1)
    assert samples_share(told[-1][1]) < 1
    port = observer.ports[0]
    port.ring.sent = list(exchange(10 * 8 * CALM_TICKS, 0.1, first=clock.time))
    looked(observer, clock, 5 * CALM_TICKS, 2.5e-4)
    assert samples_share(told[-1][1]) == 1.0
    assert "wire.peer_bytes" in by_signal(told[-3:])


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=200))
def test_a_share_stays_within_its_bounds_and_is_raised_only_after_calm(used):
    sampling, calm = FlowSampling(), 0
    for one in used:
        before = sampling.share
        calm = calm + 1 if one < 0.5 else 0
        if one > 1:
            sampling.lower(0.8 / one)
            assert sampling.share < before or before == 0
        elif sampling.record_tick(one):
            assert calm >= CALM_TICKS
            assert sampling.share > before
        assert 0 <= sampling.share <= FULL_SHARE


def test_what_a_sample_tells_are_signals_of_the_catalogue():
    assert set(load_signals().signals) >= PER_FLOW_SIGNALS


def test_a_clock_that_is_set_makes_an_observer_go_on_with_the_present():
    clock, told = Clock(), []
    port = observed([], clock)
    observer = PacketObserver(
        [port], 0.25, ObserverClocks(lambda: clock.time, lambda: 0.0), lambda t, _: told.append(t)
    )
    for time in (START + 1.1, START + 2.1, START + 9000.5, START + 9001.1, START - 500.5, START - 498.9):
        clock.time = time
        observer.poll()
    assert told == [START + 1, START + 2, START + 9001, START - 500, START - 499]
