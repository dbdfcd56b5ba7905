"""Starts controllers as copies of a process that has loaded their code: loading it takes most of a start.

What a copy does from then on is what `skewscope run` does after its imports, which touch no data of a controller.
"""

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from threading import Lock

PRELOADED = (
    "networkx",
    "skewscope.adapters.controller.process",
    "skewscope.adapters.notify.cloudevents",
    "skewscope.adapters.runtime.log_lines",
    "skewscope.rules.loader",
    "skewscope.tui.cli.main",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.httptools_impl",
)


class ForkedProcess:
    """A process that another one started; it has what the campaign uses of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """0 once it has ended: how it ended is not known."""
        try:
            self._handle = os.pidfd_open(pid)
        except ProcessLookupError:
            self._handle, self.returncode = -1, 0

    def poll(self) -> int | None:
        """Returns None while it runs."""
        if self.returncode is None and select.select([self._handle], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        if self.returncode is None:
            if not select.select([self._handle], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self._end()
        return 0

    def _end(self) -> None:
        os.close(self._handle)
        self._handle, self.returncode = -1, 0

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            try:
                signal.pidfd_send_signal(self._handle, number)
            except ProcessLookupError:
                return

    def kill(self) -> None:
        """Kills it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that has the code of controllers loaded."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.campaign_forks"]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lock = Lock()

    def start(self, config: Path, log: Path) -> ForkedProcess:
        """Starts a controller in the folder of its config; its output is added to a log."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with self._lock:
            self._server.stdin.write(json.dumps([str(config), str(log)]) + "\n")
            self._server.stdin.flush()
            return ForkedProcess(int(self._server.stdout.readline()))

    def close(self) -> None:
        """Ends the server; controllers that it started go on."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(60)


def serve() -> None:
    """Starts a controller for each line of the input: its config and its log, as JSON."""
    for name in PRELOADED:
        __import__(name)
    # The system forgets the children that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        config, log = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(Path(config), Path(log))
        print(pid, flush=True)


def _run(config: Path, log: Path) -> None:
    """Runs a controller in a child; never returns."""
    from skewscope.tui.cli.main import main  # noqa: PLC0415 - the parent has it loaded

    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with log.open("ab") as out, Path(os.devnull).open("rb") as nothing:
            for stream, number in ((nothing, 0), (out, 1), (out, 2)):
                os.dup2(stream.fileno(), number)
        os.chdir(config.parent)
        sys.argv = ["skewscope", "run", "--config", str(config)]
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - what a program prints as it ends
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def refused_seconds(pid: int) -> float:
    """Returns the seconds for which threads of a process were ready and no processor was free, of all together."""
    waited = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):
            waited += int(task.read_text().split()[1])
    return waited / 1e9


if __name__ == "__main__":
    serve()
