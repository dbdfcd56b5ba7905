"""The commands that tell in words what the console shows: `watch`, `report`, `keys`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.tui import text
from skewscope.tui.catalogue import catalogue, deliver, output_option
from skewscope.tui.terminal import FINE, FOUND, Commanded, ascii_wanted, columns, progress_bar, show, wipe

if TYPE_CHECKING:
    from skewscope.adapters.film import Film
    from skewscope.adapters.replay import Outcome
    from skewscope.tui.detail import Words


class Tell(click.Command):
    """A command about the console and what it tells."""

    section = "Diagnose"


def recording_argument(command: Commanded) -> Commanded:
    """`[RECORDING]`."""
    return click.argument("recording", required=False, type=click.Path(path_type=Path), metavar="[RECORDING]")(command)


@click.command("watch", cls=Tell)
@recording_argument
@click.option("--plain", is_flag=True, help="A line of text for each change, for pipes and screen readers.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each change.")
@click.pass_context
def watch(ctx: click.Context, recording: Path | None, plain: bool, as_json: bool) -> None:
    """Watch what happens: in the console, or with --plain a line for each change.

    Without a recording it is the built-in demo.
    """
    from skewscope.adapters.recording import demo_path  # noqa: PLC0415
    from skewscope.adapters.replay import replay  # noqa: PLC0415

    path = recording or demo_path()
    if not (plain or as_json):
        from skewscope.tui import start  # noqa: PLC0415

        ctx.exit(start.console(path, start.Wishes(ascii=ascii_wanted())))
    film = _teller(as_json=as_json)
    outcome = replay(path, workers=None, film=film)
    ctx.exit(FOUND if recording and outcome.incidents else FINE)


def _teller(*, as_json: bool) -> "Film":
    """A film that keeps nothing and says what changes."""
    from skewscope.adapters.film import Film  # noqa: PLC0415
    from skewscope.adapters.scene import Frame, Scene  # noqa: PLC0415
    from skewscope.tui.changes import changes  # noqa: PLC0415
    from skewscope.tui.detail import Words  # noqa: PLC0415

    class Teller(Film):
        """Says what changed since the scene before."""

        words = Words(catalogue())
        last: Scene | None = None

        def add(self, scene: Scene, frame: Frame) -> None:  # noqa: ARG002 - a sentence needs no series
            """Compare, tell, forget."""
            self.words = replace(self.words, incidents=scene.incidents)
            for change in changes(self.last, scene, self.words):
                told = json.dumps(asdict(change), ensure_ascii=False) if as_json else change.line()
                click.echo(text.ascii_only(text.safe(told)) if ascii_wanted() else text.safe(told))
            self.last = scene

    return Teller()


@click.command("report", cls=Tell)
@recording_argument
@click.option("--html", is_flag=True, help="One page with its pictures inside, for a ticket.")
@output_option
@click.pass_context
def report(ctx: click.Context, recording: Path | None, html: bool, output: Path | None) -> None:
    """Write a report of a recording: text, or one HTML page with pictures.

    For example: `report RECORDING --html -o incident.html`.
    """
    from skewscope.adapters.film import Film  # noqa: PLC0415
    from skewscope.adapters.recording import demo_path  # noqa: PLC0415
    from skewscope.adapters.replay import replay  # noqa: PLC0415
    from skewscope.tui.detail import Words  # noqa: PLC0415
    from skewscope.tui.report import report as lines  # noqa: PLC0415

    path = recording or demo_path()
    film = Film()
    try:
        outcome = replay(path, progress=progress_bar(path.name, wanted=True), workers=None, film=film)
    finally:
        wipe(wanted=True)
    words = Words(catalogue(), outcome.incidents)
    if html:
        deliver(_page(path.name, film, outcome, words), output)
    elif output:
        deliver(text.plain(lines(path.name, outcome, words, 100), ascii_=ascii_wanted()), output)
    else:
        show(lines(path.name, outcome, words, columns()))
    ctx.exit(FOUND if recording and outcome.incidents else FINE)


def _page(name: str, film: "Film", outcome: "Outcome", words: "Words") -> str:
    from skewscope.tui.page import Told, page  # noqa: PLC0415
    from skewscope.tui.report import unused, verdict, watched  # noqa: PLC0415

    scene = film.scene(len(film.times()) - 1)
    said = [*scene.missing, *outcome.warnings, *unused(outcome.unmapped)]
    enough = outcome.samples > 0
    return page(Told(name, scene, words, verdict(outcome.incidents, enough=enough), watched(outcome), said))


@click.command("keys", cls=Tell)
@click.option("--markdown", is_flag=True, help="As the page of the documentation.")
def keys(markdown: bool) -> None:
    """Print the keys of the console, and the ids by which a file changes them."""
    from skewscope.tui.keymap import page_of_docs  # noqa: PLC0415
    from skewscope.tui.keymap import table as lines  # noqa: PLC0415

    if markdown:
        click.echo(page_of_docs(), nl=False)
    else:
        show(lines())
