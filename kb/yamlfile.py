"""YAML with line numbers, read as if written by an enemy: bounded size and depth, no aliases, no repeated keys."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from skewscope.kb.problems import InputError, Problem, nearest

INDENTED = "Look at the indentation, brackets and quotes before this line; YAML takes spaces, never tabs."
MOST_BYTES = 32 << 20
MOST_DEPTH = 32
MOST_NODES = 4_000_000
MOST_DIGITS = 80
"""Of a number: Python refuses to print what is much longer, and a float to hold it."""

type_names = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "yes/no",
    type(None): "nothing",
}

NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A YAML file's content and the line of everything in it."""

    file: str
    data: Any
    lines: dict[Path_, int] = field(default_factory=dict, repr=False)

    def line(self, *path: str | int) -> int:
        """The 1-based line of a field, or of its nearest parent that has one."""
        for n in range(len(path), -1, -1):
            if path[:n] in self.lines:
                return self.lines[path[:n]]
        return 1

    def problem(self, path: Path_, found: str, expected: str, hint: str = "") -> Problem:
        """A problem at a field of this document."""
        return Problem(self.file, self.line(*path), dotted(path), found, expected, hint)

    def unknown_key(self, path: Path_, known: list[str]) -> Problem:
        """The problem of a field nobody reads, with the name that was probably meant."""
        return self.problem(
            path, f"an unknown field {path[-1]!r}", f"one of {', '.join(sorted(known))}", nearest(str(path[-1]), known)
        )


def dotted(path: Path_) -> str:
    """`('a', 0, 'b')` as `a[0].b`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def kind_of(value: object) -> str:
    """A value's type in plain words."""
    return type_names.get(type(value), type(value).__name__)


def read(path: Path, shown: str | None = None) -> Document:
    """The document in a file.

    Raises:
        InputError: the file is missing, too large, or not plain YAML.
    """
    file = shown or str(path)
    try:
        size = path.stat().st_size
        if not (path.is_file() or path.is_dir()):
            # A device or a pipe has no end.
            raise InputError([Problem(file, 0, "", "no plain file", "a YAML file")])
        if size > MOST_BYTES:
            raise InputError(
                [Problem(file, 0, "", f"{size} bytes", f"at most {MOST_BYTES}", "Is this the right file?")]
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError([Problem(file, 0, "", f"no readable file ({error.strerror})", "a YAML file")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(
            [Problem(file, line, f"byte {error.start}", "bytes that are not UTF-8", "text in UTF-8")]
        ) from None
    return parse(text, file)


def parse(text: str, file: str = "<text>") -> Document:
    """The document in a text; see `read`."""
    lines: dict[Path_, int] = {}
    loader = None
    try:
        _bound(text)
        loader = yaml.CSafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(file, None, {(): 1})
        _walk(node, (), lines, set())
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        # What is missing at the end is missed one line after it.
        last = max(1, text.count("\n") + (not text.endswith("\n")))
        line = min(error.problem_mark.line + 1, last) if error.problem_mark else 0
        hint = INDENTED if isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError) else ""
        raise _no_yaml(file, line, str(error.problem), hint) from None
    except yaml.reader.ReaderError as error:
        line = text.encode(errors="replace")[: error.position].count(b"\n") + 1
        raise _no_yaml(file, line, f"a character that does not print: {error.reason}") from None
    except UnicodeEncodeError as error:
        raise _no_yaml(file, text[: error.start].count("\n") + 1, "half a character") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # A date that is none, for one: what was under construction is the last that the loader remembers.
        making = list(loader.recursive_objects) if loader else []
        raise _no_yaml(file, making[-1].start_mark.line + 1 if making else 0, str(error).rstrip(".")) from None
    finally:
        if loader is not None:
            loader.dispose()
    return Document(file, data, lines)


def _no_yaml(file: str, line: int, why: str, hint: str = "") -> InputError:
    return InputError([Problem(file, line, "", f"text that is no YAML ({why})", "one YAML document", hint)])


def _bound(text: str) -> None:
    """Refuses what is too deep or too large before libyaml's composer sees it, which would overrun the stack.

    And tags: what they make is never wanted here, and some of them on the wrong text crash the library.
    """
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        tag: str | None = getattr(event, "tag", None)
        if depth > MOST_DEPTH:
            what = f"nesting deeper than {MOST_DEPTH}"
        elif count > MOST_NODES:
            what = f"more than {MOST_NODES} values"
        elif tag not in (None, "!"):
            what = f"the tag {tag!r:.40} (leave it out)"
        else:
            continue
        raise yaml.MarkedYAMLError(None, None, what, event.start_mark)  # type: ignore[arg-type]


def _walk(node: yaml.Node, path: Path_, lines: dict[Path_, int], seen: set[int]) -> None:
    mark = node.start_mark
    if len(path) > MOST_DEPTH:
        raise yaml.MarkedYAMLError(None, None, f"nesting deeper than {MOST_DEPTH}", mark)
    if isinstance(node, yaml.CollectionNode):
        if id(node) in seen:
            raise yaml.MarkedYAMLError(None, None, "an alias (write the value out)", mark)
        seen.add(id(node))
    lines[path] = mark.line + 1
    if isinstance(node, yaml.MappingNode):
        _walk_mapping(node, path, lines, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), lines, seen)
    elif len(node.value) > MOST_DIGITS and node.tag in NUMBERS:
        raise yaml.MarkedYAMLError(None, None, f"a number of {len(node.value)} digits", mark)


def _walk_mapping(node: yaml.MappingNode, path: Path_, lines: dict[Path_, int], seen: set[int]) -> None:
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            raise yaml.MarkedYAMLError(None, None, "a key that is no plain text (quotes help)", key.start_mark)
        if (*path, key.value) in lines:
            raise yaml.MarkedYAMLError(None, None, f"the key {key.value!r} for the second time", key.start_mark)
        _walk(value, (*path, key.value), lines, seen)
        lines[(*path, key.value)] = key.start_mark.line + 1
