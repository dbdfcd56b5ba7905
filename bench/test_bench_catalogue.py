"""The catalogue in a process of its own: opened and checked from a cold start, opened again, shown, the site."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OPEN = "from skewscope.kb.loader import catalogue; catalogue()"
SHOW = "from skewscope.tui.cli.main import main; import sys; sys.argv = ['skewscope', 'kb', 'show', 'tp-straggler']; main()"
LINT = "from skewscope.kb.lint import lint; assert not lint()"
NOTHING = "pass"


def process(code: str, cache: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL, check=True)


@pytest.mark.parametrize("code", [NOTHING, LINT, OPEN], ids=["nothing", "lint", "open"])
def test_cold(benchmark, tmp_path, code):
    """Nothing is kept from an earlier run: every file is parsed, checked, linked."""
    rounds = iter(range(1000))
    benchmark.pedantic(lambda: process(code, tmp_path / str(next(rounds))), rounds=5)


@pytest.mark.parametrize("code", [OPEN, SHOW], ids=["open", "show"])
def test_kept(benchmark, tmp_path, code):
    """The compiled catalogue of an earlier run is there, and every byte it was made from is compared."""
    process(OPEN, tmp_path)
    benchmark.pedantic(lambda: process(code, tmp_path), rounds=10)


def test_site(benchmark, tmp_path):
    """The web site, all pages."""
    pytest.importorskip("furo")
    words = ["skewscope", "kb", "site", str(tmp_path / "site")]
    code = f"from skewscope.tui.cli.main import main; import sys; sys.argv = {words!r}; main()"
    benchmark.pedantic(lambda: process(code, tmp_path), rounds=1)
