"""Measures packets per second from a capture file to columns: unpacking, record boundaries, headers.

`pytest bench/test_bench_pcap.py` prints the time of a whole file of 150,000 packets; `extra_info` has the rate.
"""

import os
import random
from pathlib import Path

import pytest

from skewscope.adapters.formats.packet_headers import read_packets
from tests.support import packet_bytes as make
from tests.support.packet_bytes import IPV4, IPV6, Record, ethernet, ipv4, ipv6, packed, roce, tcp

COUNT = 150_000
"""As many as one port of the recordings sees."""


def segments():
    """Returns data and acknowledgements in IPv4, as in a recording."""
    data = tcp(40000, 443, options=bytes(12), payload=bytes(1448))
    answer = tcp(443, 40000, options=bytes(12))
    return [ethernet(ipv4(f"10.0.0.{n}", "10.0.1.1", make.TCP, one), IPV4) for n in range(8) for one in (data, answer)]


def writes():
    """Returns RDMA writes and acknowledgements in IPv6 with a VLAN tag."""
    data = roce(make.WRITE_ONLY, 7, 9, bytes(1024), headers=make.reth(1024))
    some = (data, make.acknowledge(7, 9))
    return [ethernet(ipv6(f"fd00::{n}", "fd01::1", make.UDP, one), IPV6, (5,)) for n in range(8) for one in some]


def capture(frames, snaplen):
    """Writes a file of `COUNT` such packets, shuffled with a seed, a few microseconds apart."""
    chosen = random.Random(7).choices(frames, k=COUNT)
    return make.pcap((Record(frame, 10**18 + n * 7000) for n, frame in enumerate(chosen)), snaplen=snaplen)


@pytest.mark.parametrize("suffix", ["", ".zst"])
@pytest.mark.parametrize(("frames", "snaplen"), [(segments, 68), (writes, 96), (segments, 2000)])
def test_packets_per_second(benchmark, tmp_path, frames, snaplen, suffix):
    path = tmp_path / f"many.pcap{suffix}"
    path.write_bytes(packed(capture(frames(), snaplen), suffix))
    count = benchmark.pedantic(lambda: sum(map(len, read_packets(path))), rounds=5, warmup_rounds=1)
    assert count == COUNT
    benchmark.extra_info["packets_per_second"] = round(COUNT / benchmark.stats["min"])


def test_packets_per_second_of_a_recording(benchmark, request):
    shared = Path(os.environ.get("SKEWSCOPE_SHARED") or request.config.rootpath.parent / "shared")
    paths = sorted(shared.glob("recordings/burst/pcap/*.zst"))
    if not paths:
        pytest.skip(f"no recording in {shared} (set SKEWSCOPE_SHARED)")
    count = benchmark.pedantic(lambda: sum(len(block) for path in paths for block in read_packets(path)), rounds=3)
    benchmark.extra_info["packets_per_second"] = round(count / benchmark.stats["min"])
