"""Parses JSON that others wrote: what would take a hundred times its size in memory is refused before it is parsed.

A parser builds an object for each part of a text, of 50 to 250 bytes for two or three of its characters, in one call
that nothing interrupts. The signs that begin parts are counted instead, which takes a second for some gigabytes.
"""

import json
from typing import Any

from skewscope.adapters.formats.bounds import JSON_BYTES, PARTS
from skewscope.kb.problems import InputError, Problem

SIGNS = ("[", "{", ",")
"""Each part but the first follows one of them. Those in texts count as well: rather too many than too few."""


def count_parts(text: str | bytes) -> int:
    """Returns an upper bound on the number of values in a JSON text."""
    if isinstance(text, bytes):
        return 1 + sum(text.count(sign.encode()) for sign in SIGNS)
    return 1 + sum(map(text.count, SIGNS))


def parse_json(data: bytes, file: str, expected: str = "JSON", hint: str = "") -> Any:
    """Returns the value of a JSON text of bounded size.

    Args:
        data: the text.
        file: name for messages.
        expected: what the text should be.
        hint: what to do where it is not.

    Raises:
        InputError: it is too large, nested too deeply, or no JSON.
    """
    JSON_BYTES.check(file, len(data))
    PARTS.check(file, count_parts(data))
    try:
        return json.loads(data)
    except RecursionError:
        raise InputError([Problem(file, 0, "", "values nested too deeply", expected, hint)]) from None
    except ValueError as error:
        raise InputError([Problem(file, 0, "", f"no readable JSON ({error!s:.120})", expected, hint)]) from None
