"""The commands `watch` and `report`."""

import json

import pytest
from click.testing import CliRunner

from skewscope.tui.cli.main import cli


@pytest.mark.slow
def test_commands_write_lines_and_pages(tmp_path, brief):
    run, page = CliRunner().invoke, tmp_path / "r.html"
    lines = run(cli, ["watch", "--json", str(brief)])
    assert lines.exit_code == 1
    assert "opened" in {json.loads(each)["what"] for each in lines.output.splitlines()}
    assert run(cli, ["report", "--html", "-o", str(page), str(brief)]).exit_code == 1
    assert page.read_text().startswith("<!doctype html>")
