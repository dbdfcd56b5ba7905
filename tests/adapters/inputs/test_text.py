"""Texts that formats of the catalogue read, messages that its events recognise, and their answers."""

import io
import os

import pytest
from click.testing import CliRunner

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.messages import metric_of
from skewscope.adapters.inputs.recording import input_readers
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.known_events import known_events
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, NothingKnownError
from skewscope.tui.cli.main import cli

FORMATS = list(catalogue().formats.values())
EVENTS = list(catalogue().events.values())
VLLM = (
    "INFO 09-14 08:00:{second:02} [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
    "throughput: 700.0 tokens/s, Running: 34 reqs, Waiting: {waiting} reqs, GPU KV cache usage: {use:.1f}%, Prefix "
    "cache hit rate: 0.0%\n"
)


def answer(tmp_path, text, name="a.log"):
    """Returns the result of a diagnosis of one file."""
    file = tmp_path / name
    file.write_text(text)
    return replay(draft_recording([file]).recording)


@pytest.mark.parametrize("one", FORMATS, ids=[one.id for one in FORMATS])
def test_the_samples_of_a_format_are_read_from_a_file(one):
    for sample in one.samples:
        text = sample.lines.encode() + b"\n"
        if not sample.gives:
            continue
        wanted = {given["signal"] for given in sample.gives if not given["signal"].startswith(("step ", "request "))}
        if wanted:
            reader = input_readers()[one.kind or "text"]
            assert reader.recognise(text, "x")
            found = reader.read_series(io.BytesIO(text), "x.txt", {"format": one.id})
            names = [{metric_of(name), *catalogue().signals[name].sources.get(one.exporter, ())} for name in wanted]
            metrics = {series.metric.removesuffix("_sum") for series in found}
            assert all(some & metrics for some in names)


def names_its_place(event):
    """Returns whether a message says by itself of which GPU or port it speaks: others are placed by formats."""
    labels = {what.label for what in event.fields.values()}
    wanted = {"gpu": {"gpu", "pci_bus_id"}, "port": {"device", "switch_port"}}.get(event.entity)
    return wanted is None or bool(labels & wanted)


def reported(line):
    """Returns the events of a line that are something by themselves."""
    return [one.event for one in known_events().find(line) if one.event.is_reported and not one.is_retraction]


SAMPLED = [
    one
    for one in EVENTS
    if names_its_place(one) and reported(one.samples[0]) and one.id != "collectives-differ"  # said in our own words
]


@pytest.mark.parametrize("event", SAMPLED[::6], ids=[one.id for one in SAMPLED[::6]])
def test_an_event_is_found_among_other_lines_and_reported_with_its_words(event, tmp_path):
    line = event.samples[0]
    outcome = answer(tmp_path, f"some line\n2026-11-22 10:00:00 {line}\nanother line\n")
    (incident,) = [one for one in outcome.incidents if one.condition == (event.symptom or "reported-event")]
    assert any(" ".join(line.split())[:60] in item.name for item in incident.evidence)
    signs = {sign.condition for one in reported(line) for sign in one.signs}
    assert not signs or signs & set(incident.candidates)


def test_every_event_has_its_place_in_the_signature_of_the_conditions_that_it_is_a_sign_of():
    for event in EVENTS:
        for variant in event.variants:
            for sign in variant.signs if variant.is_reported else ():
                signature = catalogue().conditions[sign.condition].signature
                assert (variant.signal, sign.shows) in {(item.signal, item.shows) for item in signature}
            judged = catalogue().signals[variant.signal].judged
            assert (judged.bad == "begins") == variant.is_reported


HARMLESS = {
    "a corrected error of PCIe": "pcieport 0000:e0:01.1: AER: Corrected error received: 0000:e1:00.0",
    "an access of a program": "NVRM: Xid (PCI:0000:9b:00): 31, pid=4242, name=python3, Ch 00000008, MMU Fault",
    "an exception of a program": "NVRM: Xid (PCI:0000:9b:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp",
    "a row that is remapped": "NVRM: Xid (PCI:0000:9b:00): 63, pid=1, Row Remapper: New row marked for remapping",
    "a non-fatal error of a link": "NVRM: Xid (PCI:0018:01:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x01",
    "a corrected error of memory": "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1)",
    "a corrected error of a switch": "nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 12021, Non-fatal, Link 5 single bit",
}


@pytest.mark.parametrize("line", HARMLESS.values(), ids=HARMLESS)
def test_what_its_maker_calls_harmless_is_named_and_no_finding(line, tmp_path):
    with pytest.raises(NothingKnownError, match="no sign of a fault by themselves"):
        answer(tmp_path, f"Nov 22 10:04:18 gpu-17 kernel: {line}\n")


PREFIXES = {
    "dmesg": "[12345.678901] {}",
    "dmesg -T": "[Sun Nov 22 10:04:18 2026] {}",
    "dmesg --time-format iso": "2026-11-22T10:04:18,123456+00:00 {}",
    "/dev/kmsg": "3,1234,5678901,-;{}",
    "syslog": "Nov 22 10:04:18 gpu-17 kernel: [12345.678901] {}",
    "journalctl -o short-iso": "2026-11-22T10:04:18+0000 gpu-17 kernel: {}",
    "RFC 5424": "<3>1 2026-11-22T10:04:18.123Z gpu-17 kernel - - - {}",
    "journalctl -o json": '{{"__REALTIME_TIMESTAMP":"1795341858000000","_HOSTNAME":"gpu-17","MESSAGE":"{}"}}',
    "a container's log": '{{"log":"{}\\n","stream":"stderr","time":"2026-11-22T10:04:18.123456789Z"}}',
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_message_is_found_and_placed_whatever_stands_before_it(prefix, tmp_path):
    line = prefix.format("NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python3, GPU has fallen off the bus.")
    outcome = answer(tmp_path, line + "\r\n", "log.txt")
    (incident,) = outcome.incidents
    assert incident.candidates[0] == "gpu-hard-fault"
    assert incident.name.startswith("gpu-17/" if "gpu-17" in line else "log/")
    if "10:04:18" in line or "1795341858" in line:
        assert incident.opened_at == pytest.approx(1795341858, abs=1)


def test_a_log_of_several_hosts_gives_each_its_own(tmp_path):
    text = "".join(
        f"Nov 22 10:04:{second:02} {host} kernel: {host}: Out of memory: Killed process 4242 (python3) total-vm:1kB\n"
        for second, host in ((1, "n1"), (2, "n2"))
    )
    outcome = answer(tmp_path, text)
    assert {place for one in outcome.incidents for place in (one.name, *one.also)} == {"n1", "n2"}


INFO = "node-a:100:200 [0] NCCL INFO "
ONE_NODE = f"{INFO}comm 0x5500 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0\n"
RETRACTED = {
    "TCP within one node": f"{INFO}Using network Socket\n{ONE_NODE}",
    "a file server that answers again": "nfs: server 192.0.2.16 not responding, timed out\nnfs: server 192.0.2.16 OK\n",
}


@pytest.mark.parametrize("text", RETRACTED.values(), ids=RETRACTED)
def test_a_message_that_another_one_says_means_nothing_is_no_finding(text, tmp_path):
    with pytest.raises(NothingKnownError):
        answer(tmp_path, text)


def test_a_communicator_within_a_node_says_nothing_of_one_over_several(tmp_path):
    text = RETRACTED["TCP within one node"] + f"{INFO}comm 0x66 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0\n"
    assert [one.condition for one in answer(tmp_path, text).incidents] == ["reported-event"]


def test_a_file_server_that_answers_again_says_nothing_of_another_one(tmp_path):
    text = "nfs: server 192.0.2.17 not responding, timed out\nnfs: server 192.0.2.16 OK\n"
    assert answer(tmp_path, text).incidents


def test_no_message_is_found_in_its_look_alikes():
    for event in EVENTS:
        for line in event.others:
            assert event.id not in [found.event.id for found in known_events().find(line) if not found.is_retraction]


def test_a_message_counts_in_a_log_whose_numbers_another_reader_reads(tmp_path):
    text = "".join(VLLM.format(second=second, waiting=0, use=40.0) for second in range(0, 60, 10))
    message = "INFO 09-14 08:00:35 NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n"
    outcome = answer(tmp_path, text + message)
    assert "serve.kv_usage" in outcome.signals
    assert [one.condition for one in outcome.incidents] == ["reported-event"]


def test_three_lines_that_are_bad_from_the_first_on_are_a_finding(tmp_path):
    text = "".join(VLLM.format(second=second, waiting=40, use=99.0) for second in (0, 10, 20))
    (incident,) = answer(tmp_path, text).incidents
    assert (incident.condition, incident.state) == ("kv-capacity-preemption-thrash", "firing")


def test_what_becomes_bad_just_before_the_end_is_none_yet(tmp_path):
    lines = [VLLM.format(second=second, waiting=0, use=50.0) for second in range(0, 50, 10)]
    lines.append(VLLM.format(second=50, waiting=40, use=99.0))
    assert not [one for one in answer(tmp_path, "".join(lines)).incidents if one.condition.startswith("kv-")]


def test_too_little_is_no_all_clear(tmp_path):
    short = answer(tmp_path, "link mlx5_0/1 state ACTIVE\n", "n0.txt")
    assert not short.incidents
    text = "NIC statistics:\n     rx_packets_phy: 1\n     rx_bytes_phy: 7\n"
    counters = answer(tmp_path, text, "n0-eth0-20261122T100000.txt")
    assert (counters.incidents, counters.is_enough) == ((), False)
    long = "".join(VLLM.format(second=n % 60, waiting=0, use=40.0 + n % 3) for n in range(0, 60, 2))
    assert answer(tmp_path, long, "b.log").is_enough


def test_a_file_without_any_time_has_its_own(tmp_path):
    file = tmp_path / "n0.txt"
    file.write_text("link mlx5_0/1 state DOWN\n")
    os.utime(file, (1_790_000_000, 1_790_000_000))
    outcome = replay(draft_recording([file]).recording)
    assert outcome.snapshots[-1].start == 1_790_000_000
    assert any("no line has a time" in text for text in outcome.warnings)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("[Sun Nov 22 10:04:18 2026] NVRM", 1_795_341_858),
        ("Nov 22 10:04:18 n0 kernel:", 1_795_341_858),
        ("I1122 10:04:18.123 1 x.cc:1] y", 1_795_341_858),
        ("2026-11-22T10:04:18Z x", 1_795_341_858),
        ("1795341858.5 x", 1_795_341_858),
        ("nothing", 5),
        ("port 1795341858", 5),
    ],
)
def test_times_in_many_forms(text, seconds):
    assert int(LineTimes({"year": "2026"}, "x", 5.0).read(text)) == seconds


def test_an_unknown_format_is_refused_with_the_list_of_them():
    with pytest.raises(InputError, match="formats list"):
        input_readers()["text"].read_series(io.BytesIO(b"x\n"), "x", {"format": "no-such"})


def test_one_reading_that_shows_a_gpu_held_down_by_heat_is_a_finding(tmp_path):
    report = "Timestamp : Sun Nov 22 10:00:20 2026\n" + "".join(
        f"GPU 00000000:0{number}:00.0\n    Clocks Event Reasons\n        Idle : Not Active\n"
        f"        SW Thermal Slowdown : {'Active' if number == 2 else 'Not Active'}\n"
        for number in (1, 2)
    )
    told = {incident.condition: incident.name for incident in answer(tmp_path, report, "n0.txt").incidents}
    assert told == {"gpu-thermal-throttle": "n0/gpu1", "lost-clock": "n0/gpu1"}


@pytest.mark.parametrize(
    ("states", "down"),
    [("AAAD", ["n0/mlx5_3"]), ("AAAA", []), ("ADDD", []), ("AD", []), ("DDDD", [])],
    ids=["one of four", "none", "one in use", "too few", "all"],
)
def test_a_port_that_is_down_among_others_that_are_up_is_a_finding_and_unused_ones_are_none(tmp_path, states, down):
    words = {"A": "ACTIVE", "D": "DOWN"}
    text = "".join(f"link mlx5_{n}/1 state {words[state]}\n" for n, state in enumerate(states))
    found = answer(tmp_path, text, "n0.txt").incidents
    assert [(one.condition, one.name) for one in found] == [("link-down", name) for name in down]


def test_a_text_that_has_nothing_to_judge_is_read_and_said_to_be_too_little(tmp_path):
    file = tmp_path / "nccl.log"
    file.write_text("node-a:100:200 [0] NCCL INFO Using network IB\n")
    with pytest.raises(NothingKnownError, match="too little to judge"):
        draft_recording([file])
    done = CliRunner().invoke(cli, ["diagnose", str(file), "--no-progress"])
    assert (done.exit_code, done.stdout) == (3, "")
    assert "1 lines of log of NCCL" in done.stderr


def test_a_state_that_is_no_trouble_is_no_event():
    text = b"Operational Info\nState : Active\nStatus Opcode : 0\n"
    assert {one.metric for one in input_readers()["text"].read_series(io.BytesIO(text), "x.txt", {})} == {
        "skewscope_port_carrier"
    }


def test_means_for_each_second_count_over_the_time_between_lines():
    head = "Linux 6.8.0 (n1)  2026-11-22  _x86_64_  (8 CPU)\n\n"
    row = "{:<9}{:>9}{:>9}{:>9}{:>9}{:>9}\n".format
    rows = row("09:59:50", "IFACE", "rxpck/s", "txpck/s", "rxkB/s", "txkB/s")
    for clock, packets in (("10:00:00", 5.0), ("10:00:10", 9.0), ("10:00:30", 2.0)):
        rows += row(clock, "eth0", packets, 0.0, 0.0, 0.0)
    found = input_readers()["text"].read_series(io.BytesIO((head + rows).encode()), "sar.txt", {})
    counted = next(one for one in found if one.metric == metric_of("port.rx_netdev_packets"))
    assert counted.values.tolist() == [0, 90, 130]


def test_what_comes_before_the_first_time_is_of_that_time_and_a_late_year_is_that_of_all(tmp_path):
    xid = "NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus."
    text = f"{xid}\nE1120 03:14:58.100 9 a.cpp:1] CUDA error: unknown error\n[Fri Nov 20 03:14:58 2026] {xid}\n"
    found = answer(tmp_path, text)
    assert found.duration_s < 60
    (incident,) = found.incidents
    assert "2 times since 03:14:58" in incident.summary
    assert incident.summary.endswith(xid)
