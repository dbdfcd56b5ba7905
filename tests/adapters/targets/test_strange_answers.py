"""Answers that are truncated, of wrong types, huge or empty: whatever a target says, only a TargetError comes out."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from skewscope.adapters.targets import target_kinds
from tests.support.target_answers import ANSWERS, AnswerRig, answer_rig, read_members, use_target

__all__ = ["answer_rig"]

HUGE = 10**400
WORD = re.compile(r"[^\s,;={}\[\]:]+|[,;={}\[\]:]")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, -5, 1.5, HUGE, float("inf"), float("-inf"), float("nan")),
    *("", "x", "0", "-5", "nan", "inf", "9" * 400, "9" * 5000, "\ud800", "a\0b", "../x", "--help", "\n", "٣"),
    *([], [None], [[]], {}, {"a": 1}, {"set": True, "number": 1e400}, [3], "x" * 100_000),
)
"""What an answer may hold in the place of any of its values."""
WORDS = ("", "-", "-5", "nan", "inf", "9" * 400, "9" * 5000, "x", '"', "{", "}", ",", "=", "\0", "\ud800", "٣", "\n")
"""What a text may hold in the place of any of its words."""
MANY = 100
"""So many strange answers are tried in part."""


def spoil_json(text: str) -> Iterator[str]:
    """Yields an answer with each value replaced by each strange one, and without each field."""
    whole = json.loads(text)
    for path in list_paths(whole):
        for value in VALUES:
            yield json.dumps(replace_value(whole, path, value))
        yield json.dumps(remove_value(whole, path))


def list_paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from list_paths(each, (*at, key))


def replace_value(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    copied = json.loads(json.dumps(whole))
    parent = copied
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = value
    return copied


def remove_value(whole: Any, path: tuple[Any, ...]) -> Any:
    copied = json.loads(json.dumps(whole))
    parent = copied
    for part in path[:-1]:
        parent = parent[part]
    del parent[path[-1]]
    return copied


def spoil_text(text: str) -> Iterator[str]:
    """Yields a text with each word replaced by each strange one."""
    for place in WORD.finditer(text):
        for word in WORDS:
            yield text[: place.start()] + word + text[place.end() :]


def break_off(text: str) -> Iterator[str]:
    """Yields a text that ends early, and what has nothing to do with it."""
    for place in WORD.finditer(text):
        yield text[: place.end()]
    yield from ("", "\0", "[" * 100_000, "{" * 100_000, "\n" * 100_000, text * 3, "\ud800")
    yield "[" * 900 + "]" * 900


CASES = [(kind, name) for kind, answers in ANSWERS.items() for name in answers if name != "/health"]


def test_every_kind_of_target_is_tried():
    assert {kind.partition(" ")[0] for kind in ANSWERS} - {"slurm-rest"} == set(target_kinds())


@pytest.mark.parametrize(
    ("answer_rig", "name"), CASES, indirect=["answer_rig"], ids=[f"{kind.strip()}: {name}" for kind, name in CASES]
)
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_only_a_target_error_comes_out(answer_rig: AnswerRig, name, every):
    """With every fourth of many strange answers, each value stands in some places, and each place has some values."""

    async def run() -> int:
        good = await read_members(answer_rig.target)
        assert good, "the usable answers are not usable"
        used: set[str] = set()
        await use_target(answer_rig.target, good, used)
        text, count = answer_rig.answers[name], 0
        strange = [*(spoil_json(text) if text.startswith("{") else spoil_text(text)), *break_off(text)]
        for spoilt in strange[:: every if len(strange) >= MANY else 1]:
            answer_rig.spoil(name, spoilt)
            try:
                await use_target(answer_rig.target, good, used)
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error} after {spoilt[:500]!r}") from error
            count += 1
        return count

    assert asyncio.run(run()) >= 10
