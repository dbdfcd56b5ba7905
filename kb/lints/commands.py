"""Lints of the commands of mitigations."""

from collections.abc import Iterator

from skewscope.kb.command_template import (
    COMMAND_TEXTS,
    GIVEN_PLACEHOLDERS,
    PLACEHOLDERS,
    find_shell_faults,
    first_word,
    placeholders,
)
from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS, ENVIRONMENT, OPTIONS, SETTING, tool_program
from skewscope.kb.entry_store import CatalogueEntry
from skewscope.kb.lint import Problems, entry_lint
from skewscope.kb.model import Mitigation, MitigationCommand
from skewscope.kb.problems import suggest_name

PROGRAMS = frozenset(tool_program(name) for name, tool in COMMAND_TOOLS.items() if tool.form == COMMAND)


@entry_lint("mitigations", "Write the commands, or say in a line why there is none: 'a change of code'.")
def mitigation_has_commands(entry: CatalogueEntry) -> Problems:
    """Every mitigation has commands, or says why it has none, and not both."""
    assert isinstance(entry.value, Mitigation)
    if bool(entry.value.commands) == bool(entry.value.no_command):
        found = "commands beside no_command" if entry.value.commands else "neither commands nor no_command"
        yield entry.document.problem(("id",), found, "one of the two")


@entry_lint("mitigations", "Take a tool of kb/command_tools.py, or add it there.")
def command_tool_is_known(entry: CatalogueEntry) -> Problems:
    """Every command names a known tool and is written in the form of that tool."""
    for n, command in _commands(entry):
        if command.tool not in COMMAND_TOOLS:
            hint = suggest_name(command.tool, COMMAND_TOOLS)
            yield entry.document.problem(("commands", n, "tool"), f"{command.tool!r}", "a known tool", hint)
            continue
        for field in ("do", "undo"):
            if wanted := _wrong_form(getattr(command, field), command.tool):
                text = getattr(command, field)
                yield entry.document.problem(("commands", n, field), f"{text[:40]!r}", wanted)
        for field in ("check", "former"):
            word = first_word(getattr(command, field))
            if word and word not in PROGRAMS:
                yield entry.document.problem(("commands", n, field), f"{word!r}", "a command line of a known tool")


def _wrong_form(text: str, tool: str) -> str:
    """Returns what was expected of a text for a tool, '' if it has that form or is empty."""
    form, word = COMMAND_TOOLS[tool].form, first_word(text)
    if not text:
        return ""
    if form == COMMAND and word != tool_program(tool):
        return f"a command line that begins with {tool_program(tool)!r}"
    if form == OPTIONS and not word.startswith("--"):
        return "options that begin with '--'"
    if form == ENVIRONMENT and word not in ("export", "unset"):
        return "'export NAME=VALUE' or 'unset NAME'"
    return ""


@entry_lint("mitigations", "kb/command_template.py lists the placeholders.")
def command_placeholders_are_known(entry: CatalogueEntry) -> Problems:
    """Every placeholder of a command is known."""
    for n, command in _commands(entry):
        for field in COMMAND_TEXTS:
            for name in placeholders(getattr(command, field)):
                if name not in PLACEHOLDERS:
                    hint = suggest_name(name, PLACEHOLDERS)
                    yield entry.document.problem(
                        ("commands", n, field), f"{{{name}}}", "a known placeholder outside of quotes", hint
                    )


@entry_lint("mitigations", "`value` or `before`, for a placeholder of `do` that is the operator's.")
def command_starts_are_of_its_placeholders(entry: CatalogueEntry) -> Problems:
    """Every value to begin with is for a placeholder of the command that nothing else fills in, and is one value."""
    for n, command in _commands(entry):
        open_names = set(placeholders(command.do)) & GIVEN_PLACEHOLDERS.keys()
        for at, start in enumerate(command.start):
            if start.placeholder not in open_names or bool(start.value) == bool(start.before):
                found = f"{start.placeholder!r}, value {start.value!r}, before {start.before!r}"
                yield entry.document.problem(("commands", n, "start", at), found, f"one of {sorted(open_names)}")


@entry_lint("mitigations", "Write in `former` the command that prints it, or `check` if that does.")
def command_prints_what_its_undo_needs(entry: CatalogueEntry) -> Problems:
    """Every undo with the value before comes with a command that prints that value."""
    for n, command in _commands(entry):
        tool = COMMAND_TOOLS.get(command.tool)
        is_printed = command.former or command.check or (tool is not None and (tool.running or tool.form == SETTING))
        if "former" in placeholders(command.undo) and not is_printed:
            yield entry.document.problem(
                ("commands", n, "undo"), "{former}, which nothing prints", "`former` or `check`"
            )


@entry_lint("mitigations", "Write each command by itself, with placeholders outside of quotes.")
def command_is_one_command(entry: CatalogueEntry) -> Problems:
    """A shell reads each command line as one plain command."""
    for n, command in _commands(entry):
        for field in COMMAND_TEXTS:
            for fault in find_shell_faults(getattr(command, field)):
                yield entry.document.problem(("commands", n, field), fault, "one plain command line")


@entry_lint("mitigations", "Write `undo`, or in `undo_by_hand` what takes it back or why nothing can.")
def command_can_be_undone(entry: CatalogueEntry) -> Problems:
    """Every command that changes something has an undo or says why there is none; one that only reads has neither."""
    for n, command in _commands(entry):
        ways = [name for name in ("undo", "undo_by_hand") if getattr(command, name)]
        if len(ways) != (0 if command.reads else 1):
            found = " and ".join(ways) or "no way back"
            wanted = "none, since it only reads" if command.reads else "one of undo and undo_by_hand"
            yield entry.document.problem(("commands", n, "do"), found, wanted)


def _commands(entry: CatalogueEntry) -> Iterator[tuple[int, MitigationCommand]]:
    assert isinstance(entry.value, Mitigation)
    return enumerate(entry.value.commands)
