"""Two sides: results of benchmarks and recordings; what is worse, by how much, and what that says."""

import json

import pytest

from skewscope.adapters.comparison.comparison import compare_sides
from skewscope.kb.problems import InputError, NothingKnownError
from tests.support.benchmark_texts import bandwidth_table, serving_object, serving_table


def write(folder, **texts: str):
    """A folder with files."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_results_of_two_sides_are_compared_load_by_load(tmp_path):
    before = write(tmp_path / "a", one=serving_table(80, 16), two=serving_table(90, 17, rate="8.00", served=7.9))
    after = write(tmp_path / "b", one=serving_table(82, 16), two=serving_table(9000, 17, rate="8.00", served=5.1))
    found = compare_sides(before, after)
    assert (found.kind, found.verdict) == ("results", "worse")
    assert found.sentence.startswith("Requests wait before they are computed: ")
    assert "the first token comes after 9 s instead of 90 ms" in found.sentence
    assert found.sentence.endswith("at 8 requests/s.")
    assert found.causes[0][0] == "burst-admission-backlog"
    assert {each.verdict for each in found.changes if each.place == "4 requests/s"} == {"alike"}


def test_what_has_become_better_is_not_worse(tmp_path):
    before = write(tmp_path / "a", one=serving_table(9000, 17, served=2.5))
    found = compare_sides(before, write(tmp_path / "b", one=serving_table(80, 16)))
    assert found.verdict == "better"
    assert found.sentence.startswith("Nothing is worse; better is time to first token: 80 ms instead of 9 s")


def test_pairs_of_nodes_before_and_after_name_the_node(tmp_path):
    def side(name, slow):
        pairs = {"ab": ("a1", "b1"), "ac": ("a1", "c1"), "bc": ("b1", "c1")}
        speeds = {key: slow if slow and "c" in key else 460 for key in pairs}
        return write(tmp_path / name, **{key: bandwidth_table(pair, speeds[key]) for key, pair in pairs.items()})

    found = compare_sides(side("before", None), side("after", 240))
    assert [each.nodes for each in found.findings] == [("c1",)]
    assert "Node c1 is slower than its peers" in found.sentence


def telemetry(ttft: float, clock: float = 1700.0) -> str:
    """A table of two nodes' GPUs over ten minutes, one value a row."""
    rows = ["time,node,gpu,signal,value"]
    for second in range(0, 600, 10):
        for node in ("n0", "n1"):
            rows.append(f"{1789372800 + second},{node},0,gpu.sm_clock,{clock + second % 30}")
            rows.append(f"{1789372800 + second},{node},0,gpu.temperature,{ttft + second % 20 / 10}")
    return "\n".join(rows) + "\n"


def test_recordings_are_compared_by_the_levels_of_their_signals(tmp_path):
    (tmp_path / "before.csv").write_text(telemetry(60))
    (tmp_path / "after.csv").write_text(telemetry(60, clock=1000.0))
    found = compare_sides(tmp_path / "before.csv", tmp_path / "after.csv")
    assert (found.kind, found.verdict) == ("recordings", "worse")
    assert {each.name for each in found.changes if each.verdict == "worse"} == {"gpu.sm_clock"}
    assert found.causes
    assert compare_sides(tmp_path / "before.csv", tmp_path / "before.csv").verdict == "alike"


def test_sides_without_anything_in_common_are_too_little(tmp_path):
    (tmp_path / "a.txt").write_text(serving_table(80, 16) + serving_table(80, 16, rate="2.00"))
    (tmp_path / "b.txt").write_text(serving_table(80, 16, rate="9.00") + serving_table(80, 16, rate="7.00"))
    with pytest.raises(NothingKnownError, match="same load"):
        compare_sides(tmp_path / "a.txt", tmp_path / "b.txt")


def test_results_beside_telemetry_are_refused(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(serving_object(80, 16)))
    (tmp_path / "b.csv").write_text(telemetry(60))
    with pytest.raises(InputError, match="same kind on both sides"):
        compare_sides(tmp_path / "a.json", tmp_path / "b.csv")
    with pytest.raises(InputError, match="no such file"):
        compare_sides(tmp_path / "a.json", tmp_path / "c.json")
