"""Texts of several ranks, in one file or in a folder, that say who is missing in a collective."""

import json

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import NothingKnownError
from tests.adapters.collectives.test_rank_state import SPY, SPY_LOADS, SPY_WAITS, caught


def answer(paths):
    return replay(draft_recording(list(paths)).recording)


def write(folder, texts):
    paths = [folder / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths


def test_a_log_of_several_ranks_names_the_missing_one_first(tmp_path):
    (path,) = write(tmp_path, {"job.err": caught(1) + caught(2) + caught(3)})
    (incident,) = answer([path]).incidents
    assert (incident.condition, incident.name) == ("stopped-progress", "rank0")
    assert incident.candidates[0] == "collective-hang"
    assert {"rank1", "rank2", "rank3"} <= set(incident.also)


@pytest.mark.parametrize("given", ["folder", "files"])
def test_logs_of_ranks_in_files_of_their_own_are_read_together(tmp_path, given):
    (tmp_path / "logs").mkdir()
    paths = write(tmp_path / "logs", {f"rank_{n}.err": caught(n) for n in (0, 1, 3)})
    outcome = answer([tmp_path / "logs"] if given == "folder" else paths)
    assert [one.name for one in outcome.incidents if one.condition == "stopped-progress"] == ["rank2"]


def test_stacks_in_files_named_after_their_ranks(tmp_path):
    (tmp_path / "stacks").mkdir()
    frames = {0: SPY_WAITS, 1: SPY_WAITS, 2: SPY_LOADS, 3: SPY_WAITS}
    write(tmp_path / "stacks", {f"pyspy_rank{n}.txt": SPY.format(pid=n, frames=own) for n, own in frames.items()})
    (incident,) = answer([tmp_path / "stacks"]).incidents
    assert (incident.condition, incident.name) == ("stopped-progress", "rank2")
    assert "load (data.py:12)" in incident.summary


GDB = """$ gdb -p $(pgrep -f 'local_rank={n}') -batch -ex 'thread apply 1 bt'   # rank{n} on h200-3
[Thread debugging using libthread_db enabled]

Thread 1 (Thread 0x7fd9b958307c (LWP 910{n}) "python3"):
{frames}
[Inferior 1 (process 910{n}) detached]
"""
GDB_WAITS = """#0  0x00007ffd3f5e86d4 in clock_gettime ()
#1  0x00007f3bb1fb0c73 in cudaStreamSynchronize () from /usr/lib/libcudart.so.12
#2  0x00007f3b489ba5a3 in c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::duration<long> >) () from /lib/libtorch.so
#3  0x00000000008a01b0 in _PyEval_EvalFrameDefault ()"""
GDB_READS = """#0  0x00007f1fb5a1f687 in read () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f1f9b22e0d1 in parquet::SerializedFile::ParseMetaData() () from /usr/lib/libparquet.so.1900
#2  0x00000000008a01b0 in _PyEval_EvalFrameDefault ()"""


def test_stacks_of_gdb_are_of_the_rank_that_was_typed_and_may_wait_for_what_they_do_not_name(tmp_path):
    text = "\n".join(GDB.format(n=n, frames=GDB_READS if n == 3 else GDB_WAITS) for n in range(8))
    (path,) = write(tmp_path, {"bt.txt": text})
    (incident,) = answer([path]).incidents
    assert (incident.condition, incident.name) == ("stopped-progress", "rank3")
    assert "rank 3 is in parquet::SerializedFile::ParseMetaData (libparquet.so.1900), in read" in incident.summary


def ras(counts, missing=()):
    def rank(number, **more):
        return {"rank": number, "host": f"n{number // 2}", "nvml_dev": number % 2, "pid": 4000 + number, **more}

    ranks = [rank(number, collective_counts={"AllReduce": count}) for number, count in enumerate(counts)]
    communicator = {"hash": "0xab", "size": 4, "ranks": ranks, "missing_ranks": [rank(number) for number in missing]}
    return json.dumps({"ras": {"timeouts_count": 0}, "communicators": [communicator]}, indent=2)


def test_a_status_of_ras_as_json_names_ranks_out_of_step_and_missing_ones(tmp_path):
    (path,) = write(tmp_path, {"ras.json": ras([64, 64, 64, 60])})
    (incident,) = answer([path]).incidents
    assert (incident.condition, incident.name) == ("reported-event", "rank3")
    assert "AllReduce; most ranks 64" in incident.evidence[0].name
    (path,) = write(tmp_path, {"missing.json": ras([64, 64, 64], missing=[3])})
    assert [one.name for one in answer([path]).incidents] == ["n1"]
    for counts in ([64, 64, 64, 64], [64, 64, 64, 65], [64, 64, 63, 65]):
        (path,) = write(tmp_path, {"healthy.json": ras(counts)})
        with pytest.raises(NothingKnownError):
            answer([path])


def test_stacks_of_one_moment_of_which_some_wait_are_too_little_to_judge(tmp_path):
    frames = (SPY_WAITS, SPY_LOADS, SPY_LOADS, SPY_WAITS)
    text = "".join(f"=== rank {n} ===\n{SPY.format(pid=n, frames=own)}" for n, own in enumerate(frames))
    (path,) = write(tmp_path, {"stacks.txt": text})
    with pytest.raises(NothingKnownError, match="at one moment ranks at work look the same"):
        answer([path])
    (path,) = write(tmp_path, {"twice.txt": text + text})
    assert "rank1" in {one.name for one in answer([path]).incidents}


def test_stacks_of_a_job_at_work_are_too_little_to_judge(tmp_path):
    text = "".join(f"=== rank {n} ===\n{SPY.format(pid=n, frames=SPY_LOADS)}" for n in range(3))
    (path,) = write(tmp_path, {"stacks.txt": text})
    with pytest.raises(NothingKnownError, match="none of them waits"):
        answer([path])
