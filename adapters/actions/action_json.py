"""Actions as a controller's HTTP API sends them, checked before they are shown."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from skewscope.engine.actions.action import Action, parse_action

MAX_ACTIONS = 1000
"""Actions that are taken from one answer."""
MAX_NUMBER = 1e11
"""Larger numbers are no times: the year 5138."""


@dataclass(frozen=True, slots=True)
class MitigationOutcomes:
    """How often a mitigation was carried out in one deployment, and how that ended."""

    mitigation: str
    carried_out: int
    helped: int
    not_helped: int
    unproven: int
    recovery: float | None
    """Mean share of what was lost that came back; None where it was never measured."""


def parse_action_json(data: object) -> Action:
    """Parses one action of an answer, and checks the type of every value.

    Raises:
        ValueError: it is not an action, or one of another version.
    """
    if not isinstance(data, Mapping):
        raise ValueError("an action that is no object")  # noqa: TRY004 - one error for all that is wrong with it
    try:
        found = parse_action(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"an action that cannot be read: {str(error)[:200]}") from None
    _check_fields(found)
    return found


def parse_outcomes(data: object) -> dict[str, MitigationOutcomes]:
    """Parses the outcomes of an answer, by mitigation.

    Raises:
        ValueError: they are not of that form.
    """
    if not isinstance(data, list):
        raise ValueError("outcomes that are no list")  # noqa: TRY004
    found: dict[str, MitigationOutcomes] = {}
    for one in data[:MAX_ACTIONS]:
        try:
            outcomes = MitigationOutcomes(**one)
        except TypeError as error:
            raise ValueError(f"outcomes that cannot be read: {str(error)[:200]}") from None
        _check_fields(outcomes)
        found[outcomes.mitigation] = outcomes
    return found


def _check_fields(value: Any) -> None:
    for name, hint in _hints(value.__class__).items():
        if not _matches(getattr(value, name), hint):
            raise ValueError(f"{name} of an action is {getattr(value, name)!r:.80}")


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def _matches(value: Any, hint: Any) -> bool:
    """Returns whether a value is of an annotated type; dataclasses are checked field by field.

    Raises:
        ValueError: a field of a dataclass is not.
    """
    if isinstance(hint, UnionType):
        return any(_matches(value, each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and _items_match(value, get_args(hint))
    if hint in (int, float):
        kinds = int if hint is int else int | float
        return isinstance(value, kinds) and not isinstance(value, bool) and -MAX_NUMBER < value < MAX_NUMBER
    if is_dataclass(hint) and type(value) is hint:
        _check_fields(value)
    return isinstance(value, hint)


def _items_match(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if hints[-1] is Ellipsis:
        return all(_matches(each, hints[0]) for each in values)
    return len(values) == len(hints) and all(map(_matches, values, hints))
