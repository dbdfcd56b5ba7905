"""What is wrong or missing in a site's knowledge beyond what prevents its use, and how the cases of its rules go."""

from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.adapters.config.site_knowledge import SiteKnowledge
from skewscope.engine.casetest.case_runner import CaseResult, run_cases
from skewscope.kb.lint import run_lints
from skewscope.kb.problems import Problem
from skewscope.kb.site_catalogue import join_entries, read_site_entries
from skewscope.kb.site_files import CASES
from skewscope.rules.case_file import CaseFile
from skewscope.rules.case_file import parse as parse_cases
from skewscope.rules.lint import LintContext
from skewscope.rules.lint import run_lints as run_rule_lints
from skewscope.rules.loader import load_rules_of_site
from skewscope.rules.model import Rule


@dataclass(frozen=True)
class SiteCheck:
    """The result of a check."""

    problems: tuple[Problem, ...]
    """In the order of files and lines."""
    rules: Mapping[str, Rule]
    results: tuple[CaseResult, ...]
    """How each case of the rules went."""

    @property
    def is_ok(self) -> bool:
        """Whether there is no problem, and every case gave the expected verdict."""
        return not self.problems and all(result.is_ok for result in self.results)


def check_knowledge(known: SiteKnowledge) -> SiteCheck:
    """Returns the findings of all lints in a site's files, and runs the cases of its rules."""
    files, catalogue = known.files, known.catalogue
    own, _ = read_site_entries(files)
    problems = list(run_lints(join_entries(own), single=own))
    rules, _ = load_rules_of_site(catalogue)
    cases: dict[str, CaseFile] = {}
    for id_, document in files.documents(CASES, problems):
        parsed, wrong = parse_cases(document, catalogue, id_)
        problems += wrong
        if parsed:
            cases[id_] = parsed
    problems += [finding.problem for finding in run_rule_lints(LintContext(rules, cases, catalogue))]
    of_site = {problem for problem in problems if problem.file.startswith(f"{files.folder}/")}
    return SiteCheck(tuple(sorted(of_site)), rules, tuple(run_cases(rules, cases.values(), catalogue)))
