"""Commands that only read, and show the evidence by which the causes of a finding are told apart."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from skewscope.kb import yamlfile
from skewscope.kb.command_template import PLACEHOLDERS, PLACES, find_shell_faults, first_word, placeholders
from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS, tool_program
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.model import MitigationCommand
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import FieldPath

FILE = Path(__file__).parent / "diagnostic_commands.yaml"
_TEXTS = ("title", "where", "tool", "do", "shows", "version", "basis")


@dataclass(frozen=True, slots=True)
class DiagnosticCommand:
    """A command that only reads, and what it shows."""

    title: str
    command: MitigationCommand
    shows: str
    """How its output tells causes apart."""
    signals: tuple[str, ...] = ()
    """Patterns of the ids of signals whose evidence it shows."""
    conditions: tuple[str, ...] = ()
    """Conditions of which it shows more than the commands for their signals do."""
    places: tuple[str, ...] = ()
    """Kinds of entities that it is for; () for any at which its names are known."""
    engine: str = ""
    """Serving engine that it is for; '' for any."""
    is_default: bool = False
    """Whether it is for any signal that has no command of its own."""

    def covers(self, signal: str) -> bool:
        """Returns whether it shows the evidence of a signal."""
        return any(fnmatchcase(signal, pattern) for pattern in self.signals)


@cache
def load_diagnostic_commands(file: Path = FILE) -> tuple[DiagnosticCommand, ...]:
    """Returns the commands, in the order in which they count.

    Raises:
        InputError: the file has problems.
    """
    fields = FieldReader(yamlfile.read(file))
    if fields.check_keys((), ("version", "commands")):
        fields.check_version()
    found = tuple(_read_command(fields, path) for path in fields.item_paths(("commands",)))
    if fields.problems:
        raise InputError(set(fields.problems))
    return found


def _read_command(fields: FieldReader, path: FieldPath) -> DiagnosticCommand:
    fields.check_keys(path, (*_TEXTS, "signals"), ("conditions", "places", "engine", "default", "needs"))
    title, where, tool, do, shows, version, basis, needs = (fields.text((*path, name)) for name in (*_TEXTS, "needs"))
    command = MitigationCommand(where, tool, do, version, basis, needs=needs, reads=True)
    for found, expected in _faults(command):
        fields.add_problem((*path, "do"), found, expected)
    lists = {name: fields.texts((*path, name)) for name in ("signals", "conditions", "places")}
    engine, is_default = fields.text((*path, "engine")), fields.value_at((*path, "default")) is True
    return DiagnosticCommand(title, command, shows, **lists, engine=engine, is_default=is_default)


def _faults(command: MitigationCommand) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with a command, as found and expected."""
    tool = COMMAND_TOOLS.get(command.tool)
    if tool is None or tool.form != COMMAND:
        yield repr(command.tool), "a tool of kb/command_tools.py with command lines"
    elif first_word(command.do) != tool_program(command.tool):
        yield repr(command.do), f"a command line that begins with {tool_program(command.tool)!r}"
    if command.where not in PLACES:
        yield repr(command.where), f"one of {', '.join(PLACES)}"
    for name in placeholders(command.do):
        if name not in PLACEHOLDERS:
            yield f"{{{name}}}", "a placeholder of kb/command_template.py"
    for fault in find_shell_faults(command.do):
        yield fault, "one plain command line"
