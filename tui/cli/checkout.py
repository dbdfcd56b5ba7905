"""Which catalogue and rules a command reads: those of the checkout it runs in, or the installed ones."""

import tomllib
from pathlib import Path

import click

PACKAGE = "skewscope"
MARKS = ("rules/schema", "kb/schema")
"""Folders that a checkout has."""


def find_checkout(start: Path) -> Path | None:
    """Returns the root of the Skewscope checkout that contains a folder, or None outside of any."""
    for folder in (start, *start.parents):
        if all((folder / mark).is_dir() for mark in MARKS) and _project_name(folder / "pyproject.toml") == PACKAGE:
            return folder
    return None


def default_folder(name: str, installed: Path, *, quiet: bool = False) -> Path:
    """Returns the folder `name` of the checkout around the current directory, or the installed one.

    Args:
        name: kb or rules.
        installed: the folder inside the installed package.
        quiet: do not say on standard error which folder is read.
    """
    checkout = find_checkout(Path.cwd())
    folder = checkout / name if checkout else installed
    if folder.resolve() == installed.resolve():
        folder = installed
    if not quiet:
        click.echo(f"Reading {folder}", err=True)
    return folder


def _project_name(path: Path) -> str:
    """Returns the project's name in a pyproject.toml; '' where there is none."""
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return ""
    return str(project.get("name", "")) if isinstance(project, dict) else ""
