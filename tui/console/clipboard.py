"""Bring a text to the clipboard of the person at the keyboard, also from tmux and through ssh, and say how.

A terminal does not answer whether it took a text (OSC 52), so each text is written to a file as well.
"""

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "copied.txt"
TIMEOUT_S = 2.0
Run = Callable[[list[str], bytes], bool]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a copied text is."""

    through_terminal: bool
    """Whether the terminal has to be sent it as well."""
    words: str
    """Where it is, for the operator."""


def run_with_input(command: list[str], content: bytes) -> bool:
    """Runs a program on an input; returns whether it succeeded."""
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=TIMEOUT_S, check=False)  # noqa: S603 - tmux's own words, no shell
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def deliver(
    content: str, folder: Path, environment: Mapping[str, str] = os.environ, run: Run = run_with_input
) -> Delivery:
    """Writes a text to a file and, in tmux, hands it to tmux, which passes it on to the terminal outside.

    Args:
        content: the text.
        folder: where the file is written, readable by the user alone.
        environment: tells of tmux.
        run: runs a program on an input.
    """
    kept = _write_private(folder / FILE_NAME, content)
    where = f"; also in {kept}" if kept else ""
    # `external`, the default of set-clipboard, drops what programs in tmux send, but not what tmux itself loads.
    if environment.get("TMUX") and run(["tmux", "load-buffer", "-w", "-"], content.encode()):
        return Delivery(False, f"by tmux (prefix ] pastes it){where}")
    if environment.get("TMUX") or environment.get("STY"):
        return Delivery(True, f"the terminal may not take it from here{where}")
    return Delivery(True, f"by the terminal{where}")


def _write_private(path: Path, content: str) -> str:
    """Writes a file for the user alone; returns its name, '' where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.chmod(0o600)
        path.write_text(content, encoding="utf-8")
    except OSError:
        return ""
    home = str(Path.home())
    return f"~{str(path)[len(home) :]}" if str(path).startswith(f"{home}/") else str(path)
