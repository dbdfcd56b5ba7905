"""Makes the pictures of the documentation: `python bench/make_pictures.py docs/pictures`.

Each shows a screen of the console on the built-in demo.
"""

import asyncio
import re
import sys
from pathlib import Path

from skewscope.adapters.inputs.recording import demo_path
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.view.builder import ViewHistory
from skewscope.kb.loader import catalogue
from skewscope.tui.console.app import Console, ConsoleOptions
from skewscope.tui.render.detail import DisplayNames

SIZE = (120, 36)
LATE, BURST = "+42", "+134"
SHOTS = {
    "diagnoses": (LATE, ()),
    "detail": (LATE, ("enter",)),
    "fabric": (LATE, ("2", "l", "l")),
    "groups": (LATE, ("2", "v")),
    "signals": (LATE, ("3",)),
    "catalogue": (LATE, ("K",)),
    "actions": (LATE, ("5",)),
    "burst": (BURST, ()),
}
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def tidy(svg: str) -> str:
    """Returns the picture without external fonts."""
    svg = re.sub(r"@font-face\s*{[^}]*}", "", svg)
    return re.sub(r"font-family:\s*[^;]*;", f"font-family: {FONT};", svg)


async def shoot(film: ViewHistory, name: str, folder: Path) -> None:
    """Saves the picture of one screen."""
    time, keys = SHOTS[name]
    app = Console(film, DisplayNames(catalogue()), ConsoleOptions(), read=lambda _heard: None)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("t", *time, "enter", *keys)
        await pilot.pause()
        await pilot.pause()
        svg = tidy(app.export_screenshot(title=f"Skewscope: {name}"))
        (folder / f"{name}.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def main(folder: Path) -> None:
    """Saves all pictures."""
    film = ViewHistory()
    replay(demo_path(), history=film)
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHOTS:
        asyncio.run(shoot(film, name, folder))
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
