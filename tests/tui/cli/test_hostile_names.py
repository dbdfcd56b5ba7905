"""No command prints a control character that came from a name, a file or an argument."""

import contextlib
import io
import logging

import click
import pytest
from click.testing import CliRunner

from skewscope.tui.cli.main import cli

EVIL = "\x1b[31mX\x1b]0;title\x07\x9b2J"
QUOTED = "\\u001b[31mX\\u009b2J"
"""The same in a text of YAML."""

CALLS = {
    "formats test": ("vllm", "PAGE"),
    "diagnose": ("PAGE", "--no-progress"),
    "replay": ("RECORDING",),
    "explain": (EVIL, "--replay", "RECORDING"),
    "coverage": ("--topology", "topology.yaml"),
    "watch": ("--replay", "RECORDING"),
    "report": ("RECORDING",),
    "what-if": (EVIL, "--over", "RECORDING"),
    "history export": ("RECORDING", "--to", f"to{EVIL}"),
    "history sql": (f"SELECT '{EVIL}'", "--folder", f"no{EVIL}"),
    "history views": ("--folder", f"no{EVIL}"),
    "history weeks": ("--folder", f"no{EVIL}"),
    "run": ("--config", "skewscope.yaml"),
    "check": (EVIL, *(at := ("--url", "http://127.0.0.1:9"))),
    "completion": ("bash",),
    "config check": ("skewscope.yaml",),
    "config new": (f"no{EVIL}/x.yaml",),
    "doctor": ("--config", "skewscope.yaml"),
    "knowledge check": (f"no{EVIL}",),
    "audit verify": (f"no{EVIL}",),
    "audit show": (f"no{EVIL}",),
    "store backup": (f"no{EVIL}", f"to{EVIL}"),
    "config tokens": ("skewscope.yaml", "--to", f"to{EVIL}"),
    "silence add": ("--rack", EVIL, "--hours", "1", "--comment", "x", *at),
    "silence end": (EVIL, *at),
    "silence list": at,
    "silence preview": ("--rack", EVIL, *at),
    "act approve": (EVIL, "--why", EVIL, *at),
    "act check": ("--config", "skewscope.yaml", "--target", EVIL),
    "act done": (EVIL, "--why", EVIL, *at),
    "act list": at,
    "act outcomes": at,
    "act plan": (EVIL, *at),
    "act propose": (EVIL, "--why", EVIL, *at),
    "act shadow": ("RECORDING", "--config", "skewscope.yaml"),
    "act refuse": (EVIL, "--why", EVIL, *at),
    "act show": (EVIL, *at),
    "act targets": at,
    "act undo": (EVIL, "--why", EVIL, *at),
    "topology discover": ("--prometheus", f"http://127.0.0.1:9/{EVIL}"),
    "kb show": (EVIL,),
    "kb search": (EVIL,),
    "kb list": (EVIL,),
    "kb changes": (f"no{EVIL}",),
    "kb new": ("condition", EVIL),
    "rules show": (EVIL,),
    "rules lint": (f"no{EVIL}",),
    "rules test": (f"no{EVIL}",),
    "rules mutate": (EVIL,),
    "agent": ("--config", "agent.yaml"),
    "agent --check": ("--check", "--config", "agent.yaml"),
    "simulate": (f"{EVIL}/x", "--condition", EVIL),
    "assess": ("RECORDING",),
    "backtest": (f"no{EVIL}.yaml",),
    "compare": ("RECORDING", f"no{EVIL}"),
}
WITHOUT_INPUT = {
    "manual",
    "mcp",
    "kb rank",
    "kb claims",
    "kb export",
    "kb graph",
    "kb lint",
    "kb matrix",
    "kb site",
    "rules list",
    "keys",
    "formats list",
}
"""Commands that print the catalogue or the help alone, or serve."""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The present folder holds files whose names and contents are hostile; returns the paths of the main ones."""
    monkeypatch.chdir(tmp_path)
    recording = tmp_path / f"rec{EVIL}"
    recording.mkdir()
    (recording / "recording.yaml").write_text(f'version: 1\ntopology: "x{QUOTED}"\ninputs: []\n')
    page = tmp_path / f"page{EVIL}.prom"
    page.write_text(
        f'node_network_up{{node="n0",device="{EVIL}"}} 1\nvllm:num_requests_running{{model_name="{EVIL}"}} 3\n'
    )
    (tmp_path / "topology.yaml").write_text(f'version: 1\nnodes: [{{name: "n{QUOTED}", ports: []}}]\n')
    (tmp_path / "skewscope.yaml").write_text(
        f'version: 1\ntopology: topology.yaml\n"{QUOTED}": 1\nlisten: {{host: "{QUOTED}"}}\n'
    )
    (tmp_path / "agent.yaml").write_text(f'version: 1\nnode: "{QUOTED}"\n"{QUOTED}": 1\n')
    return {"RECORDING": str(recording), "PAGE": str(page)}


def list_commands(command=cli, path=()):
    """All commands, as they are typed."""
    if not isinstance(command, click.Group):
        return [" ".join(path)]
    context = click.Context(command)
    children = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [one for name, child in children for one in list_commands(child, (*path, name))]


def test_every_command_is_tried_or_takes_no_input():
    assert set(list_commands()) - {"act freeze", "act thaw"} <= set(CALLS) | WITHOUT_INPUT


@pytest.mark.parametrize("command", CALLS)
def test_no_control_character_is_printed(command, files, capfd):
    words = [part for part in command.split() if not part.startswith("--")]
    written = io.StringIO()
    handlers = logging.getLogger().handlers[:]
    with contextlib.redirect_stderr(written), contextlib.redirect_stdout(written):
        done = CliRunner().invoke(cli, [*words, *(files.get(word, word) for word in CALLS[command])])
    logging.getLogger().handlers[:] = handlers
    out, err = capfd.readouterr()
    printed = done.output + written.getvalue() + out + err
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    assert not [c for c in printed if not c.isprintable() and c not in "\n\t"], printed
