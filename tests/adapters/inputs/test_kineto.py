import gzip
import io
import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats.kineto import covered_time
from skewscope.adapters.inputs.kineto import read_series, recognise
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import InputError
from tests.support.telemetry import record

SAMPLES = Path(os.environ.get("SKEWSCOPE_SAMPLES", "/nonexistent"))
BASE_S = 1_700_000_000
GROUP = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]}


def event(name, category, begin_ms, length_ms, **details):
    span = {"ts": begin_ms * 1e3, "dur": length_ms * 1e3}
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, **span, "args": details}


def trace(rank, events, **more):
    info = {"backend": "nccl", "rank": rank, "world_size": 4, "pg_config": [GROUP]}
    head = {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": BASE_S * 10**9, **more}
    return {**head, "traceEvents": [{"ph": "M", "name": "process_name"}, *events]}


def steps(count, least_ms, length_ms=100, jitter_ms=0):
    """Returns steps in which a kernel computes, and NCCL fills the rest; the last tenth of the kernel overlaps it."""
    events = []
    for n in range(count):
        compute_ms = least_ms + jitter_ms * (n % 4)
        at, overlap = n * length_ms, compute_ms / 10
        events += [
            event(f"ProfilerStep#{n + 7}", "user_annotation", at, length_ms),
            event("gemm", "kernel", at, compute_ms),
            event(
                "ncclDevKernel_AllReduce_Sum_f32",
                "kernel",
                at + compute_ms - overlap,
                length_ms - compute_ms + overlap,
                **{"Process Group Name": "0", "Collective name": "allreduce"},
            ),
        ]
    return events


def read(content, name="rank0.json", labels=None):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return read_series(io.BufferedReader(io.BytesIO(data)), name, labels or {})


def values(series):
    return {one.metric.removeprefix("skewscope_"): one.values.round(9).tolist() for one in series}


def test_a_step_is_split_into_work_communication_and_waiting():
    series = read(trace(0, steps(5, 20)))
    assert values(series) == {
        "nccl_coll_time": [82_000.0] * 5,
        "step_comm_time": [0.082] * 5,
        "step_compute_time": [0.02] * 5,
        "step_duration": [0.1] * 5,
        "step_wait_time": [0.08] * 5,
    }
    assert series[0].times.tolist() == [BASE_S + n for n in (1, 2, 3, 4, 5)]
    assert series[0].note == "5 steps of 100 ms are laid one second apart, the pace of a diagnosis"
    assert dict(series[0].labels) == {"group": "default_pg-0", "rank": "0", "nranks": "4", "global_rank": "0"}


def test_steps_of_a_second_keep_their_times_and_the_duration_is_taken_of_one_rank():
    series = read(trace(3, steps(5, 500, 2000)))
    assert series[0].times.tolist() == [BASE_S + n for n in (2, 4, 6, 8, 10)]
    assert "step_duration" not in values(series)


def test_on_the_cpu_collectives_of_gloo_count_and_operators_are_the_work():
    events = [
        event("ProfilerStep#1", "user_annotation", 0, 2000),
        event("aten::mm", "cpu_op", 0, 500),
        event("aten::inner", "cpu_op", 100, 100),
        event("c10d::allreduce_", "cpu_op", 500, 1),
        event("gloo:all_reduce", "user_annotation", 400, 1400),
        event("aten::add", "cpu_op", 1900, 50),
    ]
    found = values(read(trace(0, events)))
    assert (found["step_comm_time"], found["step_wait_time"], found["step_compute_time"]) == ([1.4], [1.3], [0.7])


def test_a_slow_rank_is_the_answer(tmp_path):
    names = [f"rank{n}.json.gz" for n in range(4)]
    topology = {
        "version": 1,
        "nodes": [{"name": f"rank{n}"} for n in range(4)],
        "groups": [{"name": "default_pg-0", "kind": "data-parallel", "members": [f"rank{n}" for n in range(4)]}],
        "pools": [],
    }
    files = {
        name: gzip.compress(json.dumps(trace(n, steps(12, 80 if n == 2 else 30, jitter_ms=0.5))).encode())
        for n, name in enumerate(names)
    }
    inputs = [{"kind": "kineto", "path": name} for name in names]
    found = replay(record(tmp_path, inputs, {"topology.yaml": json.dumps(topology), **files}))
    (incident,) = [one for one in found.incidents if one.explained_by is None]
    assert (incident.name, incident.impact.metric) == ("rank2", "step.compute_time")


def test_the_rank_is_of_the_labels_of_the_trace_or_of_the_name():
    nameless = trace(0, steps(5, 20))
    del nameless["distributedInfo"]
    for name, labels, rank in (
        *(("a-rank_3.json", {}, "3"), ("rank3.json", {"global_rank": "1"}, "1")),
        *(("job/rank_2/trace.json", {}, "2"), ("rank2/rank3.json", {}, "3")),
    ):
        assert dict(read(nameless, name, labels)[0].labels)["global_rank"] == rank
    with pytest.raises(InputError, match="found no rank"):
        read(nameless, "rank1/of/trace.json")


def test_a_trace_without_communication_is_of_a_job_of_one():
    events = [event(f"ProfilerStep#{n}", "user_annotation", n * 100, 100) for n in range(6)]
    content = trace(0, [*events, *(event("gemm", "kernel", n * 100, 50) for n in range(6))])
    del content["distributedInfo"]
    (one,) = read(content, "trace.json")
    assert one.metric == "skewscope_step_duration"
    assert "nothing says its rank" in one.note


def test_a_collective_without_the_name_of_its_group_is_the_only_groups():
    events = steps(5, 20)
    for one in events:
        one["args"] = {}
    assert "nccl_coll_time" in values(read(trace(0, events)))
    two = [GROUP, {**GROUP, "pg_name": "1", "pg_desc": "mesh_tp"}]
    several = trace(0, events)
    several["distributedInfo"]["pg_config"] = two
    assert "nccl_coll_time" not in values(read(several))


def test_sends_are_transfers():
    events = [event("ProfilerStep#1", "user_annotation", 0, 2000)]
    events += [event("ncclDevKernel_SendRecv", "kernel", 10, 5, **{"Collective name": "send"})]
    assert values(read(trace(0, events)))["nccl_p2p_time"] == [5000.0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the end of the file"),
        (b"not a trace", "expected '{'"),
        ({"schemaVersion": 1, "traceEvents": []}, "traceEvents: found no event"),
        ({"nodes": [1]}, "no trace: a JSON object without traceEvents"),
        (trace(0, [event("gemm", "kernel", 0, 1)]), "found no step, expected events named ProfilerStep#N"),
        (json.dumps(trace(0, steps(5, 20))).encode()[:-40], "found the end of the file"),
    ],
)
def test_what_is_no_whole_trace_is_told(content, told):
    with pytest.raises(InputError) as error:
        read(content)
    assert told in str(error.value)


def test_unknown_fields_and_odd_events_are_ignored():
    odd = [7, {"ph": "X", "cat": "kernel", "name": "x", "ts": "soon", "dur": None}, {"ph": "X", "name": ["x"]}]
    plain = values(read(trace(0, steps(5, 20))))
    assert values(read(trace(0, [*odd, *steps(5, 20)], newSection={"a": [1]}, schemaVersion=9))) == plain


def test_only_traces_of_the_profiler_are_recognised():
    assert recognise(json.dumps(trace(0, [])).encode(), "x")
    events = [event("ProfilerStep#1", "user_annotation", 0, 1)]
    assert recognise(
        json.dumps({"metadata": {"profiler": {}}, "traceEvents": events, "schemaVersion": 1}).encode(), "x"
    )
    assert recognise(json.dumps({"traceEvents": events}).encode()[:100], "x")
    assert not recognise(b'{"traceEvents": []}', "x")
    assert not recognise(b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "rank0.json")
    assert not recognise(b'{"version": "2.9", "pg_config": {}, "pg_status": {}}', "x")


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12)


@given(SPANS, st.lists(st.integers(-5, 80), min_size=2, max_size=6).map(sorted))
def test_covered_time_is_the_number_of_moments_in_some_span(spans, edges):
    array = np.array([(begin, begin + length) for begin, length in spans], np.float64).reshape(-1, 2)
    moments = {at for begin, length in spans for at in range(begin, begin + length)}
    expected = [sum(first <= at < last for at in moments) for first, last in pairwise(edges)]
    assert covered_time(array, np.array(edges, np.float64)).tolist() == expected


@pytest.mark.parametrize(
    "path",
    [
        "HolisticTraceAnalysis/tests/data/trace_filter/sampled_rank-0.json.gz",
        "HolisticTraceAnalysis/tests/data/nccl_parser_config/nccl_data.json.gz",
        "TraceLens/tests/traces/mi300/resnet_act_checkpoint.json.gz",
    ],
)
def test_public_traces_are_read_as_a_simple_reading_of_the_whole_file(path):
    if not (SAMPLES / path).is_file():
        pytest.skip(f"no public trace at {SAMPLES / path} (set SKEWSCOPE_SAMPLES)")
    data = gzip.decompress((SAMPLES / path).read_bytes())
    raw = json.loads(data)["traceEvents"]
    marks = sorted(
        (e["ts"], e["dur"]) for e in raw if e.get("cat") == "user_annotation" and "ProfilerStep" in str(e["name"])
    )
    begin, end = marks[1][0], marks[2][0] if len(marks) > 2 else sum(marks[1])
    # Whole microseconds of the second step in which a kernel of NCCL runs, and in which nothing else does.
    talks, works = (np.zeros(int(end - begin) + 2, bool) for _ in range(2))
    for one in raw:
        if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            first, last = one["ts"] - begin, one["ts"] + one["dur"] - begin
            if last > 0 and first < len(talks):
                target = talks if one["name"].startswith("nccl") else works
                target[max(round(first), 0) : max(round(last), 0)] = True
    found = values(read(data, path))
    assert found["step_comm_time"][1] == pytest.approx(talks.sum() / 1e6, rel=0.01)
    assert found["step_wait_time"][1] == pytest.approx((talks & ~works).sum() / 1e6, rel=0.02)


def old_steps(count, loading_ms, length_ms=200, *, is_marked=True):
    """Returns steps as PyTorch before 1.10 names their parts; each waits for its data first."""
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    for n in range(count):
        at = n * length_ms
        yield event(f"ProfilerStep#{n}" if is_marked else "aten::add", "Operator", at, length_ms)
        yield event(loader, "Operator", at + 1, loading_ms)
        yield event("volta_sgemm", "Kernel", at + loading_ms + 5, 30)
        yield event("Memcpy HtoD (Pageable -> Device)", "Memcpy", at + loading_ms + 1, 4)
        yield event("Optimizer.step#AdamW.step", "Operator", at + length_ms - 9, 8)


@pytest.mark.parametrize("is_marked", [True, False])
def test_old_traces_give_steps_and_what_they_wait_for_data(is_marked):
    series = values(read(trace(0, list(old_steps(8, 150, is_marked=is_marked)))))
    durations, waits = (series["step_" + name] for name in ("duration", "data_time"))
    assert len(durations) == 8 if is_marked else 7
    assert durations == pytest.approx([0.2] * len(durations))
    assert waits == pytest.approx([0.15] * len(waits))
