import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording, save_recording
from skewscope.adapters.inputs.nccl_flight_recorder import MAX_HOLD_S, read_series, recognise, scan
from skewscope.adapters.inputs.recording import Input, Recording, load, open_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from tests.support.telemetry import record

SAMPLES = Path(os.environ.get("SKEWSCOPE_SAMPLES", "/nonexistent")) / "nvidia-resiliency-ext"
NS = 1_700_000_000_000_000_000
GROUPS = {
    "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
    "7": {"name": "7", "desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": "[0, 1, 2, 3]"},
}


def operation(sequence, second, state="completed", **more):
    return {
        "record_id": sequence,
        "pg_id": 3,
        "process_group": ("7", "TENSOR_MODEL_PARALLEL_GROUP"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": NS + round(second * 1e9),
        "state": state,
        "retired": state == "completed",
        "timeout_ms": 120_000,
        "is_p2p": False,
        **more,
    }


def dump(entries, enqueued=None, version="2.10", **more):
    newest = max((e["collective_seq_id"] for e in entries), default=0) if enqueued is None else enqueued
    status = {"3": {"last_enqueued_collective": newest, "last_completed_collective": newest}}
    return {"version": version, "pg_config": GROUPS, "pg_status": status, "entries": entries, **more}


def write(folder, dumps, name="nccl_trace_rank_{}"):
    folder.mkdir(exist_ok=True)
    for rank, content in dumps.items():
        (folder / name.format(rank)).write_bytes(pickle.dumps(content, 2))
    return folder


def files_of(folder):
    return sorted(folder.iterdir())


def values(series, signal, rank):
    """Returns (seconds after NS, value) of the only series of a signal on a rank of the job."""
    found = [s for s in series if s.metric.endswith(signal) and dict(s.labels)["global_rank"] == str(rank)]
    assert len(found) == 1
    return list(zip((found[0].times - NS / 1e9).round(3).tolist(), found[0].values.tolist(), strict=True))


def stopped_job():
    """Four ranks that began a collective a second; rank 2 stopped after 20 of them, the others wait in the next one."""
    done = [operation(n, n) for n in range(1, 21)]
    waits = dump([*done, operation(21, 21, "scheduled")])
    return {0: waits, 1: waits, 2: dump(done), 3: waits}


def test_progress_and_state_of_each_rank_are_held_until_the_time_out(tmp_path):
    series = read_series(files_of(write(tmp_path / "dumps", stopped_job())), "dumps")
    assert values(series, "coll_seq", 2)[:20] == [(n, n) for n in range(1, 21)]
    assert values(series, "coll_seq", 2)[-1] == (141.0, 20.0)
    assert values(series, "coll_seq", 0)[-1] == (141.0, 21.0)
    assert values(series, "op_state", 0)[-1] == (141.0, 1.0)
    assert {value for _, value in values(series, "op_state", 2)} == {0.0}
    labels = dict(series[0].labels)
    assert labels["group"] == "TENSOR_MODEL_PARALLEL_GROUP-7"
    assert (labels["rank"], labels["nranks"], labels["parallelism"]) == ("0", "4", "tensor")
    assert "does not say when it was written" in series[0].note


def written_at(folder, second):
    """Returns the folder, its files as if they were written so many seconds after NS."""
    for file in folder.iterdir():
        os.utime(file, (NS / 1e9 + second,) * 2)
    return folder


def incidents(recording):
    return [(one.condition, one.name) for one in replay(recording).incidents if one.explained_by is None]


@pytest.mark.parametrize(
    ("second", "end"), [(21.6, 22), (20.0, 21), (61.0, 61), (5000.0, 141), (-1e6, 141), (-1e9, 141)]
)
def test_the_state_is_held_until_the_first_file_was_written_if_that_can_be(tmp_path, second, end):
    folder = written_at(write(tmp_path / "dumps", stopped_job()), second)
    series = read_series(files_of(folder), "dumps")
    assert values(series, "coll_seq", 0)[-1][0] == end
    told = "until the first file was written" if end < 141 else "runs out of its time"
    assert told in series[0].note


def test_dumps_that_were_asked_of_a_working_job_tell_no_hang(tmp_path):
    folder = written_at(write(tmp_path / "dumps", stopped_job()), 21.6)
    draft = draft_recording([folder])
    assert incidents(draft.recording) == []
    save_recording(draft, tmp_path / "saved")
    # A copy that keeps no times, such as a checkout.
    written_at(tmp_path / "saved/inputs/000/dumps", 10_000)
    assert incidents(open_recording(tmp_path / "saved")) == []
    assert incidents(draft_recording([tmp_path / "saved/inputs"]).recording) == [("collective-hang", "rank2")]


def other_job():
    """As `stopped_job`, but rank 1 stopped."""
    job = stopped_job()
    return {**job, 1: job[2], 2: job[1]}


def test_dumps_of_the_same_ranks_in_two_folders_are_of_two_runs(tmp_path):
    for name, job in (("stops/a", stopped_job()), ("stops/b", other_job())):
        for host, ranks in (("h0", (0, 1)), ("h1", (2, 3))):
            folder = tmp_path / name
            folder.mkdir(parents=True, exist_ok=True)
            write(folder / host, {rank: job[rank] for rank in ranks})
    draft = draft_recording([tmp_path / "stops"])
    found = incidents(draft.recording)
    assert sorted(found) == [("collective-hang", "a.rank2"), ("collective-hang", "b.rank1")]
    assert draft.assumptions[0].what == "runs a, b"
    save_recording(draft, tmp_path / "saved")
    assert incidents(open_recording(tmp_path / "saved")) == found


def test_a_copy_of_a_dump_in_a_folder_below_is_told_and_changes_no_answer(tmp_path):
    folder = write(tmp_path / "dumps", stopped_job())
    write(folder / "sub", {0: stopped_job()[0]})
    draft = draft_recording([folder])
    assert incidents(draft.recording) == [("collective-hang", "rank2")]
    assert draft.assumptions[0].what == "run sub"
    (warning,) = [text for text in load(draft.recording, catalogue()).warnings if "does not say" in text][:1]
    assert warning.startswith("dumps: ")


@pytest.mark.parametrize("text", ["yesterday", "-1", "nan", "1e300"])
def test_a_label_that_is_no_time_of_writing_is_an_error(tmp_path, text):
    write(tmp_path / "dumps", stopped_job())
    source = Input("nccl-flight-recorder", "dumps", (("written", text),))
    with pytest.raises(InputError, match="seconds since 1970"):
        list(scan(source, Recording(tmp_path, Topology(), (source,))))


@pytest.mark.parametrize(
    ("lost", "is_cut"),
    [(1, True), pytest.param(0, False, marks=pytest.mark.slow), pytest.param(3, False, marks=pytest.mark.slow)],
)
def test_a_rank_without_a_dump_shifts_no_other(tmp_path, lost, is_cut):
    job = stopped_job()
    file = write(tmp_path / "dumps", job) / f"nccl_trace_rank_{lost}"
    if is_cut:
        file.write_bytes(file.read_bytes()[:200])
    else:
        file.unlink()
    draft = draft_recording([tmp_path / "dumps"])
    found = incidents(draft.recording)
    assert found == [("collective-hang", "rank2")]
    assert draft.recording.topology.groups[0].members == ("rank0", "rank1", "rank2", "rank3")
    save_recording(draft, tmp_path / "saved")
    assert incidents(open_recording(tmp_path / "saved")) == found


def failed_gpu():
    """As `stopped_job`, but the host of rank 2 went on to enqueue what its GPU, which failed after 18, never ran."""
    job = stopped_job()
    pending = [operation(n, n, "scheduled") for n in range(19, 22)]
    job[2] = dump([*(operation(n, n) for n in range(1, 19)), *pending])
    for rank, completed in ((0, 20), (1, 20), (2, 18), (3, 20)):
        status = {"3": {"last_enqueued_collective": 21, "last_completed_collective": completed}}
        job[rank] = {**job[rank], "pg_status": status}
    return job


def test_collectives_completed_are_those_of_the_status_else_of_the_operations(tmp_path):
    series = read_series(files_of(write(tmp_path / "a", failed_gpu())), "dumps")
    assert [values(series, "coll_done", rank)[-1] for rank in range(4)] == [(139, 20), (139, 20), (139, 18), (139, 20)]
    bare = {rank: {**content, "pg_status": {}} for rank, content in failed_gpu().items()}
    series = read_series(files_of(write(tmp_path / "b", bare)), "dumps")
    assert [values(series, "coll_done", rank)[-1][1] for rank in range(4)] == [20, 20, 18, 20]


@pytest.mark.parametrize(
    "more",
    [{"profiling_name": "nccl:broadcast"}, {"profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 1}],
)
def test_one_sided_operations_do_not_tell_who_took_part(tmp_path, more):
    job = failed_gpu()
    job[0] = {**job[0], "entries": [*job[0]["entries"], operation(22, 22, "scheduled", **more)]}
    series = read_series(files_of(write(tmp_path / "a", job)), "dumps")
    assert not [one for one in series if one.metric.endswith("coll_done")]


def test_counts_of_a_group_with_transfers_are_taken_of_collectives_alone(tmp_path):
    send = operation(0, 30, is_p2p=True, p2p_seq_id=900, profiling_name="nccl:send 0->1")
    job = {rank: dump([operation(n, n) for n in range(1, 21)] + [send], enqueued=900 + rank) for rank in range(4)}
    series = read_series(files_of(write(tmp_path / "a", job)), "dumps")
    assert {values(series, "coll_seq", rank)[-1][1] for rank in range(4)} == {20}


def test_a_rank_whose_gpu_failed_while_its_host_went_on_is_the_diagnosis(tmp_path):
    described = [{"kind": "nccl-flight-recorder", "path": "dumps"}]
    folder = record(tmp_path / "recording", described, {"topology.yaml": TOPOLOGY})
    write(folder / "dumps", failed_gpu())
    (incident,) = [one for one in replay(folder).incidents if one.explained_by is None]
    assert (incident.condition, incident.name) == ("collective-hang", "rank2")


def test_a_stopped_rank_is_the_diagnosis(tmp_path):
    described = [{"kind": "nccl-flight-recorder", "path": "dumps"}]
    folder = record(tmp_path / "recording", described, {"topology.yaml": TOPOLOGY})
    write(folder / "dumps", stopped_job())
    (incident,) = [one for one in replay(folder).incidents if one.explained_by is None]
    assert (incident.condition, incident.name) == ("collective-hang", "rank2")


TOPOLOGY = """
version: 1
nodes: [{name: rank0}, {name: rank1}, {name: rank2}, {name: rank3}]
groups: [{name: TENSOR_MODEL_PARALLEL_GROUP-7, kind: tensor-parallel, members: [rank0, rank1, rank2, rank3]}]
pools: []
"""


def test_dumps_as_json_say_the_same(tmp_path):
    pickles = read_series(files_of(write(tmp_path / "a", stopped_job())), "dumps")
    folder = tmp_path / "b"
    folder.mkdir()
    for rank, content in stopped_job().items():
        # JSON dumps have texts for the numbers of the status.
        status = {"3": {key: str(value) for key, value in content["pg_status"]["3"].items()}}
        data = json.dumps({"comm_lib_version": "2.27", **content, "pg_status": status}).encode()
        (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(data))
    for one, other in zip(pickles, read_series(files_of(folder), "dumps"), strict=True):
        assert (one.metric, one.labels) == (other.metric, other.labels)
        assert (one.times.tolist(), one.values.tolist()) == (other.times.tolist(), other.values.tolist())


@pytest.mark.parametrize("field", ["time_created_ns", "collective_seq_id", "pg_id"])
def test_a_number_that_no_clock_or_count_reaches_is_told(tmp_path, field):
    data = json.dumps(
        {"comm_lib_version": "2.27", **dump([operation(1, 1)]), "entries": [{**operation(1, 1), field: 10**400}]}
    )
    (tmp_path / "rank0.json").write_text(data)
    with pytest.raises(InputError, match=rf"entries\[0\]\.{field}: found 1000"):
        read_series(files_of(tmp_path), "d")


def test_a_rank_with_nothing_pending_is_placed_as_the_others_are(tmp_path):
    waits = dump([operation(21, 21, "scheduled")])
    series = read_series(files_of(write(tmp_path / "dumps", {0: waits, 1: waits, 2: dump([], enqueued=20)})), "dumps")
    assert values(series, "coll_seq", 2)[0] == (21.0, 20.0)
    assert "no dump of 1 of 4 ranks: 3" in series[0].note


def test_times_of_operations_that_are_over_are_read_in_microseconds(tmp_path):
    over = [
        operation(1, 1, duration_ms=2.5),
        operation(0, 2, duration_ms=4.0, is_p2p=True, p2p_seq_id=1, profiling_name="nccl:send 0->1"),
    ]
    series = read_series(files_of(write(tmp_path / "dumps", {0: dump(over)})), "dumps")
    assert values(series, "coll_time", 0) == [(1.003, 2500.0)]
    assert values(series, "p2p_time", 0) == [(2.004, 4000.0)]
    assert all(seq == 1 for _, seq in values(series, "coll_seq", 0))


def test_a_healthy_job_is_not_held(tmp_path):
    done = dump([operation(n, n) for n in range(1, 4)])
    series = read_series(files_of(write(tmp_path / "dumps", {0: done, 1: done, 2: done, 3: done})), "dumps")
    assert (values(series, "coll_seq", 1)[-1], series[0].note) == ((3.0, 3.0), "")


def test_a_long_time_out_is_held_for_as_long_as_rules_look_back(tmp_path):
    waits = dump([operation(1, 0, "started", timeout_ms=10**7)])
    series = read_series(files_of(write(tmp_path / "dumps", {0: waits})), "dumps")
    assert values(series, "coll_seq", 0)[-1][0] == MAX_HOLD_S


def test_fields_of_a_newer_version_are_ignored_and_the_version_is_told(tmp_path):
    newer = dump([operation(1, 1, extra={"a": [1]})], version="2.11", topology={"new": 1})
    series = read_series(files_of(write(tmp_path / "dumps", {0: newer})), "dumps")
    assert "version 2.11 is newer than those known" in series[0].note


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (dump([], version="1.5"), "d/rank_0: version: found version '1.5', expected 2.0 to 2.10."),
        (dump([], version="3.0"), "A newer PyTorch?"),
        (dump([{**operation(1, 1), "time_created_ns": "soon"}]), "entries[0].time_created_ns: found 'soon'"),
        (dump([{"pg_id": 1}], 0), "entries[0].process_group: found None"),
        (dump([7], 0), "entries[0]: found a int"),
        (dump([], pg_config={"0": {"ranks": "all"}}), "pg_config.0.ranks: found 'all'"),
        (dump([], pg_status={"0": 5}), "pg_status.0: found 5"),
        (dump([]) | {"entries": {}}, "entries: found a dict"),
    ],
)
def test_what_is_no_dump_of_a_known_version_is_told(tmp_path, content, told):
    with pytest.raises(InputError) as error:
        read_series(files_of(write(tmp_path, {0: content}, "rank_{}")), "d")
    assert told in str(error.value)


def test_a_truncated_dump_and_a_pickle_that_would_run_code_are_told(tmp_path):
    whole = pickle.dumps(dump([operation(1, 1)]), 2)
    (tmp_path / "rank_0").write_bytes(whole[:-9])
    (tmp_path / "rank_1").write_bytes(whole[:-1] + b"cos\nsystem\n.")
    with pytest.raises(InputError) as error:
        read_series(files_of(tmp_path), "d")
    first, second = error.value.problems
    assert "the end of the file" in str(first)
    assert "which would import os.system" in str(second)


def test_names_without_a_rank_second_dumps_and_folders_without_dumps_are_told(tmp_path):
    for name, told in (("trace", "a name without a rank"), ("rank_00", "a second dump of rank 0")):
        folder = write(tmp_path / name, {0: dump([])}, "rank_{}")
        (folder / name).write_bytes(pickle.dumps(dump([]), 2))
        with pytest.raises(InputError, match=told):
            read_series(files_of(folder), "d")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("a log")
    with pytest.raises(InputError, match="found no dump of the flight recorder"):
        read_series(files_of(tmp_path / "empty"), "d")


def test_dumps_without_any_operation_are_told(tmp_path):
    with pytest.raises(InputError, match="no operation in any dump"):
        read_series(files_of(write(tmp_path, {0: dump([]), 1: dump([])})), "d")


def test_only_dumps_are_recognised():
    assert recognise(pickle.dumps(dump([]), 2), "x")
    assert recognise(json.dumps(dump([operation(1, 1)])).encode(), "x")
    assert not recognise(pickle.dumps({"weights": [1]}, 2), "nccl_trace_rank_0")
    assert not recognise(b'{"traceEvents": []}', "x")


@pytest.mark.parametrize(
    ("name", "stopped"),
    [
        ("gpu_error_1st", {"rank12", "rank14"}),
        ("gpu_error_2nd", {"rank9", "rank14"}),
        ("lock_gil_1st", {"rank9", "rank14"}),
        ("lock_gil_2nd", {"rank10", "rank15"}),
    ],
)
def test_public_dumps_of_stopped_jobs_are_read_as_the_standard_library_reads_them(tmp_path, name, stopped):
    folder = SAMPLES / "tests/attribution/unit/fr_traces" / name
    if not folder.is_dir():
        pytest.skip(f"no public dumps at {folder} (set SKEWSCOPE_SAMPLES)")
    series = read_series(files_of(folder), name)
    told, groups = {}, {}
    for one in series:
        labels = dict(one.labels)
        groups.setdefault(labels["group"], {})[int(labels["rank"])] = f"rank{labels['global_rank']}"
        if one.metric.endswith("coll_seq"):
            told[labels["group"].rpartition("-")[2], int(labels["global_rank"])] = one.values
    for rank in range(16):
        # These files are known; they are dictionaries of plain values.
        raw = pickle.loads((folder / f"_dump_{rank}").read_bytes())
        for entry in raw["entries"]:
            if not entry["is_p2p"]:
                assert entry["collective_seq_id"] in told[entry["process_group"][0], rank]
                newest = raw["pg_status"][str(entry["pg_id"])]["last_enqueued_collective"]
                assert told[entry["process_group"][0], rank][-1] == newest
    topology = {
        "version": 1,
        "nodes": [{"name": f"rank{n}"} for n in range(16)],
        "groups": [
            {"name": group, "kind": "data-parallel", "members": [members[n] for n in sorted(members)]}
            for group, members in groups.items()
        ],
        "pools": [],
    }
    described = [{"kind": "nccl-flight-recorder", "path": "dumps"}]
    recording = record(tmp_path, described, {"topology.yaml": json.dumps(topology)})
    (recording / "dumps").mkdir()
    for path in folder.glob("_dump_*"):
        (recording / "dumps" / path.name).write_bytes(path.read_bytes())
    found = {one.name for one in replay(recording).incidents if one.condition == "collective-hang"}
    assert found == stopped
