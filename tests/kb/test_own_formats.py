"""Formats of users: read from a folder or a file, in place of those of the catalogue, refused with line and reason."""

import pytest

from skewscope.kb.line_patterns import PatternError, compile_pattern, find_fitting_begin
from skewscope.kb.loader import catalogue
from skewscope.kb.own_formats import MAX_FORMATS, read_formats
from skewscope.kb.problems import InputError

FORMAT = """\
id: odd
name: Log of odd
what: Steps of a job of odd.
tool: odd
versions: all
place: job
lines:
- pattern: it#<n> took <ms> milli
  fields:
    n: {step: number}
    ms: {step: duration, unit: ms}
samples:
- lines: it#3 took 500.5 milli
  gives: [{signal: step number, value: 3}, {signal: step duration, value: 0.5005}]
basis: "judgement: seen"
"""
"""A format of a user."""


def write(folder, text=FORMAT, name="odd.yaml"):
    (folder / name).write_text(text)
    return folder / name


def problems_of(place):
    with pytest.raises(InputError) as error:
        read_formats(place, catalogue())
    return [str(one) for one in error.value.problems]


def test_a_folder_and_a_file_are_read(tmp_path):
    file = write(tmp_path)
    write(tmp_path, "no format", "README.md")
    write(tmp_path, "hidden: true", ".odd.yaml")
    assert [one.id for one in read_formats(tmp_path, catalogue())] == ["odd"]
    assert [one.id for one in read_formats(file, catalogue())] == ["odd"]


def test_links_are_followed_as_mounted_maps_need_it(tmp_path):
    (tmp_path / "..data").mkdir()
    (tmp_path / "odd.yaml").symlink_to(write(tmp_path / "..data"))
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    assert [one.id for one in read_formats(tmp_path, catalogue())] == ["odd"]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("place: job", "place: moon", ["odd.yaml:6: place: found text ('moon')", "expected one of"]),
        ("<n> took", "<m> took", ["odd.yaml:8: lines[0].pattern: found the field <m>, which `fields` does not"]),
        ("unit: ms", "unit: GiB", ["odd.yaml:11: lines[0].fields.ms: found the unit 'GiB' where 's' is expected"]),
        ("{step: number}", "{signal: no.such}", ["odd.yaml:10: lines[0].fields.n: found the signal 'no.such'"]),
        ("value: 3}", "value: 4}", ["odd.yaml:13: samples[0]: found no {'signal': 'step number', 'value': 4}"]),
        ("place: job", "place: job\nkind: odd-log", ["odd.yaml:7: kind: found 'odd-log', expected none, or one of"]),
        ("id: odd", "id: [odd", ["odd.yaml:"]),
    ],
)
def test_a_faulty_format_is_refused_with_its_line(tmp_path, before, after, wanted):
    write(tmp_path, FORMAT.replace(before, after, 1))
    found = "\n".join(problems_of(tmp_path))
    assert all(text in found for text in wanted), found


def test_two_formats_with_one_id_are_refused(tmp_path):
    write(tmp_path)
    write(tmp_path, name="other.yaml")
    assert ["an id of its own" in one for one in problems_of(tmp_path)] == [True]


@pytest.mark.parametrize(("names", "wanted"), [(0, "no format"), (MAX_FORMATS + 1, "formats, expected at most")])
def test_the_number_of_formats_is_bounded(tmp_path, names, wanted):
    for number in range(names):
        (tmp_path / f"f{number}.yaml").touch()
    assert wanted in problems_of(tmp_path)[0]


def test_the_files_of_a_folder_are_not_listed_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.kb.own_formats.MAX_LISTED", 5)
    for number in range(7):
        (tmp_path / f"{number}.log").touch()
    assert "more than 5 files" in problems_of(tmp_path)[0]


def test_a_missing_folder_is_refused(tmp_path):
    assert "no readable file" in problems_of(tmp_path / "none")[0]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("a...b...c...d...e <x>", "abcd" * 1000),
        ("1...1...1...1...1...1...2", "1" * 4000),
        ("<a> is <b> is <c> no", "is " * 1300),
        ("a { x} { y} { z}b", "a" + " " * 3990),
    ],
)
def test_no_line_keeps_a_pattern_busy(pattern, line):
    shapes = tuple((name, "text") for name in "abc")
    assert compile_pattern(pattern, shapes).search(line) is None


def test_gaps_find_what_they_found_before():
    made = compile_pattern("step <n>...loss <l>...time <t>ms", (("l", "number"), ("n", "number"), ("t", "number")))
    line = "step 3 loss: none, loss 0.5, time 7s, time 8ms, time 9ms"
    assert made.find(line) == {"n": "3", "l": "0.5", "t": "8"}


@pytest.mark.parametrize("pattern", ["<a>-<b>-<c>=", "<a>/<b>:<c>", "<a><b><c> x"])
def test_fields_that_touch_are_few(pattern):
    with pytest.raises(PatternError, match="without a blank or a comma between them"):
        compile_pattern(pattern)


def test_a_line_stops_fitting_where_the_pattern_says_another_thing():
    shapes = (("n", "number"), ("t", "number"))
    share, wanted, end = find_fitting_begin("step <n> time <t>ms", shapes, "x step 3 time none")
    assert (share > 0.5, wanted, "x step 3 time none"[end:]) == (True, "<t>ms", "none")
