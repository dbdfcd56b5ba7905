import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats.chakra import COLLECTIVE, COMPUTE, SEND
from skewscope.adapters.inputs.chakra import GROUP, read_series, recognise
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import InputError
from tests.support.telemetry import record

SAMPLES = Path(os.environ.get("SKEWSCOPE_SAMPLES", "/nonexistent")) / "chakra-tests"


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def message(**fields):
    """Returns a message with these fields, named f1, f2 and so on: numbers, texts and bytes."""
    out = b""
    for name, value in fields.items():
        number = int(name[1:])
        data = value.encode() if isinstance(value, str) else value
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def trace(nodes, **more):
    """Returns a stream of (kind, microseconds, on the CPU)."""
    messages = [message(f1="0.0.4")]
    for number, (kind, duration, on_cpu) in enumerate(nodes):
        attribute = message(f1="is_cpu_op", f27=int(on_cpu))
        messages.append(message(f1=number, f2="op", f3=kind, f7=duration, f10=attribute, **more))
    return b"".join(varint(len(one)) + one for one in messages)


NODES = [
    (COMPUTE, 900, True),
    (COMPUTE, 100, False),
    (COMPUTE, 50, False),
    (COLLECTIVE, 10, True),
    (COLLECTIVE, 30, False),
    (COMPUTE, 200, False),
    (SEND, 40, False),
]


def read(content, name="trace.3.et", labels=None):
    return read_series(io.BufferedReader(io.BytesIO(content)), name, labels or {})


def values(series):
    return {one.metric.removeprefix("skewscope_"): one.values.round(9).tolist() for one in series}


def test_what_is_computed_between_collectives_counts_as_a_step_and_the_cpu_only_launches():
    series = read(trace(NODES))
    assert values(series) == {
        "nccl_coll_time": [30.0],
        "nccl_p2p_time": [40.0],
        "step_comm_time": [0.00003, 0.00004],
        "step_compute_time": [0.00015, 0.0002],
    }
    assert dict(series[0].labels) == {"group": GROUP, "rank": "3", "global_rank": "3"}
    assert "has no times" in series[0].note


def test_the_form_in_json_says_the_same():
    graph = [{"Id": n, "NodeType": k, "runtime": t, "is_cpu_op": c} for n, (k, t, c) in enumerate(NODES)]
    assert values(read(json.dumps({"workload_graph": graph}).encode())) == values(read(trace(NODES)))


def test_a_slow_rank_is_the_answer(tmp_path):
    members = [f"rank{n}" for n in range(4)]
    topology = {
        "version": 1,
        "nodes": [{"name": name} for name in members],
        "groups": [{"name": GROUP, "kind": "data-parallel", "members": members}],
        "pools": [],
    }
    steps = [[(COMPUTE, (5000 if n == 1 else 3000) + 10 * step, False) for step in range(9)] for n in range(4)]
    files = {
        f"job.{n}.et": trace([node for one in steps[n] for node in (one, (COLLECTIVE, 100 + n, False))])
        for n in range(4)
    }
    inputs = [{"kind": "chakra", "path": name} for name in files]
    found = replay(record(tmp_path, inputs, {"topology.yaml": json.dumps(topology), **files})).incidents
    assert [(one.name, one.impact.metric) for one in found if one.explained_by is None] == [
        ("rank1", "step.compute_time")
    ]


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        (b"", "t.0.et", "found no node"),
        (trace(NODES)[:-3], "t.0.et", "byte 172: found the end of the file after"),
        (trace([(COMPUTE, 1, False)]), "t.0.et", "found no collective"),
        (trace([(99, 1, False)]), "t.0.et", "a node of kind 99"),
        (trace(NODES), "trace.et", "a name without a rank"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": [{}]}', "t.0.json", "an execution trace without durations"),
        (b'{"workload_graph": []}', "t.0.json", "found no node"),
        (b'{"workload_graph": [{"NodeType": "x"}]}', "t.0.json", "workload_graph[0]: found a node of kind 'x'"),
    ],
)
def test_what_is_no_whole_trace_is_told(content, name, told):
    with pytest.raises(InputError) as error:
        read(content, name)
    assert told in str(error.value)


def test_fields_of_a_newer_version_are_ignored():
    assert values(read(trace(NODES, f11=message(f1=2)))) == values(read(trace(NODES)))


@given(st.binary(max_size=60))
def test_any_bytes_give_series_or_a_clear_error(data):
    try:
        read(data)
    except InputError as error:
        told = str(error)
        assert "expected" in told


def test_only_chakra_traces_are_recognised():
    assert recognise(trace(NODES), "trace.0.et")
    assert recognise(b'{"workload_graph": []}', "x")
    assert not recognise(trace(NODES), "trace.bin")
    assert not recognise(b"\x80\x02}q\x00.", "dump.et")
    assert not recognise(b'{"schemaVersion": 1, "traceEvents": []}', "rank0.json")


def test_a_public_trace_is_read_as_its_form_in_json_says():
    paths = SAMPLES / "chakra.0.et", SAMPLES / "chakra.0.json"
    if not all(path.is_file() for path in paths):
        pytest.skip(f"no public traces at {SAMPLES} (set SKEWSCOPE_SAMPLES)")
    binary, text = (path.read_bytes() for path in paths)
    graph = [node for node in json.loads(text)["workload_graph"] if not node["is_cpu_op"]]
    found = values(read(binary, "chakra.0.et"))
    assert found["nccl_coll_time"] == [node.get("runtime", 0) for node in graph if node["NodeType"] == COLLECTIVE]
    last = max(n for n, node in enumerate(graph) if node["NodeType"] == COLLECTIVE)
    work = sum(node.get("runtime", 0) for node in graph[:last] if node["NodeType"] == COMPUTE)
    assert sum(found["step_compute_time"]) == pytest.approx(work / 1e6)
