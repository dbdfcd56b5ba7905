"""Network namespaces: availability, commands and sockets in them."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

CLONE_NEWNET = 0x40000000
PATIENCE = 30.0
"""Seconds that a command may take."""


def run(*command: str, text: str = "") -> None:
    """Runs a command with a text on its standard input.

    Raises:
        RuntimeError: the command failed; its output is the message.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


def inside(name: str, *command: str) -> list[str]:
    """Returns a command line that runs another one in a namespace."""
    return ["ip", "netns", "exec", name, *command]


def enter(name: str) -> None:
    """Moves this thread into a namespace, permanently.

    Raises:
        OSError: the namespace does not exist, or permission is denied.
    """
    handle = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        _set(handle)
    finally:
        os.close(handle)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Creates this thread's sockets in a namespace for the duration of a context."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(name)
        yield
    finally:
        _set(here)
        os.close(here)


def _set(handle: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@cache
def missing(commands: Sequence[str] = ("ip",)) -> str:
    """Returns why namespaces or commands are missing; '' where all are available."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces take root on Linux"
    if lacking := [name for name in commands if not shutil.which(name)]:
        return f"not installed here: {', '.join(lacking)}"
    name = f"try-{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "delete", name)
    except (RuntimeError, OSError, subprocess.SubprocessError):
        return "no network namespaces here"
    return ""
