"""Counts calls of functions: what work grows with, the same on a busy machine."""

import sys


def count_calls(do):
    """Returns the number of calls of functions, also in C."""
    count = 0

    def note(_frame, event, _):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count
