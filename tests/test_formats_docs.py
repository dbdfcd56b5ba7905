"""The page on formats: two tools that the catalogue does not know, each with one file of a user, and its commands."""

import random
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from skewscope.kb.loader import catalogue
from skewscope.tui.cli.main import cli
from tests.test_docs import commands_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "formats.md"
FORMATS = {id_: text for text, id_ in re.findall(r"```yaml\n(id: ([a-z]+)\n.*?)```", PAGE.read_text(), re.DOTALL)}
"""The formats on the page, by id."""


def write_training(is_faulty):
    """Returns a log whose steps take half as long again from the middle on."""
    draw, time, words = random.Random(1), 0.0, 25_600
    for n in range(1, 121):
        took = draw.uniform(58, 62) * (1.5 if is_faulty and n > 60 else 1.0)
        time += took
        stamp = f"2026-11-22 {10 + int(time) // 3600}:{int(time) // 60 % 60:02d}:{int(time) % 60:02d}"
        yield (
            f"[{stamp}] Ep. {1 + n // 50} : Up. {100 * n} : Sen. {words * n:,} : Cost 5.1 * 640,000 after "
            f"{640_000 * n:,} : Time {took:.2f}s : {640_000 / took:.2f} words/s"
        )


def write_serving(is_faulty):
    """Returns a log of a server that holds ever more requests back from the middle on, since its cache is full."""
    draw = random.Random(2)
    for n in range(240):
        stamp = f"DEBUG 11-22 10:{n // 12:02d}:{n % 12 * 5:02d}"
        is_full = is_faulty and n > 120
        held, used = (n - 120, 0.985) if is_full else (0, draw.uniform(0.4, 0.42))
        rate = draw.uniform(780, 820)
        yield f"{stamp} [manager.py:284] current batch size: {draw.randint(23, 25)}"
        yield f"paused req num: {held}"
        yield f"token used ratio: {used:.3f} not contain prompt cache tree unrefed token"
        yield f"{stamp} [stats.py:37] Avg tokens(prompt+generate) throughput: {1300 + rate:.3f} tokens/s"
        yield f"Avg prompt tokens throughput: {draw.uniform(1280, 1320):.3f} tokens/s"
        yield f"Avg generate tokens throughput: {rate:8.3f} tokens/s"


WRITERS = {"train.log": write_training, "server.log": write_serving}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Returns a folder with the formats of the page, in which the commands are run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-formats").mkdir()
    for id_, text in FORMATS.items():
        (tmp_path / "my-formats" / f"{id_}.yaml").write_text(text)
    return tmp_path


def write_logs(place, *, is_faulty):
    for name, lines in WRITERS.items():
        (place / name).write_text("\n".join(lines(is_faulty)) + "\n")


def test_the_catalogue_has_neither_format():
    assert not FORMATS.keys() & catalogue().formats.keys()


@pytest.mark.parametrize("command", commands_of(PAGE))
def test_the_commands_of_the_page_answer(place, command):
    write_logs(place, is_faulty=True)
    answer = CliRunner().invoke(cli, shlex.split(command))
    assert answer.exit_code == (1 if command.startswith("diagnose") else 0), answer.output


@pytest.mark.parametrize("log", WRITERS)
def test_a_healthy_log_is_silent(place, log):
    write_logs(place, is_faulty=False)
    answer = CliRunner().invoke(cli, ["diagnose", "--formats", "my-formats", log])
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize("log", WRITERS)
def test_without_its_format_a_log_says_less(place, log):
    write_logs(place, is_faulty=True)
    answer = CliRunner().invoke(cli, ["diagnose", log])
    assert answer.exit_code != 1 or "guessed" in answer.output, answer.output
