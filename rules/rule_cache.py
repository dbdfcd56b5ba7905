"""Caches the installed rules as one file, so that the next process need not parse and check them again.

It holds the checked trees of all expressions, each node once, and is ignored as soon as a rule, the catalogue or the
code that reads them differs. Cached rules have no documents: lints read the files.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from skewscope.kb import catalogue_cache
from skewscope.kb.entry_kinds import builtin_folder
from skewscope.kb.file_cache import CacheFile
from skewscope.rules.expression import Expr, Peers
from skewscope.rules.model import EntityFilter, EvidenceItem, Let, Rule, ScoreThreshold, ThresholdBasis

CLASSES: Mapping[str, type[Any]] = {
    kind.__name__: kind for kind in (Rule, EntityFilter, EvidenceItem, Let, Peers, ScoreThreshold, ThresholdBasis)
}
EXPRESSION = "Expr"
"""The mark of a place in the table of expressions."""


def read(folder: Path) -> dict[str, Rule] | None:
    """Returns the cached rules of a folder in its present state, by id; None where there are none."""
    if not catalogue_cache.known_state(builtin_folder()):
        return None
    found = CacheFile("rules", folder).read(lambda: digest(folder))
    try:
        return None if found is None else decode(found)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return None


def write(folder: Path, state: str, rules: Mapping[str, Rule]) -> None:
    """Writes the rules that were valid when the digest was `state`."""
    if catalogue_cache.known_state(builtin_folder()):
        CacheFile("rules", folder).write(state, encode(rules))


def digest(folder: Path) -> str:
    """Returns a digest of the rules in a folder, of the catalogue as it was read, and of the code that reads them.

    Raises:
        OSError: a file cannot be read.
    """
    found = blake2b(digest_size=20)
    schemas = str(Path(__file__).parent / "schema")
    for place in (str(folder), schemas):
        names = [name for name in catalogue_cache.list_names(place) if name.endswith((".py", ".yaml", ".json"))]
        catalogue_cache.add_to_digest(found, catalogue_cache.read_contents(place, names))
    return f"{found.hexdigest()}-{catalogue_cache.known_state(builtin_folder())}"


# --- rules as JSON: tuples are lists, other values {class: fields}, expressions {mark: place in the table}


def encode(rules: Mapping[str, Rule]) -> dict[str, Any]:
    """Returns rules as values of JSON types."""
    table = _Table()
    return {"rules": [table.encode(rule) for rule in rules.values()], "expressions": table.rows}


def decode(found: Mapping[str, Any]) -> dict[str, Rule]:
    """Returns the rules by id from what `encode` returned.

    Raises:
        KeyError, IndexError, TypeError, ValueError: it is something else.
    """
    expressions: list[Expr] = []
    for op, kind, dimension, is_boolean, args, *more in found["expressions"]:
        parts = tuple([expressions[place] for place in args])
        unit, *rest = (_decode(each, expressions) for each in (dimension, *more))
        expressions.append(Expr(op, kind, unit, is_boolean, parts, *rest))
    rules = [_decode(rule, expressions) for rule in found["rules"]]
    return {rule.id: rule for rule in rules}


def _decode(value: Any, expressions: list[Expr]) -> Any:
    if isinstance(value, list):
        return tuple([_decode(each, expressions) for each in value])
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == EXPRESSION:
        return expressions[content]
    return CLASSES[name](*[_decode(each, expressions) for each in content])


class _Table:
    """The nodes of all expressions, each once; arguments come before what contains them."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._places: dict[str, int] = {}
        """By content."""

    def encode(self, value: Any) -> Any:
        """Returns a value as values of JSON types."""
        if isinstance(value, Expr):
            return {EXPRESSION: self._place(value)}
        if isinstance(value, tuple):
            return [self.encode(each) for each in value]
        if is_dataclass(value):
            names = [one.name for one in fields(value) if one.name != "document"]
            return {type(value).__name__: [self.encode(getattr(value, name)) for name in names]}
        return value

    def _place(self, expr: Expr) -> int:
        args = [self._place(arg) for arg in expr.args]
        more = (expr.name, expr.value, expr.params, expr.subscripts, expr.peers)
        row = [expr.op, expr.kind, self.encode(expr.dimension), expr.is_boolean, args, *map(self.encode, more)]
        # By its text: of equal numbers, 0 and -0 are different ones.
        place = self._places.setdefault(json.dumps(row), len(self.rows))
        if place == len(self.rows):
            self.rows.append(row)
        return place
