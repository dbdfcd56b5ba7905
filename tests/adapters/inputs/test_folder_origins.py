"""Folders that stand for hosts: files of one name in several of them are of several hosts."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewscope.adapters.inputs.draft_recording import describe_recording, draft_recording, save_recording
from skewscope.adapters.inputs.folder_origins import distinguish_folders, distinguish_runs, find_stated_host
from skewscope.adapters.inputs.recording import load
from skewscope.kb.loader import catalogue

SMI = "timestamp, index, clocks.current.sm [MHz]\n" + "".join(
    f"2026/11/22 10:00:{second:02d}.000, {gpu}, 1980 MHz\n" for second in range(20) for gpu in range(2)
)
HOSTED = SMI.replace("timestamp,", "timestamp, hostname,").replace(".000,", ".000, real,")
VLLM = "".join(
    f"INFO 2026-11-22 10:00:{second:02d} [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
    "Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n"
    for second in range(0, 60, 10)
)
MEGATRON = "".join(
    f"[2026-11-22 10:00:{n:02d}] iteration {n}/ 100 | elapsed time per iteration (ms): 900.0 |\n" for n in range(9)
)
ETHTOOL = "2026-11-22T10:00:{second:02d}Z\neth0:\nNIC statistics:\n     rx_bytes: {second}\n"
TABLE = "time,signal,value,gpu\n" + "".join(f"{1795341600 + t},gpu.sm_clock,1980,0\n" for t in range(9))


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def entities(recording):
    """Returns the entities that have samples."""
    return {key.entity for key in load(recording, catalogue(), None, 1).table.keys}


def per_host(name, text, *hosts):
    return {f"{host}/{name}": text for host in hosts}


def test_a_folder_for_each_host_tells_its_gpus_and_its_engine_apart(tmp_path):
    folder = write(
        tmp_path / "d", {**per_host("nvidia-smi.csv", SMI, "h0", "h1"), **per_host("vllm.log", VLLM, "h0", "h1")}
    )
    found = draft_recording([folder])
    expected = {"h0/gpu0", "h0/gpu1", "h1/gpu0", "h1/gpu1", "vllm-h0", "vllm-h1"}
    assert entities(found.recording) == expected
    assert [each.what for each in found.assumptions][:1] == ["nodes h0, h1"]
    assert not [each for each in found.assumptions if each.certainty == "certain"]
    save_recording(found, tmp_path / "saved")
    assert entities(describe_recording(tmp_path / "saved").recording) == expected


@pytest.mark.parametrize("text", [SMI, TABLE])
def test_the_name_of_a_file_is_no_certain_name_of_a_node(tmp_path, text):
    found = draft_recording([write(tmp_path, {"n0.csv": text})])
    assert entities(found.recording) >= {"n0/gpu0"}
    assert not [each for each in found.assumptions if each.certainty == "certain"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (per_host("vllm-8000.log", VLLM, "a", "b") | per_host("vllm-8001.log", VLLM, "a", "b"), 4),
        (per_host("train.log", MEGATRON, "a", "b"), 2),
        (per_host("eth0.txt", "".join(ETHTOOL.format(second=n) for n in (0, 30)), "a", "b"), 2),
        ({f"{h}/2026-11-22T10000{n}.txt": ETHTOOL.format(second=n) for h in "ab" for n in (0, 3)}, 2),
        (per_host("gpu.csv", TABLE, "a", "b"), 2),
        (per_host("gpu.csv", TABLE, "run/a", "run/b/c"), 2),
    ],
)
def test_files_of_one_name_in_two_folders_are_of_two_places(tmp_path, files, expected):
    found = draft_recording([write(tmp_path, files)])
    assert len(entities(found.recording)) == expected
    assert not [name for name in entities(found.recording) if name.startswith(("vllm/", "gpu/", "eth0/"))]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (per_host("nvidia-smi.csv", HOSTED, "before", "after"), {"real/gpu0", "real/gpu1"}),
        (per_host("h0.csv", SMI, "2026-11-22", "2026-11-23"), {"h0/gpu0", "h0/gpu1"}),
        (per_host("h0.csv", TABLE, "2026/11/22", "2026/11/23"), {"h0/gpu0"}),
        (per_host("h0.csv", TABLE, "date=1", "date=2"), {"h0/gpu0"}),
        ({"gpu/h0.csv": TABLE, "power/h0.csv": TABLE.replace("sm_clock", "power")}, {"h0/gpu0"}),
        ({"h0.csv": SMI, "h0.csv.1": SMI}, {"h0/gpu0", "h0/gpu1"}),
    ],
)
def test_what_is_of_one_host_stays_so(tmp_path, files, expected):
    assert entities(draft_recording([write(tmp_path, files)]).recording) == expected


def test_folders_of_a_partitioned_table_name_labels(tmp_path):
    for host in "ab":
        path = tmp_path / f"d/date=2026-11-22/host={host}%2F1/part-0.parquet"
        path.parent.mkdir(parents=True)
        rows = {"time": [1795341600.0], "signal": ["gpu.sm_clock"], "gpu": ["0"], "value": [1980.0]}
        pq.write_table(pa.table(rows), path)
    found = draft_recording([tmp_path / "d"])
    assert [dict(each.labels) for each in found.recording.inputs] == [{"host": "a/1"}, {"host": "b/1"}]
    assert found.assumptions[0].what == "the label `host` (a/1, b/1)"
    assert draft_recording([tmp_path / "d/date=2026-11-22/host=a%2F1"]).recording.inputs[0].labels == (("host", "a/1"),)


def test_a_topology_that_knows_the_host_of_a_file_or_folder_places_it(tmp_path):
    files = {
        **per_host("gpu.csv", TABLE, "n0", "n1"),
        "gpu.csv": TABLE,
        "topology.yaml": "version: 1\nnodes: [{name: n1}]",
    }
    found = draft_recording([write(tmp_path, files)], tmp_path / "topology.yaml")
    assert entities(found.recording) == {"n1/gpu0"}


@pytest.mark.parametrize(
    ("pairs", "paths", "runs"),
    [
        ([("a", "b")], ["a", "b"], ["a", "b"]),
        ([(".", "sub")], [".", "sub"], ["", "sub"]),
        ([("x/a/h0", "x/b/h0")], ["x/a/h0", "x/b/h0", "x/b/h1"], ["a", "b", "b"]),
        ([("one/one.json", "two/two.json")], ["one/one.json"], ["one"]),
        ([("d/one.json.gz", "d/two.json")], ["d/one.json.gz", "d/two.json"], ["one", "two"]),
        ([("2026-11-22/r", "2026-11-23/r")], ["2026-11-22/r"], ["2026-11-22"]),
    ],
)
def test_runs_are_named_by_what_differs_between_files_of_the_same_rank(pairs, paths, runs):
    found = distinguish_runs(pairs, paths)
    assert [found.get(path, "") for path in paths] == runs


@pytest.mark.parametrize(
    ("folders", "hosts"),
    [
        (["h0", "h1"], ["h0", "h1"]),
        (["x/h0/logs", "x/h1/logs"], ["h0", "h1"]),
        (["run1/h0", "run1/h1", "run2/h0"], ["run1-h0", "run1-h1", "run2-h0"]),
        (["h0/2026-11-22", "h0/20261123T1000", "h1/1795341600"], ["h0", "h0", "h1"]),
        ([".", "h1"], ["", "h1"]),
        (["00", "01"], ["00", "01"]),
        (["2026/11/22/03", "2026/11/22/04"], ["", ""]),
        (["server=a:1", "server=b,2"], ["a-1", "b-2"]),
        ([], []),
    ],
)
def test_the_parts_that_differ_name_hosts_unless_they_are_times(folders, hosts):
    found = distinguish_folders(folders)
    assert [found.get(folder, "") for folder in folders] == hosts


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("[root@gn-31 ~]# dmesg | tail\nmlx5_core: error\n[root@gn-31 ~]#\n", "gn-31"),
        ("(base) me@gpu5:~$ sudo dmesg -T\nNVRM: error\n", "gpu5"),
        ("Log file created at: 2026/11/20 10:00:00\nRunning on machine: pd-decode-1\n", "pd-decode-1"),
        ("  time      : 2026-11-20_12:11:08\n  host      : gpu-b14\n  rank      : 13\n", "gpu-b14"),
        ("me@laptop:~$ kubectl logs vllm-0\nERROR\n", ""),
        ("me@a:~$ dmesg\nerror\nme@b:~$ dmesg\nerror\n", ""),
        ("mail from me@example.org> was lost\n", ""),
    ],
)
def test_a_text_says_by_its_prompts_and_reports_of_which_host_it_is(tmp_path, text, host):
    file = tmp_path / "pasted.txt"
    file.write_text(text)
    assert find_stated_host(file) == host
