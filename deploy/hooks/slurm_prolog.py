#!/usr/bin/env python3
"""Prolog of Slurm: refuses a job on a node that Skewscope knows to be sick, once it has drained the node.

slurm.conf: Prolog=/usr/local/sbin/slurm_prolog.py, PrologFlags=Alloc, SchedulerParameters=nohold_on_prolog_fail (else a
refused job is held until a person releases it). Environment as of slurm_health_check.py, which resumes the node: run
both. What is unknown, not answered within a second, or forbidden by the limits is let through: no job is held up.
"""

import sys

from skewscope.adapters.slurm_node_health import NodeHealthError, SlurmNode


def main() -> int:
    """Returns the exit status: 1 refuses the job."""
    try:
        found = SlurmNode.from_environment(timeout=1.0).admit()
    except (NodeHealthError, OSError, ValueError) as error:
        sys.stderr.write(f"skewscope: {error}\n")
        return 0
    if found.said:
        sys.stderr.write(f"skewscope: {found.said}\n")
    return int(found.is_refused)


if __name__ == "__main__":
    sys.exit(main())
