"""A lower floor never imports a higher one, and heavy libraries load only where they are used."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from bench.code_measures import parse_sources, source_files
from skewscope.engine.engine import Engine
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue

root = Path(__file__).resolve().parent.parent
FLOORS = ("kb", "rules", "engine", "adapters", "tui")
FILES = source_files(root)
HEAVY = {"textual", "networkx", "durable", "pyarrow"}
PURE = {"os", "io", "time", "socket", "subprocess", "threading", "random", "asyncio", "pathlib", "multiprocessing"}


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules that a file names in its import statements, wherever they stand; TYPE_CHECKING is no exception."""
    found: set[str] = set()
    for node in ast.walk(parse_sources(root)[path]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def files_of(*floors: str) -> list[Path]:
    return [path for path in FILES if path.relative_to(root).parts[0] in floors]


def floor_of(module: str) -> int:
    parts = module.split(".")
    return FLOORS.index(parts[1]) if parts[0] == "skewscope" and len(parts) > 1 and parts[1] in FLOORS else -1


@pytest.mark.parametrize("floor", FLOORS)
def test_no_file_imports_a_higher_floor(floor):
    here = FLOORS.index(floor)
    above = {path: [module for module in imports(path) if floor_of(module) > here] for path in files_of(floor)}
    assert len(above) > 10
    assert not {path: modules for path, modules in above.items() if modules}


def test_the_engine_reads_no_clock_no_file_and_no_network():
    read = {path: {module.split(".")[0] for module in imports(path)} & PURE for path in files_of("engine")}
    assert len(read) > 50
    assert not {path: modules for path, modules in read.items() if modules}


def loaded_after(code: str) -> set[str]:
    """Top-level modules that are loaded once this code has run in a new interpreter; the code may print before."""
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.splitlines()[-1].split())


AGENT = (
    "from skewscope.adapters.formats import exposition, packet_headers\n"
    "from skewscope.adapters.inputs import capture, openmetrics, pcap\n"
)


def test_what_an_agent_needs_loads_without_console_graph_or_rete():
    assert not loaded_after(AGENT) & HEAVY


def test_what_an_agent_needs_runs_where_these_are_not_installed():
    blocked = "".join(f"sys.modules[{name!r}] = None; " for name in sorted(HEAVY))
    assert "numpy" in loaded_after(blocked + "\n" + AGENT)


def test_the_floors_below_the_terminal_never_load_the_console():
    modules = [
        ".".join(("skewscope", *path.relative_to(root).with_suffix("").parts))
        for path in files_of(*FLOORS[:-1])
        if path.stem not in ("__init__", "durable_worker")
    ]
    assert "textual" not in loaded_after("\n".join(f"import {module}" for module in modules))


def test_the_command_line_answers_small_questions_without_heavy_libraries():
    called = "sys.argv = ['skewscope', '--version']\nfrom skewscope.tui.cli.main import main\n"
    code = called + "try: main()\nexcept SystemExit: pass"
    assert not loaded_after(code) & {*HEAVY, "numpy"}


ENGINE_INTERFACE = {
    # The engine, its queries and the types that they return.
    "engine.engine",
    # Values: the fleet, series and samples, verdicts, incidents.
    "engine.ingest.feed",
    "engine.model",
    # Packet reduction, which an agent runs without an engine.
    "engine.wire",
    # Changes at targets, the life of an action, its limits.
    "engine.actions",
    # The matcher protocol and the policies that a matcher runs.
    "engine.advice.advice",
    "engine.advice.command_values",
    "engine.advice.policy",
    "engine.advice.cost_words",
    "engine.advice.incident_words",
    "engine.advice.steps",
    # Arithmetic on arrays, which a console repeats for the rows it shows.
    "engine.features.baselines",
    "engine.features.peer_statistics",
}
ENGINE_TOOLS = {
    # Assessment measures and fits confidence; it reads the parts that it measures.
    "adapters/assessment": {
        "engine.attribution.cause_graph",
        "engine.incidents.confidence",
        "engine.incidents.diagnosis",
        "engine.incidents.grouping",
    },
    # The simulator needs the range of the counters that it writes.
    "adapters/simulator": {"engine.ingest.counters"},
    # What load brings about is no fault of the member that got it.
    "adapters/actions": {"engine.attribution.cause_graph"},
    # The state of a running engine as bytes; incidents of several engines.
    "adapters/fleet": {
        "engine.attribution",
        "engine.features.counter_store",
        "engine.features.evaluator",
        "engine.features.operators.peers",
        "engine.ingest.series_state",
    },
    # A comparison of two measurements ranks causes as those of symptoms are.
    "adapters/comparison": {
        "engine.attribution.posterior",
        "engine.attribution.signature_evidence",
        "engine.incidents.confidence",
        "engine.model.finding",
    },
    # Commands for authors of rules and policies.
    "adapters/config": {"engine.casetest", "engine.advice.policy_lint"},
    "tui/cli": {"engine.casetest", "engine.advice.policy_lint"},
    "tui/render": {"engine.casetest"},
}


def is_inside(module: str, allowed: set[str]) -> bool:
    name = module.removeprefix("skewscope.")
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def reach_beyond(path: Path) -> list[str]:
    """Modules of the engine that a file imports although they are none of its interface."""
    folder = "/".join(path.relative_to(root).parts[:2])
    allowed = ENGINE_INTERFACE | ENGINE_TOOLS.get(folder, set())
    modules = {
        node.module
        for node in ast.walk(parse_sources(root)[path])
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skewscope.engine")
    }
    return sorted(module for module in modules if not is_inside(module, allowed))


@pytest.mark.parametrize("floor", ["adapters", "tui"])
def test_adapters_and_terminal_use_only_the_public_interface_of_the_engine(floor):
    beyond = {path: reach_beyond(path) for path in files_of(floor)}
    assert len(beyond) > 50
    assert not {path: modules for path, modules in beyond.items() if modules}


def engine_internals() -> set[str]:
    """Names of the engine's private attributes, as another module would reach for them."""
    return {name for name in vars(Engine((), catalogue(), Topology())) if name.startswith("_")}


def test_no_other_floor_reads_private_attributes_of_the_engine():
    internals = engine_internals()
    assert internals
    reads = [
        f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}"
        for path in files_of("adapters", "tui")
        for node in ast.walk(parse_sources(root)[path])
        if isinstance(node, ast.Attribute) and node.attr in internals and ast.unparse(node.value).endswith("engine")
    ]
    assert not reads
