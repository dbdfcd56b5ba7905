"""The command line: output, exit codes, and errors of bad input."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
import zstandard
from click.testing import CliRunner

from skewscope.rules.loader import RULES_FOLDER
from skewscope.tui.cli.main import cli
from tests.support.telemetry import record

CONTRACT = (
    *("version", "id", "kind", "condition", "entity", "also", "state", "began_at", "opened_at", "resolved_at", "ended"),
    *(
        "severity",
        "confidence",
        "coverage",
        "impact",
        "blast_radius",
        "evidence",
        "against",
        "unseen",
        "candidates",
        "none",
    ),
    *(
        "decides",
        "summary",
        "witnesses",
        "elsewhere",
        "competing",
        "explained_by",
        "moves",
        "mitigations",
        "rule",
        "rule_hash",
        "input_hash",
        "catalogue",
    ),
)


def run(*words, code=0):
    """Returns what a command prints on standard output and standard error."""
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def process(*words, **kw):
    command = [sys.executable, "-m", "skewscope.tui.cli.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **kw)


@pytest.fixture(scope="module")
def replayed(brief):
    return run("replay", brief, "--json", code=1)


def test_replay_prints_one_incident_a_line_with_the_contract_s_fields(replayed):
    out, err = replayed
    found = [json.loads(line) for line in out.splitlines()]
    assert [tuple(each) for each in found] == [CONTRACT] * 2
    symptom, diagnosis = found
    assert (diagnosis["condition"], diagnosis["state"]) == ("tp-straggler", "firing")
    assert diagnosis["resolved_at"] is None
    assert (symptom["kind"], symptom["condition"], symptom["entity"]["name"]) == ("symptom", "late-member", "n2")
    assert symptom["explained_by"] == {"id": diagnosis["id"], "relation": "caused"}
    assert not err


def test_values_of_the_contract_have_the_forms_it_promises(replayed):
    for line in replayed[0].splitlines():
        found = json.loads(line)
        assert found["opened_at"].endswith("Z")
        assert found["entity"]["kind"] in ["node", "port", "gpu", "rank", "group", "replica", "pool", "link", "fleet"]
        assert found["severity"] in ("info", "warning", "critical")
        assert set(found["impact"]) == {"metric", "change", "unit", "before", "now", "level_unit"}
        assert set(found["blast_radius"]) == {"nodes", "groups", "replicas"}
        assert {each["verdict"] for each in found["evidence"] + found["against"]} <= {"yes", "no", "unknown"}
        assert all(set(each) == {"condition", "confidence", "separate_by"} for each in found["competing"])
        assert all(set(each) == {"id", "actor", "why"} for each in found["mitigations"])


def test_a_report_is_short_first_and_whole_with_why(brief):
    short, _ = run("replay", brief, code=1)
    for said in ("on n2 +", "why  ", "if wrong ", "do  ", "undo  ", "works if ", "Missing data"):
        assert said in short
    assert not any(said in short for said in ("for it:", "mean(", "Sources"))
    assert len(short.splitlines()) < 40
    out, _ = run("replay", brief, "--why", code=1)
    for said in ("on n2 +", "why ", "ruled out", "if wrong", "no data", "do  ", "undo:", "Missing data", "Sources"):
        assert said in out
    assert "\x1b" not in out
    table = out.split("\n\n")[1].splitlines()  # its last column is not cut
    assert max(len(each) for each in out.splitlines() if each not in table) <= 110


def test_explain_takes_an_incident_or_a_condition(replayed, brief, moment):
    incident = json.loads(replayed[0].splitlines()[-1])["id"]
    assert "n2" in run("explain", incident, "--replay", brief)[0]
    assert "straggler" in run("explain", "tp-straggler")[0]
    assert "A step" in run("explain", "slow-steps")[0]
    assert "Did you mean 'tp-straggler'?" in run("explain", "tp-stragler", "--replay", moment, code=2)[1]


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
def test_lists_and_entries_print_as_text_and_as_json(words, moment):
    told = (*words, "--replay", moment) if words == ("coverage",) else words
    assert len(run(*told)[0]) > 40
    found = json.loads(run(*told, "--json")[0])
    assert found
    assert LISTS[words] in (found[0] if isinstance(found, list) else found) or words == ("kb", "list")


def test_a_misspelt_search_finds_the_entry():
    assert run("kb", "search", "stragler")[0].splitlines()[1].startswith("tp-straggler")
    assert "No results" in run("kb", "search", "zzzzqqqq", code=1)[0]


# tests/rules/test_rules.py checks all rules.
@pytest.mark.parametrize(
    "words",
    [
        ("kb", "lint"),
        pytest.param(("rules", "lint"), marks=pytest.mark.slow),
        ("rules", "test", "telemetry-blackout-of-a-node"),
    ],
)
def test_the_package_s_own_data_has_no_problems(words):
    assert "No problems" in run(*words)[0] or "cases passed" in run(*words)[0]


def test_an_unknown_id_gets_a_suggestion():
    assert "Did you mean 'tp-straggler'?" in run("kb", "show", "tp-stragler", code=2)[1]
    assert "tp-straggler-on-the-wire" in run("rules", "show", "tp-straggler-on-wire", code=2)[1]
    assert "tp-straggler-on-the-wire" in run("rules", "test", "tp-straggler-on-wire", code=2)[1]


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["replai"], "replay"), (["kb", "lst"], "list"), (["rules", "shw", "x"], "show"), (["--replai", "x"], "--replay")],
    ids=str,
)
def test_a_misspelt_command_gets_a_suggestion(words, meant):
    out, err = run(*words, code=2)
    assert "Did you mean" in err
    assert f"'{meant}'" in err
    assert not out


INPUT = [{"kind": "openmetrics", "path": "m.om"}]
GOOD = 'node_netstat_Tcp_RetransSegs{node="n1"} 5 11\n# EOF\n'


def bad(folder: Path, what: str) -> Path:
    """Returns a recording with one fault."""
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
    if what == "a device for a description":
        (path / "recording.yaml").unlink()
        (path / "recording.yaml").symlink_to("/dev/zero")
    if what == "a folder for a file":
        (path / "m.om").unlink()
        (path / "m.om").mkdir()
    if what == "a cut stream":
        (path / "m.om").write_bytes(zstandard.compress(GOOD.encode() * 999)[:-9])
        (path / "m.om").rename(path / "m.om.zst")
        (path / "recording.yaml").write_text((path / "recording.yaml").read_text().replace("m.om", "m.om.zst"))
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
    "a device for a description": ("recording.yaml", "no plain file"),
    "a folder for a file": ("recording.yaml:", "'m.om', which is not a file"),
    "a cut stream": ("m.om.zst: byte", "stops before its end"),
    "no YAML": ("recording.yaml:", "indentation"),
    "no text": ("recording.yaml", "UTF-8"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_bad_input_exits_with_2_and_names_place_value_and_hint(tmp_path, what, form):
    out, err = run("replay", bad(tmp_path, what), *form, code=2)
    place, hint = BAD[what]
    assert not out
    assert place in err
    assert hint in err
    assert "found" in err
    assert "expected" in err
    assert "Traceback" not in err


def test_all_faults_are_reported(tmp_path):
    path = bad(tmp_path, "an unknown kind")
    (path / "topology.yaml").write_text("version: 1\nnodes: [{nmae: n0}]\n")
    assert len(run("replay", path, code=2)[1].splitlines()) >= 3


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("name", ["recording.yaml", "topology.yaml", "m.om"])
def test_an_unreadable_file_is_reported(tmp_path, name):
    path = bad(tmp_path, "nothing")
    (path / name).chmod(0)
    err = run("replay", path, code=2)[1]
    assert name in err
    assert "Permission denied" in err


def test_a_recording_without_telemetry_is_not_called_healthy(tmp_path):
    path = record(tmp_path / "r", [], {})
    assert "nothing is known" in run("replay", path)[0]
    out, err = run("replay", path, "--json")
    assert not out
    assert "nothing is known" in err


@pytest.mark.parametrize("path", ["", ".", "nowhere", "/dev/null", "/dev/zero", "/etc/passwd", "a\x1b[2J"])
def test_a_path_that_is_not_a_recording_is_reported(path):
    err = run("replay", path, code=2)[1]
    assert "recording.yaml" in err
    assert "\x1b" not in err


def test_one_bad_recording_does_not_stop_the_other(tmp_path, brief):
    out, err = run("replay", bad(tmp_path, "no YAML"), brief, "--json", code=2)
    assert [json.loads(line)["condition"] for line in out.splitlines()] == ["late-member", "tp-straggler"]
    assert "recording.yaml" in err


@pytest.mark.parametrize("words", ["replay BRIEF --json", "kb list signals --json"])
@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(words, brief):
    words = words.replace("BRIEF", str(brief))
    command = f"{sys.executable} -m skewscope.tui.cli.main {words} | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert not done.stderr
    assert done.stdout in ("{", "[")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_reported_in_one_line():
    command = f"{sys.executable} -m skewscope.tui.cli.main kb list > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_closed_streams_are_no_fault():
    command = f"{sys.executable} -m skewscope.tui.cli.main kb list <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], timeout=120, check=False).returncode == 0


@pytest.mark.slow
def test_without_a_terminal_the_console_prints_text(monkeypatch, brief):
    monkeypatch.setattr("skewscope.adapters.inputs.recording.demo_path", lambda: brief)
    out, err = run()
    assert "demo: 1 diagnosis;" in out
    assert not err


def test_no_language_of_the_machine_keeps_it_from_printing(brief):
    done = process("replay", brief, env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_the_version_is_printed():
    first, second = process("--version").stdout.splitlines()
    assert re.fullmatch(r"skewscope \S.*, catalogue \d+\.\d+\.\d+, Python 3\.\d+\.\d+", first)
    assert all(name in second for name in ("textual", "numpy", "Linux", "utf-8"))


LIGHT = [["--version"], ["--help"], ["kb", "list"], ["kb", "show", "tp-straggler"], ["rules", "list"]]
HEAVY = {"textual", "numpy", "networkx", "durable", "pyarrow", "zstandard"}


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_light_commands_load_no_heavy_package(words):
    code = f"""
import sys
from skewscope.tui.cli.main import cli
try:
    cli({words!r})
except SystemExit as end:
    assert not end.code
print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == "[]\n"


# --- rules in a folder of the user

RULE = "telemetry-blackout-of-a-node"


@pytest.fixture
def own_rules(tmp_path):
    """A folder with one rule and its cases, without policies."""
    (tmp_path / "cases").mkdir()
    for name in (f"{RULE}.yaml", f"cases/{RULE}.yaml"):
        shutil.copy(RULES_FOLDER / name, tmp_path / name)
    (tmp_path / "policies").mkdir()
    return tmp_path


def test_a_failing_case_is_reported(own_rules):
    assert run("rules", "test", "--folder", own_rules)[0].startswith("✓")
    cases = own_rules / "cases" / f"{RULE}.yaml"
    cases.write_text(cases.read_text().replace("after: 30*s, by: 38*s", "after: 31*s, by: 32*s", 1))
    out = run("rules", "test", "--folder", own_rules, code=1)[0]
    assert out.startswith("✗")
    assert f"cases/{RULE}.yaml:" in out
    found = json.loads(run("rules", "test", "--folder", own_rules, "--json", code=1)[0])
    assert any(result["faults"] for result in found)


def test_a_rule_with_a_unit_error_is_found_with_its_line_and_cannot_be_used(own_rules):
    rule = own_rules / f"{RULE}.yaml"
    rule.write_text(rule.read_text().replace("*s", "*packets"))
    out = run("rules", "lint", own_rules, code=1)[0]
    assert f"{RULE}.yaml:" in out
    assert "packet" in out
    assert {"file", "line", "field", "found", "expected", "hint"} == set(
        json.loads(run("rules", "lint", own_rules, "--json", code=1)[0])[0]
    )
    assert f"{RULE}.yaml:" in run("rules", "test", "--folder", own_rules, code=2)[1]


@pytest.mark.parametrize("words", [("rules", "lint"), ("rules", "test", "--folder"), ("kb", "lint")])
def test_a_folder_that_is_not_there_cannot_be_checked(words):
    assert "nowhere" in run(*words, "nowhere", code=2)[1]


def test_a_folder_without_rules_is_not_called_sound(tmp_path):
    assert "no rule" in run("rules", "lint", tmp_path, code=2)[1]
    assert "no rule" in run("rules", "test", "--folder", tmp_path, code=2)[1]
    assert "no catalogue" in run("kb", "lint", tmp_path, code=1)[0]
