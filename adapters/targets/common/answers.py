"""What targets answer, taken apart: JSON and numbers, of which nothing is believed."""

import json
import math
import re
from typing import Any

from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.transports import show

NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")


def parse_json(text: bytes | str, call: str) -> Any:
    """Returns the JSON values of an answer to a call.

    Raises:
        TargetError: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise TargetError(f"{call}: an answer that is no JSON: {show(text)}") from None


def parse_count(value: object, what: str) -> float:
    """Returns a weight or a number of units of work: finite and not negative, as a number or as text.

    Raises:
        TargetError: it is none; the text names `what` it should have been.
    """
    number = float("nan")
    if (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and NUMBER.fullmatch(value)
    ):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not 0.0 <= number < math.inf:
        raise TargetError(f"{what}: {show(repr(value)[:80])}, expected a number from 0 on")
    return number
