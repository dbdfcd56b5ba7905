"""The compiled catalogue gives what the files give, and is never used once anything differs."""

import os
import shutil
from contextlib import contextmanager

import pytest

from skewscope.kb import catalogue_cache
from skewscope.kb import loader as loading
from skewscope.kb.loader import load, load_cached
from skewscope.kb.problems import InputError
from tests.support.kb_damage import ISOLATE, copied, replaced, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A catalogue that is whole again after each test."""
    return copied(tmp_path_factory.mktemp("catalogue"))


@pytest.fixture
def copy(folder, tmp_path, monkeypatch):
    """The same, of which nothing is kept yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture(scope="module")
def compiled_once(folder):
    """Where it is kept."""
    cache = folder.parent / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        load_cached(folder)
    return cache


@pytest.fixture
def known(compiled_once, copy, tmp_path):
    """The same, of which all is kept."""
    shutil.copytree(compiled_once, tmp_path / "cache")
    assert catalogue_cache.read(copy) is not None
    return copy


def place(tmp_path):
    (found,) = (tmp_path / "cache/skewscope").iterdir()
    return found


def test_what_was_kept_is_what_is_read_again(copy):
    fresh, again = load_cached(copy), load_cached(copy)
    assert catalogue_cache.read(copy) is not None
    assert again == fresh
    values = ("conditions", "signals", "mitigations", "sources", "findings", "symptoms")
    files = load(copy)[0]
    for kind in values:
        ours, theirs = getattr(again, kind), getattr(files, kind)
        assert {k: repr(v).replace("kb/", "") for k, v in ours.items()} == {
            k: repr(v).replace(f"{copy}/", "") for k, v in theirs.items()
        }
    assert again.version == files.version


@contextmanager
def moved(path, target):
    path.rename(target)
    yield
    target.rename(path)


@contextmanager
def made(path):
    path.mkdir()
    yield
    path.rmdir()


@contextmanager
def same_size_and_time(path):
    before = path.stat()
    with written(path, replaced(path, "the remaining", "the REMAINING")):
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        yield


CHANGES = {
    "another text": lambda copy: written(copy / ISOLATE, replaced(copy / ISOLATE, "risk: medium", "risk: high")),
    "another text of the same size and time": lambda copy: same_size_and_time(copy / ISOLATE),
    "an entry more": lambda copy: written(copy / "mitigations/one-more.yaml", (copy / ISOLATE).read_text()),
    "an entry less": lambda copy: moved(min((copy / "findings").iterdir()), copy / "away"),
    "an entry under another name": lambda copy: moved(copy / ISOLATE, copy / "mitigations/zzz.yaml"),
    "a file that is no entry": lambda copy: written(copy / "signals/notes.txt", "x"),
    "a folder more": lambda copy: made(copy / "signals/more.yaml"),
    "another version": lambda copy: written(copy / "catalogue.yaml", "version: 99.0.0\n"),
    "no version": lambda copy: moved(copy / "catalogue.yaml", copy / "away"),
    "a folder less": lambda copy: moved(copy / "findings", copy / "away"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changes_in_the_folder_is_seen_and_so_is_that_it_is_put_right(known, what):
    with CHANGES[what](known):
        assert catalogue_cache.read(known) is None
    assert catalogue_cache.read(known) is not None


def test_another_state_of_the_code_is_seen(known, monkeypatch):
    monkeypatch.setattr(catalogue_cache, "_code_digest", lambda: "another")
    assert catalogue_cache.read(known) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}", b"\xff\xfe\x00", b"skewscope catalogue x y\n{}", b"[" * 100_000],
    ids=["nothing", "a line", "no head", "no text", "a foreign head", "a deep one"],
)
def test_a_broken_file_is_passed_over_and_mended(known, tmp_path, content):
    fresh = load_cached(known)
    place(tmp_path).write_bytes(content)
    assert catalogue_cache.read(known) is None
    assert load_cached(known) == fresh
    assert catalogue_cache.read(known) is not None


def test_a_body_that_is_not_what_was_written_is_passed_over(known, tmp_path):
    path = place(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"medium", b"high  ", 1))
    assert catalogue_cache.read(known) is None


def test_a_damaged_catalogue_is_refused_each_time_and_never_kept(copy, tmp_path):
    with written(copy / ISOLATE, replaced(copy / ISOLATE, "risk: medium", "risk: none")):
        for _ in range(2):
            with pytest.raises(InputError, match="'none'"):
                load_cached(copy)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("home", ["", "relative/place", "/proc/nowhere"])
def test_without_a_place_to_keep_it_nothing_is_lost(copy, monkeypatch, home):
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/proc/nobody")
    assert load_cached(copy).conditions.keys() == load(copy)[0].conditions.keys()


def test_what_changes_while_it_is_read_is_not_kept(copy, monkeypatch, tmp_path):
    states = iter(["one", "another"])
    monkeypatch.setattr(loading, "_digest_or_empty", lambda _: next(states))
    load_cached(copy)
    assert not (tmp_path / "cache").exists()


def test_other_users_cannot_read_where_it_is_kept(copy, tmp_path):
    load_cached(copy)
    assert (tmp_path / "cache/skewscope").stat().st_mode & 0o077 == 0
    assert place(tmp_path).stat().st_mode & 0o077 == 0
