"""Readers of results: each program's output gives the same values in the same units, whole, cut or decorated."""

import json
import re

import pytest

from skewscope.adapters.results.readers.bandwidth_table import nodes_of_name
from skewscope.adapters.results.result import OfferedLoad, ServingResult
from skewscope.adapters.results.result_format import find_result_format, read_results
from skewscope.kb.problems import InputError
from tests.support.benchmark_texts import bandwidth_table, exported_object, serving_object, serving_table


def read(text: str, file: str = "result.txt"):
    return read_results(text.encode(), file)


def the_run(text: str) -> ServingResult:
    (run,) = read(text)
    assert isinstance(run, ServingResult)
    return run


TABLE = serving_table(80, 16)
SGLANG = """Backend:                                 sglang
Traffic request rate:                    4.0
Max request concurrency:                 not set
Successful requests:                     800
Benchmark duration (s):                  203.10
Request throughput (req/s):              3.94
Output token throughput (tok/s):         504.2
Concurrency:                             9.12
Median E2E Latency (ms):                 2120.00
Median TTFT (ms):                        80.00
Median ITL (ms):                         16.00
Max ITL (ms):                            90.00
"""
MLPERF = """================================================
MLPerf Results Summary
================================================
SUT name : SUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 3.94
Completed tokens per second: 504.20
Result is : VALID
  Performance constraints satisfied : Yes
================================================
Additional Stats
================================================
Scheduled samples per second : 4.00
Mean First Token latency (ns)               : 84000000
50.00 percentile first token latency (ns)   : 80000000
99.90 percentile first token latency (ns)   : 160000000
50.00 percentile time to output token (ns)   : 16000000
min_query_count : 800
"""
GUIDELLM = json.dumps(
    {
        "metadata": {"guidellm_version": "0.5"},
        "benchmarks": [
            {
                "config": {"strategy": {"type_": "constant", "rate": 4.0}},
                "duration": 203.1,
                "metrics": {
                    "request_totals": {"successful": 800, "errored": 0, "incomplete": 0, "total": 800},
                    "requests_per_second": {"successful": {"mean": 3.94}},
                    "output_tokens_per_second": {"successful": {"mean": 504.2}},
                    "time_to_first_token_ms": {
                        "successful": {
                            "mean": 84.0,
                            "std_dev": 20.0,
                            "percentiles": {"p001": 40.0, "p50": 80.0, "p999": 170.0},
                        }
                    },
                    "time_per_output_token_ms": {"successful": {"percentiles": {"p50": 16.0}}},
                },
            }
        ],
    }
)
LIFECYCLE = json.dumps(
    {
        "load_summary": {"count": 800, "requested_rate": 4.0, "send_duration": 203.1},
        "successes": {
            "count": 800,
            "latency": {
                "time_to_first_token": {"mean": 0.084, "median": 0.080, "p99.9": 0.16},
                "time_per_output_token": {"median": 0.016},
            },
            "throughput": {"requests_per_sec": 3.94, "output_tokens_per_sec": 504.2},
        },
        "failures": {"count": 0},
    }
)
REPORT = """version: '0.2'
scenario:
  load:
    standardized: {rate_qps: 4.0, concurrency: .inf}
results:
  request_performance:
    aggregate:
      latency:
        time_to_first_token: {mean: 84.0, p50: 80.0, p99p9: 160.0, units: ms}
        time_per_output_token: {p50: 0.016, units: s/token}
      requests: {total: 800, failures: 0}
      throughput:
        request_rate: {mean: 3.94, units: queries/s}
        output_token_rate: {mean: 504.2, units: tokens/s}
"""


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        TABLE.replace("\n", "\r\n"),
        "\x1b[32m" + TABLE.replace(":  ", ":\x1b[0m  "),
        "\n".join(f"(APIServer pid=1) INFO 11-22 10:00:00 {line}" for line in TABLE.splitlines()),
        "user@host:~$ vllm bench serve --model m\n" + TABLE,
        "\n".join(TABLE.splitlines()[3:]),
        "\n".join(
            f"| {name} | {value.strip()} |"
            for name, _, value in (line.partition(":") for line in TABLE.splitlines())
            if value
        ),
        SGLANG,
        json.dumps(serving_object(80, 16)),
        json.dumps([serving_object(80, 16)], indent=2),
        json.dumps(serving_object(80, 16, request_rate="4.0", ttfts=[0.08] * 9)),
        MLPERF,
        GUIDELLM,
        LIFECYCLE,
        REPORT,
    ],
)
def test_programs_and_forms_give_the_same_result(text):
    run = the_run(text)
    assert run.load == OfferedLoad(rate=4.0)
    assert run.typical("ttft") == pytest.approx(0.080)
    assert run.token_time == pytest.approx(0.016, rel=0.03)
    assert run.request_rate == pytest.approx(3.94, abs=0.01)
    assert run.output_rate == pytest.approx(504.2, abs=0.2)
    assert not run.failed


def test_the_metrics_of_aiperf_have_units_of_their_own():
    run = the_run(exported_object(80, 16, 32, 3.94, errors=3))
    assert (run.load, run.failed) == (OfferedLoad(concurrency=32), 3)
    assert run.typical("ttft") == pytest.approx(0.08)
    assert run.latencies["ttft"].least == pytest.approx(0.04)
    assert (run.input_length, run.output_length) == (550, 100)


CSV = """Metric,avg,min,max,p99,p95,p90,p75,p50,p25
Time To First Token (ms),84.00,40.00,"1,160.00",120.00,110.00,100.00,90.00,80.00,70.00
Inter Token Latency (ms),16.10,15.00,20.00,19.00,18.00,17.00,16.50,16.00,15.50
Input Sequence Length,550.0,550,550,550,550,550,550,550,550

Metric,Value
Request Throughput (per sec),3.94
Output Token Throughput (per sec),504.2
"""
PRINTED = """                NVIDIA GenAI-Perf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━┓
┃                         Statistic ┃    avg ┃    p50 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━┩
│          Time to first token (ms) │  84.00 │  80.00 │
│          Inter token latency (ms) │  16.00 │  16.00 │
│ Output token throughput (per sec) │ 504.20 │    N/A │
│      Request throughput (per sec) │   3.94 │    N/A │
└───────────────────────────────────┴────────┴────────┘
"""


@pytest.mark.parametrize("text", [CSV, PRINTED])
def test_tables_of_genai_perf_are_read_by_their_columns(text):
    run = the_run(text)
    assert run.typical("ttft") == pytest.approx(0.08)
    assert run.token_time == pytest.approx(0.016, rel=0.01)
    assert (run.request_rate, run.output_rate) == (3.94, 504.2)


def test_lines_of_sglang_are_a_result_each_although_the_last_is_cut_off():
    lines = [json.dumps(serving_object(80, 16, request_rate=rate)) for rate in (1.0, 2.0, 4.0)]
    runs = read("\n".join([*lines, lines[0][:90]]))
    assert [run.load.rate for run in runs] == [1.0, 2.0, 4.0]


def test_several_tables_of_one_file_are_several_results():
    runs = read(serving_table(80, 16, rate="1.00") + serving_table(90, 17, rate="inf"))
    assert [run.load for run in runs] == [OfferedLoad(rate=1.0), OfferedLoad(is_unlimited=True)]


def test_an_invalid_run_of_mlperf_says_which_condition_failed():
    text = MLPERF.replace(": VALID", ": INVALID").replace("satisfied : Yes", "satisfied : NO")
    assert the_run(text).verdict == "performance constraints"


@pytest.mark.parametrize(
    "decorate",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n".join(f"[1,0]<stdout>:{line}" for line in text.splitlines()),
        lambda text: re.sub(r"\[0x18\] NVIDIA H100", "[0000:05:00] AMD Instinct MI300X", text),
    ],
)
def test_a_table_of_bandwidth_gives_nodes_ranks_and_the_mean_of_both_ways(decorate):
    (table,) = read(decorate(bandwidth_table(("node-a", "node-b"), 460)))
    assert (table.nodes, table.ranks, table.wrong) == (("node-a", "node-b"), 16, 0)
    assert table.bandwidths[8 << 30] == pytest.approx(457, rel=0.01)


def test_rows_alone_are_read_by_their_last_columns_and_the_file_names_the_nodes():
    rows = [line for line in bandwidth_table(("a", "b"), 460).splitlines() if not line.startswith("#")]
    (table,) = read("\n".join(rows), "node-a_node-b.log")
    assert table.nodes == ("node-a", "node-b")
    assert table.bandwidths[8 << 30] == pytest.approx(457, rel=0.01)


def test_columns_are_found_by_the_header_where_there_are_more_of_them():
    way = "time  algbw  busbw  #wrong"
    header = f"#  size  count  type  redop  root  {way}  i_min  i_max  i_p99  i_cv  {way}"
    row = "8589934592 2147483648 float sum -1 34833.8 246.60 462.37 0 1 2 3 4 34833.8 246.60 462.37 N/A"
    (table,) = read(f"{header}\n{row}\n# Avg bus bandwidth : 462.37\n")
    assert table.bandwidths == {8589934592: 462.37}


def test_several_tables_in_one_file_are_told_apart():
    tables = read(bandwidth_table(("node-a", "node-b"), 460) + bandwidth_table(("node-a", "node-c"), 240))
    assert [table.nodes for table in tables] == [("node-a", "node-b"), ("node-a", "node-c")]


PERFTEST = """                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.10              388.00              0.740
"""
OSU = """# OSU MPI-CUDA Bandwidth Test v7.4
# Size      Bandwidth (MB/s)
65536                48500.00
"""


@pytest.mark.parametrize("text", [PERFTEST, OSU])
def test_tests_between_two_hosts_give_their_bandwidth(text):
    (table,) = read(text, "gpu01-gpu02.log")
    assert table.bandwidths == {65536: pytest.approx(48.5)}
    assert table.nodes == ("gpu01", "gpu02")


@pytest.mark.parametrize(
    ("file", "nodes"),
    [
        ("node-a_node-b.log", ("node-a", "node-b")),
        ("all_reduce_gpu01-gpu02.log", ("gpu01", "gpu02")),
        ("dgx-01-dgx-02.txt", ("dgx-01", "dgx-02")),
        ("rack1-n3__rack1-n4.log", ("rack1-n3", "rack1-n4")),
        ("all_reduce_perf.log", ()),
        ("20260914_083000.log", ()),
        ("node-a.log", ()),
    ],
)
def test_names_of_files_join_nodes_that_are_named_alike(file, nodes):
    assert nodes_of_name(file) == nodes


def test_the_json_of_nccl_tests_is_read():
    text = json.dumps(
        {
            "args": ["./all_gather_perf", "-J", "x.json"],
            "nccl_version": 22800,
            "config": {"devices": [{"rank": n, "hostname": f"node-{n}"} for n in range(2)]},
            "results": [{"size": 1024, "out_of_place": {"bus_bw": 10.0}, "in_place": {"bus_bw": 12.0, "nwrong": None}}],
            "out_of_bounds": {"count": 3, "okay": "false"},
        }
    )
    (table,) = read(text)
    assert (table.operation, table.nodes, table.wrong, table.bandwidths) == (
        "all_gather",
        ("node-0", "node-1"),
        3,
        {1024: 11.0},
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "time,node,gpu.power\n1,a,3\n",
        '{"metrics": {"a": 1}}',
        '{"status": "success", "data": {"resultType": "matrix", "result": []}}',
        "INFO 11-22 10:00:00 Avg prompt throughput: 12.3 tokens/s, Running: 3 reqs, Waiting: 0 reqs\n" * 3,
        "#1 step 100 loss 2.1 time 3.1\n",
        "version: '3'\nservices: {a: {image: b}}\n",
    ],
)
def test_other_files_are_no_results(text):
    assert find_result_format(text.encode()) is None


def test_a_damaged_result_is_refused_with_its_programs_named():
    with pytest.raises(InputError):
        read('{"request_throughput": 3.9, "completed": 800, "mean_ttft_ms": ')
    with pytest.raises(InputError, match="nccl-tests"):
        read("no results")
