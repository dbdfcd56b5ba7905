"""Building the web site: the sources for Sphinx, and the target folder."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from skewscope.kb.problems import InputError
from skewscope.tui.cli.main import cli
from skewscope.tui.site import build


def test_sphinx_sources_are_reproducible():
    pages = {
        "index.md": "# A\n",
        "conditions/a.md": "# B\n\n![a \\] b](a.svg)\n",
        "conditions/a.svg": "<svg>\n\n</svg>",
    }
    once = build.sphinx_sources(pages, {"catalogue.json": "{}"})
    assert once == build.sphinx_sources(pages, {"catalogue.json": "{}"})
    assert once["conditions/a.md"].startswith("---\norphan: true\n---\n")
    assert "<svg>\n</svg>" in once["conditions/a.md"]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    result = CliRunner().invoke(cli, ["kb", "site", str(tmp_path)])
    assert result.exit_code == 2
    assert "a folder with other content" in result.output
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "site").write_text("x")
    with pytest.raises(InputError, match="a folder"):
        build.build_site(tmp_path / "site", {}, {}, "1.0.0")
    assert (tmp_path / "site").read_text() == "x"


def test_a_missing_package_is_reported_with_the_way_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "REQUIRED_PACKAGES", ("no_such_package",))
    with pytest.raises(InputError, match=r"skewscope\[site\]"):
        build.build_site(tmp_path / "site", {}, {}, "1.0.0")


@pytest.mark.slow
def test_a_small_site_takes_the_place_of_an_older_one_wherever_one_stands(tmp_path, monkeypatch):
    pytest.importorskip("furo", reason="what makes the site is not installed (skewscope[site])")
    out = tmp_path / "site"
    out.mkdir()
    monkeypatch.chdir(out)
    build.build_site(Path(), {"index.md": "# Old\n", "conditions.md": "# Gone\n"}, {}, "1.0.0")
    build.build_site(out, {"index.md": "# New\n"}, {}, "1.0.0")
    assert "New" in (out / "index.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert not (out / "conditions.html").exists()
