"""Files that nobody described: their kinds, what is told of wrong ones, and recordings that are saved and redacted."""

import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs.draft_recording import describe_recording, draft_recording, save_recording
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.adapters.inputs.recording import demo_path, input_readers, load, open_recording
from skewscope.adapters.inputs.redaction import Pseudonyms, redact_recording
from skewscope.adapters.mapping.name_mapping import parse_mapping
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

LONG = "time,signal,value,host,gpu\n" + "".join(
    f"{1750000000 + t},DCGM_FI_DEV_SM_CLOCK,{1980 - 600 * (gpu == 3 and t > 30)},secret-host,{gpu}\n"
    for t in range(45)
    for gpu in range(8)
)
WIDE = (
    "timestamp;host;gpu;DCGM_FI_DEV_SM_CLOCK;DCGM_FI_DEV_GPU_TEMP\n"
    "2025-06-15T15:06:40Z;h;0;1410;\n1750000001000;h;0;N/A;40\n"
)
DUMP = '# TYPE x gauge\nDCGM_FI_DEV_SM_CLOCK{Hostname="h",gpu="0"} 1410 1750000000\n# EOF\n'
PAGE = 'DCGM_FI_DEV_SM_CLOCK{gpu="0"} 1410\n'


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def samples(draft):
    data = load(draft.recording, catalogue(), None, 1)
    keys = [data.table.keys[n] for n in data.block.series]
    return sorted((k.entity, k.signal, v) for k, v in zip(keys, data.block.value, strict=True) if v == v)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.csv", LONG, "csv"),
        ("a.tsv", WIDE, "csv"),
        ("a.txt", LONG, ""),
        ("b.csv", "a,b\n1,2\n", ""),
        ("c.csv", "timestamp, index, power.draw [W]\n", ""),
        ("a.om", DUMP, "openmetrics"),
        ("a.txt", '{__name__="up", instance="n0:9100"} 1 1750000000123\n', "openmetrics"),
        ("a.txt", '{instance="n0:9100"} 1 1750000000123\n', ""),
        ("1750000000.prom", PAGE, "prometheus-pages"),
        ("page.prom", PAGE, ""),
        ("x.log", "step 1 loss 0.5\nstep 2 loss 0.4\n", ""),
        ("empty", "", ""),
    ],
)
def test_kinds_are_recognised(tmp_path, name, text, kind):
    (tmp_path / name).write_text(text)
    found = find_kind(tmp_path / name)
    assert found == kind or (not kind and found not in ("csv", "openmetrics", "prometheus-pages", "parquet", "pcap"))


def test_every_kind_says_what_it_is():
    assert all(reader.label and reader.recognise for reader in input_readers().values())


def test_a_wide_table_is_read_as_a_long_one(tmp_path):
    found = samples(draft_recording([write(tmp_path, a_csv=WIDE) / "a.csv"]))
    assert found == [("h/gpu0", "gpu.sm_clock", 1410.0), ("h/gpu0", "gpu.temperature", 40.0)]


def test_parquet_tables_are_long_or_wide(tmp_path):

    wide = pa.table({"ts": [1750000000.0], "host": ["h"], "gpu": [1], "DCGM_FI_DEV_SM_CLOCK": [1410]})
    pq.write_table(wide, tmp_path / "a.parquet")
    assert samples(draft_recording([tmp_path])) == [("h/gpu1", "gpu.sm_clock", 1410.0)]


def test_a_file_without_a_host_stands_for_a_node(tmp_path):
    draft = draft_recording([write(tmp_path, pages__1750000000_prom=PAGE, pages__1750000015_prom=PAGE)])
    assert [one[0] for one in samples(draft)] == ["pages/gpu0"] * 2
    assert "names of files" in str(draft.assumptions[0])


def test_unknown_names_are_counted_and_a_mapping_maps_them(tmp_path):
    write(tmp_path, a_csv="time,host,gpu,my_mhz,DCGM_FI_DEV_GPU_TEMP\n1750000000,h,0,1410,40\n")
    assert draft_recording([tmp_path]).unknown == Counter(my_mhz=1)
    text = "version: 1\nmetrics: [{metric: my_mhz, signal: gpu.sm_clock, unit: MHz}]\n"
    draft = draft_recording([tmp_path], None, parse_mapping(text, "m", catalogue()))
    assert ("h/gpu0", "gpu.sm_clock", 1410.0) in samples(draft)
    save_recording(draft, tmp_path / "saved")
    assert samples(describe_recording(tmp_path / "saved")) == samples(draft)


@pytest.mark.parametrize(
    ("files", "error"),
    [
        (
            {"a_txt": "hello"},
            "found no file of a known kind, but a.txt, expected metrics, a table with",
        ),
        ({}, "found an empty folder, expected metrics"),
        ({"a_csv": "time,host,x\n1,h,2\n"}, "found no metric that is known, but 1 others (x)"),
        ({"a_csv": "time,host,x\n1,h\n"}, "a.csv:2: found 2 columns in '1,h', expected 3 columns"),
        ({"a_csv": "time,signal,value\n1750000000,a,b\n"}, "a.csv:2: value: found 'b', expected a number"),
        ({"a_csv": "time,x\nyesterday,1\n"}, "a.csv:2: time: found 'yesterday', expected seconds since 1970"),
        ({"a_csv": "time,x,x\n1,1,1\n"}, "a.csv:1: found a header of 3 columns, 2 of them different"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, files, error):
    with pytest.raises(InputError, match=re.escape(error)):
        draft_recording([write(tmp_path, **files)])


def test_a_named_file_of_no_known_kind_is_an_error(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\x80\x04\x95cos\nsystem")
    with pytest.raises(InputError, match="no known kind, which begins with") as caught:
        draft_recording([tmp_path / "a.bin"])
    assert "docs/in-hand.md" in str(caught.value)


def incidents(recording):
    return [
        (one.condition, one.kind, one.state, one.opened_at, one.confidence, one.impact, one.coverage)
        for one in replay(recording).incidents
    ]


def test_a_saved_and_a_redacted_recording_replay_to_the_same_incidents(tmp_path):
    draft = draft_recording([write(tmp_path, a_csv=LONG) / "a.csv"])
    told = incidents(draft.recording)
    assert told
    save_recording(draft, tmp_path / "saved")
    assert samples(describe_recording(tmp_path / "saved")) == samples(draft)
    redacted = redact_recording(describe_recording(tmp_path / "saved"), tmp_path / "redacted")
    assert incidents(redacted.recording) == told
    assert b"secret-host" not in whole_content(tmp_path / "redacted")


def whole_content(folder):
    """Returns the bytes of all files; of tables, of their texts, which are compressed in the file."""
    tables = [str(pq.read_table(path).column("series").to_pylist()).encode() for path in folder.glob("*.parquet")]
    return b"".join([*tables, *(path.read_bytes() for path in folder.iterdir())])


def test_the_demo_is_redacted(tmp_path):
    demo = describe_recording(demo_path())
    redact_recording(demo, tmp_path / "redacted")
    topology = demo.recording.topology
    names = [*topology.node, *(a for p in topology.port.values() for a in p.addresses), *topology.group]
    (series,) = pq.read_table(tmp_path / "redacted" / "samples.parquet").column("series").drop_null().to_pylist()
    words = set(re.findall(r"[\w.:]+", series + (tmp_path / "redacted" / "topology.yaml").read_text()))
    assert not words & set(names)
    assert open_recording(tmp_path / "redacted").topology.pools


@pytest.mark.slow
def test_the_redacted_demo_replays_to_the_same_incidents(tmp_path):
    redact_recording(describe_recording(demo_path()), tmp_path / "redacted")
    assert incidents(tmp_path / "redacted") == incidents(demo_path())


NAMES = st.text("abcXYZ019-._é", min_size=3, max_size=12).filter(lambda text: text.strip(".-_"))


@given(st.lists(NAMES.map(lambda text: f"Q{text}Q"), min_size=9, max_size=9, unique=True))
def test_no_name_is_left_under_pseudonyms(names):
    a, b, port, group, pool, rack, switch, model, uuid = names
    ports = (Port(a, port, "east-west", None, ("10.0.0.1",), (uuid,), switch, f"{b}/{port}"),)
    nodes = (Node(a, rack, 2, (), ports, aliases=(uuid,)), Node(b, rack, 1, (), (Port(b, port, "east-west"),)))
    groups = (Group(group, "tensor-parallel", (f"{a}/gpu0", b), a, (("model_name", model),)),)
    whole = Topology(nodes, groups, (Pool(pool, (group,)),))
    keys = [
        SeriesKey("s", kind, entity, f"{group},{model},model_name={uuid},tx,bucket:0.5")
        for kind, entity in (
            *(("node", a), ("port", f"{a}/{port}"), ("gpu", f"{a}/gpu1"), ("rank", f"{group}:{b}"), ("pool", pool)),
            *(
                ("rank", f"{group}:{a}/gpu0"),
                ("peer", f"{a}/{port}>{b}"),
                ("link", "--".join(sorted((f"{a}/{port}", f"{b}/{port}")))),
            ),
            ("replica", group),
        )
    ]
    pseudonyms = Pseudonyms(whole, {model: "text-1", uuid: "text-2"})
    renamed = [pseudonyms.series_key(key) for key in keys]
    text = f"{pseudonyms.renamed_topology()} {renamed}"
    assert not [name for name in (*names, "10.0.0.1") if name in text]
    assert "unknown" not in text
    assert len(set(renamed)) == len(keys)


def test_a_capture_needs_a_port(tmp_path):
    (tmp_path / "x.pcap").write_bytes(b"\xd4\xc3\xb2\xa1" + bytes(20))
    with pytest.raises(InputError, match="a capture of an unknown port"):
        draft_recording([tmp_path / "x.pcap"])


def test_saving_refuses_a_folder_with_content(tmp_path):
    draft = draft_recording([write(tmp_path, a_csv=LONG) / "a.csv"])
    with pytest.raises(InputError, match="an existing path"):
        save_recording(draft, tmp_path)
    save_recording(draft, tmp_path / "new")
    assert yaml.safe_load((tmp_path / "new" / "recording.yaml").read_text())["inputs"][0]["kind"] == "csv"
