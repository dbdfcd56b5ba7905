"""Build the catalogue as a static web site that works offline: Markdown pages converted by Sphinx."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from skewscope.adapters.runtime.tasks import start_thread
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.search import search_index

MARKER = ".skewscope-site"
"""Marks a folder as a generated site, which may be replaced."""
BUILD_TIMEOUT_S = 600.0
"""Time limit of a build, in seconds."""
REQUIRED_PACKAGES = ("sphinx", "myst_parser", "furo")
SPHINX_FILES = Path(__file__).parent / "sphinx"

NAVIGATION_PAGES = {
    "matrix": "What a DPU sees",
    "conditions": "Conditions",
    "graph": "Causal graph",
    "lookalikes": "Look-alikes",
    "claims": "Every number",
    "mitigations": "Mitigations",
    "symptoms": "Symptoms",
    "signals": "Signals",
    "findings": "Findings",
    "formats": "Formats",
    "events": "Events",
    "sources": "Sources",
}
"""The pages of the navigation, in order."""

DOWNLOADS = {
    "catalogue.json": "the catalogue as JSON",
    "catalogue.schema.json": "the schema of that JSON",
    "sources.bib": "sources for BibTeX",
    "sources.json": "sources as CSL-JSON",
    "rules.yaml": "Prometheus rules to complete",
}


SEARCH_INDEX = "search_words.js"
"""File of the words of all entries, which the page of search results loads."""
STAGES = {"reading sources": (0.0, 0.5), "writing output": (0.5, 0.5)}
"""Stages that Sphinx reports in percent: where they begin on the whole bar, and their share of it."""
STAGE_LINE = re.compile(r"^(reading sources|writing output)\.\.\. \[ *(\d+)%\]")
Progress = Callable[[str, float], None]


def search_script(catalogue: Catalogue) -> str:
    """Returns the index of `kb search` as a script: pages opened as files cannot fetch JSON."""
    text = json.dumps(search_index(catalogue).export(), ensure_ascii=True, separators=(",", ":"))
    return f"window.skewWords = {text};\n"


def build_site(
    out: Path,
    pages: Mapping[str, str],
    extra: Mapping[str, str],
    version: str,
    report: Progress = lambda _stage, _share: None,
) -> None:
    """Build a site from pages and write it to a folder, replacing an older site.

    `extra` are further files by name, written beside the pages; `report` is called with the stage and the share done.

    Raises:
        InputError: A required package is missing, the folder has other content, or it cannot be written.
    """
    missing = [name for name in REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        hint = "Install it with: pip install 'skewscope[site]'."
        raise InputError([Problem("site", 0, "", f"no {', '.join(missing)}", "the packages that build the site", hint)])
    out = out.absolute()
    _check_target(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".skewscope-site-", dir=out.parent) as folder:
            _replace_site(_run_sphinx(Path(folder), pages, extra, version, report), out)
    except OSError as error:
        raise InputError([Problem(str(out), 0, "", f"a folder that {error.strerror}", "one to write into")]) from None


def _check_target(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError([Problem(str(out), 0, "", "a file or a link", "a folder")])
    if out.exists() and any(out.iterdir()) and not (out / MARKER).exists():
        hint = "Name a new folder; only a generated site is replaced."
        raise InputError([Problem(str(out), 0, "", "a folder with other content", "an empty folder", hint)])


def _replace_site(made: Path, out: Path) -> None:
    """Replace the content of `out`; the folder itself stays, since it may be a working directory."""
    for old in out.iterdir():
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    for new in made.iterdir():
        new.rename(out / new.name)


def _run_sphinx(
    folder: Path, pages: Mapping[str, str], extra: Mapping[str, str], version: str, report: Progress
) -> Path:
    source, made = folder / "source", folder / "site"
    shutil.copytree(SPHINX_FILES, source, ignore=shutil.ignore_patterns("__*"))
    for name, text in extra.items():
        _write_file(source / "extra" / name, text)
    for name, text in sphinx_sources(pages, extra).items():
        _write_file(source / name, text)
    command = [
        sys.executable,
        "-P",
        "-m",
        "sphinx",
        "-b",
        "html",
        "--no-color",
        "-j",
        "auto",
        "-d",
        str(folder / "doctrees"),
    ]
    # Make the build reproducible: fixed date, fixed order of sets.
    settled = {"SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": "0", "SKEWSCOPE_CATALOGUE_VERSION": version}
    code, errors = _run_reported([*command, str(source), str(made)], {**os.environ, **settled}, report)
    if code:
        message = next((each.strip() for each in errors if "rror" in each), "no message")[:200]
        raise InputError([Problem("site", 0, "", f"a failed build: {message}", "a site")])
    _finish(made)
    return made


def _run_reported(command: list[str], environment: Mapping[str, str], report: Progress) -> tuple[int, list[str]]:
    """Runs Sphinx and reports how far it is; returns its exit code and what it wrote to standard error.

    Raises:
        InputError: it took longer than BUILD_TIMEOUT_S.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter on our own files
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace"
        )
        late = threading.Event()

        def stop_late() -> None:
            try:
                process.wait(BUILD_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                late.set()
                process.kill()

        start_thread("site-build", stop_late)
        try:
            for written in process.stdout or ():
                if found := STAGE_LINE.match(written):
                    begin, size = STAGES[found[1]]
                    report(found[1], begin + size * int(found[2]) / 100)
            code = process.wait()
        finally:
            process.kill()
        if late.is_set():
            raise InputError([Problem("site", 0, "", f"no result after {BUILD_TIMEOUT_S:g} s", "a finished build")])
        errors.seek(0)
        return code, errors.readlines()


def _finish(made: Path) -> None:
    """Add scopes to table headers, remove build notes, and write the marker."""
    (made / ".buildinfo").unlink(missing_ok=True)
    (made / "objects.inv").unlink(missing_ok=True)
    shutil.rmtree(made / "_sources", ignore_errors=True)
    for page in made.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace('<th class="head">', '<th class="head" scope="col">'), encoding="utf-8")
    (made / MARKER).write_text("A site built by skewscope; it may be replaced by the next.\n", encoding="utf-8")


def _write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- Sphinx sources


def sphinx_sources(pages: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Returns the Sphinx sources by path: pages with inlined drawings, and the navigation."""
    written = {name: text for name, text in pages.items() if name.endswith(".md")}
    found = {name: _inline_drawings(text, name, pages) for name, text in written.items()}
    leading = {"index.md", *(f"{name}.md" for name in NAVIGATION_PAGES)}
    # Entries are reached by links: hundreds of them would overload the navigation.
    found = {name: text if name in leading else f"---\norphan: true\n---\n\n{text}" for name, text in found.items()}
    found["index.md"] += _download_section(extra) + _navigation_section(found)
    return found


_DRAWING_LINK = re.compile(r"^!\[(?P<alt>(?:[^\]\\]|\\.)*)\]\((?P<name>[a-z0-9-]+\.svg)\)$", re.MULTILINE)


def _inline_drawings(text: str, name: str, pages: Mapping[str, str]) -> str:
    """Returns a page with its drawings inlined; a blank line would end the HTML block."""
    folder = name.rpartition("/")[0]

    def put(found: re.Match[str]) -> str:
        drawing = pages[f"{folder}/{found['name']}".lstrip("/")]
        inner = "\n".join(line for line in drawing.splitlines() if line.strip())
        box = '<div class="skew-scroll" role="region" aria-label="Drawing, scrolls" tabindex="0">'
        return f"```{{raw}} html\n{box}\n{inner}\n</div>\n```"

    return _DRAWING_LINK.sub(put, text)


def _download_section(extra: Mapping[str, str]) -> str:
    links = [f'<li><a href="{name}">{what}</a></li>' for name, what in DOWNLOADS.items() if name in extra]
    if not links:
        return ""
    return "\n## Downloads\n\n```{raw} html\n<ul>" + "".join(links) + "</ul>\n```\n"


def _navigation_section(found: Mapping[str, str]) -> str:
    entries = [f"{title} <{name}>" for name, title in NAVIGATION_PAGES.items() if f"{name}.md" in found]
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(entries) + "\n```\n"
