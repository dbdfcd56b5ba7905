"""Each command that makes a file is run, by a program that prints what the real one does, and the file is read."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from skewscope.adapters.inputs import in_hand
from skewscope.adapters.inputs.in_hand import list_in_hand
from skewscope.adapters.inputs.in_hand_page import format_page
from skewscope.adapters.inputs.known_formats import known_formats
from skewscope.adapters.inputs.recognition import find_inputs
from skewscope.kb.loader import catalogue

ALL = {one.kind: one for one in list_in_hand()}
TEXTS = [one for one in ALL.values() if one.sample]
COMMANDS = [one for one in TEXTS if one.command]


def check_is_read(one, path):
    if one.kind not in catalogue().formats:
        (source,) = find_inputs([path], path.parent).inputs
        assert source.kind == one.kind
        return
    assert known_formats().choose(path.read_bytes()).id == one.kind


@pytest.mark.parametrize("one", TEXTS, ids=lambda one: one.kind)
def test_a_sample_is_read_as_its_kind(tmp_path, one):
    path = tmp_path / one.file
    path.parent.mkdir(exist_ok=True)
    path.write_text(one.sample)
    check_is_read(one, path)


@pytest.mark.parametrize("one", COMMANDS, ids=lambda one: one.kind)
def test_a_command_writes_a_file_that_is_read(tmp_path, one):
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sample").write_text(one.sample)
    for name in {"curl", "date", *re.findall(r"(?<![^ ;])[a-z][\w-]*(?![^ ;])", one.command)} - {"mkdir"}:
        make_program(programs / name)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SAMPLE": str(programs / "sample")}
    folder = tmp_path / "run"
    folder.mkdir()
    subprocess.run(["sh", "-ec", one.command], cwd=folder, env=environment, check=True, timeout=20)
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    assert written
    check_is_read(one, written[0])


def make_program(path):
    """A program in place of the real one: it prints the sample, whatever it is asked."""
    scripts = {"sleep": "exit 0", "timeout": 'shift; exec "$@"', "date": 'test "$1" = -Is || echo 1795341600'}
    path.write_text(f"#!/bin/sh\n{scripts.get(path.name, '/bin/cat $SAMPLE')}\n")
    path.chmod(0o755)


def test_the_page_is_current():
    page = Path(__file__).parents[3] / "docs" / "in-hand.md"
    assert page.read_text() == format_page(list_in_hand(), page.parent / "artefacts")


def test_no_kind_is_described_that_is_not_read():
    assert ALL.keys() >= in_hand._KINDS.keys()
