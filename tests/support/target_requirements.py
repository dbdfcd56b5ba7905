"""What a run of the tests was promised in SKEWSCOPE_REQUIRE, such as `haproxy slurm`: without it, tests are skipped.

Whoever installs these programs says so there (`.ci/run`), so that tests of targets that cannot run are an error.
"""

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.support import dynamo, slurm_cluster, switch_lab


def lacking_programs(*names: str) -> str:
    """Returns the programs that are not installed, neither here nor beside this Python."""
    places = (None, str(Path(sys.executable).parent))
    return ", ".join(name for name in names if not any(shutil.which(name, path=place) for place in places))


def lacking_module(name: str) -> str:
    """Returns the name of a module that is not installed; '' for one that is."""
    return "" if importlib.util.find_spec(name) else name


CHECKS: Mapping[str, Callable[[], str]] = {
    "haproxy": lambda: lacking_programs("haproxy"),
    "nginx": lambda: lacking_programs("nginx"),
    "helm": lambda: lacking_programs("helm", "kubectl"),
    "envoy": lambda: lacking_programs("envoy"),
    "sglang-router": lambda: lacking_module("sglang_router"),
    "vllm-router": lambda: lacking_module("vllm_router"),
    "dynamo": lambda: "" if dynamo.is_installed() else "ai-dynamo, or what it imports",
    "slurm": lambda: lacking_programs(*slurm_cluster.PROGRAMS),
    "open-vswitch": lambda: lacking_programs(*switch_lab.PROGRAMS),
}
"""What is lacking for the tests of a target, by the kind of target."""


def list_broken_promises(promised: Iterable[str]) -> list[str]:
    """Returns what was promised and is not there, one line each."""
    found = []
    for name in promised:
        check = CHECKS.get(name)
        lacking = check() if check else f"an unknown name; known are {', '.join(CHECKS)}"
        if lacking:
            found.append(f"{name}: {lacking}")
    return found
