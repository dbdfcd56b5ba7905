"""One node of a replica, as a process in its namespace: `python -m tests.lab.worker NODE MODE NODES STATE`."""

import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.lab.cluster import NORTH_SOUTH, address
from tests.lab.front import FrontEnd
from tests.lab.mesh import Mesh
from tests.lab.state import State
from tests.lab.steps import STEPS, Ranks
from tests.lab.vllm_page import Numbers, serve


def main(node: str, mode: str, nodes: str, state: str) -> None:
    """Runs until it is ended; `nodes` are those of the replica in rank order, separated by commas."""
    _first()
    ranks = Ranks(Mesh(node, nodes.split(",")), State(Path(state), node))
    ranks.state.follow()
    step = partial(STEPS[mode], ranks)
    if ranks.mesh.rank:
        while True:
            step(*ranks.mesh.told())

    def led(batch: int, prefill: int) -> None:
        ranks.mesh.tell(batch, prefill)
        step(batch, prefill)

    here, numbers = address(node, NORTH_SOUTH), Numbers()
    serve(here, numbers)
    front = FrontEnd(here, numbers)
    front.start()
    front.serve(led)


def _first() -> None:
    """Raises the scheduling priority, since a real node does not share its machine."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


if __name__ == "__main__":
    # A peer that is ended resets its connections.
    with suppress(ConnectionError):
        main(*sys.argv[1:])
