"""A name that the system refuses is a name of nothing, and never an exception."""

import pytest

from skewscope.adapters.formats.file_kinds import find_refusal, has_anything, has_file, has_folder


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "x/" * 3000 + "y"], ids=["long", "null", "deep"])
def test_a_name_that_is_refused_is_of_nothing(tmp_path, name):
    path = tmp_path / name
    assert not has_file(path)
    assert not has_folder(path)
    assert not has_anything(path)
    assert find_refusal(path)


def test_what_lies_there(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("")
    link.symlink_to("nowhere")
    assert (has_file(file), has_folder(file), has_anything(file)) == (True, False, True)
    assert (has_file(tmp_path), has_folder(tmp_path)) == (False, True)
    assert not has_anything(link)
    assert not any(map(find_refusal, (file, link, tmp_path, file / "below", tmp_path / "absent")))
