"""Measures the diagnosis of long texts: `python -m bench.bench_text_files --mb 200`, one row for each kind.

It writes a healthy file of each kind, diagnoses it by a program of its own, and prints lines, the processor seconds of
the whole command, microseconds a line and the peak memory. The files are deleted.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from pathlib import Path

START = 1_795_341_600
MB = 1_000_000
Text = Iterator[str]
"""Parts of a text, each of whole lines."""


@lru_cache(4096)
def date(second: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Returns a time, in seconds since the begin of the file."""
    return datetime.fromtimestamp(START + second, UTC).strftime(form)


def vllm(rng: random.Random) -> Text:
    """Yields statistics of four engines each ten seconds, and a line for each request between them."""
    for second in count(0, 10):
        stamp = date(second, "%m-%d %H:%M:%S")
        for engine in range(4):
            yield (
                f"(APIServer pid=1) INFO {stamp} [loggers.py:273] Engine {engine:03}: Avg prompt throughput: "
                f"{rng.gauss(1200, 20):.1f} tokens/s, Avg generation throughput: {rng.gauss(900, 9):.1f} tokens/s, "
                f"Running: {rng.randint(8, 12)} reqs, Waiting: 0 reqs, GPU KV cache usage: {rng.gauss(31, 1):.1f}%, "
                "Prefix cache hit rate: 40.5%\n"
            )
        for _ in range(20):
            client = f"10.0.0.{rng.randint(1, 9)}:{rng.randint(30_000, 60_000)}"
            yield f'(APIServer pid=1) INFO:     {client} - "POST /v1/completions HTTP/1.1" 200 OK\n'


def statistics(rng: random.Random) -> Text:
    """Yields statistics of an engine each ten seconds, and nothing else."""
    for second in count(0, 10):
        yield (
            f"INFO {date(second, '%m-%d %H:%M:%S')} [loggers.py:123] Engine 000: Avg prompt throughput: "
            f"{rng.gauss(1200, 20):.1f} tokens/s, Avg generation throughput: {rng.gauss(900, 9):.1f} tokens/s, "
            f"Running: {rng.randint(8, 12)} reqs, Waiting: 0 reqs, GPU KV cache usage: {rng.gauss(31, 1):.1f}%, "
            f"Prefix cache hit rate: {rng.gauss(40, 1):.1f}%\n"
        )


def journald(rng: random.Random) -> Text:
    """Yields records of a journal as JSON: sessions, units, the kernel."""
    for number in count():
        message, program = (
            (f"Started Session {number} of user root.", "systemd"),
            (f"Accepted publickey for root from 10.0.0.1 port {rng.randint(1000, 60_000)}", "sshd"),
            (f"usb {rng.randint(1, 4)}-1: new high-speed USB device", "kernel"),
        )[number % 3]
        record = {
            "__REALTIME_TIMESTAMP": str(START * 1_000_000 + number * 200_000),
            "_HOSTNAME": "node-a",
            "PRIORITY": "6",
            "SYSLOG_IDENTIFIER": program,
            "_PID": str(rng.randint(100, 60_000)),
            "MESSAGE": message,
        }
        yield json.dumps(record) + "\n"


def megatron(rng: random.Random) -> Text:
    """Yields a line for each iteration."""
    for step in count(1):
        seconds = rng.gauss(1.5, 0.01)
        yield (
            f" [{date(int(1.5 * step))}] iteration {step:8}/ 9999999 | consumed samples: {step * 128:12} | "
            f"elapsed time per iteration (ms): {seconds * 1000:.1f} | throughput per GPU (TFLOP/s/GPU): 418.7 | "
            f"learning rate: 1.500E-05 | global batch size:   128 | lm loss: {rng.gauss(2.4, 0.01):.6E} | "
            "loss scale: 1.0 | grad norm: 0.200 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )


def trainer(rng: random.Random) -> Text:
    """Yields the bar and the dictionaries of Hugging Face's Trainer."""
    whole = 99_999_999
    for step in count(1):
        elapsed = int(1.25 * step + rng.random())
        hours, rest = divmod(elapsed, 3600)
        yield f"  0%|          | {step}/{whole} [{hours}:{rest // 60:02}:{rest % 60:02}<9999:00:00,  1.25s/it]\r"
        if step % 10 == 0:
            yield f"{{'loss': {rng.gauss(2.4, 0.01):.4f}, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1}}\n"


def deepspeed(rng: random.Random) -> Text:
    """Yields the lines of each step: the optimizer, times of its parts, throughput."""
    for step in count(10, 10):
        head = f"[{date(step)},{rng.randint(0, 999):03}] [INFO]"
        rate = rng.gauss(111, 0.5)
        yield (
            f"{head} [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[0.0003], mom=[(0.9, 0.999)]\n"
            f"{head} [timer.py:260:stop] epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec=110.8, "
            f"CurrSamplesPerSec={rate:.2f}, MemAllocated=1.87GB, MaxMemAllocated=20.1GB\n"
            f"{head} [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: {rng.gauss(100, 1):.2f} | bwd: 300.00 | "
            f"bwd_inner: {rng.gauss(250, 1):.2f} | bwd_allreduce: {rng.gauss(50, 1):.2f} | step: 20.00\n"
        )


def nccl(rng: random.Random) -> Text:
    """Yields what NCCL says of channels, over and over."""
    for number in count():
        rank, peer = number % 16, (number + 1) % 16
        yield (
            f"node-{rank // 8}:{100 + rank}:{200 + rank} [{rank % 8}] NCCL INFO Channel {rng.randint(0, 15):02}/0 : "
            f"{rank}[{rank % 8}] -> {peer}[{peer % 8}] [send] via NET/IB/{rank % 8}/GDRDMA\n"
        )


def kernel(rng: random.Random) -> Text:
    """Yields a journal of a node: sessions, units, the kernel."""
    for number in count():
        stamp = date(number // 5, "%b %d %H:%M:%S")
        yield (
            f"{stamp} node-a kernel: [{number / 5:12.6f}] usb {rng.randint(1, 4)}-1: new high-speed USB device\n",
            f"{stamp} node-a systemd[1]: Started Session {number} of user root.\n",
            f"{stamp} node-a sshd[{rng.randint(1000, 60000)}]: Accepted publickey for root from 10.0.0.1 port 40022\n",
            f'{stamp} node-a kernel: [{number / 5:12.6f}] audit: type=1400 audit({number}): apparmor="STATUS"\n',
        )[number % 4]


def nginx(rng: random.Random) -> Text:
    """Yields the access log of a proxy with four upstreams."""
    for number in count():
        seconds, server = rng.gauss(1.5, 0.1), rng.randint(1, 4)
        yield (
            f"10.0.0.{rng.randint(1, 9)} - - [{date(number // 20, '%d/%b/%Y:%H:%M:%S')} +0000] "
            f'"POST /v1/completions HTTP/1.1" 200 {rng.randint(900, 9999)} "-" "python-requests/2.31" '
            f'rt={seconds:.3f} uct="0.001" uht="0.101" urt="{seconds - 0.001:.3f}" us="10.1.0.{server}:8000"\n'
        )


def nvidia_smi(rng: random.Random) -> Text:
    """Yields readings of eight GPUs each second."""
    yield "timestamp, index, utilization.gpu [%], temperature.gpu, power.draw [W], clocks.current.sm [MHz]\n"
    for second in count():
        stamp = date(second, "%Y/%m/%d %H:%M:%S")
        for gpu in range(8):
            power = rng.gauss(650, 3)
            yield f"{stamp}.000, {gpu}, {rng.randint(97, 100)} %, {rng.randint(60, 62)}, {power:.2f} W, 1755 MHz\n"


def dcgm_csv(rng: random.Random) -> Text:
    """Yields a long table of eight GPUs of eight nodes, each ten seconds."""
    yield "time,metric,node,gpu,value\n"
    names = ("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL")
    for second in count(0, 10):
        for place in range(64):
            values = (1755, rng.randint(60, 62), rng.gauss(650, 3), rng.randint(97, 100))
            for name, value in zip(names, values, strict=True):
                yield f"{START + second},{name},n{place // 8},{place % 8},{value:.2f}\n"


def pages(rng: random.Random) -> Text:
    """Yields a dump of the pages of a DCGM exporter, scrape after scrape, with times."""
    names = ("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL")
    for second in count(0, 15):
        for name in names:
            value = {names[0]: 1755.0, names[2]: 650.0}.get(name, 60.0)
            yield "".join(
                f'{name}{{gpu="{place % 8}",UUID="GPU-{place}",Hostname="n{place // 8}"}} '
                f"{value + rng.randint(0, 3)} {(START + second) * 1000}\n"
                for place in range(64)
            )


def records(rng: random.Random) -> Text:
    """Yields records of a training job, one a step."""
    for step in count(1):
        record = {
            "time": date(2 * step, "%Y-%m-%dT%H:%M:%SZ"),
            "level": "INFO",
            "step": step,
            "loss": round(rng.gauss(2.4, 0.01), 4),
            "step_time": round(rng.gauss(2.0, 0.01), 4),
            "tokens_per_second": round(rng.gauss(52_000, 100), 1),
        }
        yield json.dumps(record) + "\n"


def influx(rng: random.Random) -> Text:
    """Yields the line protocol of telegraf's plugin for GPUs, eight each ten seconds."""
    for second in count(0, 10):
        for gpu in range(8):
            yield (
                f"nvidia_smi,host=n0,index={gpu},name=NVIDIA\\ H100,uuid=GPU-{gpu} clocks_current_sm=1755i,"
                f"power_draw={rng.gauss(650, 3):.2f},temperature_gpu={rng.randint(60, 62)}i,"
                f"utilization_gpu={rng.randint(97, 100)}i {(START + second) * 1_000_000_000}\n"
            )


def unknown(rng: random.Random) -> Text:
    """Yields the log of a trainer that no format describes."""
    for step in count(1):
        yield (
            f"{date(2 * step)},000 INFO trainer.loop > finished update no. {step} :: loss={rng.gauss(2.4, 0.01):.4f} "
            f"update_time={rng.gauss(2.0, 0.01):.3f}s ppl=11.0\n"
        )
        if step % 20 == 0:
            yield f"{date(2 * step)},000 INFO trainer.data > shard {step % 97} opened, {rng.randint(1, 9)} in memory\n"


KINDS: dict[str, tuple[str, Callable[[random.Random], Text]]] = {
    "vllm": ("vllm.log", vllm),
    "statistics": ("vllm.log", statistics),
    "megatron": ("megatron.log", megatron),
    "trainer": ("trainer.log", trainer),
    "deepspeed": ("deepspeed.log", deepspeed),
    "nccl": ("nccl.log", nccl),
    "kernel": ("journal.log", kernel),
    "journald": ("journal.json", journald),
    "nginx": ("access.log", nginx),
    "nvidia-smi": ("smi.csv", nvidia_smi),
    "dcgm-csv": ("dcgm.csv", dcgm_csv),
    "prometheus": ("pages.prom", pages),
    "json-lines": ("train.jsonl", records),
    "influx": ("telegraf.influx", influx),
    "unknown": ("unknown.log", unknown),
}
"""Name of the file and what writes it, by kind."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the diagnosis of one file took."""

    kind: str
    size: int
    lines: int
    cpu_s: float
    peak_mib: float
    code: int
    """Exit status of the command: 0 and 3 are answers without a finding."""
    answer: str


def write_text(path: Path, kind: str, size: int, seed: int = 1) -> int:
    """Writes a text of about `size` bytes; returns its lines."""
    lines, left = 0, size
    with path.open("w") as file:
        for part in KINDS[kind][1](random.Random(seed)):
            file.write(part)
            lines, left = lines + part.count("\n") + part.count("\r"), left - len(part)
            if left <= 0:
                return lines
    raise AssertionError("texts do not end")


def measure(kind: str, path: Path, lines: int) -> Measurement:
    """Returns what the diagnosis of a file takes."""
    command = [sys.executable, "-m", "skewscope.tui.cli.main", "diagnose", str(path)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        answer = output.read().decode()
    cpu = usage.ru_utime + usage.ru_stime
    return Measurement(kind, path.stat().st_size, lines, cpu, usage.ru_maxrss / 1024, process.returncode, answer)


def render_row(one: Measurement) -> str:
    """Returns a row of the table."""
    each = one.cpu_s / one.lines * 1e6
    return (
        f"| {one.kind} | {one.size / MB:.0f} | {one.lines:,} | {one.cpu_s:.1f} | {each:.1f} | {one.peak_mib:.0f} "
        f"| {one.code} |"
    )


def describe_machine() -> str:
    """Returns processor and interpreter, in a line."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}"


def main() -> None:
    """Writes, diagnoses and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"some of {', '.join(KINDS)}; default: all")
    parser.add_argument("--mb", type=float, default=200.0, help="millions of bytes of each file")
    parser.add_argument("--folder", type=Path, help="where files are kept, which are written once; default: nowhere")
    parser.add_argument("--answers", action="store_true", help="print the answers as well")
    wanted = parser.parse_args()
    print(describe_machine())
    print("| kind | MB | lines | CPU s | µs a line | peak MiB | exit |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for kind in wanted.kinds or KINDS:
            folder = (wanted.folder or Path(scratch)) / f"{kind}-{wanted.mb:g}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / KINDS[kind][0]
            lines = write_text(path, kind, int(wanted.mb * MB))
            one = measure(kind, path, lines)
            print(render_row(one), flush=True)
            if wanted.answers:
                print(one.answer, flush=True)
            if wanted.folder is None:
                path.unlink()


if __name__ == "__main__":
    main()
