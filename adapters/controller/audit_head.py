"""The head of the audit log: number and hash of its newest entry, in a small file beside the store.

It is written after the transaction of the entry, so it is never ahead of the store: a store that lacks the entry of its
head has lost entries. What a crash leaves out of the head was acknowledged to nobody.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

from skewscope.adapters.controller.store_lock import PRIVATE_MODE
from skewscope.kb.problems import InputError, Problem

HEAD_END = "-head"
"""How the name of the file of the head ends."""
MAX_BYTES = 1000
HASH_LENGTH = 64


class AuditHead(NamedTuple):
    """The newest entry of an audit log."""

    number: int
    """0 for an empty log."""
    hash: str


def head_file(store: Path) -> Path:
    """Returns where the head of a store lies."""
    store = store.resolve()
    return store.with_name(store.name + HEAD_END)


def read_head(store: Path) -> AuditHead | None:
    """Returns the head of a store; None where none was written.

    Raises:
        InputError: the file cannot be read, or is no head.
    """
    path = head_file(store)
    try:
        with path.open("rb") as file:
            fields = json.loads(file.read(MAX_BYTES))
        head = AuditHead(fields["number"], fields["hash"])
        if type(head.number) is int and isinstance(head.hash, str) and len(head.hash) == HASH_LENGTH:
            return head
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    hint = "Compare the last hash with a copy that was kept elsewhere, and remove this file."
    raise InputError([Problem(str(path), 0, "", "a file that cannot be read", "the head of the audit log", hint)])


def write_head(store: Path, head: AuditHead) -> None:
    """Writes the head of a store, as a whole and durably.

    Raises:
        OSError: it could not be written; the head before it is still there.
    """
    path = head_file(store)
    draft = path.with_name(f".{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        os.write(handle, json.dumps(head._asdict()).encode() + b"\n")
        os.fdatasync(handle)
    finally:
        os.close(handle)
    # The folder is not synced: an older head is no error.
    draft.replace(path)
