"""Results of benchmarks given to diagnose: what they show is an incident at its place, healthy ones none."""

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.problems import NothingKnownError
from tests.support.benchmark_texts import bandwidth_table, serving_table


def diagnose(tmp_path, **texts: str):
    """The incidents of files that are given in their order."""
    paths = []
    for name, text in texts.items():
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(text)
    return replay(draft_recording(paths).recording).incidents


def test_two_runs_are_compared_in_the_order_in_which_they_are_named(tmp_path):
    (incident,) = diagnose(tmp_path, z=serving_table(80, 16), a=serving_table(39870, 17, served=2.54, failed=9))
    assert incident.condition == "growing-queue"
    assert "burst-admission-backlog" in incident.candidates[:2]
    assert "Requests wait before they are computed: the first token comes after 39.9 s" in incident.summary
    assert len(incident.evidence) == 2


def test_the_slow_node_of_several_pairs_is_where_the_incident_is(tmp_path):
    pairs = {"ab": ("a1", "b1", 460), "ac": ("a1", "c1", 457), "bc": ("b1", "c1", 462), "ad": ("a1", "d1", 240)}
    (incident,) = diagnose(tmp_path, **{name: bandwidth_table(each[:2], each[2]) for name, each in pairs.items()})
    assert (incident.condition, incident.kind, incident.name) == ("late-member", "node", "d1")
    assert incident.summary == "Node d1 is slower than its peers: a1 and d1 reach 238 of 457 GB/s."


def test_messages_of_nccl_beside_a_healthy_table_are_reported(tmp_path):
    line = "node-a:1:2 [0] NCCL INFO Using network Socket\n"
    (incident,) = diagnose(tmp_path, log=line + bandwidth_table(("node-a", "node-b"), 460))
    assert (incident.condition, incident.name) == ("reported-event", "node-a")


@pytest.mark.parametrize(
    "texts",
    [
        {"one": bandwidth_table(("node-a", "node-b"), 460)},
        {"one": serving_table(80, 16)},
        {"one": serving_table(80, 16), "two": serving_table(82, 16)},
    ],
)
def test_healthy_results_are_too_little_to_judge_and_no_refusal(tmp_path, texts):
    with pytest.raises(NothingKnownError, match=r"nothing in them that is wrong.*skewscope compare"):
        diagnose(tmp_path, **texts)


def test_a_folder_with_results_and_other_files_is_read(tmp_path):
    (tmp_path / "node-a.txt").write_text(bandwidth_table(("node-a",), 460))
    (tmp_path / "node-b.txt").write_text(bandwidth_table(("node-b",), 300))
    (tmp_path / "notes.md").write_text("nothing\n")
    (incident,) = replay(draft_recording([tmp_path]).recording).incidents
    assert (incident.condition, incident.name) == ("late-member", "node-b")
