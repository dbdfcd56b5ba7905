"""Measures the answer to inputs that are meant to take for ever: `python -m bench.hostile_inputs`.

Writes each, runs `skewscope diagnose` or `replay` on it, and prints seconds, the largest peak memory so far and the
first line of the answer.
"""

import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

SAMPLE = 'DCGM_FI_DEV_GPU_TEMP{{gpu="{}",Hostname="n{}"}} 50 {}\n'
START = 1_700_000_000
TOPOLOGY = "version: 1\nnodes: [{name: n0, gpus: 8, ports: [{name: p0, network: east-west}]}]\n"


def write_lines(path: Path, lines: Iterator[str]) -> list[str]:
    """Writes a text with metrics and returns the command that reads it."""
    with path.open("w", encoding="ascii") as file:
        file.writelines(lines)
        file.write("# EOF\n")
    return ["diagnose", str(path)]


def write_bomb(path: Path, head: bytes, repeated: bytes, size: int) -> Path:
    """Writes a compressed file of a head and of bytes that repeat."""
    part = repeated * ((16 << 20) // len(repeated))
    with path.open("wb") as file, zstandard.ZstdCompressor(19).stream_writer(file) as packed:
        packed.write(head)
        for _ in range(size // len(part)):
            packed.write(part)
    return path


def write_recording(folder: Path, inputs: str) -> list[str]:
    """Writes the description of a recording and returns the command that reads it."""
    (folder / "topology.yaml").write_text(TOPOLOGY)
    (folder / "recording.yaml").write_text(f"version: 1\ntopology: topology.yaml\ninputs:\n{inputs}")
    return ["replay", str(folder)]


def label_values(folder: Path) -> list[str]:
    """A million label values of a known metric."""
    return write_lines(folder / "a.om", (SAMPLE.format(n % 8, n // 8, START) for n in range(1_000_000)))


def unknown_series(folder: Path) -> list[str]:
    """A million series that nobody knows, and one that is known."""
    unknown = (f'strange{{id="{n}"}} 1 {START}\n' for n in range(999_990))
    return write_lines(
        folder / "a.om", (line for part in (iter([SAMPLE.format(0, 0, START)]), unknown) for line in part)
    )


def many_ticks(folder: Path) -> list[str]:
    """Six days of one sample each second."""
    return write_lines(folder / "a.om", (SAMPLE.format(n % 8, 0, START + n) for n in range(500_000)))


def many_samples(folder: Path) -> list[str]:
    """3 GiB of samples."""
    part = [SAMPLE.format(n % 8, n // 8, "{0}") for n in range(512)]
    block = "".join(part).replace("{0}", str(START))
    return write_lines(folder / "a.om", (block for _ in range((3 << 30) // len(block))))


def comments(folder: Path) -> list[str]:
    """8 GiB of comments in less than a MB."""
    return ["diagnose", str(write_bomb(folder / "a.om.zst", SAMPLE.format(0, 0, START).encode(), b"# x\n", 8 << 30))]


def odd_lines(folder: Path) -> list[str]:
    """Lines that only the exact grammar reads, just below the bounds."""
    line = b"strange  1  1\n"
    head = SAMPLE.format(0, 0, START).encode()
    return ["diagnose", str(write_bomb(folder / "a.om.zst", head, line, 9_900_000 * len(line)))]


def empty_records(folder: Path) -> list[str]:
    """A capture of 400 million records without a byte."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    write_bomb(folder / "a.pcap.zst", head, bytes(16), 400_000_000 * 16)
    return write_recording(folder, "- {kind: pcap, path: a.pcap.zst, labels: {node: n0, port: p0}}\n")


def many_inputs(folder: Path) -> list[str]:
    """99,000 inputs."""
    (folder / "a.om").write_text(SAMPLE.format(0, 0, START) + "# EOF\n")
    return write_recording(folder, "- {kind: openmetrics, path: a.om}\n" * 99_000)


MAKERS: list[Callable[[Path], list[str]]] = [
    label_values,
    unknown_series,
    many_ticks,
    many_samples,
    comments,
    odd_lines,
    empty_records,
    many_inputs,
]


def main() -> None:
    """Writes, runs and prints."""
    print("| input | seconds | peak MiB | answer |\n|---|---|---|---|")
    for make in MAKERS:
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "skewscope.tui.cli.main", *make(Path(scratch))]
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seconds = time.monotonic() - began
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            print(
                f"| {make.__doc__} | {seconds:.1f} | {peak_memory()} | {said[0].replace(scratch, '')[:160]} |",
                flush=True,
            )


def peak_memory() -> int:
    """Returns the largest peak of any command so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10


if __name__ == "__main__":
    main()
