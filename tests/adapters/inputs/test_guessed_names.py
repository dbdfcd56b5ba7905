"""Metrics of exporters that nobody described are taken by the words at the end of their names."""

import pytest
from click.testing import CliRunner

from skewscope.adapters.inputs.guessed_names import guess_mapping
from skewscope.adapters.inputs.series_names import SeriesContext, name_series
from skewscope.adapters.mapping.column_names import find_signal_at_end
from skewscope.tui.cli.main import cli

TAKEN = {
    "acme_engine_pending_requests": ("serve.waiting", 1),
    "acme:num_requests_running": ("serve.running", 1),
    "kestrel_kv_block_usage_ratio": ("serve.kv_usage", 1),
    "kestrel_gpu_cache_usage_perc": ("serve.kv_usage", 1),
    "other_gpu_temperature_celsius": ("gpu.temperature", 1),
    "other_gpu_power_watts": ("gpu.power", 1),
    "acme_rpc_errors_total": ("serve.failure", 1),
    "acme_requests_total": ("serve.success", 1),
}
LEFT = (
    *("db_connections_active", "process_virtual_memory_max_bytes", "go_goroutines", "acme_gpu_utilization"),
    *("acme_total", "scrape_duration_seconds", "acme_requests", "kv_cache_usage_bytes"),
)


@pytest.mark.parametrize("metric", TAKEN)
def test_words_unit_and_type_say_what_a_metric_is(metric):
    mapping, note = guess_mapping([(metric, {})])
    assert [(rule.signal, rule.scale) for rule in mapping.rules] == [TAKEN[metric]]
    assert f"{metric} = {TAKEN[metric][0]}" in note
    assert metric in mapping.text


@pytest.mark.parametrize("metric", LEFT)
def test_a_name_that_could_be_of_anything_is_left_out(metric):
    assert guess_mapping([(metric, {})]) == guess_mapping([])


def test_parts_of_a_histogram_are_one_metric():
    parts = [(f"acme_time_to_first_token_seconds{part}", {}) for part in ("_bucket", "_sum", "_count")]
    mapping, _ = guess_mapping(parts)
    assert [(rule.signal, rule.is_histogram) for rule in mapping.rules] == [("serve.ttft", True)]
    assert mapping.translate(*parts[1]).metric == "skewscope_serve_ttft_sum"


def test_a_label_says_how_requests_ended():
    mapping, _ = guess_mapping(("acme_requests_total", {"status": each}) for each in ("200", "503"))
    found = {each: mapping.translate("acme_requests_total", {"status": each}).metric for each in ("200", "503")}
    assert found == {"200": "skewscope_serve_success", "503": "skewscope_serve_failure"}


def test_counters_of_a_device_are_taken_whole_and_only_with_its_name():
    names = ("fab_rx_packets_total", "fab_rx_discards_total", "fab_rx_discards_no_buffer_total")
    mapping, _ = guess_mapping((metric, {"device": "eth0"}) for metric in names)
    assert sorted(rule.signal for rule in mapping.rules) == ["port.rx_netdev_drops", "port.rx_netdev_packets"]
    assert names[2] not in mapping.text
    mapping, _ = guess_mapping((metric, {"host": "n0"}) for metric in names)
    assert {rule.signal for rule in mapping.rules} == {"other.errors"}


@pytest.mark.parametrize("text", ["{node}", "{", "x" * 1000, "a\nb: c", ""])
def test_texts_that_mean_something_in_a_mapping_file_are_left_out(text):
    mapping, _ = guess_mapping([("acme_requests_total", {"status": text}), (f"{text}_pending_requests", {})])
    assert [rule.label_patterns for rule in mapping.rules if rule.signal == "serve.success"] == [()]


def test_the_begin_of_a_path_is_a_place():
    named = name_series("llm.prod.replica-a.queue.waiting", [3.0], SeriesContext())
    assert (named.metric, dict(named.labels)) == ("skewscope_serve_waiting", {"instance": "llm.prod.replica-a"})
    assert find_signal_at_end("anything.active") is None


PAGE = """# TYPE acme_rpc_requests_total counter
acme_rpc_requests_total{{method="Generate"}} {requests}
# TYPE acme_rpc_errors_total counter
acme_rpc_errors_total{{method="Generate"}} {errors}
"""


def test_two_pages_that_names_date_show_errors_between_them(tmp_path):
    for time, requests, errors in ((1763805600, 100000, 10), (1763805660, 106000, 4810)):
        (tmp_path / f"rpc-{time}.prom").write_text(PAGE.format(requests=requests, errors=errors))
    files = [str(path) for path in sorted(tmp_path.iterdir())]
    done = CliRunner().invoke(cli, ["diagnose", *files, "--no-progress"])
    assert done.exit_code == 1
    assert "80 requests/s" in done.output
    assert "taken by the words of their names" in done.output


def test_a_page_of_an_unknown_engine_shows_a_full_cache_with_a_queue(tmp_path):
    page = "# TYPE k gauge\n" + "".join(
        f'kestrel_{name}{{replica="chat-2"}} {value}\n'
        for name, value in (("kv_usage_ratio", 0.99), ("pending_requests", 212), ("active_requests", 48))
    )
    (tmp_path / "page.txt").write_text(page)
    done = CliRunner().invoke(cli, ["diagnose", str(tmp_path / "page.txt"), "--no-progress"])
    assert done.exit_code == 1
    assert "chat-2" in done.output


def test_what_a_gateway_sends_to_is_a_replica_by_the_label_that_differs():
    urls = [f"http://vllm-{each}.llm.svc:8000/v1" for each in "abc"]
    mapping, _ = guess_mapping(("proxy_failed_responses_total", {"api_base": url, "team": "x"}) for url in urls)
    found = [mapping.translate("proxy_failed_responses_total", {"api_base": url}) for url in urls]
    assert [(one.metric, one.labels["replica"]) for one in found] == [
        ("skewscope_serve_failure", f"vllm-{each}.llm.svc") for each in "abc"
    ]


def test_requests_that_are_counted_by_their_end_and_in_all_are_counted_once():
    names = ("gw_success_responses_total", "gw_failure_responses_total", "gw_requests_total")
    mapping, _ = guess_mapping((name, {}) for name in names)
    assert sorted(rule.signal for rule in mapping.rules) == ["serve.failure", "serve.success"]


def test_numbers_of_other_programs_are_called_by_their_names_and_placed_by_the_label_that_differs():
    series = [("ceph_osd_up", {"ceph_daemon": f"osd.{n}"}) for n in range(3)] + [("ceph_pg_degraded", {"pool_id": "3"})]
    mapping, _ = guess_mapping(series)
    found = [mapping.translate(*one) for one in (series[1], series[3])]
    assert [(one.metric, dict(one.labels)) for one in found] == [
        ("skewscope_other_state", {"node": "osd.1", "metric": "ceph_osd_up"}),
        ("skewscope_other_fault", {"node": "ceph", "metric": "ceph_pg_degraded", "pool_id": "3"}),
    ]


def test_a_bad_state_that_a_label_says_is_a_fault():
    labels = {"pod": "a-1", "reason": "CrashLoopBackOff", "uid": "8c1e"}
    mapping, _ = guess_mapping([("kube_pod_container_status_waiting_reason", labels)])
    found = mapping.translate("kube_pod_container_status_waiting_reason", labels)
    assert (found.metric, found.labels["node"]) == ("skewscope_other_fault", "a-1")
    assert found.labels["metric"] == "kube_pod_container_status_waiting_reason CrashLoopBackOff"


def test_what_is_declared_a_counter_is_no_level():
    metric = "acme_compute_duration_us"
    assert guess_mapping([(metric, {})])[0].rules
    assert not guess_mapping([(metric, {})], types={metric: "counter"})[0].rules


def test_levels_that_look_well_are_no_all_clear(tmp_path):
    rows = "\n".join(f"2026-10-06T09:{n:02d}:00Z,n1,{3 + n % 2},{20 + n % 3}" for n in range(40))
    (tmp_path / "a.csv").write_text(f"time,host,disk_backlog,free_slots\n{rows}\n")
    done = CliRunner().invoke(cli, ["diagnose", str(tmp_path / "a.csv"), "--no-progress"])
    assert done.exit_code == 3


@pytest.mark.parametrize(
    ("name", "is_of_requests"),
    [
        ("io_queue_depth", False),
        ("node_disk_io_queue_depth", False),
        ("nvme0n1.queue_depth", False),
        ("kafka_messages_pending", False),
        ("eth0_tx_queue_length", False),
        ("gateway_queue_depth", True),
        ("storage-node.vllm.queue_depth", True),
    ],
)
def test_a_queue_of_something_else_is_none_of_requests(name, is_of_requests):
    assert (find_signal_at_end(name) is not None) == is_of_requests
