#!/usr/bin/env python3
"""HealthCheckProgram of Slurm: drains this node while Skewscope knows it to be sick, and resumes only its own drain.

slurm.conf: HealthCheckProgram=/usr/local/sbin/slurm_health_check.py, HealthCheckInterval=60, HealthCheckNodeState=ANY.
Environment: SKEWSCOPE_URL, SKEWSCOPE_TOKEN_FILE; SKEWSCOPE_DRAIN_BELOW (0.3), SKEWSCOPE_RESUME_FROM (0.8),
SKEWSCOPE_NODE (default: the name of the host). What is unknown changes nothing.
"""

import os
import re
import socket
import subprocess
import sys

from skewscope.adapters import Health

MARK = "skewscope-health"
"""Beginning of the reason: the owner mark."""


def run_scontrol(*words: str) -> str:
    """Returns what scontrol prints."""
    command = ["scontrol", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603 - no shell
    return done.stdout


def main() -> int:
    """Returns the exit status."""
    node = os.environ.get("SKEWSCOPE_NODE") or socket.gethostname().partition(".")[0]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", node):
        sys.stderr.write("skewscope: the name of the node is not usable\n")
        return 1
    found = Health.from_environment(timeout=5.0).query("node", node)
    if found.score is None:
        return 0
    shown = run_scontrol("show", "node", node)
    state, reason = (re.search(rf"\b{name}=(\S+)", shown) for name in ("State", "Reason"))
    drained, ours = bool(state and "DRAIN" in state[1]), bool(reason and reason[1].startswith(MARK))
    if found.score < float(os.environ.get("SKEWSCOPE_DRAIN_BELOW", "0.3")) and not drained:
        why = found.reasons[0]["condition"] if found.reasons else "unknown"
        run_scontrol("update", f"nodename={node}", "state=drain", f"reason={MARK}:{why}")
    elif found.score >= float(os.environ.get("SKEWSCOPE_RESUME_FROM", "0.8")) and drained and ours:
        run_scontrol("update", f"nodename={node}", "state=resume")
    return 0


if __name__ == "__main__":
    sys.exit(main())
