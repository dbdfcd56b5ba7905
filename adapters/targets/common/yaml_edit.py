"""Changes of single fields of a YAML or JSON file that keep every other character, comments included.

The result is parsed again and compared with what was wanted, so an edit either does exactly that or is refused.
"""

import copy
import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from skewscope.adapters.targets.common.base import TargetError
from skewscope.kb import yamlfile
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import FieldPath, format_path

MAX_TEXT = 1 << 20
"""Maximum characters of a file that is edited."""
REMOVED = object()
"""The value of a field that is to be removed."""
PLAIN_KEY = re.compile(r"[a-z][a-z0-9_./-]{2,}")
"""Keys that need no quotes in block style."""


def parse_yaml(text: str, file: str) -> Any:
    """Returns the content of a YAML or JSON text.

    Raises:
        TargetError: it is too large, or no plain YAML.
    """
    if len(text) > MAX_TEXT:
        raise TargetError(f"{file}: {len(text)} characters, expected at most {MAX_TEXT}")
    try:
        return yamlfile.parse(text, file).data
    except InputError as error:
        raise TargetError(str(error).partition("\n")[0]) from None


def edit_yaml(text: str, file: str, edits: Sequence[tuple[FieldPath, Any]]) -> str:
    """Returns a text with some fields set to JSON values, or REMOVED; parents must be there.

    Raises:
        TargetError: the text cannot be edited so without changing anything else.
    """
    expected = copy.deepcopy(parse_yaml(text, file))
    try:
        for path, value in edits:
            if _set_field(expected, path, value):
                text = _edit_field(text, path, value)
        unchanged = parse_yaml(text, file) == expected
    # What has no place in the text, such as a key that YAML writes in another way.
    except (TargetError, LookupError, ValueError, AttributeError, TypeError, yaml.YAMLError, RecursionError):
        unchanged = False
    if not unchanged:
        names = ", ".join(format_path(path) for path, _ in edits)
        raise TargetError(f"{file}: {names}: cannot be edited in this layout; write the file as plain YAML or JSON")
    return text


def _set_field(data: Any, path: FieldPath, value: Any) -> bool:
    """Sets or removes a field of parsed data; returns whether anything has to be edited."""
    for part in path[:-1]:
        data = data[part]
    if value is not REMOVED:
        data[path[-1]] = value
        return True
    return data.pop(path[-1], REMOVED) is not REMOVED


def _edit_field(text: str, path: FieldPath, value: Any) -> str:
    node: Any = yaml.compose(text, Loader=yaml.CSafeLoader)
    for part in path[:-1]:
        node = node.value[part] if isinstance(part, int) else _find_value(node, part)
    keys = [key.value for key, _ in node.value]
    if value is REMOVED:
        return _remove_pair(text, node, keys.index(path[-1]))
    written = json.dumps(value)
    if path[-1] not in keys:
        return _insert_pair(text, node, str(path[-1]), written)
    old = node.value[keys.index(path[-1])][1]
    start, end = _span(text, old)
    gap = " " if start == end else ""
    return f"{text[:start]}{gap}{written}{text[end:]}"


def _find_value(node: Any, key: str) -> Any:
    for name, value in node.value:
        if name.value == key:
            return value
    raise KeyError(key)


def _insert_pair(text: str, node: Any, key: str, written: str) -> str:
    """Writes a pair before the first one of a mapping, on a line of its own where the first one has one."""
    if not node.value:
        at = node.start_mark.index + 1
        return f"{text[:at]}{json.dumps(key)}: {written}{text[at:]}"
    first = node.value[0][0].start_mark
    before = text[: first.index]
    if node.flow_style:
        gap = before[len(before.rstrip()) :] or " "
        return f"{before}{json.dumps(key)}: {written},{gap}{text[first.index :]}"
    name = key if PLAIN_KEY.fullmatch(key) else json.dumps(key)
    return f"{before}{name}: {written}\n{' ' * first.column}{text[first.index :]}"


def _remove_pair(text: str, node: Any, index: int) -> str:
    key, value = node.value[index]
    start, end = key.start_mark.index, _span(text, value)[1]
    if index + 1 < len(node.value):
        end = node.value[index + 1][0].start_mark.index
    elif index:
        start = _span(text, node.value[index - 1][1])[1]
    return text[:start] + text[end:]


def _span(text: str, node: Any) -> tuple[int, int]:
    """Returns where a value begins and ends; the mark at the end of a block stands after the space that follows it."""
    start, end = node.start_mark.index, node.end_mark.index
    if not isinstance(node, yaml.ScalarNode) and not node.flow_style:
        end = start + len(text[start:end].rstrip())
    return start, end
