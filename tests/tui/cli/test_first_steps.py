"""First steps: doctor, completion, the manual page, a config to begin with, versions, help."""

import json
import re
import shutil
import subprocess

import click
import pytest
from click.testing import CliRunner

from skewscope.adapters.controller.config import read_at_start
from skewscope.kb.problems import InputError
from skewscope.tui.cli import doctor
from skewscope.tui.cli.controller_client import ControllerAddress
from skewscope.tui.cli.main import cli
from tests.tui.cli.test_cli import run


def complete(*words):
    """Returns what the shell offers for the last word."""
    environment = {"_SKEWSCOPE_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words))}
    environment["COMP_WORDS"] = " ".join(("skewscope", *words))
    found = CliRunner().invoke(cli, [], env=environment, prog_name="skewscope", complete_var="_SKEWSCOPE_COMPLETE")
    return [each.partition(",")[2] for each in found.stdout.splitlines()]


# --- doctor


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home folder, and a working folder without a config."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    for name in ("XDG_CONFIG_HOME", "TMUX", "SKEWSCOPE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_doctor_says_what_is_missing_and_the_next_command(home):
    out, _ = run("doctor")
    assert "skewscope completion bash >> ~/.bashrc" in out
    assert "skewscope config new" in out
    assert "skewscope doctor --url http://HOST:8470" in out
    assert out.splitlines()[-1].strip().startswith("no faults")
    checks = {check["name"]: check["state"] for check in json.loads(run("doctor", "--json")[0])}
    assert checks["skewscope"] == "good"
    assert checks["completion"] == checks["config"] == "note"


def test_doctor_reports_faults_of_keys_config_and_controller(home):
    (home / ".config/skewscope").mkdir(parents=True)
    (home / ".config/skewscope/keys.toml").write_text('[keys]\nnothing = "q"\n')
    (home / "skewscope.yaml").write_text("version: 1\ntopology: t.yaml\nstroe: {}\n")
    out, _ = run("doctor", "--url", "http://127.0.0.1:1", code=1)
    faults = [each for each in out.splitlines() if each.startswith(" ✖")]
    assert len(faults) == 3
    assert "keys.toml" in faults[0]
    assert "skewscope config check skewscope.yaml" in faults[1]
    assert "does not answer" in faults[2]
    assert "3 faults" in out


def test_doctor_knows_what_is_set_up(home):
    (home / ".bashrc").write_text('eval "$(_SKEWSCOPE_COMPLETE=bash_source skewscope)"\n')
    run("config", "new")
    checks = {check.name: check for check in doctor.run_checks(ControllerAddress(), None)}
    assert checks["completion"].state == doctor.GOOD
    assert checks["config"].state == doctor.GOOD
    assert "2 nodes" in checks["config"].text


@pytest.mark.parametrize(
    ("missing", "state", "said"),
    [((), doctor.GOOD, "8 of 8 ports"), (("No engine metrics.",), doctor.HINT, "1 kinds of telemetry are missing")],
)
def test_doctor_says_how_much_of_a_controller_reports(monkeypatch, missing, state, said):
    telemetry = [{"name": "packets", "kind": "ports", "reporting": 8, "known": 8}, {"name": "dcgm", "reporting": 0}]
    answer = {"telemetry": telemetry, "missing": list(missing)}
    monkeypatch.setattr(doctor, "ask_controller", lambda *_: answer)
    found = doctor.check_controller(ControllerAddress("http://ctl:8470", is_named=True))
    assert found.state == state
    assert said in found.text
    assert "dcgm" not in found.text


@pytest.mark.parametrize(("setting", "state"), [("on", "good"), ("external", "good"), ("off", "hint"), ("", "hint")])
def test_doctor_knows_whether_tmux_passes_the_clipboard_on(monkeypatch, setting, state):
    monkeypatch.setattr(doctor, "_ask", lambda *_: setting)
    assert doctor.check_clipboard({"TMUX": "socket,1,0"}).state == state
    assert doctor.check_clipboard({}).state == "note"


def test_extras_are_read_from_the_package():
    listed = ["click>=8", 'duckdb>=1.2; extra == "history"', 'ray>=2; python_version < "3.14" and extra == "fleet"']
    assert doctor.extra_requirements(listed) == {"history": ("duckdb",), "fleet": ("ray",)}


# --- completion and manual


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("kb", "show", "egress-j"), "egress-jitter"),
        (("kb", "show", "wire.onset_lag_"), "wire.onset_lag_p95"),
        (("explain", "slow-st"), "slow-steps"),
        (("kb", "graph", "tp-strag"), "tp-straggler"),
        (("rules", "show", "tp-straggler-o"), "tp-straggler-on-the-wire"),
        (("--theme", "high"), "high-contrast"),
        (("simulate", "--condition", "pfc-s"), "pfc-storm"),
        (("formats", "test", "megatr"), "megatron"),
    ],
    ids=" ".join,
)
def test_a_shell_completes_ids_and_themes(words, offered):
    assert any(each.startswith(offered) for each in complete(*words))


def test_a_shell_completes_recordings(home):
    for name in ("run-1", "run-2", "logs"):
        (home / name).mkdir()
    (home / "run-1/recording.yaml").touch()
    assert complete("--replay", "r") == ["run-1"]
    assert complete("replay", f"{home}/r") == [f"{home}/run-1"]
    assert complete("report", "./r") == ["./run-1"]
    assert complete("report", "lo") == ["lo"]  # a folder, which the shell completes
    assert complete("report", "nowhere/x") == ["nowhere/x"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell):
    out, _ = run("completion", shell)
    assert f"_SKEWSCOPE_COMPLETE={shell}_complete" in out
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=out, text=True, check=False, timeout=30).returncode == 0


def test_the_manual_has_every_command_and_no_fault_of_roff():
    out, _ = run("manual")

    def names(group, prefix):
        for name, command in group.commands.items():
            yield f"{prefix} {name}"
            if isinstance(command, click.Group):
                yield from names(command, f"{prefix} {name}")

    for name in names(cli, "skewscope"):
        assert f'.SS "{name}"'.replace("-", "\\-") in out
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"], input=out, text=True, capture_output=True, check=False, timeout=60
        )
        assert not [each for each in done.stderr.splitlines() if "cannot adjust line" not in each]


# --- config new


def test_a_new_config_passes_its_own_check(tmp_path):
    path = tmp_path / "skewscope.yaml"
    out, _ = run("config", "new", path)
    assert "skewscope config check" in out
    assert "valid. 2 nodes, 0 sources" in run("config", "check", path)[0]
    assert "existing file" in run("config", "new", path, code=2)[1]


def test_its_settings_in_comments_are_valid_too(tmp_path, monkeypatch):
    monkeypatch.setenv("OPS_TOKEN", "o" * 20)
    monkeypatch.setenv("READ_TOKEN", "r" * 20)
    path = tmp_path / "skewscope.yaml"
    run("config", "new", path)
    text = path.read_text()
    path.write_text(re.sub(r"(?m)^#(?=\w|  )", "", text))
    (tmp_path / "site").mkdir()
    line = "version: 1\nmetrics: [{metric: hall_celsius, signal: gpu.temperature, labels: {gpu: '{node}/gpu0'}}]\n"
    (tmp_path / "site" / "mapping.yaml").write_text(line)
    found = read_at_start(path)
    assert len(found.sources) == 2
    assert [token.name for token in found.tokens] == ["ops", "dashboards"]
    assert found.recording_path is not None
    assert found.actions.mode == "observe"
    assert len(found.notifiers) == 1


def test_a_new_config_keeps_a_topology_that_is_there(tmp_path):
    (tmp_path / "t.yaml").write_text("version: 1\nnodes: [{name: own}]\n")
    run("config", "new", tmp_path / "c.yaml", "--topology", "t.yaml")
    assert list(read_at_start(tmp_path / "c.yaml").topology.node) == ["own"]
    with pytest.raises(InputError, match="nowhere"):
        read_at_start(tmp_path / "nowhere" / "c.yaml")
    assert "No such file" in run("config", "new", tmp_path / "nowhere" / "c.yaml", code=2)[1]


# --- help, and what is checked without a terminal


def test_no_sentence_of_the_help_is_cut():
    def groups(group):
        yield group
        for command in group.commands.values():
            if isinstance(command, click.Group):
                yield from groups(command)

    for group in groups(cli):
        for name, command in group.commands.items():
            assert not command.get_short_help_str(100).endswith("..."), name


@pytest.mark.parametrize("command", ["", "diagnose", "replay", "report", "explain", "run", "doctor"])
def test_main_commands_show_examples_on_top(command):
    out, _ = run(*command.split(), "--help")
    assert out.index("Examples:") < out.index("Options:")
    assert "\n    skewscope" in out


def test_a_wrong_url_or_theme_is_reported_without_a_terminal():
    assert "http://HOST:PORT" in run("--url", "foo", code=2)[1]
    assert "Did you mean 'dark'?" in run("--theme", "drak", code=2)[1]


def test_the_table_of_a_piped_report_is_not_cut(brief):
    out, _ = run("replay", brief, code=1)
    assert "…" not in out
