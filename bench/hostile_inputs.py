"""Measures the answer to inputs that are meant to take for ever: `python -m bench.hostile_inputs`.

Writes each, runs `skewscope diagnose`, `replay` or `topology discover` on it, and prints seconds, those of processors,
peak memory and the first line of the answer. Names of inputs as arguments choose some of them.
Exits with 1 where one took more than a minute of a processor or 2 GiB.
"""

import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

MAX_SECONDS, MAX_MIB = 60, 2048
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


def write_repeated(path: Path, head: bytes, repeated: bytes, count: int, end: bytes = b"") -> str:
    """Writes a plain file of a head and of bytes that repeat so many times; returns its path."""
    with path.open("wb") as file:
        file.write(head)
        for begin in range(0, count, 1_000_000):
            file.write(repeated * min(1_000_000, count - begin))
        file.write(end)
    return str(path)


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


def dump_of_lists(folder: Path) -> list[str]:
    """A dump of a rank with 80 million empty lists in 22 kB."""
    head = b'{"version":"2.10","nccl_version":"2.20","entries":[{"x":['
    return ["diagnose", str(write_bomb(folder / "nccl_trace_rank_0.json.zst", head, b"[],", 240_000_000))]


def dump_below_the_bound(folder: Path) -> list[str]:
    """A dump of a rank with as many different keys as are just read."""
    path = folder / "nccl_trace_rank_0.json"
    with path.open("w", encoding="ascii") as file:
        file.write('{"version":"2.10","entries":[],"pg_status":{},"x":{"0":"0"')
        file.writelines(f',"{number:07d}":"{number:07d}"' for number in range(4_900_000))
        file.write("}}")
    return ["diagnose", str(path)]


def pickle_of_lists(folder: Path) -> list[str]:
    """A pickle of a rank with 80 million empty lists."""
    head = b"\x80\x02}(X\x07\x00\x00\x00versionX\x04\x00\x00\x002.10X\x07\x00\x00\x00entriesX\x09\x00\x00\x00pg_config("
    return ["diagnose", write_repeated(folder / "nccl_trace_rank_0", head, b"]", 80_000_000)]


def cluster_of_lists(folder: Path) -> list[str]:
    """A list of Kubernetes' objects with 50 million empty lists in one."""
    path = write_repeated(folder / "k.json", b'{"items":[{"kind":"Node","x":[', b"[],", 50_000_000, b"[]]}]}")
    return ["topology", "discover", "--kubernetes", path]


def cluster_of_objects(folder: Path) -> list[str]:
    """A list of 10 million Kubernetes objects that are of no use."""
    path = write_repeated(folder / "k.json", b'{"items":[', b'{"kind":"x"},', 10_000_000, b'{"kind":"x"}]}')
    return ["topology", "discover", "--kubernetes", path]


def empty_lines_of_slurm(folder: Path) -> list[str]:
    """500 million empty lines where Slurm's nodes are listed."""
    return ["topology", "discover", "--slurm", write_repeated(folder / "slurm.conf", b"", b"\n", 500_000_000)]


def trace_of_events(folder: Path) -> list[str]:
    """A trace of 200 million events that are none."""
    path = folder / "trace.json.zst"
    return ["diagnose", str(write_bomb(path, b'{"schemaVersion":1,"traceEvents":[', b"0,", 400_000_000))]


def empty_log_lines(folder: Path) -> list[str]:
    """A log of 900 million empty lines."""
    head = b"(EngineCore_DP0) INFO 11-22 10:00:00 [loggers.py:123] Engine 000: Avg prompt throughput: 1.0 tokens/s\n"
    return ["diagnose", str(write_bomb(folder / "vllm.log.zst", head, b"\n", 900_000_000))]


def table_of_one_long_text(folder: Path) -> list[str]:
    """A table whose dictionary holds one text of 10 MB for a million rows."""
    import pyarrow as pa  # noqa: PLC0415 - needed for this one only
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = 1_000_000
    zeros = pa.array([0] * rows, pa.int32())
    columns = {"time": pa.array([1.7e9] * rows), "value": pa.array([1.0] * rows)}
    for name, text in (("signal", "gpu.temperature"), ("node", "n" * 10_000_000)):
        columns[name] = pa.DictionaryArray.from_arrays(zeros, pa.array([text]))
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return ["diagnose", str(folder / "a.parquet")]


MAKERS: list[Callable[[Path], list[str]]] = [
    label_values,
    unknown_series,
    many_ticks,
    many_samples,
    comments,
    odd_lines,
    empty_records,
    many_inputs,
    dump_of_lists,
    dump_below_the_bound,
    pickle_of_lists,
    cluster_of_lists,
    cluster_of_objects,
    empty_lines_of_slurm,
    trace_of_events,
    empty_log_lines,
    table_of_one_long_text,
]


def main(names: list[str]) -> int:
    """Writes, runs and prints; returns the exit code."""
    worst = 0
    print("| input | seconds | of processors | peak MiB | answer |\n|---|---|---|---|---|")
    for make in MAKERS:
        if not names or make.__name__ in names:
            with tempfile.TemporaryDirectory() as scratch:
                seconds, worked, peak, said = answer_time(make(Path(scratch)), Path(scratch))
            took = f"{seconds:.1f} | {worked:.1f} | {peak}"
            print(f"| {make.__doc__} | {took} | {said.replace(scratch, '')[:160]} |", flush=True)
            # A busy machine makes every command wait.
            worst = worst or int(min(seconds, worked) > MAX_SECONDS or peak > MAX_MIB)
    return worst


def answer_time(words: list[str], scratch: Path) -> tuple[float, float, int, str]:
    """Runs a command; returns its seconds, those of processors, the peak of its largest process in MiB, its answer."""
    said = scratch / "said"
    with said.open("wb") as out:
        began = time.monotonic()
        command = [sys.executable, "-m", "skewscope.tui.cli.main", *words]
        process = subprocess.Popen(command, stdout=out, stderr=out)
        _, _, used = os.wait4(process.pid, 0)
    lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    worked = used.ru_utime + used.ru_stime
    return time.monotonic() - began, worked, used.ru_maxrss >> 10, lines[0] if lines else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
