"""Calls to targets: values that are shown in a dry run, stored with an action, and carried out.

No call holds a secret: tokens are added by the target that makes the call.
"""

import difflib
import hashlib
import shlex
from dataclasses import dataclass

MAX_SHOWN = 4000
"""Characters of one call that are shown."""


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
        return f"{self.method} {self.url}" + (f"\n  {self.body}" if self.body else "")


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One program, which is started without a shell."""

    arguments: tuple[str, ...]
    stdin: str = ""

    def describe(self) -> str:
        """Returns the command as a shell would take it."""
        return shlex.join(self.arguments) + (f" <<'END'\n{self.stdin}END" if self.stdin else "")


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
        return "\n".join(lines)

    @property
    def before_hash(self) -> str:
        """SHA-256 of the content that is replaced."""
        return hashlib.sha256(self.before.encode()).hexdigest()


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


def _bound(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"
