"""JSON, YAML and XML as lines that formats read: each value with the names that lead to it, `gpu > power: 700 W`.

The values of an object come before the objects in it, and lists have no names of their own. A text that is cut off
gives what is whole of it. Records are lines that are put together from several values of one object.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import yaml

MAX_DEPTH = 40
MAX_LINES = 2_000_000
MAX_VALUE = 1000
"""Characters of a value that are kept."""
SEPARATOR = " > "
JSON_BEGIN = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]])')
XML_BEGIN = re.compile(r"\s*<(?:\?xml |!DOCTYPE |[a-z]\w{0,60}[\s>])")
YAML_BEGIN = re.compile(r"^(?:- )?(?:apiVersion|kind|items): ?", re.MULTILINE)
"""Objects of Kubernetes: another text in YAML looks like any log."""
YAML_HEAD = 400
"""Characters in which they begin."""
JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}\[\],]', re.DOTALL)
RECORD_FIELD = re.compile(r"<([\w.-]+)>")
CLOSERS = {"{": "}", "[": "]"}
try:
    YAML_LOADER: Any = yaml.CSafeLoader
except AttributeError:  # PyYAML without its library
    YAML_LOADER = yaml.SafeLoader


def list_document_lines(text: str, records: Sequence[str] = ()) -> list[str]:
    """Returns the lines of all documents in a text, [] where it is neither JSON, XML nor an object of Kubernetes.

    Args:
        text: the whole text, or its begin.
        records: lines such as `<type> <involvedObject.name>`, of which each object gives the first for which it has all
            values.
    """
    return list_value_lines(parse_documents(text), records)


def list_value_lines(documents: Sequence[Any], records: Sequence[str] = ()) -> list[str]:
    """Returns the lines of documents that were parsed."""
    lines: list[str] = []
    for document in documents:
        for line in _lines(document, "", records, 0):
            lines.append(line)
            if len(lines) >= MAX_LINES:
                return lines
    return lines


def parse_documents(text: str) -> list[Any]:
    """Returns the documents in a text as objects and lists, [] where it has none; of one that is cut off its begin."""
    if JSON_BEGIN.match(text):
        return _parse_json(text)
    if XML_BEGIN.match(text):
        return _parse_xml(text)
    return _parse_yaml(text) if YAML_BEGIN.search(text[:YAML_HEAD]) else []


def _parse_json(text: str) -> list[Any]:
    decoder, found, begin = json.JSONDecoder(strict=False), [], 0
    while (match := JSON_BEGIN.match(text, begin)) is not None:
        try:
            value, begin = decoder.raw_decode(text, match.end() - len(match[0].lstrip()))
        except RecursionError:
            break
        except ValueError:
            with suppress(ValueError, RecursionError):
                found.append(json.loads(_close_json(text[begin:]), strict=False))
            break
        found.append(value)
    return found


def _close_json(text: str) -> str:
    """Returns a text that is cut off up to its last whole value, with the ends that its brackets lack."""
    stack: list[str] = []
    cut, ends = 0, ""
    for token in JSON_TOKEN.finditer(text):
        sign = token[0][0]
        if sign in CLOSERS:
            stack.append(CLOSERS[sign])
        elif sign == "," or (sign in "}]" and stack and stack.pop() == sign):
            cut, ends = token.end() - (sign == ","), "".join(reversed(stack))
    return text[:cut] + ends


def _parse_xml(text: str) -> list[Any]:
    # No entity of its own: they could make a small text large.
    if "<!ENTITY" in text:
        return []
    parser: XMLPullParser[Any] = XMLPullParser(("start",))
    with suppress(ParseError):
        parser.feed(text.lstrip())
        # What is cut off has a root nevertheless, unless it ends within its first tag.
        events = cast("Iterable[tuple[str, Element]]", parser.read_events())
        return [{root.tag: _of_element(root, 0)} for _, root in islice(events, 1)]
    return []


def _of_element(element: Element, depth: int) -> Any:
    """Returns an element as an object of its attributes and its elements, or as its text where it has none of them."""
    if (not len(element) and not element.attrib) or depth > MAX_DEPTH:
        return (element.text or "").strip()
    found: dict[str, Any] = dict(element.attrib)
    for child in element:
        found.setdefault(child.tag, []).append(_of_element(child, depth + 1))
    return found


def _parse_yaml(text: str) -> list[Any]:
    for _ in range(2):
        try:
            if not _is_tree(text):
                return []
            return [one for one in yaml.load_all(text, YAML_LOADER) if isinstance(one, dict | list)]
        except yaml.MarkedYAMLError as error:
            mark = error.context_mark or error.problem_mark
            text = "\n".join(text.split("\n")[: mark.line]) if mark else ""
        except (yaml.YAMLError, ValueError, RecursionError):
            break
    return []


def _is_tree(text: str) -> bool:
    """Returns whether a text in YAML has no aliases, which could make it large, and little depth.

    Raises:
        yaml.YAMLError: it is none.
    """
    depth = 0
    for event in yaml.parse(text, YAML_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
            return False
    return True


def _lines(value: Any, path: str, records: Sequence[str], depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for element in value:
            yield from _lines(element, path, records, depth + 1)
    elif isinstance(value, dict):
        members = [(f"{path}{SEPARATOR}{name}" if path else str(name), own) for name, own in value.items()]
        for is_scalar in (True, False):
            for name, own in members:
                if isinstance(own, dict | list) != is_scalar:
                    yield from _lines(own, name, records, depth + 1)
            if is_scalar:
                yield from _record(value, records)
    elif (text := _text(value)) and path:
        yield f"{path}: {text}"


def _record(value: Mapping[str, Any], records: Sequence[str]) -> Iterator[str]:
    """Yields the first of the records for which an object has all values."""
    for record in records:
        # Text between fields, and every second time the name of a field.
        parts = RECORD_FIELD.split(record)
        parts[1::2] = [_text(_member(value, name)) for name in parts[1::2]]
        if all(parts[1::2]):
            yield "".join(parts)
            return


def _member(value: Any, name: str) -> Any:
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)[:MAX_VALUE]
    return " ".join(text.split())
