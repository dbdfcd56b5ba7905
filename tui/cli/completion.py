"""The commands `completion` and `manual`, and what the shell completes: ids of entries and rules, themes, recordings.

Ids are names of files, so that nothing is loaded while a user waits for a key.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.tui.cli.terminal import SetUpCommand
from skewscope.tui.console import launcher

VARIABLE = "_SKEWSCOPE_COMPLETE"
"""Variable by which a shell asks for completions."""
RECORDING_FILE = "recording.yaml"
MAX_FOLDERS = 1000
"""Folders that are looked into for recordings."""

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_entries(*kinds: str) -> Completer:
    """Returns a completer of the ids of entries of these kinds, of all kinds without any."""

    def complete(_ctx: click.Context, _param: click.Parameter, begin: str) -> list[CompletionItem]:
        ids = (path.stem for kind in kinds or KINDS for path in (builtin_folder() / kind).glob("*.yaml"))
        return _matching(ids, begin)

    return complete


def complete_rules(_ctx: click.Context, _param: click.Parameter, begin: str) -> list[CompletionItem]:
    """Returns the ids of rules that begin so."""
    from skewscope.rules.loader import RULES_FOLDER  # noqa: PLC0415

    return _matching((path.stem for path in RULES_FOLDER.glob("*.yaml")), begin)


def complete_themes(_ctx: click.Context, _param: click.Parameter, begin: str) -> list[CompletionItem]:
    """Returns the themes that begin so."""
    return _matching(launcher.THEMES, begin)


def complete_recordings(_ctx: click.Context, _param: click.Parameter, begin: str) -> list[CompletionItem]:
    """Returns the recordings whose path begins so; other folders where there is none."""
    folder = Path(begin) if begin.endswith("/") else Path(begin).parent
    try:
        names = sorted(path for path in list(folder.iterdir())[:MAX_FOLDERS] if (path / RECORDING_FILE).is_file())
    except OSError:
        names = []
    prefix = "./" if begin.startswith("./") else ""
    items = _matching((f"{prefix}{path}" for path in names), begin)
    return items or [CompletionItem(begin, type="dir")]


def _matching(names: Iterable[str], begin: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(begin)]


@click.command("completion", cls=SetUpCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, ids, themes and recordings.

    \b
    Examples:
      skewscope completion bash >> ~/.bashrc
      skewscope completion zsh >> ~/.zshrc
      skewscope completion fish > ~/.config/fish/completions/skewscope.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell!r} is not supported by this version of click.")
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "skewscope", VARIABLE)
    click.echo(kind.source_template % script.source_vars())


@click.command("manual", cls=SetUpCommand)
def manual() -> None:
    """Print all commands as one manual page.

    \b
    Examples:
      skewscope manual | man -l -
      skewscope manual > ~/.local/share/man/man1/skewscope.1
    """
    from skewscope.tui.cli.doctor import installed_version  # noqa: PLC0415
    from skewscope.tui.render.man_page import man_page  # noqa: PLC0415

    root = click.get_current_context().find_root().command
    click.echo(man_page(root, "skewscope", installed_version("skewscope")), nl=False)
