"""Plug-ins: modules of other packages, as entry points, are kinds of sources, notifiers and targets beside our own."""

import sys

import pytest

from skewscope.adapters import notify, sources, targets
from skewscope.adapters.config import kinds
from skewscope.kb.problems import SkewscopeError

GROUPS = {"skewscope.sources": sources, "skewscope.notifiers": notify, "skewscope.targets": targets}
GOOD = "def read(fields, at, name): ...\ndef build(settings, *more): ...\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Returns a function that installs a package with one module and entry points to it."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(group, name, code, module="ours_of_a_site"):
        (tmp_path / f"{module}.py").write_text(code)
        about = tmp_path / "ours-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")

    yield add
    sys.modules.pop("ours_of_a_site", None)


@pytest.mark.parametrize("group", GROUPS)
def test_a_module_of_another_package_is_a_kind(install, group):
    package = GROUPS[group]
    before = kinds.find_kinds(package.__name__, package.__path__, group)
    install(group, "meter", GOOD)
    found = kinds.find_kinds(package.__name__, package.__path__, group)
    assert found.keys() == before.keys() | {"meter"}
    assert list(found) == sorted(found)


def test_a_plug_in_never_stands_in_place_of_our_own(install):
    install("skewscope.sources", "scrape", GOOD)
    found = kinds.find_kinds(sources.__name__, sources.__path__, "skewscope.sources")
    assert found["scrape"].__name__ == "skewscope.adapters.sources.scrape"


@pytest.mark.parametrize(
    ("code", "said"), [("x = 1\n", "is no adapter"), ("1 / 0\n", "cannot be loaded: ZeroDivisionError")]
)
def test_a_plug_in_that_is_broken_is_named(install, code, said):
    install("skewscope.targets", "broken", code)
    with pytest.raises(SkewscopeError, match=f"the plug-in 'broken' .*{said}"):
        kinds.find_kinds(targets.__name__, targets.__path__, "skewscope.targets")
