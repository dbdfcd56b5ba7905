"""`python -m tests.lab SCENARIO FOLDER` makes a recording."""

import argparse
import shutil
import signal
import sys
from pathlib import Path

from tests.lab.namespaces import missing
from tests.lab.record import Times, record
from tests.lab.running import COMMANDS
from tests.lab.scenarios import SCENARIOS


def main() -> None:
    """Makes the recording that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Makes a recording of a lab.")
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("folder", type=Path, help="is made; it must not be there yet")
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--fault", type=float, nargs=2, default=(25.0, 55.0), metavar=("BEGIN", "END"))
    parser.add_argument("--seed", type=int, default=1, help="of the clients")
    asked = parser.parse_args()
    # Whoever ends it: namespaces and processes are taken away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if why := missing((*COMMANDS, "tcpdump")):
        parser.error(why)
    if asked.folder.exists():
        parser.error(f"{asked.folder} is there already")
    begin, end = asked.fault
    record(SCENARIOS[asked.scenario], asked.folder.resolve(), Times(begin, end, asked.seconds), asked.seed)
    shutil.rmtree(asked.folder / "work")


if __name__ == "__main__":
    main()
