"""Functions for tests to run in other processes, which import this module by its name."""

import os
import signal
import time

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.runtime.durable import DurableMatcher
from skewscope.kb.problems import InputError, Problem
from tests.support.policies import diagnosis

FAULT = Problem("a.yaml", 3, "kind", "'x'", "'y'")


def square(n):
    return n * n


def refuse(_):
    raise InputError([FAULT])


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_beside_others(n):
    """One process ends; the others have more to write than a pipe takes."""
    if n == 0:
        die(n)
    return bytes(10_000_000)


def sleep(n):
    time.sleep(600 * n)
    return n


def read_slowly(path):
    """Reads a file, a mebibyte four times a second."""
    with open_stream(path) as stream:
        while stream.read(1 << 20):
            time.sleep(0.25)


def conclude_elsewhere(made, queue):
    one = DurableMatcher(made)
    one.assert_fact(diagnosis("late", "rank A:n0"))
    queue.put(([c.policy for c in one.conclusions()], one.fallback_reason, one.pid))
