"""Network namespaces: whether there are any here, commands in them, and sockets made in them."""

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
    """Runs a command, with some text to read.

    Raises:
        RuntimeError: it failed; with what it said.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


def inside(name: str, *command: str) -> list[str]:
    """A command line that runs another one in a namespace."""
    return ["ip", "netns", "exec", name, *command]


def enter(name: str) -> None:
    """Moves this thread into a namespace, for good.

    Raises:
        OSError: there is none, or we may not.
    """
    handle = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        _set(handle)
    finally:
        os.close(handle)


@contextmanager
def within(name: str) -> Iterator[None]:
    """Sockets that this thread makes meanwhile belong to a namespace."""
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
    """Why there are no namespaces here, or no such commands; '' where all is there."""
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
