"""File trees in the layout of /sys and /proc, for tests of collectors."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from skewscope.adapters.agent.collectors.context import CollectorContext
from skewscope.adapters.agent.collectors.kernel_files import KernelFiles, ReadFailures
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.loader import load_signals
from skewscope.kb.model import Catalogue


@cache
def known() -> Catalogue:
    """Returns the signals of the catalogue."""
    return load_signals()


def tree(root: Path, files: Mapping[str, object]) -> Path:
    """Writes files below a folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def ground(root: Path, ports: Mapping[str, str], runs_on: str = "dpu") -> CollectorContext:
    """Returns the context of a collector of node n0."""
    troubles = ReadFailures()
    return CollectorContext(KernelFiles(root, troubles), troubles, known(), "n0", runs_on, ports)


def on_port(signal: str, selector: str = "", port: str = "n0/ew") -> SeriesKey:
    return SeriesKey(signal, "port", port, selector)


def on_node(signal: str, selector: str = "") -> SeriesKey:
    return SeriesKey(signal, "node", "n0", selector)


def unpacked(archive: Path, root: Path, below: str) -> Path:
    """Unpacks the part of a ttar archive below a path, and returns its folder."""
    path, lines = "", iter(archive.read_text(errors="replace").splitlines())
    for line in lines:
        word, _, rest = line.partition(": ")
        if word == "Path":
            path = rest
        elif word == "Lines" and path.startswith(below):
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(f"{next(lines)}\n" for _ in range(int(rest))))
        elif word == "Lines":
            for _ in range(int(rest)):
                next(lines)
    return root
