"""Commands of mitigations: placeholders, quoting, and every command of the catalogue filled in."""

import json
import shlex
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.command_template import (
    FILLED_PLACEHOLDERS,
    GIVEN_PLACEHOLDERS,
    PLACES,
    fill_command,
    fill_template,
    find_shell_faults,
    first_word,
    is_safe_value,
    placeholders,
)
from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS, tool_program
from skewscope.kb.diagnostic_commands import load_diagnostic_commands
from skewscope.kb.entry_kinds import builtin_folder
from skewscope.kb.loader import catalogue
from skewscope.kb.schema_validation import schema

COMMANDS = [command for mitigation in catalogue().mitigations.values() for command in mitigation.commands]
WITH_COMMANDS = [pytest.param(one.commands, id=id_) for id_, one in catalogue().mitigations.items() if one.commands]
SAMPLE = {name: f"the-{name}" for name in FILLED_PLACEHOLDERS} | {"gpu": "3", "gpu_pci": "0000:3b:00.0"}
HOSTILE = ("n1; reboot", "$(reboot)", "`id`", "a b", "n1'|tee x", 'n1"&', "n1\\", "*", "~root", "#x", "n1>x", "{node}")


def texts(commands):
    """Returns the texts of commands that a shell may read."""
    return [text for command in commands for text in (command.do, command.undo, command.check) if text]


@pytest.mark.parametrize("commands", WITH_COMMANDS)
def test_every_command_is_filled_in_by_an_incident_that_knows_all_names(commands):
    filled = [fill_command(command, SAMPLE) for command in commands]
    for before, after in zip(texts(commands), texts(filled), strict=True):
        assert not set(placeholders(after)) & set(FILLED_PLACEHOLDERS)
        for name in placeholders(before):
            assert SAMPLE[name] in after if name in FILLED_PLACEHOLDERS else name.upper() in after


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_word_of_every_command(name):
    plain, hostile = dict.fromkeys(FILLED_PLACEHOLDERS, "plain"), dict.fromkeys(FILLED_PLACEHOLDERS, name)
    for text in texts(COMMANDS):
        known = fill_template(text, dict.fromkeys(GIVEN_PLACEHOLDERS, "given") | plain)
        words = shlex.split(fill_template(text, dict.fromkeys(GIVEN_PLACEHOLDERS, "given") | hostile))
        assert words == [word.replace("plain", name) for word in shlex.split(known)]


def test_a_command_with_open_places_redirects_nothing_in_a_shell():
    for text in texts(fill_command(command, {}) for command in COMMANDS):
        assert not find_shell_faults(text), text
        assert not set("<>") & set(text), text


def test_json_in_a_command_is_json_once_it_is_filled_in():
    given = dict.fromkeys(GIVEN_PLACEHOLDERS, "7")
    for text in texts(COMMANDS):
        for word in shlex.split(fill_template(text, SAMPLE | given)):
            if word.startswith("{"):
                assert json.loads(word)


@given(st.text(min_size=1, max_size=30))
def test_any_name_is_one_argument_or_stays_open(name):
    words = shlex.split(fill_template("tool --on {node} end", {"node": name}), comments=False)
    assert words == ["tool", "--on", name if is_safe_value(name) else "NODE", "end"]


@pytest.mark.parametrize("name", ["", " ", "-f", "--all", "n1\nreboot", "n1\x1b[2J", "x" * 201])
def test_a_name_that_cannot_be_an_argument_stays_open(name):
    assert fill_template("tool {node}", {"node": name}) == "tool NODE"


@pytest.mark.parametrize(
    ("tool", "name"),
    [("scontrol", "n[1-9]"), ("scontrol", "n1,n2"), ("scontrol", "ALL"), ("kubectl", "pods/x"), ("nvidia-smi", "0,1")],
)
def test_a_name_that_a_tool_reads_as_several_stays_open(tool, name):
    assert fill_template(f"{tool} {{node}}", {"node": name}, tool) == f"{tool} NODE"
    assert name in fill_template(f"{tool} {{node}}", {"node": name})


def test_a_value_is_not_filled_in_a_second_time():
    assert fill_template("{node} {gpu}", {"node": "{gpu}", "gpu": "5"}) == "'{gpu}' 5"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a {node} && b", "the operator '&&'"),
        ("a | b", "the operator '|'"),
        ("a > b", "the operator '>'"),
        ("a $(b)", "substitution"),
        ("a $HOME", "variable"),
        ("a `b`", "substitution"),
        ("a 'b", "do not close"),
        ('a "x {node}"', "inside quotes"),
    ],
)
def test_what_a_shell_would_read_as_more_than_a_command_is_a_fault(text, fault):
    assert any(fault in found for found in find_shell_faults(text))


@pytest.mark.parametrize("text", ["a --b=c {node}", "a '{\"n\": '{number}'}' http://{router}/x", "a 'b; c' \"d & e\""])
def test_one_plain_command_has_no_fault(text):
    assert find_shell_faults(text) == ()


def test_placeholders_are_of_one_kind_and_in_use():
    used = {name for text in texts(COMMANDS) for name in placeholders(text)}
    assert not set(FILLED_PLACEHOLDERS) & set(GIVEN_PLACEHOLDERS)
    assert used >= set(GIVEN_PLACEHOLDERS)


def test_tools_are_in_use_in_order_and_named_by_their_programs():
    read_with = {first_word(text) for command in COMMANDS for text in (command.check, command.former)}
    read_with |= {one.command.tool for one in load_diagnostic_commands()}
    assert {command.tool for command in COMMANDS} | (read_with & set(COMMAND_TOOLS)) == set(COMMAND_TOOLS)
    assert list(COMMAND_TOOLS) == sorted(COMMAND_TOOLS)
    assert tool_program("linuxptp") == "ptp4l"
    assert tool_program("scontrol") == "scontrol"
    assert COMMAND_TOOLS["scontrol"].form == COMMAND


def test_every_place_of_the_schema_has_its_words():
    shape = schema("mitigation")["properties"]["commands"]["items"]["properties"]
    assert list(PLACES) == shape["where"]["enum"]
    assert {name for text in PLACES.values() for name in placeholders(text)} <= set(FILLED_PLACEHOLDERS)


def test_every_mitigation_has_commands_or_a_reason():
    known = catalogue().mitigations.values()
    assert all(bool(one.commands) != bool(one.no_command) for one in known)


def test_the_model_has_the_fields_of_the_schema():
    from skewscope.kb.model import MitigationCommand  # noqa: PLC0415

    shape = schema("mitigation")["properties"]["commands"]["items"]["properties"]
    assert {field.name for field in fields(MitigationCommand)} == set(shape)


def test_the_prose_of_the_schema_links_to_the_tables():
    text = (builtin_folder() / "schema/mitigation.md").read_text()
    assert "(../command_tools.py)" in text
    assert "(../command_template.py)" in text
