"""A command and all its subcommands as one manual page in roff. Pure."""

import re
from collections.abc import Iterator

import click

NO_WRAP = "\b"
"""Mark before a paragraph of a help text whose lines stay as they are."""


def man_page(root: click.Command, name: str, version: str) -> str:
    """Returns the manual page of a command line."""
    ctx = click.Context(root, info_name=name)
    summary = root.get_short_help_str(200).rstrip(".")
    lines = [
        f'.TH {_quote(name.upper())} 1 "" {_quote(f"{name} {version}".strip())} "User commands"',
        *(".SH NAME", f"{_escape(name)} \\- {_escape(summary)}"),
        *(".SH SYNOPSIS", f".B {_escape(name)}", _escape(" ".join(root.collect_usage_pieces(ctx)))),
        *(".SH DESCRIPTION", *_help_lines(root)),
        *(".SH OPTIONS", *_option_lines(root, ctx)),
        *(".SH COMMANDS", *_command_lines(root, ctx)),
    ]
    return "\n".join(lines) + "\n"


def _command_lines(group: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yields each command below a group with usage, text and options, commands of its groups included."""
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=ctx)
        yield f".SS {_quote(inner.command_path)}"
        yield f".B {_escape(inner.command_path)}"
        yield _escape(" ".join(command.collect_usage_pieces(inner)))
        yield from (".PP", *_help_lines(command), *_option_lines(command, inner))
        yield from _command_lines(command, inner)


def _help_lines(command: click.Command) -> Iterator[str]:
    """Yields the help text; paragraphs that are not to be wrapped keep their lines."""
    paragraphs = re.split(r"\n\s*\n", (command.help or "").split("\f")[0].strip())
    for number, paragraph in enumerate(paragraphs):
        rows = [row.strip("\n") for row in paragraph.split("\n")]
        if number:
            yield ".PP"
        if rows[0].strip() == NO_WRAP:
            yield from (".nf", *map(_escape, rows[1:]), ".fi")
        else:
            yield _escape(" ".join(row.strip() for row in rows))


def _option_lines(command: click.Command, ctx: click.Context) -> Iterator[str]:
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            names, what = record
            yield from (".TP", f"\\fB{_escape(names)}\\fR", _escape(what) or "\\&")


def _escape(text: str) -> str:
    """Returns a text that roff prints as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _quote(text: str) -> str:
    return '"' + _escape(text).replace('"', "\\(dq") + '"'
