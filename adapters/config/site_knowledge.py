"""The knowledge of a site as a controller or a command uses it: read, checked as a whole, and put in place."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.mapping.name_mapping import mapping_of_site
from skewscope.engine.advice.policy_lint import lint_policies
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import load_with_site, use_catalogue
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.site_files import MAPPING_FILE, SiteFiles, read_site_files
from skewscope.rules.loader import load_builtin
from skewscope.rules.policy import load_in_use


@dataclass(frozen=True)
class SiteKnowledge:
    """The catalogue with a site's entries; two are equal where their files are."""

    files: SiteFiles
    catalogue: Catalogue = field(compare=False, repr=False)

    def __str__(self) -> str:
        sizes = [f"{name} {len(ids)}" for name, ids in self.files.ids.items()]
        mapping = [MAPPING_FILE] if MAPPING_FILE in self.files.texts else []
        return f"{self.files.folder}: {', '.join([*sizes, *mapping])}; catalogue {self.catalogue.version}"

    def use(self) -> None:
        """Makes it the knowledge of this process, and of those that are started from here."""
        use_catalogue(self.catalogue)


def read_knowledge(fields: FieldReader, folder: Path) -> SiteKnowledge | None:
    """Returns the knowledge in the folder that a config names, relative to it; adds problems to `fields`."""
    name = fields.text(("knowledge",))
    if not name:
        return None
    try:
        return load_knowledge(folder / name)
    except InputError as error:
        fields.problems += error.problems
        return None


def load_knowledge(folder: Path) -> SiteKnowledge:
    """Returns the knowledge in a folder, after everything in it was checked against the installed one.

    Raises:
        InputError: all problems of the folder, with file and line.
    """
    files = read_site_files(folder.resolve())
    catalogue = load_with_site(files)
    if problems := tuple(_find_problems(catalogue, files)):
        raise InputError(set(problems))
    return SiteKnowledge(files, catalogue)


def _find_problems(catalogue: Catalogue, files: SiteFiles) -> Iterator[Problem]:
    yield from load_builtin(catalogue)[1]
    policies, wrong = load_in_use(catalogue)
    yield from wrong
    if not wrong:
        # Those of installed policies are known to be none, unless the site changes what they rest on.
        yield from (problem for problem in lint_policies(policies, catalogue) if _is_of(problem, files))
    try:
        mapping_of_site(catalogue)
    except InputError as error:
        yield from error.problems


def _is_of(problem: Problem, files: SiteFiles) -> bool:
    return problem.file.startswith(f"{files.folder}/")
