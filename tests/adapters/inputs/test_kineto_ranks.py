"""Traces of several ranks in a folder: how late each arrives at collectives, and who the others wait for."""

import json

import numpy as np
import pytest

from skewscope.adapters.formats.compression import observe_bytes
from skewscope.adapters.inputs.draft_recording import describe_recording, draft_recording, save_recording
from skewscope.adapters.inputs.kineto_ranks import read_series
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import InputError
from tests.adapters.inputs.test_kineto import event, trace

RANKS = 4
STEP_MS = 100.0


def job(late, count=12, name="ncclDevKernel_AllReduce_Sum_f32", skew_ms=0.0, seed=1):
    """Returns the traces of a job by rank; in each step `late[rank]` ms pass before a rank joins both collectives.

    The clock of each rank is `skew_ms` ahead of that of the rank before it.
    """
    shake = np.random.default_rng(seed).uniform(0, 1, (RANKS, count, 2))
    found = {}
    for rank in range(RANKS):
        events = []
        for n in range(count):
            at = n * STEP_MS + rank * skew_ms
            events.append(event(f"ProfilerStep#{n + 3}", "user_annotation", at, STEP_MS))
            for part in (0, 1):
                begin = at + 50.0 * part + late[rank] * part + shake[rank, n, part]
                details = {"Process Group Name": "0", "Collective name": name}
                events.append(event(name, "kernel", begin, at + 50.0 * part + 45.0 - begin, **details))
        found[rank] = trace(rank, events)
    return found


def write(folder, traces):
    folder.mkdir(exist_ok=True)
    for rank, content in traces.items():
        (folder / f"rank{rank}.json").write_text(json.dumps(content))
    return folder


def lags(folder):
    series = read_series(sorted(folder.iterdir()), "traces")
    found = {dict(one.labels)["rank"]: one for one in series if one.metric.endswith("arrival_lag")}
    return {int(rank): one.values for rank, one in found.items()}


@pytest.mark.parametrize("skew_ms", [0.0, 731.0])
def test_the_rank_that_comes_last_is_late_by_what_the_others_wait(tmp_path, skew_ms):
    found = lags(write(tmp_path / "t", job([0, 0, 30, 5], skew_ms=skew_ms)))
    assert sorted(found) == [0, 1, 2, 3]
    assert ((found[2] > 0.029) & (found[2] < 0.031)).all()
    assert ((found[3] > 0.004) & (found[3] < 0.006)).all()
    assert (found[0] < 0.001 + 1e-9).all()


@pytest.mark.parametrize("name", ["ncclDevKernel_Broadcast", "ncclDevKernel_SendRecv", "ncclDevKernel_Reduce_Sum"])
def test_collectives_that_ranks_end_alone_tell_no_arrival(tmp_path, name):
    assert lags(write(tmp_path / "t", job([0, 0, 30, 5], name=name))) == {}


@pytest.mark.parametrize("lost", range(3))
def test_a_rank_without_a_trace_shifts_no_other(tmp_path, lost):
    traces = job([25.0 * (rank == 3) for rank in range(RANKS)], count=20)
    del traces[lost]
    draft = draft_recording([write(tmp_path / "t", traces)])
    told = replay(draft.recording)
    assert {(one.condition, one.name) for one in told.incidents if one.explained_by is None} == {
        ("late-member", "rank3")
    }
    assert "step.duration" in told.signals
    assert any(f"a place for rank {lost} of" in each.what for each in draft.assumptions)


def test_traces_of_jobs_of_two_sizes_are_of_two_runs(tmp_path):
    for name, rank, size in (("a", 1, 4), ("b", 2, 8)):
        content = trace(rank, [event(f"ProfilerStep#{n}", "user_annotation", n * 100, 100) for n in range(9)])
        content["distributedInfo"] |= {"world_size": size, "pg_config": []}
        content["traceEvents"] += [event("ncclDevKernel_AllReduce", "kernel", n * 100, 50) for n in range(9)]
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    sub = tmp_path / "sub"
    sub.mkdir()
    (tmp_path / "b.json").rename(sub / "b.json")
    found = draft_recording([tmp_path])
    assert {len(group.members) for group in found.recording.topology.groups} == {4, 8}
    assert found.assumptions[0].what == "runs a, sub-b"


def without_collective(traces, rank, place):
    """Returns the traces, one rank without one of its collectives."""
    events = traces[rank]["traceEvents"]
    del events[[n for n, each in enumerate(events) if each["name"].startswith("nccl")][place]]
    return traces


@pytest.mark.parametrize(("place", "steps"), [(-1, 12), (0, 12), (11, 11)])
def test_a_collective_that_one_trace_lacks_shifts_no_other(tmp_path, place, steps):
    traces = without_collective(job([0, 0, 30, 5]), 1, place)
    found = lags(write(tmp_path / "t", traces))
    assert {len(values) for values in found.values()} == {steps}
    assert ((found[2] > 0.029) & (found[2] < 0.031)).all()
    assert (found[0] < 0.001 + 1e-9).all()


@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("numbered", [False, True])
def test_a_processor_that_runs_ahead_of_its_device_makes_no_rank_late(tmp_path, lacking, numbered):
    traces = job([0, 0, 0, 5])
    for rank, trace_of_rank in traces.items():
        number = 0
        for each in trace_of_rank["traceEvents"]:
            if each["name"].startswith("ProfilerStep") and rank == 1:
                # As long as a collective and a half.
                each["ts"] -= 75e3
            elif each["name"].startswith("nccl"):
                each["args"] |= {"Seq": number} if numbered else {}
                # Work differs from one collective to the next.
                each["dur"] += 1e3 * (number * number % 7)
                number += 1
    found = lags(write(tmp_path / "t", without_collective(traces, 1, 0) if lacking else traces))
    assert all((found[rank] < 0.001 + 1e-9).all() for rank in (0, 1, 2))
    assert np.median(found[3]) == pytest.approx(0.005, abs=0.001)


@pytest.mark.parametrize("slow", [0, RANKS - 2])
def test_the_rank_that_others_wait_for_is_told(tmp_path, slow):
    folder = write(tmp_path / "t", job([25.0 * (rank == slow) for rank in range(RANKS)], count=20, seed=slow))
    draft = draft_recording([folder])
    assert [each.kind for each in draft.recording.inputs] == ["kineto-ranks"]
    told = replay(draft.recording).incidents
    assert {(one.condition, one.name) for one in told if one.explained_by is None} == {("late-member", f"rank{slow}")}
    assert any("nccl.arrival_lag" in str(one) for one in told)
    save_recording(draft, tmp_path / "saved")
    assert [one.name for one in replay(describe_recording(tmp_path / "saved").recording).incidents] == [
        one.name for one in told
    ]


def test_healthy_ranks_are_not_told(tmp_path):
    assert replay(draft_recording([write(tmp_path / "t", job([0, 2, 1, 0], count=20))]).recording).incidents == ()


def test_one_trace_alone_is_read_as_before_and_others_beside_them_are_left_out(tmp_path):
    traces = job([0, 0, 0, 0])
    one = write(tmp_path / "one", {0: traces[0]})
    assert [each.kind for each in draft_recording([one]).recording.inputs] == ["kineto"]
    many = write(tmp_path / "many", traces)
    (many / "notes.txt").write_text("notes")
    (many / "rank9.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "M"}]}')
    draft = draft_recording([many])
    assert any("rank9.json is left out: traceEvents: no step" in text for text in replay(draft.recording).warnings)


def test_a_second_trace_of_a_rank_and_a_folder_without_any_are_told(tmp_path):
    folder = write(tmp_path / "t", job([0, 0, 0, 0]))
    (folder / "again.json").write_text((folder / "rank1.json").read_text())
    with pytest.raises(InputError, match=r"found a second trace of rank 1, beside again\.json"):
        lags(folder)
    with pytest.raises(InputError, match="no trace of a profiler"):
        read_series([], "empty")


@pytest.mark.slow
def test_traces_that_several_processes_read_are_the_same(tmp_path, monkeypatch):
    folder = write(tmp_path / "t", job([0, 0, 30, 5]))
    (folder / "notes.txt").write_text("slow since noon")
    files = sorted(folder.iterdir())
    one_by_one = read_series(files, "traces")
    monkeypatch.setattr("skewscope.adapters.inputs.parallel_files.BYTES_PER_WORKER", 1000)
    seen = []
    with observe_bytes(seen.append):
        together = read_series(files, "traces", workers=2)
    assert sum(seen) >= sum(path.stat().st_size for path in files if path.suffix == ".json")
    assert [(one.metric, one.labels, one.note) for one in together] == [
        (one.metric, one.labels, one.note) for one in one_by_one
    ]
    for one, other in zip(together, one_by_one, strict=True):
        assert np.array_equal(one.times, other.times)
        assert np.array_equal(one.values, other.values)
    (folder / "rank9.json").write_text((folder / "rank1.json").read_text()[:-40])
    with pytest.raises(InputError, match="rank9"):
        read_series(sorted(folder.iterdir()), "traces", workers=2)
