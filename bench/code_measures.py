"""Measures of the code itself: sizes, names, docstrings, imports.

    python -m bench.code_measures [ROOT] [--names]

Each measure says what it counts, so that two versions of the code can be compared.
"""

import argparse
import ast
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

FLOORS = ("kb", "rules", "engine", "adapters", "tui")


def _words(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


IRREGULAR = _words(
    "told said laid kept shown drawn written born heard seen known given taken held left made meant met paid put sent"
    " set spoken spread stood thought understood begun bound brought built caught cut done driven fallen felt found"
    " gone grown hidden led lent lost read run sold sought spent split struck taught torn worn woken won wound broken"
    " chosen frozen beaten shaken risen sworn thrown withdrawn overdrawn unheard unseen unknown"
)
# The same form is an imperative or a noun: these words do not make a name a participle.
VERBS = _words(
    "put set cut read run spread split feed speed seed need embed shed bed exceed proceed indeed found lead known left"
)
PREPOSITIONS = _words("of by in at to from with as up down on for off out over under into through before after")
QUESTIONS = _words("is has was are were can may must should will not no")
VERB_WORDS = re.compile(r"\b(returns?|parses?|builds?|creates?|loads?)\b", re.IGNORECASE)
PERSON_WORDS = re.compile(r"\b(who|whose|whom|whoever|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)
SHAPE = re.compile(
    r"\[[^\]\n]*\]|\bshape\b|\bone (value|entry|element|row|column|number)? ?(for|per) |\b(a|one) row (for|per)\b"
    r"|per (series|entity|column|row|member|port|packet|set|tick)",
    re.IGNORECASE,
)
ARRAYS = re.compile(r"\b(F64|F32|I64|I32|I8|Index|Mask|Truth|NDArray|ndarray|Bool|U8|U32|U64|Verdicts)\b")
# Objects inside the engine, by their names before and after the renaming (panel, places, tracks; series_state, ...).
INSIDES = re.compile(r"\bdetector\.\w+|\.(panel|series_state)\b|\bincidents\.(places|tracks|locality|alerts)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Trees = Mapping[Path, ast.Module]


def source_files(root: Path) -> list[Path]:
    """Returns every Python file of the five floors, sorted."""
    return sorted(path for floor in FLOORS for path in (root / floor).rglob("*.py"))


@cache
def parse_sources(root: Path) -> Trees:
    """Parses every Python file of the five floors; once in a process."""
    return {path: ast.parse(path.read_text()) for path in source_files(root)}


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yields every function and method of a module, nested ones included."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def is_participle(word: str) -> bool:
    """Whether a word is a past participle and not a verb or noun of the same form."""
    if word in VERBS:
        return False
    return word in IRREGULAR or (len(word) > 4 and word.endswith("ed"))


def is_named_by_participle(name: str) -> bool:
    """Whether a function's name is a participle ("told", "said_of", "rows_joined"), not a verb, noun or question."""
    words = [word for word in name.strip("_").split("_") if word]
    if not words or words[0] in QUESTIONS or name.startswith(("__", "test_")):
        return False
    if len(words) == 1 or words[1] in PREPOSITIONS:
        return is_participle(words[0])
    return is_participle(words[-1])


def body_length(node: Function) -> int:
    """Returns the lines of a function without its docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def public_classes(trees: Trees) -> dict[str, list[Path]]:
    """Returns the files that define each public class at module level, by its name."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


def repeated_classes(trees: Trees) -> dict[str, list[Path]]:
    """Returns the names of public classes that two or more modules define, with these files."""
    return {name: paths for name, paths in public_classes(trees).items() if len(paths) > 1}


def participles(trees: Trees) -> list[tuple[Path, Function]]:
    """Returns the functions that are named by a participle."""
    return [
        (path, node) for path, tree in trees.items() for node in functions(tree) if is_named_by_participle(node.name)
    ]


def docstrings(tree: ast.Module) -> str:
    """Returns all docstrings of a module, one after another, those of attributes included."""
    return "\n".join(
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def module_name(root: Path, path: Path) -> str:
    """Returns the dotted name of a file of the package."""
    return ".".join(("skewscope", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")


def imported_modules(tree: ast.AST) -> set[str]:
    """Returns the modules and names that a file imports, imports within functions included."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def import_levels(root: Path, folder: str) -> dict[str, int]:
    """Returns the level of each module of a folder: 1, or one above the highest module of the folder it imports.

    The file of a package counts as a module. A cycle is cut where it closes.
    """
    modules = {module_name(root, path): path for path in sorted((root / folder).rglob("*.py"))}
    graph = {
        name: {one for one in imported_modules(ast.parse(path.read_text())) if one in modules and one != name}
        for name, path in modules.items()
    }
    levels: dict[str, int] = {}

    def level(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            return 0
        if name not in levels:
            levels[name] = 1 + max((level(one, (*above, name)) for one in graph[name]), default=0)
        return levels[name]

    for name in modules:
        level(name)
    return levels


def private_helpers(trees: Trees) -> tuple[int, int]:
    """Returns how many private functions the package has, and how many of them their own file names only once more."""
    count = once = 0
    for path, tree in trees.items():
        text = path.read_text()
        names = [node.name for node in functions(tree) if node.name.startswith("_") and not node.name.startswith("__")]
        count += len(names)
        once += sum(len(re.findall(rf"\b{name}\b", text)) == names.count(name) + 1 for name in names)
    return count, once


def array_functions(trees: Trees) -> tuple[int, int]:
    """Returns how many public functions return arrays, and how many of them give a shape in their docstring."""
    found = [
        node
        for tree in trees.values()
        for node in functions(tree)
        if node.returns is not None and not node.name.startswith("_") and ARRAYS.search(ast.unparse(node.returns))
    ]
    return len(found), sum(1 for node in found if SHAPE.search(ast.get_docstring(node) or ""))


def quantiles(values: list[int]) -> str:
    """Returns median, 90 % quantile and maximum of sorted numbers."""
    return f"{statistics.median(values):g} / {values[int(0.9 * (len(values) - 1))]} / {values[-1]}"


def _measure_names(trees: Trees) -> dict[str, str]:
    every = [node for tree in trees.values() for node in functions(tree)]
    named = [node for node in every if not (node.name.startswith("__") and node.name.endswith("__"))]
    repeated = repeated_classes(trees)
    by_participle = participles(trees)
    private, once = private_helpers(trees)
    classes = sum(map(len, repeated.values()))
    share = 100 * len(by_participle) / max(1, len(named))
    return {
        "private helpers used once": f"{once} of {private}",
        "public class names in two or more modules": f"{len(repeated)} names, {classes} classes",
        "functions named by a participle": f"{len(by_participle)} of {len(named)}, {share:.1f} %",
    }


def _measure_docstrings(trees: Trees) -> dict[str, str]:
    text = "\n".join(docstrings(tree) for tree in trees.values())
    thousands = max(1, len(re.findall(r"[A-Za-z']+", text))) / 1000
    arrays, shaped = array_functions(trees)
    verbs, persons = (len(words.findall(text)) / thousands for words in (VERB_WORDS, PERSON_WORDS))
    return {
        "return/parse/build/create/load per 1,000 words of docstring": f"{verbs:.1f}",
        "who/nobody/whose per 1,000 words of docstring": f"{persons:.1f}",
        "public functions that return arrays; with a shape": f"{arrays}; {shaped}",
    }


def _measure_layout(root: Path, trees: Trees) -> dict[str, str]:
    above = {path: tree for path, tree in trees.items() if path.relative_to(root).parts[0] in ("adapters", "tui")}
    inner = {module_name(root, path) for path in trees if path.relative_to(root).parts[0] == "engine"}
    imported = set().union(*(imported_modules(tree) & inner for tree in above.values()))
    reach = sum(len(INSIDES.findall(path.read_text())) for path in above)
    pages = sorted((root / "docs").glob("*.md"))
    links = (root / "README.md").read_text()
    index = root / "docs" / "README.md"
    listed = index.read_text() if index.exists() else ""
    linked = sum(f"docs/{page.name}" in links or f"({page.name})" in listed for page in pages)
    loose = (str(len(list((root / floor).glob("*.py")))) for floor in ("engine", "adapters"))
    return {
        "levels of imports in engine/": f"{max(import_levels(root, 'engine').values())}",
        "files directly in engine/, in adapters/": ", ".join(loose),
        "places in adapters/ and tui/ that reach into the engine": f"{reach}",
        "modules of engine/ that adapters/ and tui/ import": f"{len(imported)} of {len(inner)}",
        "pages of docs/ that README or its index links": f"{linked} of {len(pages)}",
    }


def measure(root: Path) -> dict[str, str]:
    """Returns every measure with its figure as text."""
    trees = parse_sources(root)
    lengths = sorted(body_length(node) for tree in trees.values() for node in functions(tree))
    sizes = sorted(len(path.read_text().splitlines()) for path in trees)
    return {
        "files; lines median / p90 / max": f"{len(sizes)}; {quantiles(sizes)}",
        "functions; lines median / p90 / max": f"{len(lengths)}; {quantiles(lengths)}",
        **_measure_names(trees),
        **_measure_docstrings(trees),
        **_measure_layout(root, trees),
    }


def main() -> None:
    """Prints all measures, and with --names what some of them count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--names", action="store_true", help="list participles, repeated classes and import levels")
    options = parser.parse_args()
    root: Path = options.root
    for name, figure in measure(root).items():
        print(f"{name:<65} {figure}")
    if not options.names:
        return
    trees = parse_sources(root)
    for path, node in participles(trees):
        print(f"participle  {path.relative_to(root)}:{node.lineno} {node.name}")
    for name, paths in sorted(repeated_classes(trees).items()):
        print(f"repeated    {name}: {', '.join(str(path.relative_to(root)) for path in paths)}")
    for name, number in sorted(import_levels(root, "engine").items(), key=lambda item: (-item[1], item[0])):
        print(f"level {number:<4}  {name}")


if __name__ == "__main__":
    main()
