"""The compiled catalogue gives what the files give, and is never used once anything differs."""

import os
import shutil

import pytest
from kb_damage import ISOLATE, copied, replaced, written

from skewscope.kb import compiled
from skewscope.kb import load as loading
from skewscope.kb.load import kept, load
from skewscope.kb.problems import InputError


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return copied(tmp_path)


def place(tmp_path):
    (found,) = (tmp_path / "cache/skewscope").iterdir()
    return found


def test_what_was_kept_is_what_is_read_again(copy):
    fresh, again = kept(copy), kept(copy)
    assert compiled.read(copy) is not None
    assert again == fresh
    values = ("conditions", "signals", "mitigations", "sources", "findings")
    files = load(copy)[0]
    for kind in values:
        ours, theirs = getattr(again, kind), getattr(files, kind)
        assert {k: repr(v).replace("kb/", "") for k, v in ours.items()} == {
            k: repr(v).replace(f"{copy}/", "") for k, v in theirs.items()
        }
    assert again.version == files.version


def changed_text(copy):
    path = copy / ISOLATE
    path.write_text(replaced(path, "risk: medium", "risk: high"))


def same_size_and_time(copy):
    path = copy / ISOLATE
    before = path.stat()
    path.write_text(replaced(path, "the remaining", "the REMAINING"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


CHANGES = {
    "another text": changed_text,
    "another text of the same size and time": same_size_and_time,
    "an entry more": lambda copy: shutil.copy(copy / ISOLATE, copy / "mitigations/one-more.yaml"),
    "an entry less": lambda copy: min((copy / "findings").iterdir()).unlink(),
    "an entry under another name": lambda copy: (copy / ISOLATE).rename(copy / "mitigations/zzz.yaml"),
    "a file that is no entry": lambda copy: (copy / "signals/notes.txt").write_text("x"),
    "a folder more": lambda copy: (copy / "signals/more.yaml").mkdir(),
    "another version": lambda copy: (copy / "catalogue.yaml").write_text("version: 99.0.0\n"),
    "no version": lambda copy: (copy / "catalogue.yaml").unlink(),
    "a folder less": lambda copy: shutil.rmtree(copy / "findings"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changes_in_the_folder_is_seen(copy, what):
    kept(copy)
    assert compiled.read(copy) is not None
    CHANGES[what](copy)
    assert compiled.read(copy) is None


def test_another_state_of_the_code_is_seen(copy, monkeypatch):
    kept(copy)
    monkeypatch.setattr(compiled, "_code", lambda: "another")
    assert compiled.read(copy) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}", b"\xff\xfe\x00", b"skewscope catalogue x y\n{}", b"[" * 100_000],
    ids=["nothing", "a line", "no head", "no text", "a foreign head", "a deep one"],
)
def test_a_broken_file_is_passed_over_and_mended(copy, tmp_path, content):
    fresh = kept(copy)
    place(tmp_path).write_bytes(content)
    assert compiled.read(copy) is None
    assert kept(copy) == fresh
    assert compiled.read(copy) is not None


def test_a_body_that_is_not_what_was_written_is_passed_over(copy, tmp_path):
    kept(copy)
    path = place(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"medium", b"high  ", 1))
    assert compiled.read(copy) is None


def test_a_damaged_catalogue_is_refused_each_time_and_never_kept(copy, tmp_path):
    with written(copy / ISOLATE, replaced(copy / ISOLATE, "risk: medium", "risk: none")):
        for _ in range(2):
            with pytest.raises(InputError, match="'none'"):
                kept(copy)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("home", ["", "relative/place", "/proc/nowhere"])
def test_without_a_place_to_keep_it_nothing_is_lost(copy, monkeypatch, home):
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/proc/nobody")
    assert kept(copy).conditions.keys() == load(copy)[0].conditions.keys()


def test_what_changes_while_it_is_read_is_not_kept(copy, monkeypatch, tmp_path):
    states = iter(["one", "another"])
    monkeypatch.setattr(loading, "_state", lambda _: next(states))
    kept(copy)
    assert not (tmp_path / "cache").exists()


def test_other_users_cannot_read_where_it_is_kept(copy, tmp_path):
    kept(copy)
    assert (tmp_path / "cache/skewscope").stat().st_mode & 0o077 == 0
    assert place(tmp_path).stat().st_mode & 0o077 == 0
