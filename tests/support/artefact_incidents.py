"""Made-up artefacts of incidents, one of each kind: what the pages of docs/artefacts show the answers on.

`python -m tests.support.artefact_incidents` writes those answers into the pages.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from click.testing import CliRunner

from skewscope.tui.cli.main import cli

PAGES = Path(__file__).parents[2] / "docs" / "artefacts"
START = 1795341600.0
"""2026-11-22 10:00:00 UTC."""
WIDTH = "100"
LAST_PARTS = ("do ", "explains ", "not checked", "Missing data", "--why adds", "Add first", "acted ")
"""How the parts of a report begin from which on a page leaves it out."""


def stamp(seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Returns a time so many seconds after the start."""
    return datetime.fromtimestamp(START + seconds, UTC).strftime(form)


def wobble(number: int) -> float:
    """Returns a share between -0.02 and 0.02 that looks random."""
    return (number * 7919 % 41 - 20) / 1000


def gpu_rows(seconds: int = 240) -> Iterator[tuple[int, int, int, float, int, int]]:
    """Yields (second, GPU, clock in MHz, power in W, utilisation in %, temperature in °C); GPU 5 falls at 120 s."""
    for t in range(0, seconds, 2):
        for gpu in range(8):
            held = gpu == 5 and t >= 120
            power = (150 if held else 630) * (1 + wobble(t + 31 * gpu))
            yield t, gpu, 210 if held else 1410, power, 98, 45 if held else 62


def nvidia_smi() -> str:
    head = "timestamp, index, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], temperature.gpu"
    rows = (
        f"{stamp(t, '%Y/%m/%d %H:%M:%S')}.{100 + gpu}, {gpu}, {clock} MHz, {power:.2f} W, {busy} %, {heat}"
        for t, gpu, clock, power, busy, heat in gpu_rows()
    )
    return "\n".join([head, *rows, ""])


def nvidia_smi_dmon() -> str:
    head = (
        "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk\n"
        "#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz"
    )
    rows = (
        f" {stamp(t, '%Y%m%d   %H:%M:%S')}   {gpu:4} {power:6.0f} {heat:6} {heat:6} {busy:6}     10   2619 {clock:6}"
        for t, gpu, clock, power, busy, heat in gpu_rows()
    )
    return "\n".join([head, *rows, ""])


TABLE_LINE = "+-----------------------------------------+------------------------+----------------------+"
TABLE_MEMORY = "   70000MiB /  81559MiB "
TABLE_HEAD = f"""\
{TABLE_LINE}
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
{TABLE_LINE}
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|"""


def nvidia_smi_table() -> str:
    """Returns tables of GPUs of which one gets hot at 300 s."""
    lines = []
    for t, gpu, _, _, busy, _ in gpu_rows(600):
        if gpu == 0:
            lines += [stamp(t, "%a %b %e %H:%M:%S %Y"), TABLE_HEAD]
        power, heat = 630 * (1 + wobble(t + 31 * gpu)), 93 if gpu == 5 and t >= 300 else 62
        lines += [
            f"|   {gpu}  NVIDIA H100 80GB HBM3          On  |   00000000:{16 + gpu:02X}:00.0 Off |{'0 |':>23}",
            f"| N/A   {heat:2}C    P0            {power:3.0f}W /  700W |{TABLE_MEMORY}|{busy:7}%      Default |",
            TABLE_LINE,
        ]
    return "\n".join([*lines, ""])


def dcgmi_dmon() -> str:
    head = "#Entity   SMCLK   GPUTL   POWER   TMPTR\nID                        W       C"
    rows = (
        f"{stamp(t, '%Y-%m-%dT%H:%M:%S+0000')} GPU {gpu}     {clock}   {busy}   {power:.3f}   {heat}"
        for t, gpu, clock, power, busy, heat in gpu_rows()
    )
    return "\n".join([*(f"{stamp(0, '%Y-%m-%dT%H:%M:%S+0000')} {line}" for line in head.split("\n")), *rows, ""])


def ethtool_statistics() -> str:
    dumps = (
        f"{stamp(t, '%Y-%m-%dT%H:%M:%S+00:00')}\nNIC statistics:\n"
        f"     rx_bytes_phy: {t * 2_500_000_000}\n     tx_bytes_phy: {t * 2_400_000_000}\n"
        f"     rx_packets_phy: {t * 610_000}\n     tx_packets_phy: {t * 600_000}\n"
        f"     rx_crc_errors_phy: {max(t - 300, 0) * 31}\n     rx_symbol_err_phy: {max(t - 300, 0) * 40}\n"
        for t in range(0, 600, 10)
    )
    return "".join(dumps)


def infiniband_counters() -> str:
    return "".join(f"{START + t:.0f}\n{_infiniband_dump(t)}" for t in range(0, 600, 10))


def _infiniband_dump(t: int) -> str:
    lines = []
    for device in ("mlx5_0", "mlx5_1"):
        at, is_down = f"/sys/class/infiniband/{device}/ports/1", device == "mlx5_1" and t >= 300
        moved = min(t, 300) if device == "mlx5_1" else t
        lines += [
            *(f"{at}/counters/port_{way}_data:{moved * 400_000_000}" for way in ("rcv", "xmit")),
            *(f"{at}/counters/port_{way}_packets:{moved * 900_000}" for way in ("rcv", "xmit")),
            f"{at}/counters/link_downed:{int(is_down)}",
            f"{at}/state:{'1: DOWN' if is_down else '4: ACTIVE'}",
            f"{at}/phys_state:{'3: Disabled' if is_down else '5: LinkUp'}",
            f"{at}/rate:400 Gb/sec (4X NDR)",
        ]
    return "\n".join([*lines, ""])


def steps() -> Iterator[tuple[int, float, float]]:
    """Yields (number, end, length in seconds) of the steps of a job; from 196 s on they take 1.6 times as long."""
    number, end = 1, 19.0
    yield number, end, 19.0
    while end < 390:
        number += 1
        length = 1.5 * (1 + wobble(number)) * (1.6 if end >= 196 else 1.0)
        end += length
        yield number, end, length


def _milli(end: float) -> str:
    return f"{stamp(end)}.{round(end * 1000) % 1000:03}"


def megatron_log() -> str:
    out = ["[before the start of training step] datetime: 2026-11-22 10:00:00"]
    for number, end, length in steps():
        out.append(
            f" [{_milli(end)}000] iteration {number:8}/     400 | consumed samples: {128 * number:12} | "
            f"elapsed time per iteration (ms): {1000 * length:.1f} | global batch size:   128 |"
        )
        out.append("times across ranks (ms):")
        for part, share in (("forward-compute", 0.2), ("backward-compute", 0.4)):
            out.append(f"  {part}:")
            for rank in range(8):
                slow = 1.9 if rank == 5 and end >= 196 else 1.0
                out.append(f"     rank {rank:2}: {1500 * share * slow * (1 + wobble(number + 5 * rank)):.2f}")
    return "\n".join([*out, ""])


def nemo_log() -> str:
    rows = (
        f"{stamp(end, '%Y-%m-%dT%H:%M:%S+0000')} Training epoch 0, iteration {number}/400 | global_batch_size: 32 | "
        f"global_step: {number} | reduced_train_loss: 1.31 | train_step_timing in s: {length:.3f}"
        for number, end, length in steps()
    )
    return "\n".join([*rows, ""])


def llamafactory_log() -> str:
    rows = (
        {
            "current_steps": 5 * number,
            "total_steps": 2000,
            "loss": 1.2,
            "lr": 5e-05,
            "epoch": 0.01,
            "percentage": round(number / 4, 2),
            "elapsed_time": str(timedelta(seconds=int(10 * end))),
            "remaining_time": str(timedelta(seconds=int(10 * end * (2000 - 5 * number) / (5 * number)))),
        }
        for number, end, _ in steps()
    )
    return "\n".join([*map(json.dumps, rows), ""])


def swift_log() -> str:
    rows = (
        {
            "loss": 1.2,
            "grad_norm": 1.5,
            "learning_rate": 0.0001,
            "epoch": 0.01,
            "global_step/max_steps": f"{5 * number}/2000",
            "percentage": f"{number / 4:.2f}%",
            "elapsed_time": f"{int(10 * end) // 60}m {int(10 * end) % 60}s",
            "remaining_time": "1h 0m 0s",
            "memory(GiB)": 22.1,
            "train_speed(iter/s)": round(5 * number / (10 * end), 6),
        }
        for number, end, _ in steps()
    )
    return "\n".join([*map(json.dumps, rows), ""])


def nanogpt_log() -> str:
    rows = (
        f"step:{number}/400 train_loss:3.2281 train_time:{1000 * end:.0f}ms step_avg:{1000 * end / number:.2f}ms"
        for number, end, _ in steps()
    )
    return "\n".join([*rows, ""])


def step_log() -> str:
    rows = (
        f"[rank0]:[titan] {_milli(end).replace('.', ',')} - root - INFO - step: {number:2}  loss:  2.5000  "
        f"grad_norm:  0.8319  memory: 49.66GiB(52.28%)  tps: {round(11716 / length):,}  tflops: {679 / length:.2f}  "
        f"mfu: {68 / length:.2f}%"
        for number, end, length in steps()
    )
    return "\n".join([*rows, ""])


def tqdm_log() -> str:
    """Returns the bar of the Trainer of Hugging Face, on which single steps take ten times as long as here."""
    rows = (
        f" {number // 4:2}%|{'█' * (number // 40):10}| {number}/400 "
        f"[{int(10 * end) // 60:02}:{int(10 * end) % 60:02}<1:00:00, {10 * length:5.2f}s/it]"
        "{'loss': 1.2, 'grad_norm': 1.5, 'learning_rate': 0.0001, 'epoch': 0.01}"
        for number, end, length in steps()
    )
    return "\r".join(rows) + "\n"


def deepspeed_log() -> str:
    rows = (
        f"[{_milli(end).replace('.', ',')}] [INFO] [timer.py:260:stop] epoch=0/micro_step={number}/"
        f"global_step={number}, RunningAvgSamplesPerSec=110.8, CurrSamplesPerSec={128 / length:.2f}, "
        "MemAllocated=1.87GB, MaxMemAllocated=6.12GB"
        for number, end, length in steps()
    )
    return "\n".join([*rows, ""])


def mlperf_log() -> str:
    def event(end: float, key: str, value: object, **more: object) -> str:
        place = {"file": "train.py", "lineno": 161, **more}
        row = {"namespace": "", "time_ms": round(1000 * (START + end)), "event_type": "POINT_IN_TIME", "key": key}
        return f":::MLLOG {json.dumps({**row, 'value': value, 'metadata': place})}"

    rows = (event(end, "tracked_stats", {"throughput": 8 / length}, step=number) for number, end, length in steps())
    return "\n".join([event(0, "global_batch_size", 8), *rows, ""])


def loads() -> Iterator[tuple[int, int, int, float]]:
    """Yields (second, running, waiting, usage of the KV cache) of a server; from 600 s on it is asked for too much."""
    for t in range(0, 1200, 10):
        late = max(t - 600, 0)
        yield t, 12 if late else 6 + t // 10 % 3, late // 2, min(0.3 + late / 200, 0.99) if late else 0.3


def vllm_log() -> str:
    rows = (
        f"INFO {stamp(t, '%m-%d %H:%M:%S')} [loggers.py:273] Engine 000: Avg prompt throughput: "
        f"{1200 + running:.1f} tokens/s, Avg generation throughput: {30.0 * running:.1f} tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {100 * usage:.1f}%, "
        "Prefix cache hit rate: 40.5%"
        for t, running, waiting, usage in loads()
    )
    return "\n".join([*rows, ""])


def sglang_log() -> str:
    rows = (
        f"[{stamp(t)} DP0 TP0] Decode batch, #running-req: {running}, #token: {int(70000 * usage)}, "
        f"token usage: {usage:.2f}, cuda graph: True, gen throughput (token/s): {30.0 * running:.2f}, "
        f"#queue-req: {waiting}"
        for t, running, waiting, usage in loads()
    )
    return "\n".join([*rows, ""])


def trtllm_iterations() -> Iterator[tuple[int, float, int]]:
    """Yields (second, seconds of an iteration, prompt tokens in it); from 60 s on each second one reads a prompt."""
    for n in range(4000):
        reads = n >= 2000 and n % 2 == 1
        yield int(n * 0.03), (0.2 if reads else 0.0115) * (1 + wobble(n)), 8192 if reads else 0


def trtllm_log() -> str:
    rows = (
        f"[{stamp(t, '%m/%d/%Y-%H:%M:%S')}] [TRT-LLM] [I] iter = {n}, global_rank = 0, rank = 0, "
        f"currank_total_requests = 0/0, host_step_time = {1e3 * took:.3f}ms, prev_device_step_time = 11.4ms, "
        f"timestamp = {stamp(t)}, num_scheduled_requests: 40, states = {{'num_ctx_requests': {min(tokens, 1)}, "
        f"'num_ctx_tokens': {tokens}, 'num_generation_tokens': 40}}"
        for n, (t, took, tokens) in enumerate(trtllm_iterations())
    )
    return "\n".join([*rows, ""])


def trtllm_statistics() -> str:
    rows = [
        {
            "iter": n,
            "iterLatencyMS": round(1e3 * took, 3),
            "timestamp": stamp(t, "%m-%d-%Y %H:%M:%S.%f"),
            "numActiveRequests": 40,
            "numQueuedRequests": 0,
            "inflightBatchingStats": {"numCtxTokens": tokens, "numGenRequests": 40},
        }
        for n, (t, took, tokens) in enumerate(trtllm_iterations())
    ]
    return json.dumps(rows) + "\n"


def prometheus_json() -> str:
    """Returns the answer of query_range on two servers, of which one is asked for too much."""
    result = []
    for host in "ab":
        rows = [(t, running, waiting, usage) for t, running, waiting, usage in loads() if host == "a" or t < 600]
        rows += [(t, *rows[t // 10 % 60][1:]) for t in range(600, 1200, 10) if host == "b"]
        for column, name in enumerate(("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"), 1):
            metric = {"__name__": f"vllm:{name}", "instance": f"{host}:8000", "job": "vllm", "model_name": "m"}
            result.append({"metric": metric, "values": [[START + row[0], str(row[column])] for row in rows]})
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(answer) + "\n"


def influx_lines() -> str:
    """Returns what Telegraf writes of GPUs of which one gets hot at 120 s."""
    return "".join(
        f"nvidia_smi,host=n0,index={gpu},name=NVIDIA\\ H100,uuid=GPU-{gpu} clocks_current_sm={900 if hot else 1410}i,"
        f"power_draw={power:.2f},temperature_gpu={91 if hot else 62}i,utilization_gpu={busy}i {(START + t) * 1e9:.0f}\n"
        for t, gpu, _, power, busy, _ in gpu_rows()
        for hot in [gpu == 5 and t >= 120]
    )


INCIDENTS = {
    "dcgmi-dmon": ("n0.txt", dcgmi_dmon),
    "deepspeed-log": ("train.log", deepspeed_log),
    "ethtool-statistics": ("n0-ens1f0np0.txt", ethtool_statistics),
    "influx-lines": ("telegraf.influx", influx_lines),
    "infiniband-counters": ("n0.txt", infiniband_counters),
    "llamafactory-log": ("trainer_log.jsonl", llamafactory_log),
    "megatron-log": ("train.log", megatron_log),
    "mlperf-log": ("result_0.txt", mlperf_log),
    "nanogpt-log": ("train.txt", nanogpt_log),
    "nemo-log": ("train.log", nemo_log),
    "nvidia-smi": ("n0.csv", nvidia_smi),
    "nvidia-smi-dmon": ("n0.txt", nvidia_smi_dmon),
    "nvidia-smi-table": ("n0.txt", nvidia_smi_table),
    "prometheus-json": ("queue.json", prometheus_json),
    "sglang-log": ("sglang.log", sglang_log),
    "step-log": ("train.log", step_log),
    "swift-log": ("logging.jsonl", swift_log),
    "tqdm-log": ("train.log", tqdm_log),
    "trtllm-log": ("trtllm.log", trtllm_log),
    "trtllm-statistics": ("metrics.json", trtllm_statistics),
    "vllm-log": ("vllm-2026-11-22.log", vllm_log),
}
"""By page: the name of the file in its command, and what makes the file."""


def answer(page: str, folder: Path) -> str:
    """Returns the begin of what `skewscope diagnose` answers on the artefact of a page, as the page shows it."""
    name, make = INCIDENTS[page]
    (folder / name).write_text(make(), encoding="utf-8")
    done = CliRunner(env={"COLUMNS": WIDTH}).invoke(cli, ["diagnose", str(folder / name), "--no-progress"])
    lines = done.stdout.splitlines()
    end = next((n for n, line in enumerate(lines) if line.startswith(LAST_PARTS)), len(lines))
    return "\n".join(lines[:end]).strip()


def split_page(page: str) -> tuple[str, str, str]:
    """Returns the text of a page before the answer, the answer and the rest."""
    before, answered, rest = (PAGES / f"{page}.md").read_text(encoding="utf-8").split("```", 2)
    return f"{before}```\n", answered.strip("\n"), f"\n```{rest}"


def main() -> None:
    """Writes the answers into the pages."""
    for page in INCIDENTS:
        with tempfile.TemporaryDirectory() as folder:
            before, _, rest = split_page(page)
            (PAGES / f"{page}.md").write_text(before + answer(page, Path(folder)) + rest, encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = WIDTH
    main()
