"""How the C library gives memory that is no longer used back to the system."""

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3
LARGE_ALLOCATION = 1 << 20
"""Bytes above which an array counts as large."""


def configure_malloc() -> None:
    """Makes glibc return freed large arrays to the system; by default its threshold grows."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_ALLOCATION)


def return_free_memory() -> None:
    """Makes glibc return all memory that is free now; what is needed again costs a few page faults.

    For processes whose every tick needs large arrays for a moment: with the threshold, each tick would get them anew.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
