"""One rank of a training job under Slurm: a step is a wait for its device and then a collective over TCP.

`srun python -m bench.closed_loop_rank FOLDER`. The folder holds the checkpoint, the progress of the job, the state of
each rank, and the faults of each node.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

from tests.lab.state import State

STEP_MS = 300.0
"""Device time of a step."""


def connect(folder: Path, rank: int, count: int) -> list[socket.socket]:
    """Returns the connections of rank 0 to all others, or that of another rank to rank 0."""
    meeting = folder / f"hub-{os.environ['SLURM_JOB_ID']}-{os.environ.get('SLURM_RESTART_COUNT', '0')}"
    if rank:
        while not meeting.exists() or not meeting.read_text():
            time.sleep(0.05)
        return [socket.create_connection(("127.0.0.1", int(meeting.read_text())))]
    with socket.create_server(("127.0.0.1", 0)) as server:
        meeting.write_text(str(server.getsockname()[1]))
        return [server.accept()[0] for _ in range(count - 1)]


def meet(links: list[socket.socket], rank: int) -> None:
    """Waits for all ranks: rank 0 collects a byte of each, and gives one back."""
    if rank:
        links[0].sendall(b"x")
    received = [link.recv(1) for link in links]
    if not all(received):
        raise SystemExit("a rank is gone")
    if not rank:
        for link in links:
            link.sendall(b"x")


def replace_file(path: Path, text: str) -> None:
    """Writes a file so that nobody reads half of it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def main() -> None:
    """Runs the rank until it is ended."""
    folder = Path(sys.argv[1])
    rank, count, node = (os.environ[name] for name in ("SLURM_PROCID", "SLURM_NTASKS", "SLURMD_NODENAME"))
    state = State(folder / f"{node}.json", node)
    state.follow()
    links = connect(folder, int(rank), int(count))
    checkpoint, status = folder / "checkpoint", folder / f"rank-{node}.json"
    step = int(checkpoint.read_text()) if checkpoint.exists() else 0
    begun = done = 0
    with (folder / "progress").open("a", buffering=1) as progress:
        while True:
            started = time.time()
            state.compute(STEP_MS)
            computed, begun = time.time() - started, begun + 1
            counts = {"pid": os.getpid(), "compute": computed, "begun": begun, "done": done}
            replace_file(status, json.dumps(counts))
            meet(links, int(rank))
            done, step = done + 1, step + 1
            if rank == "0":
                replace_file(checkpoint, str(step))
                progress.write(f"{time.time():.3f} {step}\n")


if __name__ == "__main__":
    main()
