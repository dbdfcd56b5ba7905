import itertools
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from skewscope.adapters.inputs import recording
from skewscope.adapters.inputs.recording import input_readers, load, open_recording
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.model import Catalogue, Signal
from skewscope.kb.problems import InputError
from tests.support.telemetry import catalogue, record

DUMP = (
    'node_netstat_Tcp_RetransSegs{node="n1"} 5 11\n'
    'node_netstat_Tcp_RetransSegs{node="n0"} 7 12\n'
    "go_goroutines 1 12\n"
    "# EOF\n"
)
INPUTS = [
    {"kind": "openmetrics", "path": "m.om"},
    {"kind": "prometheus-pages", "path": "pages", "labels": {"node": "n0"}},
    {"kind": "prometheus-pages", "path": "more", "labels": {"node": "n1"}},
]
FILES = {
    "m.om": DUMP,
    "pages/10.prom": "node_cpu_scaling_frequency_hz 3e9\n",
    "pages/11.prom": 'node_cpu_seconds_total{cpu="1"} 4\n',
    "more/11.prom": 'node_cpu_seconds_total{cpu="0"} 3\n',
}


def told(path):
    with pytest.raises(InputError) as caught:
        load(open_recording(path), catalogue())
    return str(caught.value)


def same(one, other):
    columns = (np.array_equal(getattr(one.block, c), getattr(other.block, c)) for c in ("time", "series", "value"))
    return all(columns) and one.table.keys == other.table.keys and one.input_hash == other.input_hash


def test_whether_an_input_is_partial_is_true_or_false(tmp_path):
    inputs = [{"kind": "openmetrics", "path": "a.om", "partial": "yes"}]
    with pytest.raises(InputError, match="expected true or false"):
        open_recording(record(tmp_path, inputs, {"topology.yaml": "version: 1\nnodes: [{name: a}]", "a.om": "# EOF\n"}))


def test_every_kind_of_the_contract_has_its_reader():
    assert {"openmetrics", "parquet", "pcap", "prometheus-pages"} <= set(input_readers())


def test_only_the_readers_of_its_inputs_are_imported(tmp_path):
    folder = record(tmp_path, INPUTS, FILES)
    code = (
        "import sys\nfrom pathlib import Path\nfrom skewscope.adapters.inputs.recording import open_recording\n"
        "open_recording(Path(sys.argv[1]))\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "skewscope.adapters.inputs.openmetrics" in loaded
    assert not loaded & {f"skewscope.adapters.inputs.{kind}" for kind in ("kineto", "parquet", "pcap", "vllm_log")}


def test_a_recording_is_one_block_with_series_in_order(tmp_path):
    steps = []
    found = load(open_recording(record(tmp_path, INPUTS, FILES)), catalogue(), lambda *step: steps.append(step))
    assert found.table.keys == [
        SeriesKey("host.clock", "node", "n0"),
        SeriesKey("host.cpu", "node", "n0", "cpu1"),
        SeriesKey("host.cpu", "node", "n1", "cpu0"),
        SeriesKey("host.retrans", "node", "n0"),
        SeriesKey("host.retrans", "node", "n1"),
    ]
    assert found.block.time.tolist() == [10, 11, 11, 11, 12]
    assert found.block.series.tolist() == [0, 1, 2, 4, 3]
    assert found.block.value.tolist() == [3000, 4, 3, 5, 7]
    assert [(each.metric, each.count) for each in found.unmapped] == [("go_goroutines", 1)]
    assert list(dict.fromkeys(path for path, _ in steps)) == ["m.om", "more", "pages"]
    assert [done for _, done in steps] == sorted(done for _, done in steps)
    assert steps[-1][1] == 1.0


def test_neither_the_order_of_inputs_nor_of_lines_nor_the_names_of_files_matter(tmp_path):
    whole = load(open_recording(record(tmp_path / "a", INPUTS, FILES)), catalogue())
    for n, order in enumerate(itertools.permutations(INPUTS)):
        assert same(whole, load(open_recording(record(tmp_path / f"b{n}", list(order), FILES)), catalogue()))
    renamed = [{**INPUTS[0], "path": "other.txt"}, *INPUTS[1:]]
    files = {**FILES, "other.txt": DUMP}
    assert same(whole, load(open_recording(record(tmp_path / "c", renamed, files)), catalogue()))


@pytest.mark.parametrize(
    "change",
    [
        {"m.om": DUMP.replace("7", "8")},
        {"pages/10.prom": None, "pages/10.5.prom": FILES["pages/10.prom"]},
        {"topology.yaml": "version: 1\nnodes: [{name: n0}, {name: n1}]\n"},
    ],
)
def test_another_content_has_another_hash(tmp_path, change):
    whole = load(open_recording(record(tmp_path / "a", INPUTS, FILES)), catalogue())
    files = {name: data for name, data in {**FILES, **change}.items() if data is not None}
    other = load(open_recording(record(tmp_path / "b", INPUTS, files)), catalogue())
    assert other.input_hash != whole.input_hash


def test_another_start_has_another_hash_and_a_comment_has_not(tmp_path):
    hashes = [
        load(open_recording(record(tmp_path / str(n), INPUTS, FILES, **more)), catalogue()).input_hash
        for n, more in enumerate(({}, {"start": 5}, {"note": "x"}))
    ]
    assert hashes[0] == hashes[2] != hashes[1]


@pytest.mark.parametrize(
    ("more", "start", "end"),
    [
        ({}, 10, 12),
        ({"start": 5.5, "end": 100}, 5.5, 100),
        ({"start": 50}, 50, 50),
        ({"end": "2026-11-20T12:00:00Z"}, 10, None),
    ],
)
def test_start_and_end_come_from_the_data_where_nothing_tells_them(tmp_path, more, start, end):
    path = record(tmp_path, INPUTS, FILES, **more)
    if end is None:
        # Dates are written bare in YAML.
        text = (path / "recording.yaml").read_text().replace("'", "")
        (path / "recording.yaml").write_text(text)
        end = 1795176000.0
    found = load(open_recording(path), catalogue())
    assert (found.start, found.end) == (start, end)


def test_a_recording_without_inputs_is_empty_and_no_fault(tmp_path):
    found = load(open_recording(record(tmp_path, [], {})), catalogue())
    assert (len(found.block), found.table.keys, found.start, found.end) == (0, [], 0.0, 0.0)
    assert len(found.input_hash) == 64


def test_what_several_names_deliver_is_counted_once(tmp_path):
    text = (
        'node_infiniband_port_data_received_bytes_total{node="n0",device="eth1"} 1 1\n'
        'node_ethtool_received_bytes_phy{node="n0",device="eth1"} 2 1\n'
        'node_infiniband_port_data_received_bytes_total{node="n1",device="eth1"} 3 1\n'
    )
    for parts in ([text], text.splitlines(keepends=True)):
        inputs = [{"kind": "openmetrics", "path": f"{n}.om"} for n in range(len(parts))]
        files = {f"{n}.om": part for n, part in enumerate(parts)}
        found = load(open_recording(record(tmp_path / str(len(parts)), inputs, files)), catalogue())
        assert [key.entity for key in found.table.keys] == ["n0/ew", "n1/ew/0"]
        assert found.block.value.tolist() == [2, 3]
        assert [(each.metric, each.count) for each in found.unmapped] == [("port.rx_bytes", 1)]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            {"inputs": [{"kind": "openmetric", "path": "m.om"}]},
            [
                "recording.yaml:4: inputs[0].kind: found 'openmetric', expected one of ",
                "Did you mean 'openmetrics'?",
            ],
        ),
        (
            {"inputs": [{"kind": "openmetrics", "path": "mm.om"}]},
            ["recording.yaml:5: inputs[0].path: found no 'mm.om', expected a file. Did you mean 'm.om'?"],
        ),
        ({"inputs": [{"kind": "openmetrics", "path": "pages"}]}, ["found 'pages', which is not a file"]),
        ({"inputs": [{"kind": "prometheus-pages", "path": "m.om"}]}, ["found 'm.om', which is not a folder"]),
        ({"inputs": [{"kind": "openmetrics", "path": "../m.om"}]}, ["expected a path inside the recording's folder"]),
        (
            {"inputs": [{"kind": "openmetrics", "path": "/etc/passwd"}]},
            ["expected a path inside the recording's folder"],
        ),
        (
            {"inputs": [{"kind": "openmetrics", "path": "pages/../../x"}]},
            ["expected a path inside the recording's folder"],
        ),
        (
            {"inputs": [{"kind": "openmetrics", "path": "m.om", "label": {}}]},
            ["unknown field 'label'", "Did you mean 'labels'?"],
        ),
        (
            {"inputs": [{"kind": "openmetrics", "path": "m.om", "labels": {"node": "n"}}]},
            ["labels.node: found an unknown node 'n', expected a node of the topology. Did you mean 'n1'?"],
        ),
        (
            {"inputs": [{"kind": "openmetrics", "path": "m.om", "labels": ["n0"]}]},
            ["expected a mapping of label names to texts"],
        ),
        ({"inputs": [{"kind": "pcap", "path": "m.om", "labels": {"node": "n0"}}]}, ["found no label 'port'"]),
        (
            {"inputs": [{"kind": "pcap", "path": "m.om", "labels": {"node": "n0", "port": "eww"}}]},
            ["found an unknown port 'eww', expected a port of the node 'n0' (ns, ew). Did you mean 'ew'?"],
        ),
        ({"inputs": [{"path": "m.om"}]}, ["expected the field 'kind'"]),
        ({"inputs": "m.om"}, ["inputs: found text, expected a list"]),
        ({"inputs": ["m.om"]}, ["inputs[0]: found text, expected a mapping"]),
        (
            {"topology": "topologie.yaml"},
            ["topology: found no 'topologie.yaml', expected a file. Did you mean 'topology.yaml'?"],
        ),
        (
            {"start": "yesterday"},
            ["start: found text (yesterday), expected seconds since 1970, or a date with a time."],
        ),
        ({"start": 1795177354075}, ["Milliseconds? Divide by 1000."]),
        ({"start": 20, "end": 10}, ["end: found 10.0, before the start, expected a time after 20.0"]),
        ({"tick": 0}, ["tick: found a whole number (0), expected 1 to 60 seconds, or auto."]),
        ({"version": 3}, ["It was written for a newer Skewscope."]),
        ({"stat": 3}, ["unknown field 'stat'", "Did you mean 'start'?"]),
        ({"version": None, "topology": None}, ["expected the field 'version'", "expected the field 'topology'"]),
    ],
)
def test_a_fault_of_the_description_is_told_with_its_line(tmp_path, change, lines):
    path = record(tmp_path, INPUTS, FILES)
    described = {**yaml.safe_load((path / "recording.yaml").read_text()), **change}
    (path / "recording.yaml").write_text(yaml.safe_dump(described, sort_keys=False))
    found = told(path)
    assert all(line in found for line in lines), found
    assert all("recording.yaml:" in line for line in found.splitlines())


def test_faults_of_the_description_and_of_the_topology_are_told_at_once(tmp_path):
    path = record(tmp_path, [{"kind": "x", "path": "y"}], {"topology.yaml": "version: 1\nnodes: [{nam: n0}]\n"}, end=-1)
    found = told(path)
    assert "topology.yaml:2: nodes[0].nam" in found
    assert "inputs[0].kind" in found
    assert "end: found a whole number (-1)" in found


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"m.om": "a 1 1\nb\n"}, "m.om:2: found no sample in 'b'"),
        ({"m.om.zst": b"\x28\xb5\x2f\xfdxx"}, "m.om.zst"),
        ({"m.om.gz": "no gzip"}, "m.om.gz"),
        ({"p.pcap": "no capture at all"}, "p.pcap"),
        ({"p.pcap": b""}, "p.pcap"),
        ({"s.parquet": "no parquet"}, "s.parquet: found no readable Parquet"),
    ],
)
def test_a_fault_of_an_input_is_told_with_its_file(tmp_path, files, line):
    kinds = {"om": "openmetrics", "zst": "openmetrics", "gz": "openmetrics", "pcap": "pcap", "parquet": "parquet"}
    inputs = [
        {"kind": kinds[name.rsplit(".", 1)[1]], "path": name, "labels": {"node": "n0", "port": "ew"}} for name in files
    ]
    assert line in told(record(tmp_path, inputs, files))


def test_packets_of_a_port_that_an_empty_cluster_lacks_are_a_fault(tmp_path):
    inputs = [{"kind": "pcap", "path": "p.pcap", "labels": {"node": "n0", "port": "ew"}}]
    path = record(tmp_path, inputs, {"p.pcap": "", "topology.yaml": "version: 1\nnodes: []"})
    assert "found an unknown node 'n0'" in told(path)


def test_faults_of_several_inputs_are_told_at_once(tmp_path):
    inputs = [{"kind": "openmetrics", "path": f"{n}.om"} for n in range(3)]
    found = told(record(tmp_path, inputs, {"0.om": "x\n", "1.om": "a 1 1\n", "2.om": "y\n"}))
    assert "0.om:1:" in found
    assert "2.om:1:" in found


def test_a_folder_that_is_no_recording_is_told(tmp_path):
    assert "expected a recording: a folder with recording.yaml" in told(tmp_path / "nothing")
    assert "recording.yaml: found no readable file" in told(tmp_path)


def test_the_description_itself_may_be_named(tmp_path):
    path = record(tmp_path, INPUTS, FILES)
    assert same(*(load(open_recording(p), catalogue()) for p in (path, path / "recording.yaml")))


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_links_that_lead_out_of_the_folder_are_refused(tmp_path):
    (tmp_path / "secret.om").write_text(DUMP)
    (tmp_path / "topology.yaml").write_text("version: 1\nnodes: []")
    path = record(tmp_path / "rec", [{"kind": "openmetrics", "path": "m.om"}], {})
    (path / "m.om").symlink_to(tmp_path / "secret.om")
    assert "expected a path inside the recording's folder" in told(path)
    (path / "topology.yaml").unlink()
    (path / "topology.yaml").symlink_to(tmp_path / "topology.yaml")
    assert "topology: found 'topology.yaml', expected a path inside" in told(path)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "version: 1\nversion: 1", "\x00", "inputs: [{kind: [], path: {}}]"])
def test_a_description_of_another_shape_is_a_fault_and_no_crash(tmp_path, text):
    (tmp_path / "recording.yaml").write_text(text)
    assert "recording.yaml" in told(tmp_path)


def real_catalogue(shared):
    facts = yaml.safe_load((shared / "facts/signals.yaml").read_text())["signals"]
    return Catalogue(
        {},
        {
            each["id"]: Signal(
                each["id"],
                each["id"],
                each["unit"],
                each["type"],
                each["entity"],
                tuple(each["vantage"]),
                each["dpu_access"],
                {exporter: tuple(map(str, names)) for exporter, names in each["sources"].items()},
                each.get("scale", {}),
            )
            for each in facts
        },
        {},
        {},
    )


@pytest.mark.slow
def test_a_real_recording_is_the_same_in_any_order_and_with_any_number_of_processes(shared, tmp_path):
    source = shared / "recordings/pp-bubble"
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    described = yaml.safe_load((copy / "recording.yaml").read_text())
    random.Random(4).shuffle(described["inputs"])
    (copy / "recording.yaml").chmod(0o644)
    copy.chmod(0o755)
    (copy / "recording.yaml").write_text(yaml.safe_dump(described))
    known = real_catalogue(shared)
    one = load(open_recording(source), known, workers=1)
    other = load(open_recording(copy), known, workers=2)
    assert same(one, other)
    assert one.unmapped == other.unmapped
    signals = {key.signal for key in one.table.keys}
    assert {"serve.waiting", "serve.ttft", "host.tcp_timeouts", "port.rx_netdev_bytes", "wire.rtt"} <= signals
    assert (one.start, one.end) == (described["start"], described["end"])
    # A scrape every half second or so, and no counter that jumps between two names.
    number = one.table.keys.index(SeriesKey("port.rx_netdev_bytes", "port", "n0/ew"))
    counted = one.block.value[one.block.series == number]
    assert len(counted) > 50
    assert (np.diff(counted) >= 0).all()


@pytest.mark.slow
def test_every_real_recording_loads_without_its_packets(shared, tmp_path):
    for source in sorted((shared / "recordings").iterdir()):
        copy = tmp_path / source.name
        copy.mkdir()
        described = yaml.safe_load((source / "recording.yaml").read_text())
        described["inputs"] = [each for each in described["inputs"] if each["kind"] == "openmetrics"]
        (copy / "recording.yaml").write_text(yaml.safe_dump(described))
        for name in ("topology.yaml", "metrics.om.zst"):
            shutil.copy(source / name, copy / name)
        found = load(open_recording(copy), real_catalogue(shared))
        assert len(found.block) > 10_000
        assert {key.entity for key in found.table.keys if key.kind == "replica"} == {"A", "B"}


def test_each_module_that_describes_a_kind_of_input_has_its_reader():
    folder = Path(recording.__file__).parent
    described = {
        path.stem.replace("_", "-")
        for path in folder.glob("*.py")
        if path.read_text().startswith('"""Inputs of kind `')
    }
    assert described <= set(input_readers())
