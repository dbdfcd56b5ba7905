"""Ways to make a call: HTTP, a program, a line on a socket, a file. All bounded in time and in size of the answer."""

import asyncio
import contextlib
import os
import signal
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

# Loaded before the first call, whose time it would take.
from skewscope.adapters.sources.common import http_session  # noqa: F401
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, HttpResponse, PostBody, exchange
from skewscope.adapters.targets.common.base import ConflictError, TargetError
from skewscope.adapters.targets.common.calls import CommandCall, FileCall, HttpCall, SocketCall

MAX_ANSWER = 4 << 20
"""Maximum bytes of an answer."""
MAX_FILE = 4 << 20
PROGRAM_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Variables that every program gets."""
MAX_SHOWN = 300
"""Characters of an answer in an error."""


async def request(call: HttpCall, options: FetchOptions) -> HttpResponse:
    """Makes an HTTP call and returns any answer.

    Raises:
        TargetError: there is no answer, or it is too large or too slow.
    """
    body = PostBody(call.body.encode(), call.content_type) if call.body else None
    if not is_http_url(call.url):
        raise TargetError(f"{call.method} {redact_message(call.url)}: no address of a server")
    try:
        return await exchange(call.url, options, body, call.method)
    except FetchError as error:
        raise TargetError(f"{call.method} {redact_message(call.url)}: {error}") from None


def is_http_url(url: str) -> bool:
    """Returns whether a URL can be called: parts of it may be what a target has answered."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(good) and url.isascii() and url.isprintable() and " " not in url


async def request_ok(call: HttpCall, options: FetchOptions) -> HttpResponse:
    """Makes an HTTP call that has to be accepted.

    Raises:
        TargetError: it was not; the text names the status and the beginning of the answer.
    """
    answer = await request(call, options)
    if answer.status not in call.statuses:
        raise TargetError(f"{call.method} {redact_message(call.url)}: the answer {answer.status}: {show(answer.body)}")
    return answer


def pick_environment(*names: str) -> dict[str, str]:
    """Returns the variables that every program gets, and those of these names that are set.

    The controller's own may hold secrets of others: notifiers, other targets, the store.
    """
    return {name: os.environ[name] for name in (*PROGRAM_VARIABLES, *names) if name in os.environ}


async def run_command(call: CommandCall, seconds: float, environment: Mapping[str, str] | None = None) -> str:
    """Runs a program without a shell and returns its standard output.

    It gets the variables of `environment`, or else those that every program gets. What it has started ends with it, so
    that a child in the background cannot hold the call open.

    Raises:
        TargetError: it cannot be started, fails, writes too much or takes too long; it is then killed.
    """
    name = call.arguments[0]
    loop = asyncio.get_running_loop()
    output = _CommandOutput(loop.create_future())
    try:
        transport, _ = await loop.subprocess_exec(
            lambda: output,
            *call.arguments,
            env=pick_environment() if environment is None else environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise TargetError(f"{name}: cannot be started: {error}") from None
    try:
        async with asyncio.timeout(seconds):
            stdin = transport.get_pipe_transport(0)
            assert isinstance(stdin, asyncio.WriteTransport)
            stdin.write(call.stdin.encode())
            stdin.close()
            await output.done
    except TimeoutError:
        raise TargetError(f"{name}: no end within {seconds:g} s") from None
    finally:
        _kill_group(transport.get_pid(), is_reaped=transport.get_returncode() is not None)
        transport.close()
    if output.is_too_large:
        raise TargetError(f"{name}: an answer of more than {MAX_ANSWER} bytes")
    if code := transport.get_returncode():
        raise TargetError(f"{name}: exit code {code}: {show(bytes(output.errors or output.text))}")
    return output.text.decode(errors="replace")


def _kill_group(leader: int, *, is_reaped: bool) -> None:
    """Kills a program and what it has started in its process group.

    The number of a leader that was reaped is free once its group is empty, and may be that of another process by now.
    While its group has members, no process gets it.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not is_reaped or not _has_process(leader):
            os.killpg(leader, signal.SIGKILL)


def _has_process(number: int) -> bool:
    try:
        os.getpgid(number)
    except ProcessLookupError:
        return False
    return True


class _CommandOutput(asyncio.SubprocessProtocol):
    """Collects what a program writes, until it has ended and closed its outputs, or has written too much."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done
        self.text = bytearray()
        self.errors = bytearray()

    @property
    def is_too_large(self) -> bool:
        return max(len(self.text), len(self.errors)) > MAX_ANSWER

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        part = self.text if fd == 1 else self.errors
        part += data[: MAX_ANSWER + 1 - len(part)]
        if self.is_too_large:
            self._finish()

    def connection_lost(self, _exception: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def send_line(call: SocketCall, seconds: float) -> str:
    """Sends a line to a Unix socket, which then closes the connection, and returns its answer.

    Raises:
        TargetError: there is no answer, or it is too large or too slow.
    """
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(call.path)
            try:
                writer.write(call.line.encode() + b"\n")
                answer = await reader.read(MAX_ANSWER)
                while more := await reader.read(MAX_ANSWER - len(answer) + 1):
                    answer += more
                    if len(answer) > MAX_ANSWER:
                        raise TargetError(f"{call.path}: an answer of more than {MAX_ANSWER} bytes")
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise TargetError(f"{call.path}: no answer within {seconds:g} s") from None
    except OSError as error:
        raise TargetError(f"{call.path}: {error.strerror or error}") from None
    return answer.decode(errors="replace")


def read_file(path: str) -> str:
    """Returns the content of a file.

    Raises:
        TargetError: it cannot be read, is no file or is too large.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise TargetError(f"{path}: not a file")
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        raise TargetError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > MAX_FILE:
        raise TargetError(f"{path}: more than {MAX_FILE} characters")
    return text


def replace_file(call: FileCall) -> None:
    """Replaces a file by renaming a new one into its place, with its mode and owner.

    Raises:
        ConflictError: its content is no longer what was read.
        TargetError: it cannot be written.
    """
    if read_file(call.path) != call.before:
        raise ConflictError(f"{call.path}: was changed by somebody else since it was read")
    path = Path(call.path)
    if path.is_symlink():
        raise TargetError(f"{call.path}: a symbolic link, expected the path of the file itself")
    new = ""
    try:
        old = path.stat()
        handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(call.after)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
        Path(new).replace(path)
    except OSError as error:
        if new:
            Path(new).unlink(missing_ok=True)
        raise TargetError(f"{call.path}: cannot be written: {error.strerror or error}") from None


def show(answer: bytes | str) -> str:
    """Returns the beginning of an answer as one printable line."""
    start = answer[: 4 * MAX_SHOWN]
    text = " ".join((start if isinstance(start, str) else start.decode(errors="replace")).split())
    return "".join(c if c.isprintable() else "?" for c in text)[:MAX_SHOWN]
