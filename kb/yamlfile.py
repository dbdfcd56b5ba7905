"""Parses YAML with line numbers from untrusted files: bounded size and depth, no aliases, no repeated keys."""

import math
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from skewscope.kb.problems import InputError, Problem, suggest_name

INDENTATION_HINT = "Look at the indentation, brackets and quotes before this line; YAML takes spaces, never tabs."
MAX_BYTES = 32 << 20
MAX_DEPTH = 32
MAX_NODES = 4_000_000
MAX_DIGITS = 80
"""Digits of a number: Python refuses to print much longer ones, and a float cannot hold them."""

type_labels = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "yes/no",
    type(None): "nothing",
}

STRING_TAG = "tag:yaml.org,2002:str"
NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A YAML file's content and the line of everything in it."""

    file: str
    data: Any
    lines: dict[FieldPath, int] = field(default_factory=dict, repr=False)

    def line(self, *path: str | int) -> int:
        """Returns the 1-based line of a field, or of its nearest parent that has one."""
        for n in range(len(path), -1, -1):
            if path[:n] in self.lines:
                return self.lines[path[:n]]
        return 1

    def problem(self, path: FieldPath, found: str, expected: str, hint: str = "") -> Problem:
        """Returns a problem at a field of this document."""
        return Problem(self.file, self.line(*path), format_path(path), found, expected, hint)

    def unknown_key(self, path: FieldPath, known: list[str]) -> Problem:
        """Returns the problem of an unknown field, with the closest known name."""
        return self.problem(
            path,
            f"an unknown field {path[-1]!r}",
            f"one of {', '.join(sorted(known))}",
            suggest_name(str(path[-1]), known),
        )


def format_path(path: FieldPath) -> str:
    """Formats `('a', 0, 'b')` as `a[0].b`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def type_label(value: object) -> str:
    """Returns a value's type in plain words."""
    return type_labels.get(type(value), type(value).__name__)


def read(path: Path, shown: str | None = None) -> Document:
    """Reads the document in a file.

    Raises:
        InputError: the file is missing, too large, or not plain YAML.
    """
    file = shown or str(path)
    return parse(read_text(path, file), file)


def read_text(path: Path, file: str) -> str:
    """Returns the text of a regular UTF-8 file of bounded size; `file` is its name in problems.

    Raises:
        InputError: the file is not.
    """
    try:
        found = path.stat()
        size = found.st_size
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            # A device or a pipe has no end.
            raise InputError([Problem(file, 0, "", "no plain file", "a YAML file")])
        if size > MAX_BYTES:
            raise InputError([Problem(file, 0, "", f"{size} bytes", f"at most {MAX_BYTES}", "Is this the right file?")])
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError([Problem(file, 0, "", f"no readable file ({error.strerror})", "a YAML file")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(
            [Problem(file, line, f"byte {error.start}", "bytes that are not UTF-8", "text in UTF-8")]
        ) from None


def parse(text: str, file: str = "<text>") -> Document:
    """Parses the document in a text; see `read`."""
    loader = None
    try:
        loader = yaml.CSafeLoader(text)
        data, lines = _Composer(loader).compose_document()
    except yaml.MarkedYAMLError as error:
        # A missing end is reported one line after it.
        last = max(1, text.count("\n") + (not text.endswith("\n")))
        line = min(error.problem_mark.line + 1, last) if error.problem_mark else 0
        hint = INDENTATION_HINT if isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError) else ""
        raise _yaml_input_error(file, line, str(error.problem), hint) from None
    except yaml.reader.ReaderError as error:
        line = text.encode(errors="replace")[: error.position].count(b"\n") + 1
        raise _yaml_input_error(file, line, f"a character that does not print: {error.reason}") from None
    except UnicodeEncodeError as error:
        raise _yaml_input_error(file, text[: error.start].count("\n") + 1, "half a character") from None
    except _NoFiniteNumberError as error:
        raise InputError([_no_finite_number(file, error)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise _yaml_input_error(file, 0, str(error).rstrip(".")) from None
    finally:
        if loader is not None:
            loader.dispose()
    return Document(file, data, lines)


def _yaml_input_error(file: str, line: int, why: str, hint: str = "") -> InputError:
    return InputError([Problem(file, line, "", f"text that is no YAML ({why})", "one YAML document", hint)])


def _no_finite_number(file: str, error: "_NoFiniteNumberError") -> Problem:
    hint = "Put it in quotes if it is text."
    return Problem(file, error.line, format_path(error.path), error.text, "a finite number", hint)


class _NoFiniteNumberError(Exception):
    """A number such as `.nan`, `.inf` or `1.0e+999`, at a field: no comparison with it would mean anything."""

    def __init__(self, path: FieldPath, line: int, text: str) -> None:
        super().__init__(path, line, text)
        self.path, self.line, self.text = path, line, text


class _Composer:
    """Builds values and their lines from the parser's events: one pass, no recursion, all bounds checked.

    The library's own composer overruns the stack on what is nested deeply, and it knows aliases and tags, which are
    never wanted here: what some tags make of the wrong text crashes the library. (Events are Any: the stubs do not know
    the marks of the C parser.)
    """

    def __init__(self, loader: yaml.CSafeLoader) -> None:
        self._loader = loader
        self._lines: dict[FieldPath, int] = {}
        self._depth = 0
        self._count = 0

    def compose_document(self) -> tuple[Any, dict[FieldPath, int]]:
        """Returns the only document of the stream and the lines of its fields; None for an empty one.

        Raises:
            yaml.YAMLError: there are several, or it is not plain.
        """
        self._next_event()
        event = self._next_event()
        if isinstance(event, yaml.StreamEndEvent):
            return None, {(): 1}
        data = self._compose_value(self._next_event())
        self._next_event()
        if not isinstance(after := self._next_event(), yaml.StreamEndEvent):
            raise _yaml_error("a second document", after)
        return data, self._lines

    def _next_event(self) -> Any:
        event = self._loader.get_event()
        self._count += 1
        if self._count > MAX_NODES:
            raise _yaml_error(f"more than {MAX_NODES} values", event)
        return event

    def _compose_value(self, event: Any) -> Any:
        """Builds the value that begins with an event; open containers are on an explicit stack."""
        stack: list[tuple[dict[str, Any] | list[Any], FieldPath]] = []
        root: list[Any] = []
        holder: dict[str, Any] | list[Any] = root
        at: FieldPath = ()
        slot: str | int = 0
        key_line = 0
        while True:
            if isinstance(event, yaml.CollectionEndEvent):
                holder, at = stack.pop()
            else:
                path = at if holder is root else (*at, slot)
                made = self._construct(event)
                self._lines[path] = line = key_line or event.start_mark.line + 1
                if isinstance(made, float) and not math.isfinite(made):
                    raise _NoFiniteNumberError(path, line, event.value)
                if isinstance(holder, list):
                    holder.append(made)
                else:
                    holder[str(slot)] = made
                if isinstance(event, yaml.CollectionStartEvent):
                    stack.append((holder, at))
                    if len(stack) > MAX_DEPTH:
                        raise _yaml_error(f"nesting deeper than {MAX_DEPTH}", event)
                    holder, at = made, path
            if holder is root:
                return root[0]
            event, key_line = self._next_event(), 0
            if isinstance(holder, list):
                slot = len(holder)
            elif not isinstance(event, yaml.CollectionEndEvent):
                slot, key_line = self._compose_key(event, holder), event.start_mark.line + 1
                event = self._next_event()

    def _compose_key(self, event: Any, holder: dict[str, Any]) -> str:
        """Returns the name of a field that is not there yet."""
        if isinstance(event, yaml.AliasEvent):
            raise _yaml_error("an alias (write the value out)", event)
        if not isinstance(event, yaml.ScalarEvent) or self._resolve_tag(event) != STRING_TAG:
            raise _yaml_error("a key that is no plain text (quotes help)", event)
        name: str = event.value
        if name in holder:
            raise _yaml_error(f"the key {name!r} for the second time", event)
        return name

    def _construct(self, event: Any) -> Any:
        """Returns a scalar's value, or an empty container."""
        if isinstance(event, yaml.AliasEvent):
            raise _yaml_error("an alias (write the value out)", event)
        tag = self._resolve_tag(event)
        if not isinstance(event, yaml.ScalarEvent):
            return {} if isinstance(event, yaml.MappingStartEvent) else []
        if tag == STRING_TAG:
            return event.value
        if tag in NUMBER_TAGS and len(event.value) > MAX_DIGITS:
            raise _yaml_error(f"a number of {len(event.value)} digits", event)
        node = yaml.ScalarNode(tag, event.value)
        try:
            return self._loader.construct_object(node)
        except yaml.constructor.ConstructorError as error:
            raise _yaml_error(str(error.problem), event) from None
        except (ValueError, OverflowError) as error:  # a date that is none, for one
            raise _yaml_error(str(error).rstrip("."), event) from None

    def _resolve_tag(self, event: Any) -> str:
        tag: str | None = getattr(event, "tag", None)
        if tag not in (None, "!"):
            raise _yaml_error(f"the tag {tag!r:.40} (leave it out)", event)
        if not isinstance(event, yaml.ScalarEvent):
            return ""
        found: str = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
        return found


def _yaml_error(what: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, what, event.start_mark)
