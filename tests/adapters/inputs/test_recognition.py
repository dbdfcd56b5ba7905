"""Folders in which files of several kinds lie beside each other: what is read of them, and what is told of the rest."""

import json
import os
import pickle

import pytest

from skewscope.adapters.inputs import recognition
from skewscope.adapters.inputs.draft_recording import describe_recording, draft_recording, save_recording
from skewscope.adapters.inputs.recognition import find_inputs
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from tests.adapters.inputs.test_nccl_flight_recorder import dump, operation, stopped_job, write
from tests.support.telemetry import record

PAGE = 'DCGM_FI_DEV_SM_CLOCK{gpu="0"} 1410\n'
TABLE = "time,host,gpu,DCGM_FI_DEV_SM_CLOCK\n1750000000,h,0,1410\n"


def skipped(found):
    return {each.path: each.reason for each in found.skipped}


def warnings_of(draft):
    return load(draft.recording, catalogue(), None, 1).warnings


def test_dumps_beside_other_files_and_folders_are_read_alone(tmp_path):
    job = write(tmp_path / "job", stopped_job())
    (job / "train.log").write_text("no log of a known tool\n")
    (job / "more").mkdir()
    (job / "more" / "a.csv").write_text(TABLE)
    draft = draft_recording([job])
    assert [(each.kind, each.path, each.files) for each in draft.recording.inputs] == [
        ("csv", "more/a.csv", ()),
        ("nccl-flight-recorder", ".", tuple(f"nccl_trace_rank_{n}" for n in range(4))),
    ]
    assert [(each.path, each.reason) for each in draft.skipped] == [("train.log", "no known kind")]
    save_recording(draft, tmp_path / "saved")
    saved = {path.name for path in (tmp_path / "saved" / "inputs" / "001").rglob("*") if path.is_file()}
    assert saved == {f"nccl_trace_rank_{n}" for n in range(4)}
    assert len(load(describe_recording(tmp_path / "saved").recording, catalogue(), None, 1).block) > 100


def test_one_dump_that_is_named_stands_for_those_beside_it(tmp_path):
    job = write(tmp_path, stopped_job())
    (job / "train.log").write_text("no log of a known tool\n")
    (one,) = find_inputs([job / "nccl_trace_rank_1"], tmp_path).inputs
    assert (one.files, one.is_found) == (tuple(f"nccl_trace_rank_{n}" for n in range(4)), False)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("core_dump", "core_dump is left out: a name without a rank"),
        (
            "nccl_trace_rank_2.pkl",
            "nccl_trace_rank_2.pkl is left out: a second dump of rank 2, beside nccl_trace_rank_2",
        ),
    ],
)
def test_a_dump_of_a_folder_that_cannot_be_read_is_left_out_with_the_reason(tmp_path, name, told):
    job = write(tmp_path, stopped_job())
    (job / name).write_bytes(pickle.dumps(dump([operation(1, 1)]), 2))
    assert told in " ".join(warnings_of(draft_recording([job])))


def test_a_file_of_a_folder_that_cannot_be_read_is_left_out_with_the_reason(tmp_path):
    (tmp_path / "good.csv").write_text(TABLE)
    (tmp_path / "bad.csv").write_text(TABLE + "yesterday,h,0,1\n")
    draft = draft_recording([tmp_path])
    assert [each.path for each in draft.recording.inputs] == ["good.csv"]
    assert [(each.path, each.reason) for each in draft.skipped] == [("bad.csv", "line 3, time: 'yesterday'")]
    with pytest.raises(InputError, match="yesterday"):
        draft_recording([tmp_path / "bad.csv"])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("bad.csv", TABLE + "yesterday,h,0,1\n", "line 3, time: 'yesterday'"),
        ("notes.txt", "hello\n", "begins with 'hello'"),
        ("empty.log", "", "an empty file"),
    ],
)
def test_one_named_file_among_several_that_cannot_be_read_stops_nothing(tmp_path, name, content, reason):
    (tmp_path / "good.csv").write_text(TABLE)
    (tmp_path / name).write_text(content)
    draft = draft_recording([tmp_path / name, tmp_path / "good.csv"])
    assert [each.path for each in draft.recording.inputs] == ["good.csv"]
    (left_out,) = draft.skipped
    assert reason in left_out.reason
    assert left_out.is_named


def test_a_damaged_file_that_only_the_reading_of_values_notices_is_left_out_too(tmp_path):
    (tmp_path / "good.csv").write_text(TABLE)
    text = 'DCGM_FI_DEV_SM_CLOCK{Hostname="h",gpu="1"} 1410 1750000000\n'
    (tmp_path / "bad.om").write_text(text * 60 + text.replace("1410", "much"))
    draft = draft_recording([tmp_path])
    assert any(each.startswith("bad.om is left out: line 61") for each in warnings_of(draft))
    named = draft_recording([tmp_path / "good.csv", tmp_path / "bad.om"])
    assert load(named.recording, catalogue(), None, 1).unread == ("bad.om",)
    with pytest.raises(InputError, match=r"bad\.om:61"):
        warnings_of(draft_recording([tmp_path / "bad.om"]))


def test_pages_that_were_found_are_read_beside_others_and_a_broken_one_is_left_out(tmp_path):
    for name, text in {"10.prom": PAGE, "11.prom": PAGE, "12.prom": PAGE + "DCGM_FI_DEV_SM_CLOCK x\n"}.items():
        (tmp_path / name).write_text(text * (40 if name == "12.prom" else 1))
    (tmp_path / "10.txt").write_text(PAGE)
    (tmp_path / "notes.md").write_text("notes")
    (tmp_path / "11.prom.d").mkdir()
    draft = draft_recording([tmp_path])
    loaded = load(draft.recording, catalogue(), None, 1)
    assert sorted(set(loaded.block.time.tolist())) == [10.0, 11.0]


def test_a_page_without_a_time_has_that_of_its_file_and_says_so(tmp_path):
    page = tmp_path / "dcgm.prom"
    page.write_text(PAGE)
    os.utime(page, (1750000000.0, 1750000000.5))
    draft = draft_recording([page])
    loaded = load(draft.recording, catalogue(), None, 1)
    assert (loaded.block.time.tolist(), loaded.block.value.tolist()) == ([1750000000.5], [1410.0])
    assert any("its time is that of the file" in text for text in loaded.warnings)
    save_recording(draft, tmp_path / "saved")
    assert load(open_recording(tmp_path / "saved"), catalogue()).block.time.tolist() == [1750000000.5]


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("", "root@worker-0:/# \n", "1 line"),
        ("", "(base) user@gpu-3:~/run$ ", "1 line"),
        ("$ curl -s localhost:8000/metrics\n", "[root@n0 ~]# ", "2 lines"),
        ("bash-5.1$ cat page\n", "", "1 line"),
    ],
)
def test_prompts_copied_along_with_a_page_are_left_out_and_counted(tmp_path, before, after, count):
    (tmp_path / "page.txt").write_text(before + 'sglang:num_queue_reqs{model_name="m"} 5\n' + after)
    loaded = load(draft_recording([tmp_path / "page.txt"]).recording, catalogue(), None, 1)
    assert loaded.block.value.tolist() == [5.0]
    assert any(f"left out {count} that a shell wrote" in text for text in loaded.warnings)


@pytest.mark.parametrize("after", ["sglang:num_queue_reqs{\n", "Killed\n", 'a{b="c$ d"} x\n'])
def test_other_lines_that_are_no_samples_are_refused(tmp_path, after):
    described = [{"kind": "prometheus-page", "path": "p.prom", "labels": {"node": "n0", "start": "1"}}]
    path = record(tmp_path, described, {"p.prom": "node_netstat_Tcp_RetransSegs 5\n" + after})
    with pytest.raises(InputError, match=r"p\.prom:2"):
        load(open_recording(path), catalogue())


@pytest.mark.parametrize(("start", "time"), [("1750000001", 1750000001.0), ("soon", None), ("-1", None)])
def test_the_time_of_a_page_may_be_given(tmp_path, start, time):
    described = [{"kind": "prometheus-page", "path": "p.prom", "labels": {"node": "n0", "start": start}}]
    path = record(tmp_path, described, {"p.prom": "node_netstat_Tcp_RetransSegs 5\n"})
    if time is None:
        with pytest.raises(InputError, match="start: found"):
            load(open_recording(path), catalogue())
    else:
        assert load(open_recording(path), catalogue()).block.time.tolist() == [time]


def test_a_warning_that_several_files_share_is_told_once(tmp_path):
    for n in range(5):
        (tmp_path / f"exporter{n}.prom").write_text(PAGE)
    (told,) = warnings_of(draft_recording([tmp_path]))
    assert told.startswith("exporter0.prom, exporter1.prom, exporter2.prom and 2 more: one page shows one moment")


def test_folders_are_walked_to_a_bounded_depth_and_number_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr(recognition, "MAX_DEPTH", 1)
    deep = tmp_path / "0" / "b"
    deep.mkdir(parents=True)
    (deep / "x.csv").write_text(TABLE)
    for n in range(5):
        (tmp_path / f"{n}.csv").write_text(TABLE)
    found = find_inputs([tmp_path], tmp_path)
    assert [each.path for each in found.inputs] == [f"{n}.csv" for n in range(5)]
    assert skipped(found) == {"0/b": "folders are searched 1 levels deep"}
    monkeypatch.setenv("SKEWSCOPE_MAX_INPUTS", "3")
    with pytest.raises(InputError, match=r"found more than 3 inputs, expected at most 3.* SKEWSCOPE_MAX_INPUTS=6"):
        find_inputs([tmp_path], tmp_path)


def test_reports_of_other_tools_of_nccl_are_no_dumps(tmp_path):
    (tmp_path / "ras_status.json").write_text(json.dumps({"nccl_version": "2.29.1", "communicators": [{"size": 2}]}))
    (tmp_path / "a.csv").write_text(TABLE)
    assert skipped(find_inputs([tmp_path], tmp_path)) == {"ras_status.json": "no known kind"}


def test_the_public_fixtures_give_a_bounded_answer(shared):
    draft = draft_recording([shared / "fixtures"])
    assert len(draft.recording.inputs) > 15
    assert "no known kind" in {each.reason for each in draft.skipped}
    assert len(warnings_of(draft)) < 20
