"""TLS contexts of clients: one for the same files, until one of them changes. Reading the CAs takes tens of ms."""

import ssl
import threading
from pathlib import Path
from typing import NamedTuple


class ClientTls(NamedTuple):
    """The files of a client's TLS settings; each '' where unused."""

    ca_file: str = ""
    """CAs of servers; '' for those of the system."""
    certificate_file: str = ""
    """The client's own certificate."""
    key_file: str = ""


FileStates = tuple[tuple[int, int, int] | None, ...]
"""Inode, size and time of change of each file; None for one that cannot be read."""

_contexts: dict[ClientTls, tuple[FileStates, ssl.SSLContext]] = {}
_building = threading.Lock()


def client_context(files: ClientTls) -> ssl.SSLContext:
    """Returns the context of some files, which is made only if they are new or have changed.

    Raises:
        OSError: a file cannot be read, or OpenSSL cannot use it.
    """
    with _building:
        return find_context(files) or _build_context(files)


def find_context(files: ClientTls) -> ssl.SSLContext | None:
    """Returns the context that was made of some files; None if there is none, or if one of them has changed."""
    states, context = _contexts.get(files, (None, None))
    return context if states == _read_states(files) else None


def _build_context(files: ClientTls) -> ssl.SSLContext:
    # Read first: a file that changes meanwhile is seen as changed later.
    states = _read_states(files)
    context = ssl.create_default_context(cafile=files.ca_file or None)
    context.set_alpn_protocols(["http/1.1"])
    if files.certificate_file:
        context.load_cert_chain(files.certificate_file, files.key_file or None)
    _contexts[files] = states, context
    return context


def _read_states(files: ClientTls) -> FileStates:
    system_ca = ssl.get_default_verify_paths().cafile or ""
    return tuple(_read_state(name) for name in (files.ca_file or system_ca, *files[1:]))


def _read_state(name: str) -> tuple[int, int, int] | None:
    try:
        status = Path(name).stat() if name else None
    except OSError:
        return None
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)
