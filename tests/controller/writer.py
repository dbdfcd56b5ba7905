"""Writes ticks into a store until it is killed: `python -m tests.controller.writer STORE FIRST`."""

import sys
from itertools import count
from pathlib import Path

from skewscope.adapters.controller.store import Store
from skewscope.engine.incident import Advice, BlastRadius, Evidence, Impact, Incident
from skewscope.engine.incidents import Change


def incident(number: int) -> Incident:
    """One of many."""
    return Incident(
        f"i-{number}",
        "tp-straggler",
        "rank",
        f"n{number}",
        "firing",
        1000.0 + number,
        None,
        "warning",
        0.75,
        1.0,
        Impact("rounds", -0.25, "1"),
        BlastRadius(1, 1, 0),
        "tp-straggler-on-the-wire",
        "abc",
        evidence=(Evidence("late", "yes", 3.0, 0.002, "s", "wire.onset_lag > 1*ms"),),
        mitigations=(Advice("drain-node", "scheduler", "it is late"),),
    )


def main() -> None:
    store = Store(Path(sys.argv[1]))
    for number in count(int(sys.argv[2]) * 1000):
        one = incident(number)
        store.keep(float(number), [one], [Change(float(number), one.id, "opened")])
        sys.stdout.write(one.id + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
