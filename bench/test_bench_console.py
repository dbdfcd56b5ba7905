"""Measures the console on 10,000 series that change twice a second, in a real terminal: cost and response times.

`pytest bench/test_bench_console.py -s` prints each figure beside its budget. Figures are not asserted, since they
are worse on a busy machine.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "console_fleet.py"
STEADY_S = 10.0
KEYS = 60
BUDGET = {
    "first paint (s)": 0.8,
    "of a core (%)": 8.0,
    "loop blocked p99 (ms)": 20.0,
    "key to output p50 (ms)": float("inf"),
    "key to output p90 (ms)": 25.0,
    "memory (MB)": 100.0,
    "to the terminal (kB/s)": 60.0,
}


class Terminal:
    """A program in its own pseudo-terminal."""

    def __init__(self, arguments: list[str], size: tuple[int, int]) -> None:
        self.main, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            arguments, stdin=child, stdout=child, stderr=child, env=environment, start_new_session=True
        )
        os.close(child)

    def read(self, seconds: float) -> bytes:
        """Returns the output within a time."""
        end, found = time.perf_counter() + seconds, b""
        while (left := end - time.perf_counter()) > 0:
            if select.select([self.main], [], [], left)[0]:
                try:
                    found += os.read(self.main, 65536)
                except OSError:  # it has left
                    break
        return found

    def until(self, text: bytes, seconds: float) -> float:
        """Returns the seconds from the start until a text appears."""
        found = b""
        while text not in found and time.perf_counter() - self.started < seconds:
            found += self.read(0.01)
        return time.perf_counter() - self.started

    def answer(self, key: str) -> float:
        """Returns the milliseconds from a key to the next output."""
        self.read(0.13)
        before = time.perf_counter()
        os.write(self.main, key.encode())
        select.select([self.main], [], [], 2.0)
        return (time.perf_counter() - before) * 1000

    def cpu(self) -> float:
        """Returns its processor time in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Returns its peak resident memory in megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def close(self) -> None:
        """Quits the program."""
        os.write(self.main, b"q")
        self.read(1.0)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(5)
        os.close(self.main)


def share(numbers: list[float], part: float) -> float:
    """Returns the quantile of some numbers."""
    return sorted(numbers)[min(int(len(numbers) * part), len(numbers) - 1)] if numbers else float("nan")


def measure_size(size: tuple[int, int], file: Path) -> dict[str, float]:
    """Returns all figures for one size of the terminal."""
    terminal = Terminal([sys.executable, str(SCRIPT), str(file)], size)
    try:
        first = terminal.until(b"Diagnoses", 20)
        terminal.read(2.0)
        os.write(terminal.main, b"3")
        terminal.read(3.0)
        before, cpu = time.perf_counter(), terminal.cpu()
        sent = len(terminal.read(STEADY_S))
        spent = time.perf_counter() - before
        used = terminal.cpu() - cpu
        waits = [terminal.answer("j") for _ in range(KEYS)]
        memory = terminal.memory()
    finally:
        terminal.close()
    held = json.loads(file.read_text()) if file.exists() else []
    figures = [first, 100 * used / spent, share(held, 0.99), share(waits, 0.5), share(waits, 0.9), memory]
    return dict(zip(BUDGET, [*figures, sent / spent / 1000], strict=True))


@pytest.mark.parametrize("size", [(200, 50), (80, 24)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_console(size, tmp_path, capsys):
    found = measure_size(size, tmp_path / "held.json")
    with capsys.disabled():
        print(f"\n10,000 series at 2 Hz, {size[0]}x{size[1]}")
        for name, value in found.items():
            within = "" if value <= BUDGET[name] else "  OVER"
            print(f"  {name:28} {value:8.2f}   budget {BUDGET[name]:g}{within}")
    assert found["to the terminal (kB/s)"] > 0
