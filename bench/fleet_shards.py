"""Measures what shards cost: `python -m bench.fleet_shards`. It needs `skewscope[fleet]`, and is best run alone.

One simulated fleet is judged in one process, and then cut into 1, 2, 4, ... shards on Ray: samples a second and core,
memory, the cost of a series against the single process, the size of a snapshot, and whether one shard finds the same
incidents, byte by byte. Then a large fleet (50,176 nodes, 80 million series) in 16 shards: all at once where the memory
suffices, otherwise some of them in turn, which is fair since shards are alike and share nothing. At the end the size of
a shard from which on its cost is near that of the single process, and what all this says of a million GPUs, on paper.
All times are those of the processor; making the samples is not timed.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.test_bench_large import KNOWN, NODES, Source
from skewscope.adapters.controller.allocation import return_free_memory
from skewscope.adapters.fleet.journal import Journal
from skewscope.adapters.fleet.shard_engine import ShardEngine

SICK_WARM = 50
"""Ticks of the fleet with faults before the last ones: windows fill, faults begin."""
SICK_COPIES = 7
"""Parts of the fleet with faults: one has faults, the others hang on a congested leaf."""
STORE_BYTES = 256 << 20
NEAR = 1.15
"""Cost of a series against the single process that is wanted."""
BUSY = 0.5
"""Share of a core that a shard may use, on paper: the rest is for rows, snapshots and repeated ticks."""
MILLION, GPUS = 1_000_000, 8
ROOM = 0.85
"""Share of the free memory that shards may use together."""


class Judged:
    """One shard with its simulated agents; `run` times the judging alone."""

    def __init__(self, copies: int, sick: bool) -> None:
        self.source = Source(copies, sick)
        self.shard = ShardEngine(self.source.topology, KNOWN)

    def run(self, ticks: int, warm: int) -> dict:
        took = []
        for n in range(warm + ticks):
            if n == 1:
                # As a shard does: names stay alive, and need not be scanned.
                gc.collect()
                gc.freeze()
            if n == warm:
                # As a shard does at each snapshot.
                return_free_memory()
            frame = self.source.frame()
            begun = time.process_time()
            self.shard.step(frame.time, None, [frame])
            took.append(time.process_time() - begun)
        held = memory()
        # From now on the process notes anew what it holds at most.
        Path("/proc/self/clear_refs").write_text("5")
        resident = resident_memory("VmRSS")
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "journal", self.shard.fingerprint)
            journal.open()
            journal.write_snapshot(self.shard.dump())
            written = time.process_time() - begun
            size = sum(path.stat().st_size for path in journal.folder.glob("snapshot-*"))
        return {
            "nodes": len(self.source.topology.nodes),
            "series": self.source.size,
            "tick": float(np.median(took[warm:])),
            "dump": written,
            "size": size,
            "memory": held,
            "peak": held + resident_memory("VmHWM") - resident,
            "lines": [one.as_line() for one in self.shard.list_incidents()],
        }


def memory() -> float:
    """Returns the memory of the process in GiB; of what it shares with others, such as libraries, its part."""
    lines = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(lines["Pss"].split()[0]) / 2**20


def resident_memory(what: str) -> float:
    """Returns what the process holds now (VmRSS) or held at most (VmHWM), in GiB; what it shares counts in full."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[what].split()[0]) / 2**20


def free_memory() -> float:
    """Returns the memory of the machine that is available, in GiB."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) / 2**20


def in_process(copies: int, ticks: int, warm: int, *, sick: bool = False) -> dict:
    """Returns what one process of its own measures, which no Ray is in."""
    (found,) = in_processes([copies], ticks, warm, sick=sick)
    return found


def in_processes(sizes: list[int], ticks: int, warm: int, *, sick: bool = False) -> list[dict]:
    """Returns what processes of these sizes measure, which run all at once and no Ray is in."""
    code = "import json; from bench.fleet_shards import Judged; "
    codes = [f"{code}print(json.dumps(Judged({size}, {sick}).run({ticks}, {warm})))" for size in sizes]
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for code in codes]
    texts = [one.communicate()[0] for one in running]
    for one in running:
        if one.returncode:
            raise subprocess.CalledProcessError(one.returncode, one.args)
    return [json.loads(text.splitlines()[-1]) for text in texts]


class OnRay:
    """Shards as actors of a Ray of this process."""

    def __init__(self) -> None:
        import ray  # noqa: PLC0415 - an extra

        options = {"object_store_memory": STORE_BYTES, "include_dashboard": False, "log_to_driver": False}
        ray.init("local", num_cpus=os.cpu_count(), **options)
        self.ray, self.actor = ray, ray.remote(Judged)

    def run(self, sizes: list[int], ticks: int, warm: int, *, sick: bool = False) -> list[dict]:
        """Returns what shards of these sizes measure, which run all at once."""
        actors = [self.actor.options(num_cpus=0).remote(size, sick=sick) for size in sizes]
        found = self.ray.get([actor.run.remote(ticks, warm) for actor in actors])
        for actor in actors:
            self.ray.kill(actor)
        return found

    def close(self) -> None:
        self.ray.shutdown()


def split(copies: int, shards: int) -> list[int]:
    """Returns the sizes of so many shards, as equal as they can be."""
    return [copies // shards + (n < copies % shards) for n in range(shards)]


def cost(found: list[dict]) -> float:
    """Returns the processor seconds of a tick for each series."""
    return sum(one["tick"] for one in found) / sum(one["series"] for one in found)


def print_row(name: str, found: list[dict], single: dict) -> None:
    series, nodes = sum(one["series"] for one in found), sum(one["nodes"] for one in found)
    each = {what: np.median([one[what] for one in found]) for what in ("tick", "dump", "size")}
    print(
        f"{name:22} {nodes:6} nodes {series / 1e6:6.2f} M series {1000 * each['tick']:7.0f} ms a tick and shard"
        f" {1e-6 / cost(found):6.1f} M samples/s and core {cost(found) / cost([single]):5.2f} cost a series"
        f" {sum(one['memory'] for one in found):6.2f} GiB, {max(one['peak'] for one in found):.2f} a shard at most"
        f"  snapshot {each['dump']:5.2f} s {each['size'] / 1e6:4.0f} MB",
        flush=True,
    )


def measure_scale(on_ray: OnRay, options: argparse.Namespace) -> tuple[dict, dict[int, list[dict]]]:
    """Prints and returns what one process and each number of shards measure."""
    single = in_process(options.copies, options.ticks, options.warm)
    print_row("one process", [single], single)
    found, shards = {}, 1
    while shards <= min(options.most, options.copies):
        found[shards] = on_ray.run(split(options.copies, shards), options.ticks, options.warm)
        print_row(f"{shards} shards of {found[shards][0]['nodes']}", found[shards], single)
        shards *= 2
    return single, found


def measure_large(on_ray: OnRay, single: dict, options: argparse.Namespace) -> list[dict]:
    """Prints and returns what the shards of the large fleet measure."""
    sizes = [options.large] * options.large_shards
    first = on_ray.run(sizes[:1], options.ticks, options.warm)
    wanted, free = first[0]["peak"] * len(sizes), free_memory() * ROOM
    at_once = wanted <= free
    how = "all at once" if at_once else f"{options.sample} of them in turn, whose figures count for the others"
    print(f"{len(sizes)} shards want {wanted:.1f} GiB, {free:.1f} may be used: {how}")
    if at_once:
        found = on_ray.run(sizes, options.ticks, options.warm)
    else:
        some = sizes[1 : options.sample]
        measured = first + [one for size in some for one in on_ray.run([size], options.ticks, options.warm)]
        found = [measured[n % len(measured)] for n in range(len(sizes))]
    print_row(f"{len(sizes)} shards of {found[0]['nodes']}", found, single)
    alike = [in_process(options.large, options.ticks, options.warm)]
    print_row("one process", alike, single)
    print(f"a shard alone costs {cost(first) / cost(alike):.2f} of one process with as many nodes alone")
    if at_once:
        many = in_processes(sizes, options.ticks, options.warm)
        print_row(f"{len(sizes)} processes", many, single)
        print(f"a shard beside the others costs {cost(found) / cost(many):.2f} of a process beside as many,", end=" ")
        print(f"and that one {cost(many) / cost(alike):.2f} of one alone")
    return found


def print_size(single: dict, found: list[dict]) -> None:
    """Prints from which size on a shard costs little more than its share of the single process."""
    nodes = np.array([one["nodes"] for one in found], float)
    ticks = np.array([one["tick"] for one in found])
    each, fixed = np.polyfit(nodes, ticks, 1, w=1 / ticks)
    print(f"a tick of a shard takes {1000 * fixed:.0f} ms and {1e6 * each:.0f} us for each node")
    wanted = NEAR * single["tick"] / single["nodes"]
    sizes = sorted({int(n) for n in nodes})
    costs = {size: np.median(ticks[nodes == size]) / size / (wanted / NEAR) for size in sizes}
    print("cost by size of a shard:", ", ".join(f"{size}: {costs[size]:.2f}" for size in sizes))
    near = next((size for n, size in enumerate(sizes) if all(costs[more] <= NEAR for more in sizes[n:])), None)
    print(f"within {NEAR - 1:.0%} of {single['nodes']} nodes in one process: measured from {near} nodes on,", end=" ")
    print(f"by the line from {fixed / (wanted - each):.0f} nodes on" if wanted > each and fixed > 0 else "by no line")


def print_million(large: list[dict]) -> None:
    """Prints what shards of this size would take for a million GPUs; nothing of it is measured."""
    one = {
        name: float(np.median([each[name] for each in large])) for name in ("nodes", "tick", "memory", "dump", "size")
    }
    nodes = MILLION / GPUS
    shards = int(np.ceil(nodes / one["nodes"]))
    cores = shards * (one["tick"] + one["dump"] / 10)
    series = sum(each["series"] for each in large) / sum(each["nodes"] for each in large) * nodes
    print(
        f"on paper, {MILLION:,} GPUs ({nodes:,.0f} nodes, {series / 1e6:.0f} M series a second): {shards} shards,"
        f" {cores:.0f} cores busy with ticks and a snapshot every 10 s, {cores / BUSY:.0f} cores at {BUSY:.0%},"
        f" {shards * one['memory']:.0f} GiB, {shards * one['size'] / 1e7:.0f} MB/s of snapshots;"
        f" the controller hears {shards} reports a second. Rows that arrive are not in these figures."
    )


def compare_incidents(on_ray: OnRay, ticks: int) -> None:
    """Prints whether one shard finds what one process finds."""
    sick = in_process(SICK_COPIES, ticks, SICK_WARM, sick=True)
    (found,) = on_ray.run([SICK_COPIES], ticks, SICK_WARM, sick=True)
    same, count = found["lines"] == sick["lines"], len(sick["lines"])
    print(f"{SICK_COPIES * NODES} nodes with faults, one shard: the same {count} incidents, byte by byte: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--copies", type=int, default=64, help=f"parts of {NODES} nodes of the simulated fleet (default: 64)"
    )
    parser.add_argument("--most", type=int, default=16, help="the largest number of shards (default: 16)")
    parser.add_argument("--large", type=int, default=49, help="parts in each shard of the large fleet (default: 49)")
    parser.add_argument("--large-shards", type=int, default=16, help="its shards (default: 16)")
    parser.add_argument(
        "--sample", type=int, default=4, help="of these, as many are measured where all have no room (default: 4)"
    )
    parser.add_argument("--warm", type=int, default=12, help="ticks before the timed ones (default: 12)")
    parser.add_argument("--ticks", type=int, default=12, help="timed ticks (default: 12)")
    options = parser.parse_args()
    begun = time.monotonic()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before, {free_memory():.1f} GiB free")
    on_ray = OnRay()
    try:
        single, by_shards = measure_scale(on_ray, options)
        large = measure_large(on_ray, single, options)
        print_size(single, [one for shards in by_shards.values() for one in shards] + large)
        print_million(large)
        compare_incidents(on_ray, options.ticks)
    finally:
        on_ray.close()
    print(f"load {os.getloadavg()[0]:.1f} after; {time.monotonic() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
