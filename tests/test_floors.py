"""A lower floor never imports a higher one, and heavy libraries load only where they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from skewscope.engine.engine import Engine
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue

root = Path(__file__).resolve().parent.parent
FLOORS = ("kb", "rules", "engine", "adapters", "tui")
FILES = sorted(path for floor in FLOORS for path in (root / floor).rglob("*.py"))
HEAVY = {"textual", "networkx", "durable", "pyarrow"}
PURE = {"os", "io", "time", "socket", "subprocess", "threading", "random", "asyncio", "pathlib", "multiprocessing"}


def imports(path: Path) -> set[str]:
    """Modules that a file names in its import statements, wherever they stand; TYPE_CHECKING is no exception."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def floor_of(module: str) -> int:
    parts = module.split(".")
    return FLOORS.index(parts[1]) if parts[0] == "skewscope" and len(parts) > 1 and parts[1] in FLOORS else -1


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(root)))
def test_no_file_imports_a_higher_floor(path):
    here = FLOORS.index(path.relative_to(root).parts[0])
    above = sorted(module for module in imports(path) if floor_of(module) > here)
    assert not above


@pytest.mark.parametrize("path", [p for p in FILES if p.relative_to(root).parts[0] == "engine"], ids=lambda p: p.stem)
def test_the_engine_reads_no_clock_no_file_and_no_network(path):
    assert not {module.split(".")[0] for module in imports(path)} & PURE


def loaded_after(code: str) -> set[str]:
    """Top-level modules that are loaded once this code has run in a new interpreter."""
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


AGENT = (
    "from skewscope.adapters.formats import exposition, packet_headers\n"
    "from skewscope.adapters.inputs import capture, openmetrics, pcap\n"
)


def test_what_an_agent_needs_loads_without_console_graph_or_rete():
    assert not loaded_after(AGENT) & HEAVY


def test_what_an_agent_needs_runs_where_these_are_not_installed():
    blocked = "".join(f"sys.modules[{name!r}] = None; " for name in sorted(HEAVY))
    assert "numpy" in loaded_after(blocked + "\n" + AGENT)


@pytest.mark.parametrize("floor", FLOORS[:-1])
def test_a_floor_below_the_terminal_never_loads_the_console(floor):
    modules = [
        ".".join(("skewscope", *path.relative_to(root).with_suffix("").parts))
        for path in FILES
        if path.relative_to(root).parts[0] == floor and path.stem not in ("__init__", "durable_worker")
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
    # Arithmetic on arrays, which a console repeats for the rows it shows.
    "engine.features.stores",
    "engine.features.peer_statistics",
}
ENGINE_TOOLS = {
    # Assessment measures and fits confidence; it reads the parts that it measures.
    "adapters/assessment": {
        "engine.attribution.explanation",
        "engine.incidents.alerts",
        "engine.incidents.state",
    },
    # The simulator needs the range of the counters that it writes.
    "adapters/simulator": {"engine.ingest.counters"},
    # The state of a running engine as bytes; incidents of several engines.
    "adapters/fleet": {
        "engine.attribution",
        "engine.features.evaluator",
        "engine.features.operators.peers",
        "engine.ingest.series_state",
    },
    # Commands for authors of rules and policies.
    "tui/cli": {"engine.casetest", "engine.advice.policy_lint"},
    "tui/render": {"engine.casetest"},
}


def is_inside(module: str, allowed: set[str]) -> bool:
    name = module.removeprefix("skewscope.")
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


ENGINE_USERS = [path for path in FILES if path.relative_to(root).parts[0] in ("adapters", "tui")]


@pytest.mark.parametrize("path", ENGINE_USERS, ids=lambda path: str(path.relative_to(root)))
def test_adapters_and_terminal_use_only_the_public_interface_of_the_engine(path):
    folder = "/".join(path.relative_to(root).parts[:2])
    allowed = ENGINE_INTERFACE | ENGINE_TOOLS.get(folder, set())
    modules = {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skewscope.engine")
    }
    assert not sorted(module for module in modules if not is_inside(module, allowed))


def engine_internals() -> set[str]:
    """Names of the engine's private attributes, as another module would reach for them."""
    return {name for name in vars(Engine((), catalogue(), Topology())) if name.startswith("_")}


def test_no_other_floor_reads_private_attributes_of_the_engine():
    internals = engine_internals()
    assert internals
    reads = [
        f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}"
        for path in ENGINE_USERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in internals and ast.unparse(node.value).endswith("engine")
    ]
    assert not reads
