"""One step of a replica: a token for every sequence of the batch, and the prompts of new ones."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.mesh import BUFFER, Mesh
from tests.lab.state import State

LAYERS, LAYER_MS = 4, 8.0
HIDDEN = 4096
"""Bytes of a sequence that go from node to node in each layer."""
WORD = 64
"""Bytes that only say that it is done."""


@dataclass(frozen=True)
class Ranks:
    """One node and its peers in the replica."""

    mesh: Mesh
    state: State


def tensor_parallel(ranks: Ranks, batch: int, prefill: int) -> None:
    """Runs a step in which all nodes compute each layer and exchange the results."""
    size = HIDDEN * max(1, batch) + prefill * 128
    for _ in range(LAYERS):
        ranks.state.compute(LAYER_MS + 0.05 * batch + 0.01 * prefill)
        ranks.mesh.exchange(min(size, BUFFER))


def pipeline_parallel(ranks: Ranks, batch: int, prefill: int) -> None:
    """Runs a step in which each node computes its layers and passes on the result; the last returns a token."""
    mesh, last = ranks.mesh, ranks.mesh.size - 1
    if mesh.rank:
        mesh.receive(mesh.rank - 1)
    for _ in range(LAYERS):
        ranks.state.compute(LAYER_MS / 2 + 0.05 * batch + 0.01 * prefill)
    if mesh.rank < last:
        mesh.send(mesh.rank + 1, min(HIDDEN * max(1, batch) + prefill * 512, BUFFER))
    else:
        mesh.send(0, WORD)
    if mesh.rank == 0:
        mesh.receive(last)


def prefill_decode(ranks: Ranks, batch: int, prefill: int) -> None:
    """Runs a step in which the first half prefills and sends keys and values to its twin, which decodes."""
    mesh, half = ranks.mesh, ranks.mesh.size // 2
    if mesh.rank < half:
        for _ in range(LAYERS if prefill else 0):
            ranks.state.compute(LAYER_MS / 2 + 0.02 * prefill)
        mesh.send(mesh.rank + half, min(2 * BUFFER, prefill * HIDDEN) or WORD)
        if mesh.rank == 0:
            mesh.receive(half)
        return
    mesh.receive(mesh.rank - half)
    for _ in range(LAYERS):
        ranks.state.compute(LAYER_MS + 0.05 * batch)
    if mesh.rank == half:
        mesh.send(0, WORD)


STEPS: dict[str, Callable[[Ranks, int, int], None]] = {
    "tp": tensor_parallel,
    "pp": pipeline_parallel,
    "pd": prefill_decode,
}
