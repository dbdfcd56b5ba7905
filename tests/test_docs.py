"""Pages of the documentation: links lead somewhere, paths exist, commands are known, examples are valid."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from skewscope.adapters.mapping.name_mapping import parse_mapping
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb import yamlfile
from skewscope.kb.loader import catalogue
from skewscope.tui.cli.main import cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/schema/*.md")])
EXAMPLES = "<|my[-_]|csv_file|webhook|cpufreq"
FLOORS = ("kb", "rules", "engine", "adapters", "tui", "tests", "bench", "deploy", "docs")


def each_page(function):
    return pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))(function)


@each_page
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@each_page
def test_pages_use_plain_words(page):
    assert not re.findall(r"\b(?:nought|whoever|nobody|somebody|goes on|is told|are told)\b", page.read_text())


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_paths_exist(page):
    named = re.findall(rf"`((?:{'|'.join(FLOORS)})/[^`\s]*)`", page.read_text())
    assert named
    missing = [path for path in named if not (ROOT / folder_of_placeholder(path)).exists()]
    assert not missing


def read_packages():
    """Returns the packages that are installed."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]


def test_every_package_is_installed():
    folders = {file.parent for floor in FLOORS[:5] for file in (ROOT / floor).rglob("__init__.py")}
    named = {".".join(("skewscope", *folder.relative_to(ROOT).parts)) for folder in folders}
    assert named == set(read_packages()) - {"skewscope"}


def test_the_architecture_names_every_package():
    packages = read_packages()
    text = (ROOT / "ARCHITECTURE.md").read_text()
    folders = [name.removeprefix("skewscope.").replace(".", "/") for name in packages if name != "skewscope"]
    unnamed = [folder for folder in folders if f"`{folder}" not in text and not folder.startswith("tui/site/")]
    assert not unnamed


@pytest.mark.parametrize("measure", ["macro F1", "at the right place"])
def test_the_measurements_repeat_the_assessment(measure):
    row = rf"\| {measure} \| ([\d.]+) \| ([\d.]+) \|"
    figures = [re.search(row, (ROOT / "docs" / page).read_text()) for page in ("measurements.md", "assessment.md")]
    assert all(figures)
    assert len({match.groups() for match in figures}) == 1


def folder_of_placeholder(path: str) -> str:
    """Returns the folder of a path whose file name is a placeholder or an example, else the path."""
    return path.rpartition("/")[0] if re.search(EXAMPLES, path) else path


def commands_of(page: Path) -> list[str]:
    """Returns the `skewscope` command lines of a page, without comments and prompts."""
    lines = re.findall(r"^(?: {4,}|\$ )(?:\S*/)?skewscope(?: +(.*))?$", page.read_text(), flags=re.MULTILINE)
    return [re.split(r"(?:^|\s+)#\s", text)[0] for line in lines for text in re.split(r"&& skewscope", line or "")]


@each_page
def test_commands_and_their_options_exist(page):
    for line in commands_of(page):
        words = [word.strip("[]") for word in shlex.split(line) if word != "..."]
        check_command(cli, words, line)


def check_command(command: click.Command, words: list[str], line: str) -> None:
    """Fails unless the words name a subcommand and options that it has."""
    options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
    for at, word in enumerate(words):
        if word.startswith("-"):
            assert word.split("=")[0] in options, f"{line}: {command.name} has no option {word}"
        elif isinstance(command, click.Group) and not (at and words[at - 1].startswith("-")):
            for name in word.split("|"):
                found = command.get_command(click.Context(command), name)
                assert found, f"{line}: no command {name}"
            return check_command(found, words[at + 1 :], line)
        elif word in (">", "|", "&&"):
            return None
    return None


def test_the_topology_of_the_documentation_is_valid():
    page = (ROOT / "docs" / "topology.md").read_text()
    example = next(text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "nodes:" in text)
    topology, problems = parse_topology(yamlfile.parse(example))
    assert not problems
    assert topology.groups


def test_the_mapping_of_the_documentation_is_valid():
    page = (ROOT / "docs" / "mapping.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(parse_mapping(example, "mapping.md", catalogue()).rules) == 4


def test_the_topology_page_names_every_field():
    page = (ROOT / "docs" / "topology.md").read_text()
    source = (ROOT / "engine" / "model" / "topology_file.py").read_text()
    fields = re.findall(r'"([a-z_]+)"', " ".join(re.findall(r"check_keys\([^\n]*", source)))
    assert not [name for name in fields if not re.search(rf"\b{name}\b", page)]
