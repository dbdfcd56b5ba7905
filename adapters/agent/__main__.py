"""`python -m skewscope.adapters.agent`: runs the agent without the libraries of the command line."""

import argparse
import os
import sys
from pathlib import Path
from typing import TextIO

from skewscope.kb.problems import InputError

EXIT_OK, EXIT_PROBLEMS, EXIT_ERROR = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    """Runs or checks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="skewscope agent", description="Observes a node from its DPU.")
    parser.add_argument("--config", type=Path, default=Path("/etc/skewscope/agent.yaml"), help="agent.yaml")
    parser.add_argument("--check", action="store_true", help="only check the configuration")
    reported = parser.parse_args(arguments)
    return check(reported.config) if reported.check else run(reported.config)


def check(config: Path) -> int:
    """Prints all problems of a configuration, or that there are none."""
    from skewscope.adapters.agent import config as configuration  # noqa: PLC0415 - see `run`

    problems = configuration.check(config)
    for problem in problems:
        _print_line(problem, sys.stderr)
    if problems:
        return EXIT_PROBLEMS
    _print_line(f"{config}: fine.", sys.stdout)
    return EXIT_OK


def run(config: Path) -> int:
    """Runs an agent until it is stopped."""
    # The agent does no linear algebra: its threads would only use memory.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from skewscope.adapters.agent import runner  # noqa: PLC0415
    from skewscope.adapters.runtime.log_lines import configure_log  # noqa: PLC0415

    configure_log("%(levelname)s %(message)s")
    try:
        runner.run(config)
    except InputError as error:
        for line in str(error).split("\n"):
            _print_line(line, sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def _print_line(line: object, stream: TextIO) -> None:
    """Prints a line without control characters: names in it come from files of others."""
    from skewscope.adapters.runtime.log_lines import escape_line  # noqa: PLC0415 - see `run`

    print(escape_line(str(line)), file=stream)


if __name__ == "__main__":
    sys.exit(main())
