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
        (LATENCY.format(1.21), "a.txt", "RDMA_Write Latency Test", 1.21, ("mlx5_0",)),
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


LOAD = {
    "k6": """
    http_req_duration..................: avg=21.9s min=412.31ms med=17.72s max=1m0s p(90)=55.1s p(95)=58.31s
    http_req_failed....................: 25.00%  300 out of 1200
    http_reqs..........................: 1200   40.1/s
    vus................................: 900     min=900      max=900
""",
    "wrk": """Running 30s test @ http://n0:8000/v1
  12 threads and 900 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    17.72s     3.10s   1m0s    71.00%
  Latency Distribution
     50%   17.72s
     95%   58.31s
  1200 requests in 30.00s, 9.80MB read
  Non-2xx or 3xx responses: 300
Requests/sec:     40.10
""",
    "hey": """Summary:
  Total:\t30.0000 secs
  Slowest:\t60.0000 secs
  Average:\t21.9000 secs
  Requests/sec:\t40.1000

Latency distribution:
  50% in 17.7200 secs
  95% in 58.3100 secs

Status code distribution:
  [200]\t900 responses
  [503]\t250 responses

Error distribution:
  [50]\tPost "http://n0:8000/v1": context deadline exceeded
""",
    "vegeta": """Requests      [total, rate, throughput]         1200, 80.00, 40.10
Duration      [total, attack, wait]             30s, 29.9s, 10ms
Latencies     [min, mean, 50, 90, 95, 99, max]  412.31ms, 21.9s, 17.72s, 55.1s, 58.31s, 59s, 1m0s
Success       [ratio]                           75.00%
Status Codes  [code:count]                      200:900  503:300
""",
    "ab": """Concurrency Level:      900
Time taken for tests:   30.000 seconds
Complete requests:      1200
Failed requests:        0
Non-2xx responses:      300
Requests per second:    40.10 [#/sec] (mean)

Percentage of the requests served within a certain time (ms)
  50%  17720
  95%  58310
""",
}


@pytest.mark.parametrize("tool", LOAD)
def test_load_generators_of_http_count_failures_and_time_requests(tool):
    (result,) = read_results(LOAD[tool].encode(), "load.txt")
    assert (result.completed, result.failed, result.request_rate) == (900, 300, 40.1)
    assert result.latencies["e2e"].quantile(0.5) == pytest.approx(17.72)
    assert result.latencies["e2e"].quantile(0.95) == pytest.approx(58.31)
    (finding,) = [each for each in judge_results([result]).findings if each.event == "bench-requests-fail"]
    assert finding.text == "300 of 1200 requests failed"


@pytest.mark.parametrize(("again", "is_lost"), [(56883, True), (12, False)])
def test_segments_that_iperf_sent_again_are_a_loss(again, is_lost):
    text = f"""Connecting to host n1, port 5201
[  4]   0.00-10.00  sec  12.9 GBytes  11.1 Gbits/sec  {again}             sender
[  4]   0.00-10.00  sec  12.9 GBytes  11.1 Gbits/sec                  receiver
"""
    findings = judge_results(read_results(text.encode(), "iperf.txt")).findings
    assert [each.event for each in findings] == ["bench-path-loses"] * is_lost


PEERS = """Unidirectional P2P={0} Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 911.08  {1}
     1  {1} 920.20
"""


@pytest.mark.parametrize(("direct", "events"), [(9.9, ["bench-peer-access-slower"]), (52.1, [])])
def test_direct_access_of_gpus_is_no_slower_than_the_detour(direct, events):
    text = PEERS.format("Disabled", 22.1) + PEERS.format("Enabled", direct)
    assert [each.event for each in judge_results(read_results(text.encode(), "n0.txt")).findings] == events


def test_rows_of_a_table_may_name_the_unit_in_their_cells():
    text = """| Performance Parameters | Stage | Average    | Min       | Max        | Median    | N   |
| E2EL                   | total | 91610.4 ms | 24215 ms  | 158131 ms  | 93839 ms  | 128 |
| TTFT                   | total | 7437.1 ms  | 1769.1 ms | 30748.0 ms | 4633.0 ms | 128 |
| TPOT                   | total | 56.2 ms    | 14.6 ms   | 103.9 ms   | 58.2 ms   | 128 |
"""
    (result,) = read_results(text.encode(), "result.txt")
    assert {name: each.typical for name, each in result.latencies.items()} == pytest.approx(
        {"e2e": 93.839, "ttft": 4.633, "tpot": 0.0582}
    )


def test_latencies_may_have_their_whole_names():
    text = """Number of requests:             6144
Number of concurrent requests:  1018.8
Request Throughput (req/sec):                     7.3411
Average time-to-first-token [TTFT] (ms):          5120.5
Average time-per-output-token [TPOT] (ms):        21.5
"""
    (result,) = read_results(text.encode(), "result.txt")
    assert (result.completed, result.request_rate, result.load.concurrency) == (6144, 7.3411, 1018.8)
    assert {name: each.mean for name, each in result.latencies.items()} == pytest.approx(
        {"ttft": 5.1205, "tpot": 0.0215}
    )


BANDWIDTH = """ RDMA_Write BW Test
 Device         : {0}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    466346           0.00               {1}   		     0.046635
"""


@pytest.mark.parametrize(("slow", "places"), [(197.1, [("n7/mlx5_1",)]), (390.8, [])])
def test_a_device_below_its_siblings_is_named(slow, places):
    tables = [("mlx5_0", 391.2), ("mlx5_1", slow), ("mlx5_2", 391.0), ("mlx5_3", 390.9)]
    text = "".join(BANDWIDTH.format(*each) for each in tables)
    findings = judge_results(read_results(text.encode(), "bw_n7.txt")).findings
    assert [each.nodes for each in findings if each.event == "bench-device-slower"] == places


def test_a_paste_of_iperf_shows_when_its_speed_fell_and_what_was_lost_since():
    row = "[  5] {0:6.2f}-{1:.2f} sec   {2:.2f} GBytes  {3:.1f} Gbits/sec {4}   1.0 MBytes\n"
    rows = [row.format(n, n + 1, 2.75, 23.6, 0) if n < 40 else row.format(n, n + 1, 0.6, 5.2, 4000) for n in range(60)]
    text = "".join(rows) + "[ ID] Interval           Transfer     Bitrate         Retr\n"
    text += "[  5]   0.00-60.00  sec   122 GBytes  17.4 Gbits/sec  80000   sender\n"
    (result,) = read_results(text.encode(), "iperf-n7.txt")
    assert (result.bandwidths[1], result.nodes) == (pytest.approx(17.4), ("n7",))
    texts = {each.event: each.text for each in judge_results([result]).findings}
    assert "from 23.6 to 5.2 Gbit/s of n7 after 40 s" in texts["bench-bandwidth-falls"]
    assert "at least 0.899 %" in texts["bench-path-loses"]


BURN = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3b1c7d55)
{0}%  proc'd: 2800 (7118 Gflop/s) - 2741 (6951 Gflop/s)   errors: 0 - 0   temps: 55 C - 71 C
\tSummary at:   Sun Sep 26 15:02:05 UTC 2021

96.0%  proc'd: 22400 (7011 Gflop/s) - 19455 ({1} Gflop/s)   errors: 0 - {2}   temps: 62 C - 84 C
"""


@pytest.mark.parametrize(
    ("speed", "wrong", "events"),
    [(7005, 0, []), (5587, 0, ["bench-gpu-computes-slower"]), (7005, 3, ["bench-values-wrong"])],
)
def test_a_gpu_that_computes_more_slowly_than_its_siblings_is_named(speed, wrong, events):
    results = read_results(BURN.format("12.0", speed, wrong).encode(), "gpu-n05.txt")
    findings = judge_results(order_results(results)).findings
    assert [one.event for one in findings] == events
    assert all(one.nodes == ("gpu-n05/gpu1",) for one in findings)


def test_hosts_that_are_called_after_gpus_are_hosts():
    results = [
        one for n in range(4) for one in read_results(HPL.format(4 if n else 2.6, "").encode(), f"hpl-gpu-n0{n}.out")
    ]
    (finding,) = judge_results(order_results(results)).findings
    assert (finding.event, finding.nodes) == ("bench-node-slower", ("gpu-n00",))
