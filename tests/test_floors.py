"""A lower floor never imports a higher one, and heavy libraries load only where they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

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
