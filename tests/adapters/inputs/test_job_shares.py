"""Statistics of a file system's server for each job: one that floods it."""

import io

import pytest

from skewscope.adapters.inputs.job_shares import READER
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.kb.problems import NothingKnownError

COUNTS = (9_000_000, 40_000, 20_000)


def job_stats(counts=COUNTS, time=1_795_528_800, seconds="elapsed_time:    840.1 secs.nsecs"):
    """Returns the page of Lustre 2.15, or without seconds that of an older one."""
    jobs = [
        f"- job_id:          {884302 + n}\n  snapshot_time:   {time}.5 secs.nsecs\n  {seconds}\n"
        f"  open:            {{ samples:  {count}, unit: usecs, min: 11, max: 88, sum: 99, sumsq: 999 }}\n"
        f"  read_bytes:      {{ samples:  {10 * count}, unit: bytes, min: 11, max: 88, sum: 99 }}\n"
        for n, count in enumerate(counts)
    ]
    return "mdt.scratch-MDT0000.job_stats=\njob_stats:\n" + "".join(jobs)


def exports(counts=COUNTS):
    """Returns the statistics of clients."""
    return "".join(
        f"mdt.home-MDT0001.exports.10.1.0.{n}@o2ib.stats=\nsnapshot_time             1795528800.7 secs.nsecs\n"
        f"start_time                1795527960.7 secs.nsecs\nopen                      {count} samples [usecs] 1 2 3\n"
        for n, count in enumerate(counts)
    )


FLOODS = {
    "jobs": (
        job_stats(),
        "884302 makes 99 % of the metadata operations of 3 jobs or clients at scratch-MDT0000, 10,713",
    ),
    "clients": (exports(), "10.1.0.0@o2ib makes 99 %"),
    "two readings without the time for which each counts": (
        job_stats(seconds="") + job_stats(tuple(2 * n for n in COUNTS), 1_795_529_700, ""),
        "884302 makes 99 % of the metadata operations of 3 jobs or clients at scratch-MDT0000, 10,000 each second",
    ),
    "a paste with CRLF": (job_stats().replace("\n", "\r\n"), "884302 makes 99 %"),
}


def messages(text):
    return [dict(one.labels)["message"] for one in READER.read_series(io.BytesIO(text.encode()), "s.txt", {})]


@pytest.mark.parametrize(("text", "wanted"), FLOODS.values(), ids=FLOODS)
def test_a_job_that_makes_nearly_all_of_many_operations_is_named(text, wanted, tmp_path):
    (tmp_path / "s.txt").write_text(text)
    assert find_kind(tmp_path / "s.txt") == "job-shares"
    (message,) = messages(text)
    assert wanted in message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(job_stats((9_000_000, 4_000_000, 20_000)), id="two that make many"),
        pytest.param(job_stats((90_000, 400, 200)), id="few operations"),
        pytest.param(job_stats((9_000_000, 0, 0)), id="nobody else"),
        pytest.param(job_stats(seconds=""), id="for how long is not known"),
    ],
)
def test_without_one_it_is_too_little(text):
    with pytest.raises(NothingKnownError, match="too little"):
        messages(text)


def test_numbers_that_no_server_counts_are_left_out():
    text = job_stats().replace("samples:  9000000", "samples:  " + "9" * 5000, 1)
    with pytest.raises(NothingKnownError, match="too little"):
        messages(text)
