"""The command `act shadow`: what acting would have done, by a controller, by its store, or over a recording."""

from pathlib import Path
from typing import Any

import click

from skewscope.kb.problems import SkewscopeError
from skewscope.tui.cli.controller import FILE
from skewscope.tui.cli.controller_client import ControllerAddress, ask_controller, connection_options
from skewscope.tui.cli.options import formats_option, json_option, parse_duration
from skewscope.tui.cli.terminal import clear_progress, print_json, print_lines, progress_bar

SHADOW_PATH = "/api/v1/actions/shadow"
WEEK = 7 * 86400.0


@click.command("shadow")
@connection_options
@click.argument("recording", metavar="[RECORDING]", required=False, type=click.Path(path_type=Path))
@formats_option
@click.option("--config", "path", type=FILE, metavar="FILE", help="A controller's config: its targets and limits.")
@click.option(
    "--since", "seconds", type=parse_duration, default="7d", show_default=True, metavar="TIME", help="How far back."
)
@json_option
def shadow(
    controller: ControllerAddress, recording: Path | None, path: Path | None, seconds: float, as_json: bool
) -> None:
    """Show what acting would have done: each change, its limits, and whether its fault went by itself.

    Without --config a controller runs over its stored incidents, and keeps the result as evidence for the mode `act`.
    With --config nothing is kept: the run is over RECORDING, or over the store that the config names. Targets are
    simulated in each case.

    For example: `skewscope act shadow --since 7d`, or `skewscope act shadow RECORDING --config skewscope.yaml`.
    """
    if path is None and recording is not None:
        raise click.UsageError("A recording needs --config: it names the targets and the limits.")
    if path is None:
        result = ask_controller(controller, "POST", SHADOW_PATH, {"seconds": seconds})
    else:
        result = _run_here(path, recording, seconds)
    if as_json:
        print_json(result)
        return
    from skewscope.tui.render.shadow import shadow_lines  # noqa: PLC0415

    try:
        lines = shadow_lines(result)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SkewscopeError(f"The controller's answer cannot be read: {str(error)[:200]}.") from None
    print_lines(lines, wrapped=True)


def _run_here(path: Path, recording: Path | None, seconds: float) -> Any:
    """Returns the report of a run in this process."""
    import asyncio  # noqa: PLC0415
    import time  # noqa: PLC0415

    from skewscope.adapters.actions.shadow import build_run, run_over_moments  # noqa: PLC0415
    from skewscope.adapters.actions.shadow_report import report_json  # noqa: PLC0415
    from skewscope.adapters.controller.config import read  # noqa: PLC0415
    from skewscope.adapters.controller.shadow_api import run_over_store  # noqa: PLC0415
    from skewscope.adapters.controller.store import StoreReader  # noqa: PLC0415
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415
    from skewscope.adapters.targets import target_kinds  # noqa: PLC0415
    from skewscope.kb.loader import catalogue  # noqa: PLC0415

    config = read(path)
    targets = [target_kinds()[each.kind].build(each.settings) for each in config.targets]
    run = build_run(config.actions, config.topology, catalogue(), targets)
    if recording is None:
        until = time.time()
        return report_json(run_over_store(run, StoreReader(config.store), until - seconds, until))
    try:
        played = replay(recording, progress=progress_bar("act shadow", wanted=True), keep_snapshots=True)
    finally:
        clear_progress(wanted=True)
    moments = [(each.time, each.incidents) for each in played.snapshots]
    return report_json(asyncio.run(run_over_moments(run, moments)))
