"""Signed orders of a controller to the agent of one node: their form, signature and limits.

An order names one of a closed list of operations and its parameters, never a command line. Its signature is HMAC-SHA256
over its canonical JSON, with a key that the controller's target and the agent share and no message carries.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ORDERS_PATH = "/api/v1/orders"
OPERATIONS = frozenset(
    {"meter-add", "meter-del", "flow-add", "flow-del", "mirror-add", "mirror-del"}
    | {"dump-flows", "dump-meters", "meter-stats", "dump-ports", "dump-mirrors"}
)
"""What an order may ask for; the second half only reads."""
LIFETIME = 60.0
"""Most seconds from the issue of an order until it expires, and that two clocks may differ."""
MAX_ORDER = 4096
"""Characters of an order."""
MAX_OUTPUT = 40_000
"""Characters of the result of an order; a longer one is an error."""
MAX_ORDERS = 100
"""Orders of one node that wait."""
LEAST_KEY = 32
"""Characters of a key."""
ORDER_ID = re.compile(r"[0-9a-f]{32}")
FIELDS = {"id": str, "node": str, "operation": str, "parameters": dict, "issued": float, "expires": float, "nonce": str}


class OrderError(Exception):
    """An order that must not be carried out; the text says why."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order."""

    id: str
    node: str
    """The only node whose agent may carry it out."""
    operation: str
    parameters: tuple[tuple[str, str], ...]
    """Sorted by name."""
    issued: float
    """Seconds since 1970, by the controller's clock."""
    expires: float
    nonce: str
    """A random number; an agent carries out none twice."""

    def encode(self) -> str:
        """Returns it as canonical JSON: sorted keys, no blanks, ASCII."""
        content = {name: getattr(self, name) for name in FIELDS} | {"parameters": dict(self.parameters)}
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class OrderResult:
    """What an agent reports of an order."""

    ok: bool
    output: str
    """Of the operation; where it failed or was refused, the reason."""


def sign_order(text: str, key: str) -> str:
    """Returns the signature of an order as it is sent."""
    return hmac.digest(key.encode(), text.encode(), hashlib.sha256).hex()


def open_order(text: object, signature: object, key: str) -> Order:
    """Returns an order whose signature is right.

    Raises:
        OrderError: it was signed with another key, was changed, or has another form.
    """
    if not isinstance(text, str) or not isinstance(signature, str) or len(text) > MAX_ORDER:
        raise OrderError("no order")
    if not signature.isascii() or not hmac.compare_digest(sign_order(text, key), signature):
        raise OrderError("a wrong signature")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise OrderError("no JSON") from None
    return _parse_order(content)


def _parse_order(content: Any) -> Order:
    if not isinstance(content, dict) or content.keys() != FIELDS.keys():
        raise OrderError("other fields than those of an order")
    if any(type(content[name]) is not kind for name, kind in FIELDS.items()):
        raise OrderError("a field of another type")
    parameters = content["parameters"]
    if not all(isinstance(value, str) for value in parameters.values()):
        raise OrderError("a parameter that is no text")
    if not ORDER_ID.fullmatch(content["id"]) or not ORDER_ID.fullmatch(content["nonce"]):
        raise OrderError("an id that is none")
    return Order(**{**content, "parameters": tuple(sorted(parameters.items()))})


def result_to_json(result: OrderResult) -> dict[str, object]:
    """Returns a result as an agent sends it."""
    return {"ok": result.ok, "output": result.output}


def parse_result(content: object) -> OrderResult:
    """Returns the result that an agent sent.

    Raises:
        OrderError: it has another form, or is too large.
    """
    if not isinstance(content, Mapping) or content.keys() != {"ok", "output"}:
        raise OrderError("other fields than those of a result")
    ok, output = content["ok"], content["output"]
    if type(ok) is not bool or not isinstance(output, str) or len(output) > MAX_OUTPUT:
        raise OrderError("a result that is invalid or too long")
    return OrderResult(ok, output)
