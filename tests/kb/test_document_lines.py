"""JSON, YAML and XML as lines: whole ones, cut ones, damaged ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.document_lines import list_document_lines

NODE = {"kind": "Node", "status": {"conditions": [{"type": "Ready", "status": "True"}]}, "name": "n0"}
LINES = ["kind: Node", "name: n0", "status > conditions > type: Ready", "status > conditions > status: True"]
YAML = "kind: Node\nname: n0\nstatus:\n  conditions:\n  - type: Ready\n    status: 'True'\n"
XML = (
    '<?xml version="1.0"?>\n<log>\n <gpu id="02:00.0"><temp>88 C</temp>\n'
    "  <clocks><sm>1200 MHz</sm><sm>1300 MHz</sm></clocks></gpu>\n</log>"
)
XML_LINES = [
    "log > gpu > id: 02:00.0",
    "log > gpu > temp: 88 C",
    *(f"log > gpu > clocks > sm: {n} MHz" for n in (1200, 1300)),
]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (json.dumps(NODE), LINES),
        (json.dumps(NODE, indent=4).replace("\n", "\r\n"), LINES),
        (json.dumps([NODE, NODE]), LINES * 2),
        (json.dumps(NODE) + "\n" + json.dumps(NODE), LINES * 2),
        (YAML, LINES),
        (XML, XML_LINES),
        ('{"a": null, "b": true, "c": [1, "x\\ny"]}', ["b: true", "c: 1", "c: x y"]),
        ("[2026-11-22 10:00:00] INFO up", []),
        ("<6>[    0.0] kernel: up", []),
        ("step 1 kind: Node", []),
        ("", []),
    ],
)
def test_the_lines_of_a_document(text, lines):
    assert list_document_lines(text) == lines


@pytest.mark.parametrize(("text", "lines"), [(json.dumps(NODE), LINES), (XML, XML_LINES), (YAML, LINES)])
def test_a_document_that_is_cut_off_gives_a_part_of_its_lines(text, lines):
    half = list_document_lines(text[: len(text) * 4 // 5])
    assert half
    assert set(half[:-1]) < set(lines)


def test_a_record_has_all_its_values():
    objects = {
        "items": [{"type": "Warning", "of": {"name": "a"}}, {"type": "Warning"}, {"type": "x", "of": {"name": "b"}}]
    }
    lines = list_document_lines(json.dumps(objects), ["is <type> of <of.name>", "also <of.name>"])
    assert [line for line in lines if " > " not in line] == ["is Warning of a", "is x of b"]


@pytest.mark.parametrize(
    "text",
    [
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>',
        "kind: &a [*a, *a]\n",
        "kind: " + "[" * 20_000,
        '{"a": ' * 5000,
        "[[" * 5000,
        "<a>" * 100_000,
        '<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "a.dtd">\n<a x="1',
        '<?xml version="1.0"?>\n',
    ],
)
def test_a_hostile_document_ends(text):
    assert len(list_document_lines(text)) < 10


@given(st.text(max_size=300), st.sampled_from(["", "{", '{"a": ', "[{", "<a>", "kind: "]))
def test_no_text_fails(text, begin):
    assert isinstance(list_document_lines(begin + text), list)
