"""What is too much is refused with the bound and the variable that raises it, whatever kind of input it is."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard

from skewscope.adapters.formats import bounds, openmetrics, openmetrics_grammar
from skewscope.adapters.inputs.capture import split_stretches
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.wire.packets import Packets
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

SAMPLE = 'DCGM_FI_DEV_GPU_TEMP{{gpu="{}",Hostname="n0"}} 50 {}\n'
TOPOLOGY = "version: 1\nnodes: [{name: n0, gpus: 8, ports: [{name: p0, network: east-west}]}]\n"
ALL = [value for value in vars(bounds).values() if isinstance(value, bounds.Bound)]


def recording(folder, text, kind="openmetrics", name="a.om", labels=""):
    data = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(zstandard.compress(data) if name.endswith(".zst") else data)
    (folder / "topology.yaml").write_text(TOPOLOGY)
    listed = f"inputs: [{{kind: {kind}, path: {name}{labels}}}]\n"
    (folder / "recording.yaml").write_text(f"version: 1\ntopology: topology.yaml\n{listed}")
    return folder


def refusal(folder):
    with pytest.raises(InputError) as caught:
        load(open_recording(folder), catalogue(), workers=1)
    return str(caught.value)


def test_every_bound_says_how_to_raise_it(monkeypatch):
    for bound in ALL:
        assert f"{bound.variable}={2 * bound.limit()} allows more." in str(bound.problem("file"))
        monkeypatch.setenv(bound.variable, "7")
        assert bound.limit() == 7
        with pytest.raises(InputError, match=f"found 9 .*, expected at most 7. {bound.variable}=14"):
            bound.check("file", 9)


def test_the_page_lists_every_bound():
    page = (Path(__file__).parents[3] / "docs" / "prometheus.md").read_text()
    table = page.partition("<!-- bounds -->")[2].partition("<!-- end -->")[0]
    listed = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", table, re.MULTILINE)
    assert sorted((name, int(most.replace(",", ""))) for name, most in listed) == sorted(
        (bound.variable, bound.most) for bound in ALL
    )


@pytest.mark.parametrize("text", ["0", "-1", "1e9", "nan", "9" * 20, "٣"])
def test_a_bound_that_is_no_number_is_an_error(monkeypatch, text):
    monkeypatch.setenv("SKEWSCOPE_MAX_SERIES", text)
    with pytest.raises(InputError, match=r"SKEWSCOPE_MAX_SERIES: found .*, expected a whole number"):
        bounds.SERIES.limit()


@pytest.mark.parametrize("line", ["# a comment\n", "\n"])
def test_comments_and_blank_lines_count_though_a_few_bytes_hold_millions(tmp_path, monkeypatch, line):
    monkeypatch.setenv("SKEWSCOPE_MAX_LINES", "1000")
    whole = recording(tmp_path, SAMPLE.format(0, 1) + line * 2000 + "# EOF\n", name="a.om.zst")
    assert "found more than 1000 lines, expected at most 1000." in refusal(whole)
    monkeypatch.setenv("SKEWSCOPE_MAX_LINES", "3000")
    assert len(load(open_recording(whole), catalogue(), workers=1).samples) == 1


def test_series_of_known_signals_are_counted_over_all_inputs_before_any_work_is_done_for_them(tmp_path, monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_KNOWN_SERIES", "4")
    text = "".join(SAMPLE.format(n, 1700000000) for n in range(8)) + "# EOF\n"
    assert "found more than 4 series of known signals" in refusal(recording(tmp_path, text))
    monkeypatch.setattr("skewscope.adapters.inputs.draft_recording.infer_topology", None)
    with pytest.raises(InputError, match="SKEWSCOPE_MAX_KNOWN_SERIES=8 allows more"):
        draft_recording([tmp_path / "a.om"])


def test_series_of_known_signals_are_counted_while_a_text_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_KNOWN_SERIES", "4")
    monkeypatch.setattr(openmetrics, "CHUNK", 200)
    (tmp_path / "a.om").write_text("".join(SAMPLE.format(n, 1700000000) for n in range(1000)) + "# EOF\n")
    parsed, parse = [], openmetrics_grammar.parse_series
    monkeypatch.setattr(openmetrics_grammar, "parse_series", lambda match: parsed.append(match) or parse(match))
    with pytest.raises(InputError, match="more than 4 series of known signals"):
        draft_recording([tmp_path / "a.om"])
    assert len(parsed) < 20


def test_long_labels_are_counted_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_KEY_BYTES", "1000")
    text = "".join(f'strange{{label="{n:0600}"}} 1 1\n' for n in range(3))
    recording(tmp_path, text)
    with pytest.raises(InputError, match="found more than 1000 bytes of metric names and labels"):
        draft_recording([tmp_path / "a.om"])


def test_bytes_and_inputs_are_counted_before_they_are_read(tmp_path, monkeypatch):
    whole = recording(tmp_path, SAMPLE.format(0, 1) + "# EOF\n")
    monkeypatch.setattr("skewscope.adapters.inputs.openmetrics.open_stream", None)
    monkeypatch.setenv("SKEWSCOPE_MAX_BYTES", "40")
    assert "found 55 bytes, expected at most 40." in refusal(whole)
    listed = "\n".join(["- {kind: openmetrics, path: a.om}"] * 5)
    (tmp_path / "recording.yaml").write_text(f"version: 1\ntopology: topology.yaml\ninputs:\n{listed}\n")
    monkeypatch.setenv("SKEWSCOPE_MAX_INPUTS", "4")
    with pytest.raises(InputError, match="found 5 inputs, expected at most 4"):
        open_recording(tmp_path)


def test_rows_of_a_table_are_counted_before_it_is_read(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = 10_000
    table = {"time": np.ones(rows), "signal": ["gpu.temperature"] * rows, "value": np.ones(rows), "node": ["n0"] * rows}
    recording(tmp_path, b"", kind="parquet", name="a.parquet")
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    monkeypatch.setenv("SKEWSCOPE_MAX_SAMPLES", "9999")
    assert "found 10000 samples, expected at most 9999." in refusal(tmp_path)


def test_work_is_estimated_before_it_is_begun(tmp_path, monkeypatch):
    text = "".join(SAMPLE.format(n % 8, 1700000000 + n) for n in range(2000)) + "# EOF\n"
    monkeypatch.setattr("skewscope.adapters.runtime.runtime.build_runtime", None)
    with pytest.raises(InputError, match=r"found about 2 s of work \(2000 ticks of 8 series\), expected at most 1 s"):
        replay(recording(tmp_path, text), most_seconds=1)


def capture(records):
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records)


def test_a_capture_of_records_without_bytes_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_CAPTURE_PACKETS", "200000")
    data = capture([bytes(16 * 300_000)])
    found = refusal(recording(tmp_path, data, "pcap", "a.pcap.zst", ", labels: {node: n0, port: p0}"))
    assert "found more than 200000 packets in five seconds" in found


def packets(times):
    columns = {name: np.zeros(len(times), np.int64) for name in Packets.__dataclass_fields__ if name != "time"}
    return Packets(time=np.array(times, np.float64), **columns)


def test_a_capture_over_too_many_seconds_is_refused(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_CAPTURE_SECONDS", "1000")
    with pytest.raises(InputError, match="more than 1000 seconds of a capture"):
        list(split_stretches([packets(np.arange(100) * 59.0)]))


def test_packets_out_of_order_are_split_once_and_keep_their_order_within_a_second():
    falling = packets([200.5, 100.75, 100.5, 3.5])
    found = list(split_stretches([falling]))
    assert [(begin, part.time.tolist()) for begin, part in found if len(part)] == [
        (3.0, [3.5]),
        (100.0, [100.75, 100.5]),
        (200.0, [200.5]),
    ]


def test_a_packet_thousands_of_years_away_is_an_error_and_no_loop_without_end(tmp_path):
    head = struct.pack("<IIIHHq", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1) + struct.pack("<I", 28)
    # A resolution of whole seconds.
    body = struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3x", 9, 1, 0) + struct.pack("<HH", 0, 0)
    interface = struct.pack("<II", 1, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
    packet = struct.pack("<IIIIIII", 6, 48, 0, 0xFFFFFFFF, 0, 16, 16) + bytes(16) + struct.pack("<I", 48)
    data = head + interface + packet
    found = refusal(recording(tmp_path, data, "pcap", "a.pcap", ", labels: {node: n0, port: p0}"))
    assert "found a packet 1.84467e+19 s after 1970" in found
