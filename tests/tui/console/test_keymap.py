"""The key table, its documentation and key files."""

import re
from pathlib import Path

import pytest

from skewscope.kb.problems import InputError
from skewscope.tui.console import keymap
from skewscope.tui.render.text import line_width, to_plain_text

DOCS = Path(__file__).parents[3] / "docs"


def test_no_key_does_two_things():
    keys = [key for entry in keymap.KEYS for key in entry.keys]
    assert len(keys) == len(set(keys))
    assert len({entry.id for entry in keymap.KEYS}) == len(keymap.KEYS)


def test_the_page_of_keys_is_up_to_date():
    assert (DOCS / "keys.md").read_text() == keymap.to_markdown(), "run skewscope keys --markdown > docs/keys.md"


@pytest.mark.parametrize("name", ["diagnoses", "fabric", "signals", "catalogue", "actions"])
@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_the_footer_fits_and_ends_with_help(name, columns):
    footer = keymap.footer_line(keymap.KEYS, name, columns)
    assert line_width(footer) <= columns
    if columns >= 80:
        assert "? keys" in to_plain_text([footer])
        assert "q quit" in to_plain_text([footer])


def keys(tmp_path, text):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    return {key.id: key for key in keymap.load_keys(file)}


def test_a_file_changes_keys(tmp_path):
    found = keys(tmp_path, '[keys]\nfold = "F"\ndown = ["n", "down"]\nsnooze = "N"\n')
    assert found["fold"].keys == ("F",)
    assert found["down"].textual_keys == "n,down"
    assert found["up"].keys == ("k", "up")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[keys", "invalid TOML"),
        ('[keys]\nfoldd = "F"', "fold"),
        ("[keys]\nfold = 3", "a key or a list"),
        ('[keys]\nfold = "much"', "a key or a list"),
        ('[keys]\nfold = "j"', "each key assigned once"),
        ('[colours]\nfold = "F"', "only [keys]"),
        ("keys = 3", "[keys] and lines"),
    ],
)
def test_a_faulty_key_file_is_reported(tmp_path, text, said):
    with pytest.raises(InputError, match=re.escape(said)):
        keys(tmp_path, text)
