"""Measures the catalogue in a process of its own: checked and opened from a cold start, opened again, shown, built."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OPEN = "from skewscope.kb.loader import catalogue; catalogue()"
LINT = "from skewscope.kb.lint import lint; assert not lint()"
NOTHING = "pass"


def command(*words: str) -> str:
    """Returns the code of a command line."""
    return f"from skewscope.tui.cli.main import main; import sys; sys.argv = {['skewscope', *words]!r}; main()"


SHOW = command("kb", "show", "tp-straggler")


def run_in_process(code: str, cache: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL, check=True)


@pytest.mark.parametrize("code", [NOTHING, LINT, OPEN], ids=["nothing", "lint", "open"])
def test_cold(benchmark, tmp_path, code):
    """From a cold start: every file is parsed, checked and linked."""
    rounds = iter(range(1000))
    benchmark.pedantic(lambda: run_in_process(code, tmp_path / str(next(rounds))), rounds=5)


@pytest.mark.parametrize("code", [OPEN, SHOW], ids=["open", "show"])
def test_cached(benchmark, tmp_path, code):
    """With the compiled catalogue of an earlier run, whose sources are compared byte by byte."""
    run_in_process(OPEN, tmp_path)
    benchmark.pedantic(lambda: run_in_process(code, tmp_path), rounds=10)


def test_site(benchmark, tmp_path):
    """All pages of the web site."""
    pytest.importorskip("furo")
    code = command("kb", "site", str(tmp_path / "site"))
    benchmark.pedantic(lambda: run_in_process(code, tmp_path), rounds=1)
