"""The command line as its users meet it: what it prints, how it ends, and what it says of bad input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from telemetry import record

from skewscope.adapters.replay import demo_path
from skewscope.tui.cli import cli

CONTRACT = (
    *("id", "condition", "entity", "also", "state", "opened_at", "resolved_at", "severity", "confidence", "coverage"),
    *("impact", "blast_radius", "evidence", "against", "unseen", "competing", "explained_by", "mitigations"),
    *("rule", "rule_hash", "input_hash"),
)


def run(*words, code=0):
    """What a command prints on standard output and on standard error."""
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def process(*words, **kw):
    command = [sys.executable, "-m", "skewscope.tui.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **kw)


@pytest.fixture(scope="module")
def replayed():
    return run("replay", demo_path(), "--json", code=1)


def test_replay_prints_one_incident_a_line_with_the_contract_s_fields(replayed):
    out, err = replayed
    found = [json.loads(line) for line in out.splitlines()]
    assert [tuple(each) for each in found] == [CONTRACT] * 3
    assert [each["condition"] for each in found] == ["tp-straggler", "fabric-loss", "burst-admission-backlog"]
    assert [each["state"] for each in found] == ["resolved", "resolved", "firing"]
    assert found[-1]["resolved_at"] is None
    assert found == sorted(found, key=lambda each: (each["opened_at"], each["condition"], each["entity"]["name"]))
    assert not err


def test_values_of_the_contract_have_the_forms_it_promises(replayed):
    for line in replayed[0].splitlines():
        found = json.loads(line)
        assert found["opened_at"].endswith("Z")
        assert found["entity"]["kind"] in ["node", "port", "gpu", "rank", "group", "replica", "pool", "link", "fleet"]
        assert found["severity"] in ("info", "warning", "critical")
        assert set(found["impact"]) == {"metric", "change", "unit"}
        assert set(found["blast_radius"]) == {"nodes", "groups", "replicas"}
        assert {each["verdict"] for each in found["evidence"] + found["against"]} <= {"yes", "no", "unknown"}
        assert all(set(each) == {"condition", "confidence", "separate_by"} for each in found["competing"])
        assert all(set(each) == {"id", "actor", "why"} for each in found["mitigations"])


def test_a_report_tells_what_why_why_not_and_what_to_do():
    out, _ = run("replay", demo_path(), code=1)
    for said in ("on rank n2", "why ", "ruled out", "rivals", "unseen", "do  ", "undo:", "What could not be seen"):
        assert said in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 110


def test_explain_takes_an_incident_or_a_condition(replayed):
    incident = json.loads(replayed[0].splitlines()[0])["id"]
    assert "n2" in run("explain", incident)[0]
    assert "straggler" in run("explain", "tp-straggler")[0]
    assert "Did you mean 'tp-straggler'?" in run("explain", "tp-stragler", code=2)[1]


LISTS = {
    ("kb", "list"): "condition",
    ("kb", "list", "signals"): "id",
    ("kb", "list", "mitigations"): "id",
    ("kb", "list", "sources"): "id",
    ("kb", "search", "stragler"): "id",
    ("kb", "show", "tp-straggler"): "id",
    ("kb", "show", "wire.onset_lag"): "id",
    ("rules", "list"): "id",
    ("rules", "show", "tp-straggler-on-the-wire"): "id",
    ("coverage",): "conditions",
}


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_what_lists_or_shows_does_so_as_text_and_as_json(words):
    assert len(run(*words)[0]) > 40
    found = json.loads(run(*words, "--json")[0])
    assert found
    assert LISTS[words] in (found[0] if isinstance(found, list) else found) or words == ("kb", "list")


def test_a_misspelt_search_finds_what_was_meant():
    assert run("kb", "search", "stragler")[0].splitlines()[1].startswith("tp-straggler")
    assert "Nothing" in run("kb", "search", "zzzzqqqq", code=1)[0]


@pytest.mark.parametrize(
    "words", [("kb", "lint"), ("rules", "lint"), ("rules", "test", "telemetry-blackout-of-a-node")]
)
def test_what_comes_with_the_package_is_sound(words):
    assert "No problems." in run(*words)[0] or "cases good" in run(*words)[0]


def test_an_id_that_nobody_knows_is_told_with_the_nearest():
    assert "Did you mean 'tp-straggler'?" in run("kb", "show", "tp-stragler", code=2)[1]
    assert "tp-straggler-on-the-wire" in run("rules", "show", "tp-straggler-on-wire", code=2)[1]
    assert "tp-straggler-on-the-wire" in run("rules", "test", "tp-straggler-on-wire", code=2)[1]
    assert "Did you mean" in run("replai", code=2)[1]


INPUT = [{"kind": "openmetrics", "path": "m.om"}]
GOOD = 'node_netstat_Tcp_RetransSegs{node="n1"} 5 11\n# EOF\n'


def bad(folder: Path, what: str) -> Path:
    """A recording with one thing wrong."""
    path = record(folder / "r", INPUT, {"m.om": GOOD})
    described = yaml.safe_load((path / "recording.yaml").read_text())
    pcap = {"kind": "pcap", "path": "x.pcap", "labels": {"node": "n0", "port": "ew"}}
    changes = {
        "a broken capture": {"inputs": [pcap]},
        "a misspelt field": {"inptus": described.pop("inputs") if what == "a misspelt field" else []},
        "an unknown kind": {"inputs": [{**INPUT[0], "kind": "openmetric"}]},
        "a file that is not there": {"inputs": [{**INPUT[0], "path": "mm.om"}]},
        "an unknown node": {"inputs": [{**pcap, "labels": {"node": "n7", "port": "ew"}}]},
        "a path that leads out": {"inputs": [{**INPUT[0], "path": "../../m.om"}]},
        "a newer version": {"version": 9},
    }
    (path / "x.pcap").write_bytes(b"no capture at all, whatever its name says")
    (path / "recording.yaml").write_text(yaml.safe_dump({**described, **changes.get(what, {})}))
    if what == "a page that is no exposition format":
        (path / "m.om").write_text("<html><body>404</body></html>\n")
    if what == "a topology naming an unknown node":
        text = (path / "topology.yaml").read_text()
        (path / "topology.yaml").write_text(text.replace("members: [n0, n1]", "members: [n0, n11]"))
    if what == "no YAML":
        (path / "recording.yaml").write_text("version: [1\n")
    if what == "no text":
        (path / "recording.yaml").write_bytes(b"\xff\xfe\x00\x01")
    return path


BAD = {
    "a broken capture": ("x.pcap", "a capture"),
    "a misspelt field": ("recording.yaml:", "Did you mean 'inputs'?"),
    "an unknown kind": ("recording.yaml:", "Did you mean 'openmetrics'?"),
    "a file that is not there": ("recording.yaml:", "Did you mean 'm.om'?"),
    "an unknown node": ("recording.yaml:", "a node of the topology"),
    "a path that leads out": ("recording.yaml:", "inside the recording's folder"),
    "a newer version": ("recording.yaml:", "newer Skewscope"),
    "a page that is no exposition format": ("m.om:1", "looks like a web page"),
    "a topology naming an unknown node": ("topology.yaml:", "Did you mean 'n1'?"),
    "no YAML": ("recording.yaml:", "indentation"),
    "no text": ("recording.yaml", "UTF-8"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_bad_input_ends_with_2_and_says_where_what_and_what_to_do(tmp_path, what, form):
    out, err = run("replay", bad(tmp_path, what), *form, code=2)
    place, hint = BAD[what]
    assert not out
    assert place in err
    assert hint in err
    assert "found" in err
    assert "expected" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("path", ["nowhere", "/dev/null", "/etc/passwd"])
def test_what_is_no_recording_is_told(path):
    assert "recording.yaml" in run("replay", path, code=2)[1]


def test_one_bad_recording_of_two_does_not_keep_the_other_from_being_told(tmp_path):
    out, err = run("replay", bad(tmp_path, "no YAML"), demo_path(), "--json", code=2)
    assert len(out.splitlines()) == 3
    assert "recording.yaml" in err


def test_a_reader_that_goes_away_is_no_fault():
    command = f"{sys.executable} -m skewscope.tui.cli replay {demo_path()} --json | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout == "{"


def test_without_a_terminal_the_console_prints_text():
    done = process()
    assert done.returncode == 0
    assert "demo: 3 diagnoses" in done.stdout
    assert not done.stderr


def test_no_language_of_the_machine_keeps_it_from_printing():
    done = process(
        "replay", demo_path(), env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_the_version_is_told():
    assert process("--version").stdout.startswith("skewscope ")
