"""Tokens of agents that are derived from one secret of the controller: each node has its own, and none is stored.

The token of a node is its name, a dot, and an HMAC-SHA256 of the name, so the token of one node does not
help to make that of another one.
"""

import hashlib
import hmac
import os
from collections.abc import Iterable
from pathlib import Path

from skewscope.adapters.config.secret import Secret

PURPOSE = b"skewscope agent "
"""Precedes the node's name, so that a code is of no use where the same secret signs something else."""


def derive_token(secret: Secret, node: str) -> str:
    """Returns the token of a node's agent."""
    return f"{node}.{hmac.digest(secret.text.encode(), PURPOSE + node.encode(), hashlib.sha256).hex()}"


def find_node(secret: Secret, token: str) -> str:
    """Returns the node whose token this is; '' for any other text."""
    node = token.rpartition(".")[0]
    expected = derive_token(secret, node).encode()
    return node if hmac.compare_digest(token.encode("utf-8", "surrogateescape"), expected) else ""


def write_tokens(secret: Secret, nodes: Iterable[str], folder: Path) -> list[Path]:
    """Writes the token of each node to a file of its name that only its owner can read; returns the files.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = []
    for node in nodes:
        path = folder / node
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o600)
            file.write(derive_token(secret, node))
        written.append(path)
    return written
