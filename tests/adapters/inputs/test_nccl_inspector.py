"""Records of NCCL's inspector in files: series of each rank, who comes late, and collectives that all become slower."""

import json

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.results.lasting_fall import find_fall
from skewscope.adapters.runtime.replay import replay

START_US = 1795341600000000


def record(
    rank: int, number: int, *, host: str = "node-a", period_us: int = 1_000_000, slow: float = 1.0, ranks: int = 4
):
    """A line of the inspector for an all-reduce of 1 GiB that takes `slow` times 4 ms."""
    return json.dumps(
        {
            "header": {"id": "0x7f01", "rank": rank, "n_ranks": 4, "nnodes": 1},
            "metadata": {"dump_timestamp_us": START_US + number * period_us, "hostname": host, "pid": 1},
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": number,
                "coll_msg_size_bytes": 1 << 30,
                "coll_exec_time_us": round(4000 * slow),
                "coll_busbw_gbs": 470 / slow,
            },
        }
    )


def diagnose(tmp_path, lines):
    """The incidents of the records of some ranks."""
    paths = []
    for rank, own in enumerate(lines):
        paths.append(tmp_path / f"node-a-pid{rank}.log")
        paths[-1].write_text("\n".join(own) + "\n")
    return replay(draft_recording(paths).recording).incidents


@pytest.mark.parametrize(("period_us", "count"), [(100_000, 60), (1_000_000, 120)])
def test_healthy_records_are_no_finding(tmp_path, period_us, count):
    lines = [[record(rank, n, period_us=period_us, slow=1 + n % 3 / 50) for n in range(count)] for rank in range(4)]
    assert not diagnose(tmp_path, lines)


@pytest.mark.parametrize(
    ("hosts", "cause"), [(("node-a",), "nvlink-degradation"), (("node-a", "node-b"), "fabric-congestion")]
)
def test_collectives_that_all_become_slower_are_one_finding_of_their_group(tmp_path, hosts, cause):
    lines = [
        [
            record(rank, n, host=hosts[rank % len(hosts)], period_us=100_000, slow=2.0 if n >= 30 else 1.0)
            for n in range(60)
        ]
        for rank in range(4)
    ]
    (incident,) = diagnose(tmp_path, lines)
    assert (incident.condition, incident.name) == ("lost-throughput", "comm-0x7f01")
    assert cause in incident.candidates[:3]
    assert "since number 30 of AllReduce of 1 GiB: 235 instead of 470 GB/s" in incident.summary
    assert hosts[-1] in incident.summary


def test_the_rank_whose_part_is_the_shortest_comes_late(tmp_path):
    lines = [[record(rank, n, slow=1.0 if rank == 2 else 12.0) for n in range(120)] for rank in range(4)]
    (incident,) = diagnose(tmp_path, lines)
    assert incident.condition == "late-member"
    assert "2" in incident.name


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([10.0] * 10 + [5.0] * 10, 10),
        ([10.0, 11.0] * 5 + [7.0, 7.5] * 5, 10),
        ([10.0] * 20, None),
        ([10.0, 5.0] * 10, None),
        ([10.0] * 18 + [5.0] * 2, None),
        ([5.0] * 10 + [10.0] * 10, None),
        ([10.0] * 10 + [9.5] * 10, None),
        ([], None),
    ],
)
def test_a_fall_lasts_and_is_more_than_repeats_vary(values, place):
    fall = find_fall(values)
    assert (fall.place if fall else None) == place
