"""The kinds of entries and their folders."""

import re
from pathlib import Path

KINDS = ("conditions", "signals", "mitigations", "sources", "findings", "symptoms", "formats", "events")
"""Names of the folders; the schema of a kind has its singular."""

MAX_BYTES = 256 << 10
"""Largest size of one entry."""
MAX_FILES = 20_000
"""Largest number of entries of one kind."""


VERSION_FILE = "catalogue.yaml"
FORMATS_VARIABLE = "SKEWSCOPE_FORMATS"
"""Environment variable with a user's own formats, a folder or a file, which processes that read in parallel inherit."""


def is_version(text: str) -> bool:
    """Returns whether a text is three numbers with dots."""
    return re.fullmatch(r"(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){2}", text, re.ASCII) is not None


def builtin_version() -> str:
    """Returns the version of the installed catalogue from its small file; '' if it has none."""
    try:
        text = (builtin_folder() / VERSION_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^version: (\S+)$", text, re.MULTILINE)
    return found[1] if found and is_version(found[1]) else ""


def builtin_folder() -> Path:
    """Returns the folder of the installed catalogue."""
    return Path(__file__).parent
