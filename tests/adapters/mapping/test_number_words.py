"""What numbers of unknown programs are, by the words of their names."""

import pytest

from skewscope.adapters.mapping.number_words import find_bad_state, find_number, split_place

MEANT = {
    "BurstBalance": ("other.remaining", ""),
    "CPUCreditBalance": ("other.remaining", ""),
    "CPU Credits Remaining": ("other.remaining", ""),
    "io_free_prefetch_slots": ("other.remaining", ""),
    "Data Disk IOPS Consumed Percentage": ("other.usage", "%"),
    "PercentIOLimit": ("other.usage", "%"),
    "disk_used_percent": ("other.usage", "%"),
    "envoy_cluster_upstream_rq_pending_overflow": ("other.errors", ""),
    "redis_rejected_connections_total": ("other.errors", ""),
    "instance_disk_throttled_read_ops_count_total": ("other.errors", ""),
    "VolumeQueueLength": ("other.queue", ""),
    "kafka_consumergroup_lag": ("other.queue", ""),
    "rabbitmq_queue_messages_ready": ("other.queue", ""),
    "jetstream_consumer_num_pending": ("other.queue", ""),
    "ApproximateNumberOfMessagesVisible": ("other.queue", ""),
    "ceph_osd_commit_latency_ms": ("other.latency", "ms"),
    "pgbouncer_pools_client_maxwait_seconds": ("other.latency", "s"),
    "storage_throughput_bytes": ("other.throughput", "By"),
    "ceph_osd_up": ("other.state", ""),
    "etcd_server_has_leader": ("other.state", ""),
    "minio_cluster_drive_offline_total": ("other.fault", ""),
    "ceph_pg_degraded": ("other.fault", ""),
}
UNCLEAR = (
    *("CPUSurplusCreditBalance", "CPU Credits Consumed", "node_memory_MemAvailable_bytes", "steps_remaining"),
    *(
        "cpu_usage_percent",
        "cache_used_ratio",
        "queue_capacity",
        "queue_consumers",
        "queue_messages_published_total",
        "last_error_time",
    ),
    *("process_start_time_seconds", "go_gc_duration_seconds", "request_timeout_seconds", "redis_connected_clients"),
    *("cpu_seconds_total", "uptime_seconds", "request_success_ratio", "train_loss", "x" * 200, ""),
)


@pytest.mark.parametrize("name", MEANT)
def test_the_words_of_a_name_say_what_its_numbers_are(name):
    found = find_number(name)
    assert (found.signal, found.unit) == MEANT[name]


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_is_not_clear_stays_unknown(name):
    assert find_number(name) is None


def test_a_histogram_is_of_times_or_unknown():
    assert find_number("etcd_disk_wal_fsync_duration_seconds", is_histogram=True).signal == "other.duration"
    assert find_number("acme_queue_length", is_histogram=True) is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"pod": "a-1", "reason": "CrashLoopBackOff"}, ("reason", "CrashLoopBackOff")),
        ({"server": "r2", "state": "DOWN"}, ("state", "DOWN")),
        ({"condition": "Ready", "status": "true"}, None),
        ({"reason": "OOMKilled", "status": "false"}, None),
        ({"phase": "Running"}, None),
    ],
)
def test_a_label_says_which_bad_state_a_series_is_of(labels, expected):
    assert find_bad_state(labels) == expected


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("vol-0f3c9a11 BurstBalance", ("BurstBalance", "vol-0f3c9a11")),
        ("conntrack used % gw-2", ("conntrack used %", "gw-2")),
        ("Disk Queue gw-2 (ms)", ("Disk Queue (ms)", "gw-2")),
        ("Data Disk Queue Depth", ("Data Disk Queue Depth", "")),
        ("BurstBalance", ("BurstBalance", "")),
    ],
)
def test_a_place_stands_before_or_behind_a_name(name, parts):
    assert split_place(name) == parts
