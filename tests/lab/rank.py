"""One rank of a training or decoding job, with real collectives of PyTorch over gloo; its device's time is a wait.

python -m tests.lab.rank MODE NODE FILE SEED    # RANK, WORLD_SIZE, MASTER_ADDR, ... in the environment
"""

import os
import random
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.lab.state import State

STEP_MS, LAYER_MS = 60.0, 8.0
"""Device time of a training step and of a layer of decoding, ms."""
SAVE_EVERY, COLLECT_EVERY = 40, 25
"""Steps between two checkpoints, and between two garbage collections."""


class Rank:
    """A rank and its faults: see `State`, and `load`, `save`, `collect` (ms) and `uneven` (largest factor)."""

    def __init__(self, node: str, file: Path, seed: int) -> None:
        self.state, self.steps = State(file, node), 0
        self.state.follow()
        # The same in all ranks: they agree on the sizes of what they exchange.
        self.sizes = random.Random(seed)
        self.chance = random.Random(seed * 1000 + int(os.environ["RANK"]))

    def compute(self, ms: float) -> None:
        """Waits as long as the device takes."""
        self.state.compute(ms * (1 + self.chance.random() * (self.state.faults.get("uneven", 1.0) - 1)))

    def begin(self) -> None:
        """Fetches the batch of a step."""
        self.steps += 1
        time.sleep(self.state.faults.get("load", 0.0) / 1000)
        if self.steps % COLLECT_EVERY == 0:
            time.sleep(self.state.faults.get("collect", 0.0) / 1000)

    def save(self) -> None:
        """Writes a checkpoint on the first rank, while the others wait."""
        took = self.state.faults.get("save", 0.0)
        if took and self.steps % SAVE_EVERY == 0:
            if os.environ["RANK"] == "0":
                time.sleep(took / 1000)
            dist.barrier()

    def train(self) -> None:
        """Trains with one copy of the model in each rank."""
        wide = 512 * self.sizes.randint(1, 3)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(256, wide), nn.ReLU(), nn.Linear(wide, 256)))
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        while True:
            self.begin()
            self.compute(STEP_MS)
            model(torch.randn(8, 256)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            self.save()

    def decode(self) -> None:
        """Decodes with one all-reduce for each layer."""
        layers, rows = self.sizes.randint(3, 6), 16 * self.sizes.randint(1, 3)
        weight = torch.randn(256, 256)
        while True:
            self.begin()
            hidden = torch.randn(rows, 256)
            for _ in range(layers):
                self.compute(LAYER_MS)
                hidden = torch.tanh(hidden @ weight)
                dist.all_reduce(hidden)


def main() -> None:
    """Runs the rank until it is ended."""
    mode, node, file, seed = sys.argv[1:5]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = Rank(node, Path(file), int(seed))
    dist.barrier()
    Path(file).with_suffix(".ready").touch()
    rank.train() if mode == "dp" else rank.decode()


if __name__ == "__main__":
    main()
