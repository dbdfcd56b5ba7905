"""The command line at a real terminal: colours, the progress bar, and Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from skewscope.tui.cli.terminal import findings_exit_code, output_width

COMMAND = [sys.executable, "-m", "skewscope.tui.cli.main"]


class Terminal:
    """A pseudo-terminal and everything written to it."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.written = b""

    @property
    def text(self):
        return self.written.decode(errors="replace")

    def read(self):
        """Returns the next output, empty after the last writer closed."""
        try:
            part = os.read(self.ours, 65536)
        except OSError:  # Linux says so when the last writer has gone
            part = b""
        self.written += part
        return part

    def close(self):
        os.close(self.theirs)


def on_terminal(words, stdout=True, command=COMMAND, **environment):
    """Returns what a command writes to a terminal, and its other stream."""
    terminal = Terminal()
    streams = {"stdout": terminal.theirs, "stderr": subprocess.PIPE}
    if not stdout:
        streams = {"stdout": subprocess.PIPE, "stderr": terminal.theirs}
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen([*command, *words], env={**plain, "TERM": "xterm", **environment}, **streams)
    terminal.close()
    while terminal.read():
        pass
    other, _ = process.communicate(timeout=120)
    return terminal.text, other


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)], ids=str
)
def test_a_terminal_gets_colours_unless_it_wants_none(environment, coloured):
    shown, _ = on_terminal(["kb", "show", "tp-straggler"], **environment)
    assert ("\x1b[" in shown) == coloured
    assert "Tensor-parallel straggler" in shown


WIDTHS = (60, 80, 132)
IN_EACH_WIDTH = f"""
import os, sys
from skewscope.tui.cli.main import cli
for words in sys.argv[1:]:
    for columns in {WIDTHS}:
        os.environ["COLUMNS"] = str(columns)
        cli(words.split(), standalone_mode=False)
        print(end="\\f", flush=True)
"""


def test_lines_keep_to_the_terminal_s_width():
    commands = ["kb list", "kb show tp-straggler", "rules list"]
    shown, _ = on_terminal(commands, command=(sys.executable, "-c", IN_EACH_WIDTH), NO_COLOR="1")
    for (words, columns), text in zip(product(commands, WIDTHS), shown.split("\f")[:-1], strict=True):
        assert 40 < max(map(len, text.splitlines())) <= columns, words


def test_the_progress_bar_is_on_standard_error_and_json_stays_json(brief):
    bar, out = on_terminal(["replay", str(brief), "--json"], stdout=False)
    assert "brief: [" in bar
    assert "diagnosing" in bar
    assert bar.endswith("\r")
    found = [json.loads(line)["condition"] for line in out.decode().splitlines()]
    assert found == ["late-member", "tp-straggler"]


def test_no_progress_means_none(moment):
    bar, _ = on_terminal(["replay", str(moment), "--json", "--no-progress"], stdout=False)
    assert not bar


@pytest.fixture
def ctrl_c_enabled():
    """Restores SIGINT for child processes, which a suite started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("after", ["[", "read "])
@pytest.mark.usefixtures("ctrl_c_enabled")
def test_ctrl_c_ends_it_quietly_and_every_process_with_it(shared, after):
    terminal = Terminal()
    command = [*COMMAND, "replay", str(shared / "recordings" / "fabric-loss"), "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal.theirs, start_new_session=True)
    terminal.close()
    while after not in terminal.text and terminal.read():
        pass
    os.killpg(process.pid, signal.SIGINT)
    # The terminal ends when the last of its processes has gone.
    while terminal.read():
        pass
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert not out
    assert "Traceback" not in terminal.text
    assert "Error" not in terminal.text


@pytest.mark.parametrize(
    ("columns", "width"), [("80", 80), ("", 100), ("3", 100), ("9" * 50, 100), ("x", 100), ("-80", 100)]
)
def test_piped_text_is_as_wide_as_the_environment_says(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert output_width() == width


def test_only_a_recording_s_incidents_are_findings():
    assert [findings_exit_code(path, found) for path in (None, Path("x")) for found in ((), (1,))] == [0, 0, 0, 1]
