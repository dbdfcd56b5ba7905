"""Writes ticks into a store until it is killed: `python -m tests.adapters.controller.writer STORE FIRST`."""

import sys
from itertools import count
from pathlib import Path

from skewscope.adapters.controller.store import Store
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import Advice, BlastRadius, Impact, Incident, IncidentEvidence


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
        evidence=(IncidentEvidence("late", "yes", 3.0, 0.002, "s", "wire.onset_lag > 1*ms"),),
        mitigations=(Advice("drain-node", "scheduler", "it is late"),),
    )


def main() -> None:
    store = Store(Path(sys.argv[1]))
    for number in count(int(sys.argv[2]) * 1000):
        one = incident(number)
        store.write_tick(float(number), [one], [IncidentChange(float(number), one.id, "opened")])
        sys.stdout.write(one.id + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
