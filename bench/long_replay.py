"""Measures the replay of long telemetry: `python -m bench.long_replay --hours 6` on 64 nodes scraped each 15 s.

It writes a recording as node, GPU and port exporters would fill it, 30 series a node, with a locked GPU clock and a
silent port in it, replays it in this process and prints the processor seconds of reading and of all ticks, what
30 days would take at that pace, and the peak memory.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.loader import catalogue

GPUS, PORTS = 4, 2
DAY_S = 86_400
MONTH_S = 30 * DAY_S
START = 1_780_000_005
MAX_BYTES = 4 << 30
Totals = defaultdict[tuple[str, int, int], float]
"""What each counter of a port has counted, by (signal, node, port): it goes on from one day to the next."""


def write_recording(folder: Path, nodes: int, seconds: int, period: int) -> None:
    """Writes a recording: one Parquet file a day, and its topology."""
    folder.mkdir(parents=True, exist_ok=True)
    ports = [{"name": f"p{n}", "network": "east-west", "speed": "400 Gbit/s"} for n in range(PORTS)]
    fleet = [{"name": f"n{n}", "gpus": GPUS, "ports": ports} for n in range(nodes)]
    (folder / "topology.yaml").write_text(json.dumps({"version": 1, "nodes": fleet}))
    inputs, totals = [], Totals(float)
    for day in range(-(-seconds // DAY_S)):
        begin, end = day * DAY_S, min(seconds, (day + 1) * DAY_S)
        write_table(folder / f"day-{day:02}.parquet", nodes, np.arange(begin, end, period), seconds, totals)
        inputs.append({"kind": "parquet", "path": f"day-{day:02}.parquet"})
    (folder / "recording.yaml").write_text(json.dumps({"version": 1, "topology": "topology.yaml", "inputs": inputs}))


def write_table(path: Path, nodes: int, ages: np.ndarray, whole: int, totals: Totals) -> None:
    """Writes the samples of a day as a long table, scrape after scrape."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = list(series_values(nodes, ages, whole, totals))
    words = sorted({word for _, labels, _ in columns for word in labels.values()} | {name for name, _, _ in columns})
    at = {word: n for n, word in enumerate(words)}
    texts = {"signal": [at[name] for name, _, _ in columns]}
    for label in ("node", "gpu", "port"):
        texts[label] = [at[labels[label]] if label in labels else -1 for _, labels, _ in columns]
    table = {"time": np.repeat((START + ages).astype(np.float64), len(columns))}
    values = np.stack([values for _, _, values in columns], axis=1).ravel()
    for label, numbers in texts.items():
        tiled = np.tile(np.array(numbers, np.int32), len(ages))
        table[label] = pa.DictionaryArray.from_arrays(pa.array(tiled, mask=tiled < 0), pa.array(words))
    pq.write_table(pa.table({**table, "value": values}), path, row_group_size=1 << 20)


def series_values(
    nodes: int, ages: np.ndarray, whole: int, totals: Totals
) -> Iterator[tuple[str, dict[str, str], np.ndarray]]:
    """Yields (signal, labels, [scrape] values) of every series; `totals` are brought up to date."""
    rng = np.random.default_rng(int(ages[0]) + 1)
    # The last table may hold one scrape.
    period = ages[1] - ages[0] if len(ages) > 1 else 1
    passed = np.diff(ages, prepend=ages[0] - period)
    load = 0.8 + 0.1 * np.sin(2 * np.pi * ages / DAY_S)
    late = ages > whole // 2

    def noisy(mean: float, spread: float) -> np.ndarray:
        return mean * load * (1 + spread * rng.standard_normal(len(ages)))

    for n in range(nodes):
        node = {"node": f"n{n}"}
        yield "host.cpu_util", node, np.clip(noisy(0.4, 0.05), 0, 1)
        yield "host.tcp_timeouts", node, np.floor(ages * 0.01 + n)
        for gpu in range(GPUS):
            labels = node | {"gpu": str(gpu)}
            locked = late & (n == nodes // 3) & (gpu == 0)
            yield "gpu.sm_clock", labels, np.where(locked, 210.0, 1700.0 + 15 * rng.integers(0, 4, len(ages)))
            yield "gpu.util", labels, np.clip(noisy(95, 0.02), 0, 100)
            yield "gpu.power", labels, np.where(locked, 120.0, noisy(550, 0.03))
            yield "gpu.temperature", labels, np.round(np.where(locked, 35.0, noisy(65, 0.02)))
        for port in range(PORTS):
            labels = node | {"port": f"p{port}"}
            silent = late & (n == nodes // 2) & (port == 1)
            for signal, rate in (("port.rx_bytes", 4e9), ("port.tx_bytes", 4e9)):
                each = np.where(silent, 0.0, rate * load * (1 + 0.05 * rng.standard_normal(len(ages))))
                carried = np.round(totals[signal, n, port] + np.cumsum(each * passed))
                totals[signal, n, port] = carried[-1]
                yield signal, labels, carried
            for signal in ("port.rx_discards", "port.rx_crc_errors", "port.link_down_events"):
                yield signal, labels, np.zeros(len(ages))
            yield "port.state", labels, np.full(len(ages), 4.0)


def main() -> None:
    """Writes, replays and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--period", type=int, default=15, help="seconds between scrapes")
    parser.add_argument("--folder", type=Path, help="where the recording is, or is written; default: a temporary one")
    wanted = parser.parse_args()
    seconds = int(wanted.hours * 3600)
    # 30 days are more than what a recording may hold by default.
    os.environ.setdefault("SKEWSCOPE_MAX_BYTES", str(MAX_BYTES))
    with tempfile.TemporaryDirectory() as scratch:
        folder = wanted.folder or Path(scratch) / "long"
        if not (folder / "recording.yaml").exists():
            write_recording(folder, wanted.nodes, seconds, wanted.period)
        began = time.process_time()
        loaded = load(open_recording(folder), catalogue(), workers=1)
        read_s = time.process_time() - began
        span = loaded.end - loaded.start
        del loaded
        began = time.process_time()
        outcome = replay(folder)
        whole_s = time.process_time() - began
    ticks = seconds // wanted.period
    found = Counter(one.condition for one in outcome.incidents)
    print(f"{outcome.samples} samples over {span / 3600:.1f} h; {dict(found)}")
    print(f"read {read_s:.1f} s, all {whole_s:.1f} s, {(whole_s - read_s) / ticks * 1e3:.2f} ms a scrape")
    print(f"30 days: {whole_s * MONTH_S / seconds / 60:.1f} min")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
