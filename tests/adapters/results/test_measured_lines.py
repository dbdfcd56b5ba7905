"""Results of programs that print a number a line: their values, and what two runs or several hosts show."""

import json

import pytest

from skewscope.adapters.results.readers.bandwidth_table import host_of_name
from skewscope.adapters.results.result_format import read_results
from skewscope.adapters.results.result_judgement import judge_results
from skewscope.adapters.results.result_order import order_results

FIO = """seqread: (g=0): rw=read, bs=(R) 1024KiB-1024KiB, ioengine=libaio, iodepth=32
fio-3.36
seqread: (groupid=0, jobs=8): err= 0: pid=81220: Fri Nov 20 10:01:02 2026
  read: IOPS={0}, BW={0}MiB/s (432MB/s)(24.1GiB/60012msec)
    clat (usec): min=812, max=8687154, avg={1}.00, stdev=186153.30
   READ: bw={0}MiB/s (432MB/s)
"""
HPL = """HPLinpack 2.1  --  High-Performance Linpack benchmark
{1}T/V                N    NB     P     Q         Time          Gflops
WC0           264192  1024     4     2        31423.82       {0}e+05 ( 4.890e+04)
"""
STREAM = "Function    Best Rate MB/s  Avg time\nCopy:          {0}     0.01\nTriad:         {0}     0.01\n"
IPERF = """Connecting to host {1}, port 5201
[  5]   0.00-10.00  sec  10 GBytes  9.1 Gbits/sec    0             sender
[SUM]   0.00-10.00  sec  218 GBytes   190 Gbits/sec  12             sender
[SUM]   0.00-10.04  sec  218 GBytes   {0} Gbits/sec                  receiver
"""
IPERF_JSON = {
    "start": {
        "connecting_to": {"host": "n4", "port": 5201},
        "version": "iperf 3.16",
        "test_start": {"protocol": "TCP"},
    },
    "end": {"sum_received": {"bits_per_second": 41.7e9}, "sum_sent": {"bits_per_second": 42e9}},
}
FIO_JSON = {
    "fio version": "fio-3.36",
    "jobs": [{"jobname": "seq", "read": {"bw_bytes": 2.5e9, "clat_ns": {"mean": 40000}}, "write": {"bw_bytes": 0}}],
}
OSU = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4 18.2\n1048576 {0}\n"
LATENCY = (
    " RDMA_Write Latency Test\n Device         : mlx5_0\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n 2  1000  1.1  9.1  {0}  1.4\n"
)


@pytest.mark.parametrize(
    ("text", "name", "operation", "value", "nodes"),
    [
        (FIO.format(6280, 40711), "fio-n7.txt", "seqread read", 6280 * 2**20 * 1e-9, ("n7",)),
        (HPL.format(3.912, ""), "hpl-c01.out", "WC0 264192 1024 4 2", 3.912e5, ("c01",)),
        (HPL.format(3.912, "Node   : c02\n"), "a.out", "WC0 264192 1024 4 2", 3.912e5, ("c02",)),
        (STREAM.format(400000), "stream.txt", "Copy", 400.0, ()),
        (IPERF.format("187.2", "n3"), "a.txt", "iperf", 187.2, ("n3",)),
        (json.dumps(IPERF_JSON), "a.json", "iperf", 41.7, ("n4",)),
        (json.dumps(FIO_JSON, indent=1), "a.json", "seq read", 2.5, ()),
        (OSU.format(300.5), "osu-n1.txt", "Allreduce Latency Test", 18.2, ("n1",)),
        (LATENCY.format(1.21), "a.txt", "RDMA_Write Latency Test mlx5_0", 1.21, ()),
        ("Max Write: 1000.00 MiB/sec (1048.58 MB/sec)\n", "ior", "Write", 1.048576, ()),
        ("1073741824 bytes (1.1 GB, 1.0 GiB) copied, 2.5 s, 429 MB/s\n", "dd", "copy", 0.429, ()),
    ],
)
def test_a_number_is_read_in_the_unit_of_its_measure(text, name, operation, value, nodes):
    first = read_results(text.encode(), name)[0]
    assert first.operation == operation
    assert next(iter(first.bandwidths.values())) == pytest.approx(value)
    assert first.nodes == nodes


def judge(*files):
    results = [result for name, text in files for result in read_results(text.encode(), name)]
    return [(found.event, found.nodes) for found in judge_results(order_results(results)).findings]


@pytest.mark.parametrize("form", [FIO, HPL, STREAM, IPERF, OSU, LATENCY])
def test_two_runs_of_one_thing_are_compared(form):
    # A time that is longer is worse, a rate that is lower.
    before, after = ("1.2", "3.1") if form in (OSU, LATENCY) else ("3.10", "1.20")
    host = "" if form == HPL else 90
    old, new = form.format(before, host), form.format(after, host)
    assert [event for event, _ in judge(("after.txt", new), ("before.txt", old))] == ["bench-slower"]
    assert judge(("before.txt", old), ("after.txt", old)) == []
    assert judge(("before.txt", new), ("after.txt", old)) == []


def test_a_host_below_its_peers_is_named():
    texts = [(f"hpl-c{n}.out", HPL.format(2.68 if n == 3 else 3.91, "")) for n in range(5)]
    assert judge(*texts) == [("bench-node-slower", ("c3",))]
    texts = [(f"lat-c{n}.out", LATENCY.format(2.4 if n == 3 else 1.2)) for n in range(5)]
    assert judge(*texts) == [("bench-node-slower", ("c3",))]


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("hpl-c01.out", ("c01",)),
        ("fio_node-07_2026-11-20.txt", ("node-07",)),
        ("iperf-to-n02.json", ("n02",)),
        ("gpu12-before.txt", ("gpu12",)),
        ("before.txt", ()),
        ("run2.txt", ()),
        ("fio-run-3.txt", ()),
        ("20261120.txt", ()),
        ("result.json", ()),
    ],
)
def test_a_host_in_the_name_of_a_file(name, host):
    assert host_of_name(name) == host


def test_a_row_of_guidellm_is_a_load():
    text = (
        "Type,Name,Duration,Successful,Errored,Server Throughput mean,Time to First Token (ms) mean,"
        "Time to First Token (ms) median,Inter Token Latency (ms) median,Request Latency mean\n"
        "synchronous,synchronous,60,60,0,1.0,48,47,16,1.0\nconstant,constant@4.00,60,239,1,3.98,58,57,17,1.1\n"
    )
    first, second = read_results(text.encode(), "benchmarks.csv")
    assert (first.load.concurrency, second.load.rate) == (1.0, 4.0)
    assert second.latencies["ttft"].quantile(0.5) == pytest.approx(0.057)
    assert second.latencies["e2e"].mean == pytest.approx(1.1)
    assert (second.completed, second.failed, second.request_rate) == (239, 1, 3.98)


MATRIX = (
    "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
    "           0         1         2\n"
)


def test_a_gpu_below_its_siblings_is_named():
    row = " 0     {}     55.63     55.60\n\nSUM host_to_device_memcpy_ce 1\n"
    assert judge(("n7.txt", MATRIX + row.format("13.40"))) == [("bench-gpu-slower", ("n7/gpu0",))]
    assert judge(("n7.txt", MATRIX + row.format("55.40"))) == []
