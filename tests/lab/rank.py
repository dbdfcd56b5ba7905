"""One rank of a job, with real collectives of PyTorch over gloo; its device's time is a wait.

python -m tests.lab.rank MODE NODE FILE SEED    # RANK, WORLD_SIZE, MASTER_ADDR, ... in the environment
"""

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.lab.state import State

STEP_MS, LAYER_MS = 60.0, 8.0
"""Device time of a training step and of a layer of decoding, ms."""
COLLECT_EVERY = 25
"""Steps between two garbage collections."""
USUAL_SAVE_EVERY = 60.0
"""Seconds between two checkpoints."""


class Rank:
    """A rank and its faults: see `State`; `load`, `save`, `collect` (ms), `uneven` (factor), `save_every` (s)."""

    def __init__(self, node: str, file: Path, seed: int) -> None:
        self.state = State(file, node)
        self.state.follow()
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        # The same in all ranks: they agree on the sizes of what they exchange.
        self.sizes = random.Random(seed)
        self.chance = random.Random(seed * 1000 + self.rank)
        self.until_collection = self.chance.randint(1, COLLECT_EVERY)
        self.saved = time.time()
        self.computed = 0.0
        self.told = file.with_suffix(".steps").open("w", buffering=1, encoding="utf-8")

    def compute(self, ms: float) -> None:
        """Waits as long as the device takes."""
        begun = time.time()
        self.state.compute(ms * (1 + self.chance.random() * (self.state.faults.get("uneven", 1.0) - 1)))
        self.computed += time.time() - begun

    def begin(self) -> None:
        """Fetches the batch of a step."""
        begun = time.time()
        time.sleep(self.state.faults.get("load", 0.0) / 1000)
        self.until_collection -= 1
        if self.until_collection <= 0:
            time.sleep(self.state.faults.get("collect", 0.0) / 1000)
            self.until_collection = COLLECT_EVERY
        self.computed += time.time() - begun

    def save(self) -> None:
        """Writes a checkpoint on the first rank, while the others wait for it in their next collective."""
        if self.rank:
            return
        took = self.state.faults.get("save", 0.0)
        if time.time() - self.saved >= self.state.faults.get("save_every", USUAL_SAVE_EVERY):
            time.sleep(took / 1000)
            self.saved = time.time()

    def run(self, step: Callable[[], object]) -> None:
        """Runs steps and notes the end, the duration and the computing time of each, s."""
        while True:
            begun, self.computed = time.time(), 0.0
            self.begin()
            step()
            self.save()
            ended = time.time()
            self.told.write(f"{ended:.3f} {ended - begun:.4f} {self.computed:.4f}\n")


def train(rank: Rank) -> Callable[[], object]:
    """Returns the step of a training with one copy of the model in each rank."""
    wide = 512 * rank.sizes.randint(1, 3)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(256, wide), nn.ReLU(), nn.Linear(wide, 256)))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step() -> None:
        rank.compute(STEP_MS)
        model(torch.randn(8, 256)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def shard(rank: Rank) -> Callable[[], object]:
    """Returns the step of a training with a part of the model in each rank: gathered, used, its gradients reduced."""
    layers, part = rank.sizes.randint(2, 4), 8192 * rank.sizes.randint(1, 3)
    mine, whole = torch.randn(part), torch.zeros(part * rank.world)

    def step() -> None:
        for _ in range(2 * layers):
            dist.all_gather_into_tensor(whole, mine)
            rank.compute(STEP_MS / 2 / layers)
        for _ in range(layers):
            dist.reduce_scatter_tensor(mine, whole)

    return step


def decode(rank: Rank) -> Callable[[], object]:
    """Returns the step of a decoding with one all-reduce for each layer."""
    layers, rows = rank.sizes.randint(3, 6), 16 * rank.sizes.randint(1, 3)
    weight = torch.randn(256, 256)

    def step() -> None:
        hidden = torch.randn(rows, 256)
        for _ in range(layers):
            rank.compute(LAYER_MS)
            hidden = torch.tanh(hidden @ weight)
            dist.all_reduce(hidden)

    return step


def route(rank: Rank) -> Callable[[], object]:
    """Returns the step of a model with experts: tokens go to them and come back in each layer."""
    layers, tokens = rank.sizes.randint(2, 4), 64 * rank.sizes.randint(1, 3)
    sent, received = torch.randn(rank.world * tokens, 128), torch.zeros(rank.world * tokens, 128)

    def step() -> None:
        for _ in range(layers):
            rank.compute(LAYER_MS)
            dist.all_to_all_single(received, sent)
            rank.compute(LAYER_MS)
            dist.all_to_all_single(sent, received)

    return step


def pass_on(rank: Rank) -> Callable[[], object]:
    """Returns the step of a training with one stage of the model in each rank: batches go forward, gradients back."""
    batches, rows = rank.sizes.randint(3, 6), 16 * rank.sizes.randint(2, 5)
    before, after = rank.rank - 1, rank.rank + 1
    hidden = torch.randn(rows, 256)

    def hand_on(comes: int, goes: int, ms: float) -> None:
        if 0 <= comes < rank.world:
            dist.recv(hidden, comes)
        rank.compute(ms)
        if 0 <= goes < rank.world:
            dist.send(hidden, goes)

    def step() -> None:
        for comes, goes, ms in ((before, after, LAYER_MS), (after, before, 2 * LAYER_MS)):
            for _ in range(batches):
                hand_on(comes, goes, ms)

    return step


def nest(rank: Rank) -> Callable[[], object]:
    """Returns the step of a training in two halves: each reduces after each layer, then pairs across reduce all."""
    layers, half = rank.sizes.randint(2, 4), rank.world // 2
    inner = [dist.new_group(list(range(half))), dist.new_group(list(range(half, 2 * half)))][rank.rank // half]
    outer = [dist.new_group([one, one + half]) for one in range(half)][rank.rank % half]
    gradients = torch.zeros(8192 * rank.sizes.randint(2, 4))

    def step() -> None:
        for _ in range(layers):
            rank.compute(STEP_MS / layers)
            dist.all_reduce(gradients[:8192], group=inner)
        dist.all_reduce(gradients, group=outer)

    return step


def serve(rank: Rank) -> Callable[[], object]:
    """Returns the step of a training whose weights the first rank hands out, and whose gradients it collects."""
    weights = torch.zeros(8192 * rank.sizes.randint(2, 4))

    def step() -> None:
        dist.broadcast(weights, 0)
        rank.compute(STEP_MS)
        dist.reduce(weights, 0)

    return step


MODES = {"dp": train, "fsdp": shard, "tp": decode, "moe": route, "pp": pass_on, "nested": nest, "server": serve}
"""Modes; `nested` takes an even number of ranks."""


def main() -> None:
    """Runs the rank until it is ended."""
    mode, node, file, seed = sys.argv[1:5]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = Rank(node, Path(file), int(seed))
    step = MODES[mode](rank)
    dist.barrier()
    Path(file).with_suffix(".ready").touch()
    rank.run(step)


if __name__ == "__main__":
    main()
