"""The knowledge of a site: a folder with entries, rules, cases, policies and a mapping file of its own.

They are used beside what is installed; a file with the id of an installed one stands in its place. All files are read
at once, so that what is checked, used and named by the fingerprint is one state of the folder.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.kb.unread_files import find_unread_files
from skewscope.kb.yamlfile import Document, parse, read_text

KNOWLEDGE_VARIABLE = "SKEWSCOPE_KNOWLEDGE"
"""Environment variable with the folder of a site's knowledge, which processes that read in parallel inherit."""
RULES, CASES, POLICIES = "rules", "rules/cases", "policies"
FOLDERS = (*KINDS, RULES, CASES, POLICIES)
MAPPING_FILE = "mapping.yaml"
ENDING = ".yaml"
MAX_FILES = 2000
"""Files of a site: each is parsed and checked at a start."""
MAX_TOTAL = 8 << 20
"""Bytes of all of them."""
MAX_LISTED = 10_000
"""Names of a folder that are looked at, of whatever kind."""
HINT = f"It holds folders such as {RULES}/, {POLICIES}/ and signals/, and {MAPPING_FILE}: docs/site-knowledge.md."


@dataclass(frozen=True)
class SiteFiles:
    """The files of a site's knowledge, as they were read."""

    folder: str
    texts: Mapping[str, str]
    """By path inside the folder, in the order of paths."""

    @cached_property
    def fingerprint(self) -> str:
        """Returns eight hexadecimal digits that change with any file."""
        found = blake2b(digest_size=4)
        for name, text in self.texts.items():
            found.update(f"{name}\0{len(text)}\0{text}".encode())
        return found.hexdigest()

    @cached_property
    def ids(self) -> Mapping[str, tuple[str, ...]]:
        """Returns the ids of the files in each folder that has any, in the order of `FOLDERS`."""
        found = {folder: tuple(Path(name).stem for name in self._names(folder)) for folder in FOLDERS}
        return {folder: ids for folder, ids in found.items() if ids}

    def documents(self, folder: str, problems: list[Problem]) -> Iterator[tuple[str, Document]]:
        """Yields id and content of the files of a folder; problems of those that are no YAML are added."""
        for name in self._names(folder):
            try:
                yield Path(name).stem, parse(self.texts[name], self.display_path(name))
            except InputError as error:
                problems += error.problems

    def display_path(self, name: str) -> str:
        """Returns a file's name in problems."""
        return f"{self.folder}/{name}"

    def _names(self, folder: str) -> Iterator[str]:
        return (name for name in self.texts if name.rpartition("/")[0] == folder)


def read_site_files(folder: Path) -> SiteFiles:
    """Returns the files in the folder of a site's knowledge.

    Raises:
        InputError: there are none, too many or too large ones, or some that nothing reads.
    """
    problems: list[Problem] = []
    paths: dict[str, Path] = {}
    try:
        paths.update(_iter_paths(folder, problems))
    except OSError as error:
        place = error.filename or folder
        problems.append(Problem(str(place), 0, "", str(error.strerror), "a folder of knowledge", HINT))
    texts: dict[str, str] = {}
    total = 0
    for name, path in sorted(paths.items())[:MAX_FILES]:
        try:
            texts[name] = read_text(path, f"{folder}/{name}")
        except InputError as error:
            problems += error.problems
        total += len(texts.get(name, "").encode())
        if total > MAX_TOTAL:
            problems.append(Problem(str(folder), 0, "", f"more than {MAX_TOTAL} bytes", f"at most {MAX_TOTAL}"))
            break
    if len(paths) > MAX_FILES:
        problems.append(Problem(str(folder), 0, "", f"{len(paths)} files", f"at most {MAX_FILES}"))
    if not paths and not problems:
        problems.append(Problem(str(folder), 0, "", "no file of knowledge", "a folder with such files", HINT))
    if problems:
        raise InputError(problems)
    return SiteFiles(str(folder), texts)


def _iter_paths(folder: Path, problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    """Yields the files of a site by their paths inside the folder; adds problems of names that nothing reads."""
    names = _list_names(folder)
    for name in names:
        if name != MAPPING_FILE and name not in {each.partition("/")[0] for each in FOLDERS}:
            known = [*FOLDERS, MAPPING_FILE]
            hint = suggest_name(name, known) or HINT
            problems.append(Problem(f"{folder}/{name}", 0, "", "what nothing reads", "a known name", hint))
    problems += find_unread_files(folder, FOLDERS, (MAPPING_FILE,))
    if MAPPING_FILE in names:
        yield MAPPING_FILE, folder / MAPPING_FILE
    for part in FOLDERS:
        if (folder / part).is_dir():
            yield from (
                (f"{part}/{name}", folder / part / name) for name in _list_names(folder / part) if name.endswith(ENDING)
            )


def _list_names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in islice(entries, MAX_LISTED) if not entry.name.startswith("."))
