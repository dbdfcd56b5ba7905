"""Members of groups out of labels of ranks: each rank has its own place, whichever ranks have no data."""

import pytest

from skewscope.adapters.discovery import rank_members
from skewscope.adapters.discovery.draft import GUESS
from skewscope.adapters.mapping.entities import UnmappedError
from tests.adapters.discovery.test_inference import CLOCK, STEP, entity, infer

COMPUTE = "skewscope_step_compute_time"


def ranks(numbers, **labels):
    """Returns a series of each rank; `{n}` in the value of a label is its number."""
    filled = [{name: value.format(n=n) for name, value in labels.items()} for n in numbers]
    return [(COMPUTE, {"group": "job", "rank": str(n), **own}) for n, own in zip(numbers, filled, strict=True)]


def members_of(topology, series):
    """Returns the member that each series belongs to; the reason why it belongs to none."""
    found = []
    for metric, labels in series:
        try:
            found.append(entity(topology, metric, labels).partition(":")[2])
        except UnmappedError as reason:
            found.append(str(reason))
    return found


@pytest.mark.parametrize("numbers", [(0, 2, 3), (1, 2, 3, 4), (10, 2), (4, 5, 6, 7), (0, 1, 2)])
def test_each_rank_has_its_own_place_whichever_have_no_data(numbers):
    series = ranks(numbers)
    found, draft = infer(*series)
    assert members_of(found, series) == [f"rank{n}" for n in numbers]
    assert len(found.groups[0].members) == max(numbers) + 1
    told = [each.what for each in draft.assumptions if "no data" in each.what]
    assert bool(told) == (len(numbers) <= max(numbers))
    assert any("each rank" in each.what for each in draft.assumptions)


def test_the_ranks_without_data_are_named_and_a_group_has_all_of_nranks():
    found, draft = infer(*ranks((0, 1, 3), node="h{n}", nranks="6"))
    assert found.groups[0].members == ("h0", "h1", "rank2", "h3", "rank4", "rank5")
    told = [each for each in draft.assumptions if "no data" in each.what]
    assert [each.what for each in told] == ["a place for ranks 2, 4, 5 of job, of which there is no data"]
    assert told[0].certainty == GUESS


def test_a_rank_without_data_never_takes_the_name_of_another():
    first = ranks((0, 2), global_rank="{n}", nranks="3")
    second = [(COMPUTE, {"group": "other", "rank": "0", "global_rank": "1", "nranks": "2"})]
    found, _ = infer(*first, *second)
    assert {group.name: group.members for group in found.groups} == {
        "job": ("rank0", "job.rank1", "rank2"),
        "other": ("rank1", "other.rank1"),
    }


def test_two_jobs_have_places_of_their_own():
    found, _ = infer(*((STEP, {"group": name, "rank": "1"}) for name in ("a", "b/c")))
    assert [group.members for group in found.groups] == [("a.rank0", "a.rank1"), ("b-c.rank0", "b-c.rank1")]


@pytest.mark.parametrize(
    ("hosts", "members"),
    [
        ({0: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b", 7: "b"}, "a0 - a2 a3 b0 b1 b2 b3"),
        ({1: "a", 2: "a", 3: "a", 5: "b"}, "- a1 a2 a3 - b1"),
        ({0: "a", 2: "a", 4: "a", 1: "b", 3: "b", 5: "b"}, "a0 b0 a1 b1 a2 b2"),
        ({n: "ab"[n > 8] for n in range(1, 17)}, "- " + " ".join(f"{c}{n}" for c in "ab" for n in range(8))),
    ],
)
def test_the_gpus_of_ranks_of_a_node_keep_the_places_of_ranks_without_data(hosts, members):
    series = [(COMPUTE, {"group": "job", "rank": str(n), "node": host}) for n, host in hosts.items()]
    found, _ = infer(*series)
    expected = [f"rank{n}" if text == "-" else f"{text[0]}/gpu{text[1:]}" for n, text in enumerate(members.split())]
    assert list(found.groups[0].members) == expected
    assert members_of(found, series) == [expected[n] for n in hosts]


def test_ranks_that_name_the_same_gpu_are_not_placed():
    series = ranks((0, 1, 2), node="h", gpu="0") + ranks((3,), node="h", gpu="3")
    found, draft = infer(*series)
    told = members_of(found, series)
    assert all("its rank and its node disagree" in text for text in told[:3])
    assert told[3] == "h/gpu3"
    assert any(each.what == "no place for ranks 0, 1, 2 of job" for each in draft.assumptions)


def test_a_rank_behind_too_many_without_data_has_no_place(monkeypatch):
    monkeypatch.setattr(rank_members, "MAX_UNSEEN", 8)
    series = ranks((0, 1, 99_999), nranks="100000")
    found, draft = infer(*series)
    assert members_of(found, series)[:2] == ["rank0", "rank1"]
    assert found.groups[0].members == ("rank0", "rank1")
    assert len(infer(*series[:2])[0].groups[0].members) == 10
    assert any(each.what == "no place for rank 99999 of job, behind 8 without data" for each in draft.assumptions)


def test_a_series_of_a_rank_that_names_no_group_is_of_the_only_one():
    series = [(COMPUTE, {"rank": str(n)}) for n in (0, 2)]
    found, _ = infer(*series)
    assert members_of(found, series) == ["rank0", "rank2"]
    crowded = [(COMPUTE, {"rank": str(n), "node": "h"}) for n in range(4)]
    found, _ = infer(*crowded)
    assert members_of(found, crowded) == [f"h/gpu{n}" for n in range(4)]
    found, _ = infer(*series, (COMPUTE, {"rank": "0", "group": "other"}))
    assert members_of(found, series) == ["no label says which node it is from"] * 2


@pytest.mark.parametrize("rank", ["²", "٣", "007", "1e3", "-1"])
def test_odd_numbers_of_ranks_are_read_or_are_names(rank):
    series = [(STEP, {"group": "job", "rank": rank}), (CLOCK, {"Hostname": "h", "gpu": "0"})]
    found, _ = infer(*series)
    assert len(found.groups) <= 1
