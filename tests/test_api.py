"""The public API: it is lazy, complete, documented, and its examples run."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skewscope
from skewscope.adapters import Health

root = Path(__file__).resolve().parent.parent
PAGE = (root / "docs" / "api.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_of_the_package_gives_what_it_shows():
    assert skewscope.__doc__ is not None
    failed, tried = doctest.testmod(skewscope)
    assert (failed, tried) == (0, 3)


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1:])
def test_the_other_examples_of_the_page_run(example):
    exec(example, {})


@pytest.mark.parametrize("name", skewscope.__all__)
def test_each_name_loads_and_is_described(name):
    assert getattr(skewscope, name).__doc__
    assert re.search(rf"^\| `{name}[`(]", PAGE, re.MULTILINE)


def test_the_page_describes_no_other_names():
    rows = re.findall(r"^\| `(\w+)", PAGE.split("## The engine", 1)[0], re.MULTILINE)
    assert sorted(rows) == sorted(skewscope.__all__)


def test_each_public_member_of_the_engine_is_described():
    rows = PAGE.split("## The engine", 1)[1]
    members = {name for name in dir(skewscope.Engine) if not name.startswith("_")}
    assert not sorted(name for name in members if f"`{name}" not in rows)


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = skewscope.nothing


def test_the_health_client_is_also_a_name_of_adapters():
    assert Health is skewscope.Health


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import skewscope", {"numpy", "yaml", "textual"}),
        ("from skewscope import Health", {"numpy", "yaml", "textual"}),
    ],
)
def test_a_name_loads_only_what_it_needs(code, modules):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert not set(done.stdout.split()) & modules
