"""Host and server of a file whose content names none: by the labels of its input, else by its folder or its name.

Readers that take one from here set `placed_by_name`; `host_in_name` finds the host in a file's name, where that is not
its stem.
"""

from collections.abc import Mapping
from pathlib import Path

from skewscope.adapters.formats.log_lines import file_stem
from skewscope.adapters.mapping.entities import NODE_LABELS
from skewscope.kb.problems import InputError, Problem

MAX_HELD = 5_000_000
OWN_TIME = "no line has a time: that of the file is taken"
SERVER_LABELS = ("replica", "group", "pod")
ORIGIN_LABEL = "origin"
"""Label of an input: the host that its folder stands for, which counts only where its content names none."""


def find_node(labels: Mapping[str, str], file: str) -> tuple[str, str]:
    """Returns the node that a file is of, '' where another label says it, and a warning where it is the file's name."""
    if any(labels.get(name) for name in ("node", *NODE_LABELS)):
        return labels.get("node", ""), ""
    if origin := labels.get(ORIGIN_LABEL, ""):
        return origin, ""
    node = file_stem(file)
    return node, f"its host is named after the file: {node!r}"


def find_server(labels: Mapping[str, str], file: str) -> tuple[dict[str, str], str]:
    """Returns labels that tell a server from others, none where the input has some, and a warning as in `find_node`."""
    if any(labels.get(name) for name in (*SERVER_LABELS, "node", *NODE_LABELS)):
        return {}, ""
    server = file_stem(file)
    if origin := labels.get(ORIGIN_LABEL, ""):
        return {"node": origin, "instance": f"{origin}-{server}"}, ""
    return (
        {"instance": server},
        f"its server is named after the file: {server!r}",
    )


def own_time(file: str) -> float:
    """Returns when a file was last changed, seconds since 1970; 0 where that is not known."""
    try:
        return float(int(Path(file).stat().st_mtime))
    except OSError:
        return 0.0


def check_size(count: int, file: str, line: int) -> None:
    """Raises InputError where more is held of a log than fits in memory."""
    if count > MAX_HELD:
        raise InputError(
            [Problem(file, line, "", f"more than {MAX_HELD} samples or lines of them", "fewer", "Split it.")]
        )


def join_notes(*notes: str) -> str:
    """Returns several warnings about one file as one."""
    return "; ".join(filter(None, notes))
