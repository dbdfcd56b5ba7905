"""The faults of a node: it polls them from a file, so that they can change while it runs."""

import json
import os
import random
import threading
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

LOOK = 0.2
"""Seconds between two looks."""


def write(path: Path, faults: dict[str, float]) -> None:
    """Writes the faults of a node; none for health."""
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(faults), "utf-8")
    os.replace(aside, path)  # noqa: PTH105 - never half a file


@dataclass
class State:
    """The present faults of a node."""

    path: Path
    node: str
    faults: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chance = random.Random(zlib.crc32(self.node.encode()))

    def follow(self) -> None:
        """Starts to poll the file."""
        threading.Thread(target=self._follow, name="state", daemon=True).start()

    def _follow(self) -> None:
        while True:
            if self.path.exists():
                self.faults = json.loads(self.path.read_text("utf-8"))
            time.sleep(LOOK)

    def compute(self, ms: float) -> None:
        """Waits for a number of milliseconds, longer with `slow`, `stall` or `jitter`."""
        took = ms * self.faults.get("slow", 1.0) * (1 + self._chance.uniform(-0.05, 0.05))
        took += self.faults.get("stall", 0.0)
        if jitter := self.faults.get("jitter"):
            took += self._chance.expovariate(1 / jitter)
        time.sleep(took / 1000)
