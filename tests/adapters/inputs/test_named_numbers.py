"""Numbers with names in texts of any program: pairs, tables, rows for places, series of promtool, records of JSON."""

import io
import json

import pytest

from skewscope.adapters.formats.stray_text import clean_text
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.named_numbers import READER, recognise
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import InputError, NothingKnownError

ENVOY = """[ops@edge ~]$ curl -s localhost:9901/stats
cluster.{place}.membership_healthy: 6
cluster.{place}.upstream_rq_200: {good}
cluster.{place}.upstream_rq_2xx: {good}
cluster.{place}.upstream_rq_503: {bad}
cluster.{place}.upstream_rq_5xx: {bad}
cluster.{place}.upstream_rq_retry: {retried}
cluster.{place}.upstream_rq_time: P0(1,2) P50(300,291)
"""
VARNISH = """MAIN.uptime                81200         1.00 Child process uptime
MAIN.sess_dropped              3         0.00 Sessions dropped for thread
VBE.boot.chat.unhealthy        0          .   Fetches not tried
"""
PROMTOOL = """$ promtool query range http://prom:9090 'sglang:num_queue_reqs'
sglang:num_queue_reqs{instance="10.0.0.1:30000", job="chat"} =>
3 @[1795341600]
4 @[1795341630]
sglang:num_queue_reqs{instance="10.0.0.2:30000", job="chat"} =>
5 @[1795341600]
6 @[1795341630.5]
"""
INFLUX = """> SELECT mean("utilization_gpu") FROM "nvidia_smi" WHERE time > now() - 4h GROUP BY time(2h), "index"
name: nvidia_smi
tags: index=3
time                 mean
----                 ----
2026-11-16T06:00:00Z 68.41
2026-11-16T08:00:00Z 71.02
"""
MYSQL = """mysql> SELECT * FROM health;
+---------------------+------+----------+---------+
| ts                  | host | gpu      | power_w |
+---------------------+------+----------+---------+
| 2026-11-16 06:00:00 | n0   | 0        |   301.5 |
| 2026-11-16 06:00:00 | n0   | 1        |   295.0 |
+---------------------+------+----------+---------+
2 rows in set (0.00 sec)
"""
CLICKHOUSE = """ch :) SELECT time, host, gpu, power_w FROM gpu

┌────────────────time─┬─host─┬─gpu─┬─power_w─┐
│ 2026-11-16 06:00:00 │ n0   │   0 │   650.1 │
│ 2026-11-16 06:00:30 │ n0   │   0 │   655.1 │
└─────────────────────┴──────┴─────┴─────────┘

2 rows in set. Elapsed: 0.003 sec.
"""
PSQL = """monitor=# select * from replicas;
 replica | requests_waiting | requests_running
---------+------------------+------------------
 chat-0  |               12 |               48
 chat-1  |                0 |               47
(2 rows)
"""
STRACE = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ------------------
 81.14   41.203311        3109     13251      1204 futex
 11.02    5.596102        1120      4996           epoll_wait
  4.91    2.493348         211     11816         9 read
------ ----------- ----------- --------- --------- ------------------
100.00   50.780636         617     82277      1301 total
"""
SQLITE = """sqlite> .mode column
replica     requests waiting  requests running
----------  ----------------  ----------------
chat-0      12                48
chat-1      0                 47
"""
NUMA = """$ numastat -z
                          Node 0          Node 1           Total
                --------------- --------------- ---------------
Numa_Hit              918221.04       881204.41      1799425.46
Other_Node               149.94          626.31          776.24
"""
MEMCACHED = "STAT pid 1\r\nSTAT curr_connections 10\r\nSTAT get_misses 9\r\nSTAT listen_disabled_num 0\r\nEND\r\n"
DEVICES = "gpu,gfx_activity,socket_power,hotspot\n0,98,745,78\n1,99,691,75\n2,97,N/A,105\n"
RECORDS = [{"gpu": 0, "power": {"socket_w": 700.5}}, {"gpu": 1, "power": {"socket_w": 300.0}}]
KEYED = {
    "backends": {"chat-a": {"queue_size": 3, "failed_requests": 1}, "chat-b": {"queue_size": 9, "failed_requests": 0}}
}
STATS = {"stats": [{"name": "cluster.chat.rq_retry", "value": 3}, {"name": "cluster.chat.rq_timeout", "value": 4}]}
SHAPES = {
    "pairs by a colon": (
        ENVOY.format(place="chat", good=9, bad=2, retried=4),
        {
            ("cluster_upstream_rq_responses_total", "code=5xx", "replica=chat"): [2],
            ("cluster_upstream_rq_retry", "replica=chat"): [4],
        },
    ),
    "pairs by blanks": (VARNISH, {("MAIN_sess_dropped",): [3], ("VBE_unhealthy", "replica=boot.chat"): [0]}),
    "pairs behind a word": (MEMCACHED, {("curr_connections",): [10], ("get_misses",): [9]}),
    "several pairs in a line": (
        "read_ops: 6 write_ops: 179; Waiting: 106\nActive connections: 291\n",
        {("write_ops",): [179], ("Active_connections",): [291]},
    ),
    "pairs by an equals sign": (
        "net.core.somaxconn = 128\nnet.ipv4.tcp_abort_on_overflow = 1\n",
        {("net_somaxconn", "replica=core"): [128]},
    ),
    "a unit behind": (
        "cache.resident = 12 MiB\ncache.load_percent = 93.5%\n",
        {("cache_resident_mib",): [12], ("cache_load_percent_%",): [93.5]},
    ),
    "series of promtool": (
        PROMTOOL,
        {
            ("sglang:num_queue_reqs", "instance=10.0.0.1:30000", "job=chat"): [3, 4],
            ("sglang:num_queue_reqs", "instance=10.0.0.2:30000", "job=chat"): [5, 6],
        },
    ),
    "one moment of promtool": (
        'up{job="a"} => 1 @[1795341600]\nup{job="b"} => 0 @[1795341600]\n',
        {("up", "job=a"): [1], ("up", "job=b"): [0]},
    ),
    "tables of Influx": (INFLUX, {("nvidia_smi_utilization_gpu", "gpu=3"): [68.41, 71.02]}),
    "a box": (MYSQL, {("skewscope_gpu_power", "gpu=1", "node=n0"): [295.0]}),
    "a header in the frame": (CLICKHOUSE, {("skewscope_gpu_power", "gpu=0", "node=n0"): [650.1, 655.1]}),
    "a table of engines": (
        PSQL,
        {("requests_waiting", "instance=chat-0"): [12], ("requests_running", "instance=chat-1"): [47]},
    ),
    "columns by their rule": (
        STRACE,
        {("errors", "replica=futex"): [1204], ("calls", "replica=epoll_wait"): [4996], ("errors", "replica=read"): [9]},
    ),
    "names of several words": (SQLITE, {("requests_waiting", "instance=chat-0"): [12]}),
    "rows for places": (NUMA, {("Numa_Hit", "replica=Node1"): [881204.41], ("Other_Node", "replica=Node0"): [149.94]}),
    "rows of devices": (DEVICES, {("skewscope_gpu_power", "gpu=0"): [745], ("skewscope_gpu_util", "gpu=2"): [97]}),
    "records": (json.dumps(RECORDS), {("skewscope_gpu_power", "gpu=1"): [300]}),
    "records by their names": (
        json.dumps(KEYED),
        {("queue_size", "instance=chat-b"): [9], ("failed_requests", "instance=chat-a"): [1]},
    ),
    "records of a name and a value": (json.dumps(STATS), {("cluster_rq_timeout", "replica=chat"): [4]}),
}
NONE = {
    "prose": "The job hangs since ten.\nWe have 8 nodes with 64 GPUs.\nWhat can we do about it now?\n",
    "a log": "INFO 11-22 10:00:00 engine started\nINFO 11-22 10:00:01 loaded 3 shards\nWARNING x is deprecated\n",
    "code": "def f(x):\n    return x + 1\nfor i in range(10):\n    print(f(i))\n",
    "numbers without names": "1 2 3\n4 5 6\n7 8 9\n",
    "a configuration": "model: llama\nengine: vllm\nport: http\nmode: fast\nlevel: info\nname: x\n",
}


def clean(text):
    return b"".join(clean_text(iter([text.encode()]), "paste.txt", keep_prompts=True))


def read(text):
    series = READER.read_series(io.BufferedReader(io.BytesIO(clean(text))), "paste.txt", {})
    return {(one.metric, *(f"{name}={value}" for name, value in one.labels)): one for one in series}


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_are_read_by_the_shape_that_they_stand_in(shape):
    text, wanted = SHAPES[shape]
    assert recognise(clean(text), "paste.txt")
    found = read(text)
    assert {key: found[key].values.tolist() for key in wanted if key in found} == wanted


@pytest.mark.parametrize("name", NONE)
def test_a_text_without_numbers_with_names_is_refused(tmp_path, name):
    assert not recognise(NONE[name].encode(), "paste.txt")


def test_responses_of_one_status_are_left_out_beside_those_of_its_class():
    found = read(ENVOY.format(place="chat", good=9, bad=2, retried=4))
    assert not [key for key in found if "code=503" in key]


def test_a_command_that_waits_says_how_far_readings_are_apart():
    first, second = (ENVOY.format(place="chat", good=good, bad=0, retried=0) for good in (9, 600))
    found = read(f"{first}[ops@edge ~]$ sleep 60; !!\n{second}")
    times = found["cluster_upstream_rq_responses_total", "code=2xx", "replica=chat"].times
    assert times[1] - times[0] == 60
    assert "no time between readings" not in found["cluster_upstream_rq_retry", "replica=chat"].note


def diagnose(tmp_path, text, name="paste.txt"):
    path = tmp_path / name
    path.write_text(text)
    return replay(draft_recording([path]).recording)


def test_a_pool_most_of_whose_answers_are_errors_is_found_in_two_readings(tmp_path):
    first = ENVOY.format(place="chat-70b", good=410_233, bad=161_432, retried=148_203)
    second = ENVOY.format(place="chat-70b", good=412_337, bad=175_585, retried=161_225)
    outcome = diagnose(tmp_path, f"{first}[ops@edge ~]$ sleep 60; !!\n{second}")
    assert any("chat-70b" in one.name for one in outcome.incidents)


def test_a_pool_that_answers_is_no_incident_and_no_all_clear(tmp_path):
    first = ENVOY.format(place="chat-70b", good=410_233, bad=161_432, retried=148_203)
    second = ENVOY.format(place="chat-70b", good=430_337, bad=161_433, retried=148_209)
    outcome = diagnose(tmp_path, f"{first}[ops@edge ~]$ sleep 60; !!\n{second}")
    assert not outcome.incidents
    assert not outcome.is_enough


@pytest.mark.parametrize("text", [NUMA, "cache.resident = 12 MiB\ncache.items = 93\n"])
def test_numbers_of_which_nothing_is_known_are_too_little_to_judge(tmp_path, text):
    with pytest.raises(NothingKnownError, match="no metric that is known"):
        diagnose(tmp_path, text)


KAFKA = """$ kafka-consumer-groups.sh --describe --group infer
GROUP   TOPIC    PARTITION  LOG-END-OFFSET  LAG    CONSUMER-ID  HOST
infer   prompts  0          {end}           {lag}  c-1          /10.0.0.5
infer   prompts  1          900214          3      c-2          /10.0.0.6
"""
RABBIT = "$ rabbitmqctl list_queues\nname\tmessages_ready\tconsumers\ninfer.requests\t{lag}\t4\ninfer.replies\t0\t4\n"


@pytest.mark.parametrize("text", [KAFKA, RABBIT])
@pytest.mark.parametrize(("after", "wanted"), [(90_000, {"growing-queue"}), (44, set())])
def test_a_queue_that_a_table_shows_twice_is_found_where_it_grows(tmp_path, text, after, wanted):
    readings = (text.format(lag=lag, end=881_000 + lag) for lag in (40, after))
    assert {one.condition for one in diagnose(tmp_path, "$ sleep 60\n".join(readings)).incidents} == wanted


def test_what_a_known_format_says_nothing_of_is_read_as_numbers_with_names(tmp_path):
    clocks = [(1980, 990 if gpu == 2 else 1980) for gpu in range(4)]
    rows = [
        {"ts": 1_795_341_600 + 10 * n, "host": "n1", "gpu": gpu, "sm_clock_mhz": clock[n > 30], "gpu_util_pct": 98}
        for gpu, clock in enumerate(clocks)
        for n in range(60)
    ]
    outcome = diagnose(tmp_path, "".join(f"{json.dumps(row)}\n" for row in sorted(rows, key=lambda row: row["ts"])))
    assert {one.name for one in outcome.incidents if one.explained_by is None} == {"n1/gpu2"}


def test_a_long_hostile_line_takes_no_time():
    text = "a_" * 900 + "\n" + "a: " * 600 + "\n" + "a:b:" * 450 + " x\n" + "{" * 1900 + " =>\n"
    assert not recognise(text.encode(), "paste.txt")
    with pytest.raises(InputError):
        read(text)


def test_numbers_beyond_all_bounds_are_none():
    assert read("cache.items = 9\ncache.hits = 3\ncache.size = 1e999\n").keys() == {("cache_items",), ("cache_hits",)}


def test_records_without_times_say_that_their_file_has_one():
    (one, *_) = read(json.dumps(RECORDS)).values()
    assert "that of the file is taken" in one.note


def test_json_that_is_nested_without_end_is_no_fault():
    text = '{"a":' * 5000 + "1" + "}" * 5000
    assert not recognise(text.encode(), "x.json")
