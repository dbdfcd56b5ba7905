"""What NCCL writes and says of itself: the samples of its documentation, and a server that speaks its protocol."""

import asyncio
import json
import os

import pytest

from skewscope.adapters.formats.json_records import JsonRecordParser
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.clock import SystemClock
from skewscope.adapters.sources import SourceContext, nccl_ras
from skewscope.adapters.sources.nccl_inspector import NcclInspectorSettings as Files
from skewscope.adapters.sources.nccl_inspector import NcclInspectorSource
from skewscope.adapters.sources.nccl_ras import NcclRasSettings, NcclRasSource, RasError, query_status, read
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse


def node(name, *addresses):
    return Node(name, gpus=8, ports=(Port(name, "ew", "east-west", None, addresses),))


def gpus(name, *numbers):
    return tuple(f"{name}/gpu{n}" for n in numbers)


TOPOLOGY = Topology(
    (node("a", "172.16.64.213"), node("b", "172.16.64.245"), node("example-hostname")),
    (
        Group("tp", "tensor-parallel", gpus("example-hostname", *range(8))),
        Group("pair", "data-parallel", gpus("b", 0, 1)),
        Group("dp", "data-parallel", (*gpus("a", 5), *gpus("b", 0))),
    ),
)
WORLD = SourceContext(TOPOLOGY, MetricResolver(catalogue(), TOPOLOGY), SystemClock())
SETTINGS = NcclRasSettings("ras", (("localhost", 1),), 10.0, 1.0, 1 << 20)


def told(batch):
    keys = [batch.columns.keys[n] for n in batch.numbers] if batch else []
    return {
        (k.signal, k.entity, k.selector): v for k, v in zip(keys, batch.value.tolist() if batch else [], strict=True)
    }


@pytest.mark.parametrize("name", ["inspector_coll_perf_v4", "inspector_coll_perf_v4_verbose"])
def test_a_record_of_the_inspector_is_of_the_rank_it_says(shared, name):
    path = shared / f"fixtures/nvidia-nccl/{name}.json"
    record = json.loads(path.read_text())
    perf, rank = record["coll_perf"], f"tp:example-hostname/gpu{record['header']['rank']}"
    batch = NcclInspectorSource(Files("i", str(path), 1.0, from_start=True), WORLD).read()
    kind = f"collective={perf['coll']}"
    assert told(batch) == {
        ("nccl.coll_seq", rank, ""): perf["coll_sn"],
        ("nccl.coll_busbw", rank, kind): perf["coll_busbw_gbs"],
        ("nccl.coll_time", rank, kind): perf["coll_exec_time_us"],
        ("nccl.coll_size", rank, kind): perf["coll_msg_size_bytes"],
    }
    assert set(batch.time.tolist()) == {record["metadata"]["dump_timestamp_us"] / 1e6}


def record(**changes):
    made = {
        "header": {"id": "0x1", "rank": 0, "n_ranks": 8},
        "metadata": {"dump_timestamp_us": 1_795_000_000_000_000, "hostname": "example-hostname"},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_busbw_gbs": 5.0, "coll_exec_time_us": 7},
    }
    for part in made.values():
        part.update({name: value for name, value in changes.items() if name in part or name == "coll_timing_source"})
    return json.dumps(made)


def test_files_are_followed_as_they_grow_are_replaced_and_break(tmp_path):
    inspector = NcclInspectorSource(Files("i", str(tmp_path / "*.log"), 1.0), WORLD)
    one = tmp_path / "one.log"
    one.write_text(record() + "\n")
    assert inspector.read() is None  # what is there already is old
    with one.open("a") as file:
        whole = record(coll_sn=2)
        file.write(whole[:40])
        file.flush()
        assert inspector.read() is None
        file.write(
            whole[40:] + "\n{broken\n" + record(coll_sn=3, rank=1, dump_timestamp_us=1_795_000_001_000_000) + "\n"
        )
    found = told(inspector.read())
    assert found["nccl.coll_seq", "tp:example-hostname/gpu0", ""] == 2
    assert found["nccl.coll_seq", "tp:example-hostname/gpu1", ""] == 3
    one.unlink()
    (tmp_path / "two.log").write_text(record(coll_sn=4) + record(hostname="nobody") + '{"header": 3}\n')
    assert told(inspector.read())["nccl.coll_seq", "tp:example-hostname/gpu0", ""] == 4
    assert inspector._trouble() == "1 broken records, 2 records of unmatched communicators"


def test_what_the_processor_timed_is_no_measure_of_the_network(tmp_path):
    path = tmp_path / "one.log"
    path.write_text(record(coll_timing_source="collective_cpu"))
    batch = NcclInspectorSource(Files("i", str(path), 1.0, from_start=True), WORLD).read()
    assert list(told(batch)) == [("nccl.coll_seq", "tp:example-hostname/gpu0", "")]


def test_a_flood_and_a_record_without_end_cost_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.formats.json_records.MAX_RECORD", 1000)
    records = JsonRecordParser()
    assert list(records.feed(b'{"a": "' + b"x" * 100_000)) == []
    assert list(records.feed(b'x"}\n{"b": 1}\n')) == [{"b": 1}]
    assert (records.broken, records._rest) == (1, "")
    path = tmp_path / "one.log"
    inspector = NcclInspectorSource(Files("i", str(path), 1.0, from_start=True), WORLD)
    inspector._tail.max_bytes = 1000
    path.write_text("\n".join(record(coll_sn=n, dump_timestamp_us=n) for n in range(100)))
    assert told(inspector.read())["nccl.coll_seq", "tp:example-hostname/gpu0", ""] >= 97
    assert inspector._tail.skipped_bytes > 10_000


def test_no_pipe_is_opened_that_would_hang_its_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        NcclInspectorSource(Files("i", str(tmp_path / "pipe"), 1.0), WORLD).read()


def values(answer, ras=None):
    return {(metric, dict(of)["group"], dict(of)["rank"], dict(of).get("collective", "")): value
            for metric, of, value in (ras or NcclRasSource(SETTINGS, WORLD)).parse_answer(answer)}  # fmt: skip


def test_the_status_in_json_tells_who_is_missing(shared):
    text = (shared / "fixtures/nvidia-nccl/ras_status.json").read_text()
    found = values(text)
    missing, counted, timeouts = nccl_ras.RANK_MISSING, nccl_ras.COLLECTIVE_SEQUENCE, nccl_ras.RAS_TIMEOUTS
    assert {key: value for key, value in found.items() if key[0] != counted} == {
        (missing, "pair", "b/gpu0", ""): 0.0,
        (missing, "pair", "b/gpu1", ""): 1.0,
        (timeouts, "pair", "b/gpu0", ""): 0.0,
        (timeouts, "pair", "b/gpu1", ""): 0.0,
    }
    kinds = json.loads(text)["communicators"][0]["ranks"][0]["collective_counts"]
    assert {key[3]: value for key, value in found.items() if key[0] == counted} == kinds


def test_a_status_in_text_tells_who_is_missing_and_when_it_is_back(shared):
    folder, ras = shared / "fixtures/nvidia-nccl", NcclRasSource(SETTINGS, WORLD)
    key = (nccl_ras.RANK_MISSING, "dp", "a/gpu5", "")
    timeouts = (nccl_ras.RAS_TIMEOUTS, "dp", "a/gpu5", "")
    assert values((folder / "ras_communicators_ok.txt").read_text(), ras) == {}
    assert values((folder / "ras_incomplete.txt").read_text(), ras) == {key: 1.0, timeouts: 2.0}
    assert values((folder / "ras_dead.txt").read_text(), ras)[key] == 1.0
    # A mismatch is usual while operations run: it is no absence.
    for name in (
        "communicators_ok",
        "communicators_mismatch",
        "warning_mismatch_counts",
        "finalize_mismatch",
        "job_summary",
    ):
        assert values((folder / f"ras_{name}.txt").read_text(), ras) == {key: 0.0, timeouts: 0.0}


@pytest.mark.parametrize(
    "answer", ["{", '{"ras": 3}', "{" * 100_000, '{"ras": {"timeouts_count": 0}, "communicators": [3]}']
)
def test_an_answer_in_another_shape_is_told(answer):
    with pytest.raises(RasError):
        values(answer)


async def served(lines, do):
    """Does something with the port of a server that answers each line as told; `None` hangs up."""

    async def talk(reader, writer):
        while line := (await reader.readline()).decode().strip():
            answer = lines.get(line.split(" ")[0], b"OK\n")
            if answer is None:
                break
            writer.write(answer)
            if line.endswith("STATUS"):
                break
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        return await do(server.sockets[0].getsockname()[1])


def ask(lines, **changes):
    defaults = {"name": "r", "targets": (), "period": 1.0, "timeout": 1.0, "max_bytes": 1000}
    settings = SETTINGS.__class__(**defaults | changes)
    return asyncio.run(served(lines, lambda port: query_status(("127.0.0.1", port), settings)))


def test_the_protocol_is_spoken_with_new_and_old_servers():
    hello = {"CLIENT": b"SERVER PROTOCOL 2\n", "VERBOSE": b'{"x": 1}\nmore'}
    assert ask(hello) == '{"x": 1}\nmore'
    assert ask(hello | {"SET": b"ERROR: unknown\n", "VERBOSE": b"Job summary\n"}) == "Job summary\n"
    assert ask(hello | {"SET": b"ERROR\n"}) == '{"x": 1}\nmore'


@pytest.mark.parametrize(
    "lines",
    [
        {"CLIENT": b"HTTP/1.1 400\n"},
        {"CLIENT": None},
        {"CLIENT": b"x" * 10_000_000},
        {"CLIENT": b"SERVER PROTOCOL 2\n", "TIMEOUT": b"NO\n"},
        {"CLIENT": b"SERVER PROTOCOL 2\n", "VERBOSE": b"x" * 5000},
    ],
)
def test_whoever_speaks_otherwise_is_no_ras(lines):
    with pytest.raises((RasError, OSError, asyncio.LimitOverrunError, ValueError)):
        ask(lines)


def test_who_hangs_is_left_after_a_while(monkeypatch):
    with pytest.raises(TimeoutError):
        ask({"CLIENT": b""}, timeout=-2.4)


def test_settings_are_read_with_all_their_faults():
    found = read(FieldReader(parse("{kind: nccl-ras, targets: [n0, 'n1:9', '[::1]:7']}", "c.yaml")), (), "ras")
    assert found.targets == (("n0", 28028), ("n1", 9), ("::1", 7))
    faulty = FieldReader(parse("{kind: nccl-ras, targets: ['a b', 'n:99999'], timeout: 0, x: 1}", "c.yaml"))
    read(faulty, (), "ras")
    assert sorted(problem.field for problem in faulty.problems) == ["targets[0]", "targets[1]", "timeout", "x"]
