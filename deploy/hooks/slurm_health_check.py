#!/usr/bin/env python3
"""HealthCheckProgram of Slurm: drains this node while Skewscope knows it to be sick, and resumes it afterwards.

slurm.conf: HealthCheckProgram=/usr/local/sbin/slurm_health_check.py, HealthCheckInterval=60, HealthCheckNodeState=ANY.
Environment: SKEWSCOPE_URL, SKEWSCOPE_TOKEN_FILE; SKEWSCOPE_MODE (observe, or act); SKEWSCOPE_DRAIN_BELOW (0.3),
SKEWSCOPE_RESUME_FROM (0.8); SKEWSCOPE_MAX_DRAINED (2) and SKEWSCOPE_MAX_SHARE (0.1) bound the nodes that are drained at
the same time, and above SKEWSCOPE_BREAKER_SHARE (0.3) of ill nodes none is; SKEWSCOPE_NODE (default: the name of the
host). What is unknown changes nothing.
"""

import sys

from skewscope.adapters.slurm_node_health import NodeHealthError, SlurmNode


def main() -> int:
    """Returns the exit status, which Slurm ignores: 1 where nothing could be decided."""
    try:
        said = SlurmNode.from_environment(timeout=5.0).check()
    except (NodeHealthError, OSError, ValueError) as error:
        sys.stderr.write(f"skewscope: {error}\n")
        return 1
    if said:
        sys.stderr.write(f"skewscope: {said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
