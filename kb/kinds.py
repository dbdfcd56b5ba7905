"""The kinds of entries, and where they lie."""

import re
from pathlib import Path

KINDS = ("conditions", "signals", "mitigations", "sources", "findings")
"""Names of the folders; a kind's schema is called by the singular."""

MOST_BYTES = 256 << 10
"""Of one entry."""
MOST_FILES = 20_000
"""Of one kind."""


VERSION_FILE = "catalogue.yaml"


def is_version(text: str) -> bool:
    """Whether a text is three numbers with dots."""
    return re.fullmatch(r"(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){2}", text, re.ASCII) is not None


def shipped() -> Path:
    """The folder that comes with the package."""
    return Path(__file__).parent
