"""The kinds of entries, and where they lie."""

import re
from pathlib import Path

KINDS = ("conditions", "signals", "mitigations", "sources", "findings")
"""Names of the folders; a kind's schema is called by the singular."""

MAX_BYTES = 256 << 10
"""Of one entry."""
MAX_FILES = 20_000
"""Of one kind."""


VERSION_FILE = "catalogue.yaml"


def is_version(text: str) -> bool:
    """Whether a text is three numbers with dots."""
    return re.fullmatch(r"(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){2}", text, re.ASCII) is not None


def builtin_version() -> str:
    """What the catalogue that comes with the package calls itself, read from one small file; '' if it does not say."""
    try:
        text = (builtin_folder() / VERSION_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^version: (\S+)$", text, re.MULTILINE)
    return found[1] if found and is_version(found[1]) else ""


def builtin_folder() -> Path:
    """The folder that comes with the package."""
    return Path(__file__).parent
