"""Runs commands of Skewscope for an assistant: in processes of their own, bounded in time, output and number.

A tool is a command with fixed options, so that an assistant gets what a person would read, and a file that takes too
long or too much memory ends a process and not the server.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.kb.problems import SkewscopeError
from skewscope.tui.console.launcher import TOKEN_VARIABLE

MAX_OUTPUT = 4 << 20
"""Bytes of output that are read of a command."""
MAX_AT_ONCE = 2
"""Commands that run at the same time: each may use all cores."""
MAX_ENTRIES = 20_000
"""Files of a folder that are looked at for links that lead out of it."""
COLUMNS = "100"
PROGRAM = (sys.executable, "-m", "skewscope.tui.cli.main")


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """How a command ended, and what it printed."""

    code: int
    text: str


@dataclass(frozen=True)
class CommandRunner:
    """Runs commands on files of one folder."""

    folder: Path
    """Nothing outside of it is read for an assistant."""
    seconds: float = 300.0
    """That a command may take."""
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_AT_ONCE))

    def locate(self, name: str) -> str:
        """Returns the path of a file or folder inside the folder, for a command that runs there.

        Raises:
            SkewscopeError: there is none, or it lies elsewhere.
        """
        root = self.folder.resolve()
        try:
            place = (root / name).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise SkewscopeError(f"{name!r:.200}: no such file in the folder that may be read") from None
        if not place.is_relative_to(root):
            raise SkewscopeError(f"{name!r:.200}: outside of the folder that may be read")
        if place.is_dir():
            _check_links(place, root)
        return f"./{place.relative_to(root)}"

    async def run(self, *words: str) -> CommandOutput:
        """Returns the output of a command; its words were checked.

        Raises:
            SkewscopeError: it took too long.
        """
        async with self._gate:
            process = await asyncio.create_subprocess_exec(
                *PROGRAM,
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self.folder,
                env={**_environment(), "COLUMNS": COLUMNS, "NO_COLOR": "1"},
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(self.seconds):
                    text = await _read_output(process)
                    code = await process.wait()
            except TimeoutError:
                raise SkewscopeError(f"{words[0]}: not done within {self.seconds:.0f} s") from None
            finally:
                await _end(process)
        return CommandOutput(code, text)


def _environment() -> dict[str, str]:
    """Returns the environment of a command: without the token of a controller, which it does not ask."""
    return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}


async def _read_output(process: asyncio.subprocess.Process) -> str:
    """Returns what a process prints, as text; what is beyond the limit is read and dropped."""
    assert process.stdout is not None
    kept = bytearray()
    while chunk := await process.stdout.read(1 << 16):
        kept += chunk[: MAX_OUTPUT - len(kept)]
    return kept.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a process that still runs, with those that it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _check_links(place: Path, root: Path) -> None:
    """Raises a SkewscopeError if a folder has too many files, or links that lead out of the root."""
    count = 0
    for parent, folders, files in os.walk(place):
        for name in (*folders, *files):
            count += 1
            path = Path(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise SkewscopeError(f"{place.name}: {name!r:.200} leads out of the folder that may be read")
        if count > MAX_ENTRIES:
            raise SkewscopeError(f"{place.name}: more than {MAX_ENTRIES} files; name fewer")


def check_words(words: Sequence[str], what: str) -> None:
    """Raises a SkewscopeError for words that would be read as options, or are far too long."""
    for word in words:
        if not word or word.startswith("-") or len(word) > 500 or not word.isprintable():
            raise SkewscopeError(f"{what}: found {word!r:.80}, expected a plain word")
