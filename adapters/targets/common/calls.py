"""Calls to targets: values that are shown in a dry run, stored with an action, and carried out.

No call holds a secret of ours: tokens are added by the target that makes the call. What looks like one in a command or
a file of the user is not shown.
"""

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_SHOWN = 4000
"""Characters of one call that are shown."""
HIDDEN_NAME = r"[\w-]{0,40}(?:token(?!s)|passw(?:or)?d|secret|(?:api|access|private)[_-]?key|credential)[\w-]{0,40}"
"""A name whose value is not shown; `max_tokens` is none."""
HIDDEN_VALUE = re.compile(rf"(?i)(?<![\w-])({HIDDEN_NAME}(?:=|: ?)[\"']?)[^\s&,;'\"]+")
HIDDEN_OPTION = re.compile(rf"(?i)--?{HIDDEN_NAME}")
USER = re.compile(r"//[^/@\s]{1,500}@")


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One HTTP request."""

    method: str
    url: str
    body: str = ""
    content_type: str = "application/json"
    statuses: tuple[int, ...] = (200,)
    """Statuses that mean that the request was accepted."""

    def describe(self) -> str:
        """Returns the request in one line, or in two with a body."""
        return f"{self.method} {hide_secrets(self.url)}" + (f"\n  {self.body}" if self.body else "")


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One program, which is started without a shell."""

    arguments: tuple[str, ...]
    stdin: str = ""

    def describe(self) -> str:
        """Returns the command as a shell would take it."""
        shown = [*self.arguments[:1], *hide_values(self.arguments[1:])]
        return shlex.join(shown) + (f" <<'END'\n{self.stdin}END" if self.stdin else "")


@dataclass(frozen=True, slots=True)
class SocketCall:
    """One line sent to a Unix socket, and the answers that mean success."""

    path: str
    line: str

    def describe(self) -> str:
        """Returns the line and the socket."""
        return f"{self.line}    (to {self.path})"


@dataclass(frozen=True, slots=True)
class FileCall:
    """A file that is replaced as a whole, provided that it still is what was read."""

    path: str
    before: str
    after: str

    def describe(self) -> str:
        """Returns the difference as a unified diff."""
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.path, self.path, lineterm="", n=1
        )
        return "\n".join(map(hide_secrets, lines))


@dataclass(frozen=True, slots=True)
class OrderCall:
    """A signed order to the agent of a node, which builds its own command line from it."""

    node: str
    operation: str
    parameters: tuple[tuple[str, str], ...]
    """Sorted by name."""

    def describe(self) -> str:
        """Returns the operation with its parameters."""
        given = " ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.operation} {given}    (by the agent of {self.node})"


Call = HttpCall | CommandCall | SocketCall | FileCall | OrderCall


def describe_calls(calls: tuple[Call, ...]) -> tuple[str, ...]:
    """Returns what a person reads of calls, each of bounded length."""
    return tuple(_bound(call.describe()) for call in calls)


def hide_secrets(text: str) -> str:
    """Returns a text with *** in the place of what follows a name such as `token=`, and of the user in an address."""
    return HIDDEN_VALUE.sub(r"\1***", USER.sub("//***@", text))


def hide_values(words: Iterable[str]) -> Iterator[str]:
    """Yields the arguments of a program with *** in the place of the word after an option such as `--token`."""
    hidden = False
    for word in words:
        yield "***" if hidden else hide_secrets(word)
        hidden = HIDDEN_OPTION.fullmatch(word) is not None


def _bound(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"
