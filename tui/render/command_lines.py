"""The commands of mitigations as lines and as HTML, ready to copy. Pure."""

from collections.abc import Iterable
from html import escape

from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS, OPTIONS
from skewscope.kb.model import MitigationCommand
from skewscope.kb.problems import join_names
from skewscope.tui.render.text import Line, line, sanitise

COPY_ROLE = "command"
"""Role of a text that is copied as it is."""


def command_lines(commands: Iterable[MitigationCommand], no_command: str = "") -> list[Line]:
    """Returns each filled command with its way back and its check, one line each; or why there is none."""
    out: list[Line] = []
    for command in commands:
        out.append(line(f"  {_describe(command)}", "dim"))
        out.append((("    ", ""), (command.do, COPY_ROLE)))
        if command.former:
            out += [line("  to note first:", "dim"), (("    ", ""), (command.former, COPY_ROLE))]
        if command.undo:
            out += [line("  to take it back:", "dim"), (("    ", ""), (command.undo, COPY_ROLE))]
        elif command.undo_by_hand:
            out.append((("  to take it back: ", "dim"), (command.undo_by_hand, "")))
        if command.check:
            out += [line("  to check:", "dim"), (("    ", ""), (command.check, COPY_ROLE))]
    if no_command:
        out.append((("  no command: ", "dim"), (no_command, "")))
    return out


def command_source_lines(commands: Iterable[MitigationCommand]) -> list[Line]:
    """Returns what each command rests on, one line each."""
    return [((f"{one.tool}: ", "key"), (f"{one.version}", ""), (f" ({one.basis})", "dim")) for one in commands]


def commands_html(commands: Iterable[MitigationCommand], no_command: str = "") -> str:
    """Returns the commands as HTML, each in a block of its own; '' without any."""
    out = []
    for command in commands:
        out.append(f"<p>{_text(_describe(command))}</p><pre>{_text(command.do)}</pre>")
        if command.undo:
            out.append(f"<p>to take it back</p><pre>{_text(command.undo)}</pre>")
        elif command.undo_by_hand:
            out.append(f"<p>to take it back: {_text(command.undo_by_hand)}</p>")
        if command.check:
            out.append(f"<p>to check</p><pre>{_text(command.check)}</pre>")
    if no_command:
        out.append(f"<p>no command: {_text(no_command)}</p>")
    return "".join(out)


def _describe(command: MitigationCommand) -> str:
    """Returns where a command is run, what it is, and what it needs: `on node n2, ethtool; needs root`."""
    errors = f", for Xid {join_names(list(map(str, command.errors)))}" if command.errors else ""
    needs = f"; needs {command.needs}" if command.needs else ""
    return f"{command.where}, {_describe_form(command)}{errors}{needs}:"


def _describe_form(command: MitigationCommand) -> str:
    known = COMMAND_TOOLS.get(command.tool)
    if known is None or known.form == COMMAND:
        return command.tool
    if known.form == OPTIONS:
        return f"added to the start command of {command.tool}"
    return known.about


def _text(value: str) -> str:
    return escape(sanitise(value))
