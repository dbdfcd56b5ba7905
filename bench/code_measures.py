"""Prints measures of the code itself: sizes, names, docstrings, imports. `python -m bench.code_measures [ROOT]`.

What each measure counts is said beside it, so that two versions of the code can be compared.
"""

import argparse
import ast
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

FLOORS = ("kb", "rules", "engine", "adapters", "tui")

IRREGULAR = frozenset(
    [
        "told",
        "said",
        "laid",
        "kept",
        "shown",
        "drawn",
        "written",
        "born",
        "heard",
        "seen",
        "known",
        "given",
        "taken",
        "held",
        "left",
        "made",
        "meant",
        "met",
        "paid",
        "put",
        "sent",
        "set",
        "spoken",
        "spread",
        "stood",
        "thought",
        "understood",
        "begun",
        "bound",
        "brought",
        "built",
        "caught",
        "cut",
        "done",
        "driven",
        "fallen",
        "felt",
        "found",
        "gone",
        "grown",
        "hidden",
        "led",
        "lent",
        "lost",
        "read",
        "run",
        "sold",
        "sought",
        "spent",
        "split",
        "struck",
        "taught",
        "torn",
        "worn",
        "woken",
        "won",
        "wound",
        "broken",
        "chosen",
        "frozen",
        "beaten",
        "shaken",
        "risen",
        "sworn",
        "thrown",
        "withdrawn",
        "overdrawn",
        "unheard",
        "unseen",
        "unknown",
    ]
)
# The same form is a verb in the imperative or a noun: these do not make a name a participle.
VERBS = frozenset(
    [
        "put",
        "set",
        "cut",
        "read",
        "run",
        "spread",
        "split",
        "feed",
        "speed",
        "seed",
        "need",
        "embed",
        "shed",
        "bed",
        "exceed",
        "proceed",
        "indeed",
        "found",
        "lead",
        "known",
        "left",
    ]
)
PREPOSITIONS = frozenset(
    [
        "of",
        "by",
        "in",
        "at",
        "to",
        "from",
        "with",
        "as",
        "up",
        "down",
        "on",
        "for",
        "off",
        "out",
        "over",
        "under",
        "into",
        "through",
        "before",
        "after",
    ]
)
QUESTIONS = frozenset(["is", "has", "was", "are", "were", "can", "may", "must", "should", "will", "not", "no"])
VERB_WORDS = re.compile(r"\b(returns?|parses?|builds?|creates?|loads?)\b", re.IGNORECASE)
PERSON_WORDS = re.compile(r"\b(who|whose|whom|whoever|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)
SHAPE = re.compile(
    r"\[[^\]\n]*\]|\bshape\b|\bone (value|entry|element|row|column|number)? ?(for|per) |\b(a|one) row (for|per)\b|per (series|entity|column|row|member|port|packet|set|tick)",
    re.IGNORECASE,
)
ARRAYS = re.compile(r"\b(F64|F32|I64|I32|I8|Index|Mask|Truth|NDArray|ndarray|Bool|U8|U32|U64|Verdicts)\b")


def sources(root: Path) -> list[Path]:
    """Every Python file of the five floors, sorted."""
    return sorted(path for floor in FLOORS for path in (root / floor).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_participle(word: str) -> bool:
    """Whether a word is a past participle that is no verb or noun at the same time."""
    if word in VERBS:
        return False
    return word in IRREGULAR or (len(word) > 4 and word.endswith("ed"))


def named_by_participle(name: str) -> bool:
    """Whether a function's name is a participle ("told", "said_of", "rows_joined"), not a verb, noun or question."""
    words = [word for word in name.strip("_").split("_") if word]
    if not words or words[0] in QUESTIONS or name.startswith("__") or name.startswith("test_"):
        return False
    if len(words) == 1 or words[1] in PREPOSITIONS:
        return is_participle(words[0])
    return is_participle(words[-1])


def length_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    whole = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        whole -= (first.end_lineno or first.lineno) - first.lineno + 1
    return whole


def public_classes(trees: Mapping[Path, ast.Module]) -> dict[str, list[Path]]:
    """Where each public class is defined, by name, nested classes left out."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


def docstrings(tree: ast.Module) -> str:
    """All docstrings of a module, one after another, those of attributes included."""
    return "\n".join(
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def import_levels(root: Path, folder: str) -> dict[str, int]:
    """How deep each module of a folder lies over those of it that it imports: 1 for a leaf.

    Packages' own files count as modules; imports within functions count as well.
    """
    modules = {}
    for path in sorted((root / folder).rglob("*.py")):
        name = ".".join(("skewscope", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        modules[name] = path
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        wanted = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
        graph[name] = {one for one in wanted if one in modules and one != name}
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


def measures(root: Path) -> dict[str, str]:
    """Every measure with its figure, as printed."""
    trees = {path: ast.parse(path.read_text()) for path in sources(root)}
    every = [node for tree in trees.values() for node in functions(tree)]
    lengths = sorted(length_of(node) for node in every)
    named = [node for node in every if not (node.name.startswith("__") and node.name.endswith("__"))]
    participles = [node.name for node in named if named_by_participle(node.name)]
    doubled = {name: paths for name, paths in public_classes(trees).items() if len(paths) > 1}
    text = "\n".join(docstrings(tree) for tree in trees.values())
    words = max(1, len(re.findall(r"[A-Za-z']+", text)))
    arrays = [
        n
        for n in every
        if n.returns is not None and ARRAYS.search(ast.unparse(n.returns)) and not n.name.startswith("_")
    ]
    shaped = [n for n in arrays if SHAPE.search(ast.get_docstring(n) or "")]
    whole = "\n".join(path.read_text() for path in trees)
    private = Counter(n.name for n in every if n.name.startswith("_") and not n.name.startswith("__"))
    once = sum(1 for name, count in private.items() if len(re.findall(rf"\b{name}\b", whole)) == count + 1)
    reach = re.findall(
        r"\bdetector\.\w+|\.panel\b|\bincidents\.(places|tracks)\b",
        "\n".join(p.read_text() for p in trees if p.relative_to(root).parts[0] in ("adapters", "tui")),
    )
    levels = import_levels(root, "engine")
    sizes = sorted(len(path.read_text().splitlines()) for path in trees)
    docs = sorted((root / "docs").glob("*.md"))
    linked = sum(f"docs/{page.name}" in (root / "README.md").read_text() for page in docs)
    return {
        "files; lines median / p90 / max": f"{len(sizes)}; {quantiles(sizes)}",
        "functions; lines median / p90 / max": f"{len(lengths)}; {quantiles(lengths)}",
        "private helpers used once": f"{once} of {len(private)}",
        "public class names in two or more modules": f"{len(doubled)} names, {sum(map(len, doubled.values()))} classes",
        "functions named by a participle": f"{len(participles)} of {len(named)}, {100 * len(participles) / len(named):.1f} %",
        "return/parse/build/create/load per 1,000 words of docstring": f"{1000 * len(VERB_WORDS.findall(text)) / words:.1f}",
        "who/nobody/whose per 1,000 words of docstring": f"{1000 * len(PERSON_WORDS.findall(text)) / words:.1f}",
        "public functions that return arrays; with a shape": f"{len(arrays)}; {len(shaped)}",
        "levels of imports in engine/": f"{max(levels.values())}",
        "files directly in engine/, in adapters/": f"{len(list((root / 'engine').glob('*.py')))}, {len(list((root / 'adapters').glob('*.py')))}",
        "places in adapters/ and tui/ that reach into the engine": f"{len(reach)}",
        "pages of docs/ that README links": f"{linked} of {len(docs)}",
    }


def quantiles(values: list[int]) -> str:
    """Median, 90 % quantile and maximum of sorted numbers."""
    return f"{statistics.median(values):g} / {values[int(0.9 * (len(values) - 1))]} / {values[-1]}"


def main() -> None:
    """Prints all measures, or the names behind some of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--names", action="store_true", help="list participles and doubled classes with their files")
    asked = parser.parse_args()
    for name, figure in measures(asked.root).items():
        print(f"{name:<65} {figure}")
    if asked.names:
        trees = {path: ast.parse(path.read_text()) for path in sources(asked.root)}
        for path, tree in trees.items():
            for node in functions(tree):
                if named_by_participle(node.name):
                    print(f"participle  {path.relative_to(asked.root)}:{node.lineno} {node.name}")
        for name, paths in sorted(public_classes(trees).items()):
            if len(paths) > 1:
                print(f"doubled     {name}: {', '.join(str(path.relative_to(asked.root)) for path in paths)}")


if __name__ == "__main__":
    main()
