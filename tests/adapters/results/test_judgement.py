"""What results show: queues, failures, slow nodes and sweeps that saturate; healthy ones show nothing."""

import json

import pytest

from skewscope.adapters.results.result import BenchmarkResult
from skewscope.adapters.results.result_format import read_results
from skewscope.adapters.results.result_judgement import compare_results, judge_results
from skewscope.adapters.results.result_order import order_results
from skewscope.kb.line_reading import compile_event
from skewscope.kb.loader import catalogue
from tests.support.benchmark_texts import bandwidth_table, exported_object, serving_object, serving_table


def read(*texts: str, name: str = "run{}.txt") -> list[BenchmarkResult]:
    return [each for n, text in enumerate(texts) for each in read_results(text.encode(), name.format(n))]


def events_of(judgement) -> list[str]:
    """The events of the findings; each of their texts is one that the catalogue recognises as that event."""
    for found in judgement.findings:
        patterns = compile_event(catalogue().events[found.event])
        assert any(pattern.find(found.text) is not None for pattern in patterns), found
        assert len(found.text) < 300
    return [found.event for found in judgement.findings]


def judged(*texts: str) -> list[str]:
    return events_of(judge_results(read(*texts)))


HEALTHY = serving_table(80, 16)
QUEUED = serving_table(39870, 17, served=2.54)


@pytest.mark.parametrize(
    "text",
    [
        HEALTHY,
        serving_table(250, 40, rate="1.00", served=0.99),
        # All requests at once: that they queue is how the test is made.
        serving_table(30000, 40, rate="inf", served=12.0),
        # So few of them that the end of the run explains the lower rate.
        serving_table(80, 16, rate="4.00", served=2.9, completed=20),
        exported_object(300, 30, 64, 18.0),
        # A prompt of 500 tokens that takes longer than the few tokens of its answer.
        json.dumps(serving_object(700, 16, total_output_tokens=800 * 4)),
    ],
)
def test_a_healthy_run_shows_nothing(text):
    assert judged(text) == []


@pytest.mark.parametrize(
    "text",
    [
        QUEUED,
        json.dumps(serving_object(41000, 17, request_throughput=2.5, duration=320.0, output_throughput=320.0)),
        # Without lengths, as in a paste of some lines.
        "\n".join(line for line in QUEUED.splitlines() if "Total" not in line and "Output" not in line),
        exported_object(25_000, 30, 512, 18.0),
    ],
)
def test_first_tokens_far_behind_what_computing_takes_are_a_queue(text):
    assert judged(text) == ["bench-requests-queue"]


def test_failed_requests_are_counted_and_those_that_did_not_complete_too():
    assert judged(serving_table(80, 16, failed=9)) == ["bench-requests-fail"]
    assert judged(json.dumps(serving_object(80, 16, completed=791))) == ["bench-requests-fail"]


def test_a_rate_that_is_not_served_is_named_although_no_latency_was_measured():
    text = json.dumps({"request_rate": 8.0, "completed": 800, "duration": 200.0, "request_throughput": 4.0})
    assert judged(text) == ["bench-throughput-lower"]


def test_first_tokens_that_grow_while_decoding_stays_are_waiting():
    judgement = judge_results(read(HEALTHY, QUEUED))
    assert events_of(judgement) == ["bench-requests-queue"]
    assert "39.9 s instead of 80 ms while a token takes 17 ms" in judgement.findings[0].text
    assert {each.name: each.verdict for each in judgement.changes}["tpot"] == "alike"


def test_a_slower_decode_is_told_from_a_later_first_token():
    assert judged(HEALTHY, serving_table(130, 32, served=3.9)) == ["bench-decode-slower"]
    assert judged(HEALTHY, serving_table(240, 16.5)) == ["bench-first-token-slower"]


@pytest.mark.parametrize("after", [serving_table(84, 16.4), serving_table(70, 15, served=3.97), HEALTHY])
def test_two_runs_that_differ_as_runs_do_show_nothing(after):
    assert judged(HEALTHY, after) == []


def test_repeats_say_how_much_runs_vary():
    steady = read(*(serving_table(each, 16) for each in (80, 82, 81)))
    later = read(*(serving_table(each, 16) for each in (104, 108, 106)))
    assert events_of(compare_results(steady, later)) == ["bench-first-token-slower"]
    varying = read(*(serving_table(each, 16) for each in (80, 120, 100)))
    assert events_of(compare_results(varying, later)) == []


def test_at_more_load_a_later_first_token_is_waiting():
    more = serving_table(900, 17, rate="8.00", served=7.8)
    assert events_of(compare_results(read(HEALTHY), read(more))) == ["bench-requests-queue"]


def sweep(*levels: tuple[int, float, float]) -> str:
    """Lines of results at a concurrency: (concurrency, requests/s, time to first token in ms)."""
    return "\n".join(
        json.dumps(
            serving_object(ttft, 16, request_rate="inf", max_concurrency=level, request_throughput=rate, duration=200.0)
        )
        for level, rate, ttft in levels
    )


def test_a_sweep_says_where_it_saturates():
    judgement = judge_results(
        read(sweep((1, 0.5, 60), (8, 3.9, 70), (32, 7.6, 90), (64, 7.9, 4000), (128, 7.8, 12000)))
    )
    assert events_of(judgement) == ["bench-saturates"]
    assert "It saturates at 32 at a time: 7.6 requests/s are served" in judgement.findings[0].text
    assert "from 60 ms to 12 s" in judgement.findings[0].text


def test_a_sweep_that_still_grows_shows_nothing():
    assert judged(sweep((1, 0.5, 60), (8, 3.9, 70), (32, 12.1, 90))) == []


PAIRS = [("node-a", "node-b"), ("node-a", "node-c"), ("node-a", "node-d"), ("node-b", "node-c")]


def pairs(speeds, nodes=PAIRS) -> list[str]:
    return [bandwidth_table(pair, speed) for pair, speed in zip(nodes, speeds, strict=True)]


@pytest.mark.parametrize("peaks", [(460, 467, 452, 457), (460, 460, 430, 455), (12.1, 12.0, 11.8, 12.2)])
def test_healthy_pairs_of_nodes_show_nothing(peaks):
    assert judged(*pairs(peaks)) == []
    assert judged(pairs(peaks)[0]) == []


@pytest.mark.parametrize(
    ("nodes", "peaks", "named"),
    [
        (PAIRS, (460, 467, 238, 457), [("node-d",)]),
        ([("a1", "b1"), ("a1", "c1")], (460, 238), [("c1",)]),
        # Most tests are slow: all of them share a node.
        ([("a1", "d1"), ("b1", "d1"), ("c1", "d1"), ("a1", "b1")], (240, 236, 238, 460), [("d1",)]),
        # Two slow nodes, each with tests of its own.
        ([("a1", "d1"), ("b1", "e1"), ("a1", "b1"), ("b1", "c1")], (240, 236, 460, 455), [("d1",), ("e1",)]),
        # Nodes alone.
        ([("a1",), ("b1",), ("c1",)], (480, 482, 300), [("c1",)]),
    ],
)
def test_the_node_that_slow_tests_share_is_named(nodes, peaks, named):
    judgement = judge_results(read(*pairs(peaks, nodes)))
    assert {*events_of(judgement)} == {"bench-node-slower"}
    assert [found.nodes for found in judgement.findings] == named


def test_a_path_is_named_where_each_of_its_nodes_is_fast_with_others():
    ring = [("a1", "b1"), ("b1", "c1"), ("a1", "c1"), ("a1", "d1")]
    judgement = judge_results(read(*pairs((460, 240, 455, 462), ring)))
    assert events_of(judgement) == ["bench-path-slower"]
    assert judgement.findings[0].nodes == ("b1", "c1")


def test_gpus_with_links_that_reach_what_pcie_carries_do_not_use_them():
    slow, fast = bandwidth_table(("node-a",), 21), bandwidth_table(("node-a",), 460)
    sxm = "NVIDIA H100 80GB HBM3"
    assert judged(slow.replace("NVIDIA H100", sxm)) == ["bench-links-unused"]
    assert judged(fast.replace("NVIDIA H100", sxm)) == []
    # Cards on PCIe alone have no other way; between nodes it is the network that counts.
    assert judged(slow.replace("NVIDIA H100", "NVIDIA H100 PCIe")) == []
    assert judged(bandwidth_table(("a1", "b1"), 21).replace("NVIDIA H100", sxm)) == []


def test_wrong_values_are_told_whatever_the_speed():
    assert judged(bandwidth_table(("node-a",), 460, wrong=3)) == ["bench-values-wrong"]


def test_tables_from_before_tell_a_node_that_has_become_slower_from_all():
    before = read(*pairs((460, 467, 452, 457)))
    assert events_of(compare_results(before, read(*pairs((460, 467, 238, 457))))) == ["bench-node-slower"]
    assert events_of(compare_results(before, read(*pairs((230, 235, 226, 228))))) == ["bench-bandwidth-lower"]
    assert events_of(compare_results(before, read(*pairs((455, 470, 449, 460))))) == []


HISTORY = "Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,95%,Total Request Count,Total Failure Count\n"


def history(*levels: tuple[int, float, float]) -> str:
    """A history of Locust: for each 60 s users, requests/s and the median in ms."""
    rows, total = [], 0
    for n, (users, rate, median) in enumerate(levels):
        for second in range(60):
            total += round(rate)
            rows.append(
                f"{1789372800 + 60 * n + second},{users},,Aggregated,{rate},0.0,{median},{2 * median},{total},0"
            )
    return HISTORY + "\n".join(rows) + "\n"


def test_a_history_of_locust_is_a_sweep_over_users_and_a_comparison_at_each_number():
    assert judged(history((10, 5, 1800), (60, 5, 9000))) == ["bench-saturates"]
    assert judged(history((10, 5, 1800), (10, 5, 9000))) == ["bench-requests-slower"]
    assert judged(history((10, 5, 1800), (20, 10, 1850))) == []


def test_statistics_of_locust_count_failures():
    head = "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Requests/s,50%,99%"
    row = ",Aggregated,1000,{},40,44.1,12.5,40,90"
    assert judged(f"{head}\n{row.format(0)}\n") == []
    assert judged(f"{head}\n{row.format(20)}\n") == ["bench-requests-fail"]


def test_results_are_ordered_by_their_dates_else_by_words_of_their_names():
    first, second = (json.dumps(serving_object(80, 16, date=f"2026091{day}-080000")) for day in (4, 5))
    assert [each.started for each in order_results(read(second, first))] == [1789372800.0, 1789459200.0]
    named = [*read(HEALTHY, name="x-after.txt"), *read(HEALTHY, name="x-baseline.txt")]
    assert [each.file for each in order_results(named)] == ["x-baseline.txt", "x-after.txt"]
