#!/usr/bin/env python3
"""Prolog of Slurm: refuses a job on a node that Skewscope knows to be sick; Slurm drains it and requeues the job.

slurm.conf: Prolog=/usr/local/sbin/slurm_prolog.py. Environment as of slurm_health_check.py, and SKEWSCOPE_REFUSE_BELOW
(0.3). What is unknown, or not answered within a second, is let through: a job is never held up by this.
"""

import os
import socket
import sys

from skewscope.adapters import Health


def main() -> int:
    """Returns the exit status: 1 refuses the job."""
    node = (
        os.environ.get("SKEWSCOPE_NODE") or os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    )
    try:
        found = Health.from_environment(timeout=1.0).query("node", node)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"skewscope: {error}\n")
        return 0
    if found.score is None or found.score >= float(os.environ.get("SKEWSCOPE_REFUSE_BELOW", "0.3")):
        return 0
    why = ", ".join(str(reason.get("condition")) for reason in found.reasons[:3])
    sys.stderr.write(f"skewscope: {node} has a health of {found.score:g}: {why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
