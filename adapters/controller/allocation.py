"""How the C library gives memory that is no longer used back to the system."""

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3
LARGE_ALLOCATION = 1 << 20
"""Bytes above which an array counts as large."""


def configure_malloc() -> None:
    """Makes glibc return freed large arrays to the system; by default its threshold grows.

    A process that first grows to a whole fleet would hold a tenth more for good.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_ALLOCATION)
