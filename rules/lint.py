"""Lints: checks beyond what a rule needs to load. Each lint is a function that yields problems."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skewscope.kb.field_reader import FieldReader
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import Problem, join_names, suggest_name
from skewscope.kb.unread_files import find_unread_files
from skewscope.kb.yamlfile import read
from skewscope.rules.case_file import CaseFile
from skewscope.rules.case_file import load as load_cases
from skewscope.rules.expression import Expr
from skewscope.rules.loader import load as load_rules
from skewscope.rules.model import EvidenceItem, Rule
from skewscope.rules.parsing import mentioned_lets
from skewscope.rules.policy import Policy, check_references
from skewscope.rules.policy import load as load_policies

RULES_FOLDER = Path(__file__).parent
EXCEPTIONS = RULES_FOLDER / "schema" / "exceptions.yaml"
FOLDERS = ("", "cases", "policies")
"""Folders below that of the rules whose files are read."""
MIN_LET_TEXT = 24
"""Characters from which on a definition deserves a name although it is used once."""
REQUIRED_CASE_KINDS = ("fires", "quiet", "boundary", "missing", "look-alike")
"""Kinds of case that every rule has."""

SIGNAL_VANTAGES: Mapping[str, frozenset[str]] = {
    "dpu": frozenset({"dpu", "north-south", "east-west", "pcie"}),
    "fabric": frozenset({"fabric"}),
    "gpu": frozenset({"gpu"}),
    "host": frozenset({"host"}),
    "serving": frozenset({"serving"}),
}
"""Vantages of signals that a rule of each vantage can rely on."""


@dataclass(frozen=True)
class LintContext:
    """The input of all lints."""

    rules: Mapping[str, Rule]
    cases: Mapping[str, CaseFile]
    catalogue: Catalogue


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A problem that one lint found in one rule."""

    lint: str
    rule: str
    problem: Problem

    def __str__(self) -> str:
        return f"{self.problem} [{self.lint}]"


@dataclass(frozen=True, slots=True)
class Exemption:
    """A finding that is accepted, and the reason."""

    lint: str
    rule: str
    reason: str
    problem: Problem
    """The problem to report if the exemption is no longer needed."""


RuleLint = Callable[[LintContext, Rule], Iterator[Problem]]
LINTS: dict[str, RuleLint] = {}


def run_lints(world: LintContext, exemptions: Iterable[Exemption] = ()) -> list[LintFinding]:
    """Returns all findings without exempted ones; an unneeded exemption is a finding itself."""
    found = [
        LintFinding(name, rule.id, problem)
        for rule in world.rules.values()
        if rule.maturity != "withdrawn"
        for name, check in LINTS.items()
        for problem in check(world, rule)
    ]
    found += [LintFinding("cases-have-a-rule", name, problem) for name, problem in _orphan_cases(world)]
    exempt = {(e.lint, e.rule): e for e in exemptions}
    stale = set(exempt) - {(finding.lint, finding.rule) for finding in found}
    kept = [finding for finding in found if (finding.lint, finding.rule) not in exempt]
    return kept + [LintFinding("stale-exception", rule, exempt[name, rule].problem) for name, rule in sorted(stale)]


def read_exemptions(path: Path = EXCEPTIONS) -> tuple[list[Exemption], list[Problem]]:
    """Returns the exemptions in a file and its problems; nothing if there is no file."""
    if not path.exists():
        return [], []
    document = read(path, path.name)
    fields = FieldReader(document)
    found = []
    for at in fields.item_paths(("exceptions",)):
        if fields.check_keys(at, ("lint", "entry", "reason")):
            name = fields.text((*at, "lint"), choice=[*LINTS, "cases-have-a-rule"])
            unneeded = document.problem(at, "an exception that is not needed any more", "it gone", "Delete it.")
            found.append(Exemption(name, fields.text((*at, "entry")), fields.text((*at, "reason")), unneeded))
    return found, fields.problems


def lint_folder(catalogue: Catalogue, folder: Path = RULES_FOLDER) -> list[Problem]:
    """Returns all problems of a folder's rules, cases and policies: errors of loading and findings of lints."""
    rules, unread = load_rules(catalogue, folder)
    files, unfit = load_cases(catalogue, folder / "cases")
    policies, unsound = load_policies(folder / "policies")
    exempt, unclear = read_exemptions(folder / "schema" / EXCEPTIONS.name)
    found = [
        *unread,
        *unfit,
        *unsound,
        *unclear,
        *check_references(policies, catalogue),
        *_check_advice(rules, policies),
        *find_unread_files(folder, FOLDERS, (f"schema/{EXCEPTIONS.name}",)),
    ]
    if not unread:
        found += [finding.problem for finding in run_lints(LintContext(rules, files, catalogue), exempt)]
        found += check_rule_presence(rules, catalogue) if (folder / "schema").is_dir() else []
    return sorted(set(found))


def check_rule_presence(rules: Mapping[str, Rule], catalogue: Catalogue) -> Iterator[Problem]:
    """Every condition has either a rule or a reason why it has none."""
    recognised = {rule.condition for rule in rules.values() if rule.maturity != "withdrawn"}
    for condition in catalogue.conditions.values():
        if condition.maturity == "withdrawn":
            continue
        if condition.id in recognised and condition.without_rule:
            yield Problem(
                condition.file, 0, "without_rule", "a reason why no rule can be", "none, since there is a rule"
            )
        elif condition.id not in recognised and not condition.without_rule:
            hint = "Write a rule, or say in without_rule why there is none."
            yield Problem(
                condition.file, 0, "id", f"{condition.id!r}, which no rule recognises", "a rule, or a reason", hint
            )
        elif condition.id not in recognised and condition.maturity != "sandbox":
            found = f"{condition.maturity!r} for a condition that no rule recognises"
            yield Problem(condition.file, 0, "maturity", found, "'sandbox'")


def _check_advice(rules: Mapping[str, Rule], policies: Iterable[Policy]) -> Iterator[Problem]:
    """A condition that a rule recognises has a policy that advises a mitigation."""
    advised = {topic for policy in policies if policy.mitigation for topic in policy.when[0].topics}
    for rule in rules.values():
        if rule.condition not in advised:
            expected = "a policy in policies/ that advises something for it"
            yield rule.document.problem(("condition",), f"{rule.condition}, for which nothing is advised", expected)


def _orphan_cases(world: LintContext) -> Iterator[tuple[str, Problem]]:
    for name, file in world.cases.items():
        if name not in world.rules:
            hint = suggest_name(name, world.rules)
            yield name, file.document.problem(("rule",), f"the unknown rule {name!r}", "the id of a rule", hint)


def _register(check: RuleLint) -> RuleLint:
    LINTS[check.__name__.replace("_", "-")] = check
    return check


def _numbered_evidence(rule: Rule) -> Iterator[tuple[int, EvidenceItem]]:
    yield from enumerate(rule.evidence)


@_register
def has_cases(world: LintContext, rule: Rule) -> Iterator[Problem]:
    """Every rule has cases of each required kind."""
    file = world.cases.get(rule.id)
    if file is None:
        yield rule.document.problem((), "no cases", f"a file cases/{rule.id}.yaml")
        return
    missing = [kind for kind in REQUIRED_CASE_KINDS if kind not in {case.kind for case in file.cases}]
    if missing:
        yield file.document.problem(("cases",), f"no case of kind {join_names(missing)}", "one of each")


@_register
def has_look_alikes(world: LintContext, rule: Rule) -> Iterator[Problem]:
    """Every look-alike of the condition has a case in which the rule does not fire, or a reason in cannot_tell."""
    condition = world.catalogue.conditions.get(rule.condition)
    file = world.cases.get(rule.id)
    if condition is None or file is None:
        return
    had = {case.lookalike for case in file.cases if case.kind == "look-alike"}
    claimed = {look.condition for look in condition.lookalikes}
    hint = "Or say in cannot_tell why this rule cannot know."
    for name in sorted(claimed - had - set(file.cannot_tell)):
        expected = f"a case with `like: {name}`"
        yield file.document.problem(("cases",), f"no case for the look-alike {name!r}", expected, hint)
    for name in sorted(had - claimed - set(world.catalogue.conditions)):
        near = suggest_name(name, world.catalogue.conditions)
        yield file.document.problem(("cases",), f"the unknown condition {name!r}", "the id of a condition", near)
    for name in sorted(set(file.cannot_tell) & had):
        yield file.document.problem(("cannot_tell", name), f"{name!r}, for which there is a case", "one of the two")
    for name in sorted(set(file.cannot_tell) - claimed):
        near = suggest_name(name, claimed)
        yield file.document.problem(("cannot_tell", name), repr(name), "a look-alike of the condition", near)


@_register
def expectation_fits_kind(world: LintContext, rule: Rule) -> Iterator[Problem]:
    """A case of kind fires expects an alert; a quiet case and a look-alike expect none."""
    file = world.cases.get(rule.id)
    for n, case in enumerate(file.cases if file else ()):
        wrong = {"fires": not case.expected, "quiet": bool(case.expected), "look-alike": bool(case.expected)}
        if file and wrong.get(case.kind, False):
            found = f"a case of kind {case.kind} that expects {'somebody' if case.expected else 'nobody'} to fire"
            yield file.document.problem(("cases", n), found, "the opposite, or another kind")


@_register
def can_fire(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001 - all lints are called alike
    """The weights `for` can reach the score at which the rule fires."""
    most = sum(item.weight for item in rule.evidence if not item.against)
    if most < rule.fire.score:
        yield rule.document.problem(
            ("fire", "score"), f"{rule.fire.score:g}", f"at most {most:g}, all that speaks for it"
        )


@_register
def clears_below(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001
    """A rule clears at a lower score than it fires at, or it would flap."""
    if rule.clear.score >= rule.fire.score:
        yield rule.document.problem(("clear", "score"), f"{rule.clear.score:g}", f"less than {rule.fire.score:g}")


@_register
def has_required(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001
    """At least one item is required, so that unknown evidence gives no diagnosis."""
    if not any(item.required for item in rule.evidence):
        yield rule.document.problem(("evidence",), "no required item", "at least one with `required: true`")


@_register
def score_requirements_have_marks(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001
    """An item without which the score cannot be reached is marked as required, and no other one is."""
    total = sum(item.weight for item in rule.evidence if not item.against)
    for n, item in _numbered_evidence(rule):
        if item.against or item.required:
            continue
        rest = f"the other items for it reach {total - item.weight:g} of the score {rule.fire.score:g}"
        is_needed = total - item.weight < rule.fire.score
        if is_needed and not item.required_by_score:
            expected = f"`required: by_score` or `required: true`, since {rest}"
            yield rule.document.problem(("evidence", n), f"{item.name!r}, which is not marked as required", expected)
        elif item.required_by_score and not is_needed:
            expected = f"no mark, since {rest}"
            yield rule.document.problem(("evidence", n, "required"), "`required: by_score`", expected)


@_register
def thresholds_have_basis(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001
    """Every item gives the reason for its numbers; a paper or a vendor's document is cited."""
    for n, item in _numbered_evidence(rule):
        if item.threshold is None:
            expected = "`why: ...`, the reason for its numbers"
            yield rule.document.problem(("evidence", n), f"{item.name!r} without a reason", expected)
        elif item.threshold.basis in {"paper", "vendor"} and not item.threshold.source:
            found = f"the basis {item.threshold.basis!r} without a source"
            yield rule.document.problem(("evidence", n, "basis"), found, "`source: <id>`")


@_register
def lets_are_useful(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001
    """Every let is used; one that is used once is long enough to deserve a name."""
    names = [let.name for let in rule.lets]
    used = Counter(name for text in rule.texts for name in mentioned_lets(text, names))
    for let in rule.lets:
        if not used[let.name]:
            yield rule.document.problem(("let", let.name), f"{let.name!r}, which nothing uses", "a use, or no let")
        elif used[let.name] == 1 and len(let.text) < MIN_LET_TEXT:
            found = f"{let.name!r}, which is short and used once"
            expected = f"two uses, or a definition of {MIN_LET_TEXT} characters or more"
            yield rule.document.problem(("let", let.name), found, expected, "Write it where it is used.")


@_register
def severity_rises(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001
    """The level critical is above the level warning."""
    if rule.warning >= rule.critical:
        yield rule.document.problem(
            ("severity",), f"warning {rule.warning:g}, critical {rule.critical:g}", "them to rise"
        )


@_register
def vantage_has_signals(world: LintContext, rule: Rule) -> Iterator[Problem]:
    """The rule's vantage provides at least one signal of the required items."""
    signals = {name for item in rule.evidence if item.required for name in item.when.signals}
    vantages = {name: set(world.catalogue.signals[name].vantage) for name in sorted(signals)}
    if signals and not any(seen & SIGNAL_VANTAGES[rule.vantage] for seen in vantages.values()):
        found = f"{rule.vantage}, from where none of {join_names(sorted(signals))} can be had"
        yield rule.document.problem(("vantage",), found, "the vantage of what is required")


@_register
def reads_signature_signals(world: LintContext, rule: Rule) -> Iterator[Problem]:
    """The rule reads at least one signal of its condition's signature."""
    condition = world.catalogue.conditions.get(rule.condition)
    if condition and condition.signature and not set(condition.signature_signals) & set(rule.signals):
        found = f"none of the signals in which {rule.condition} shows ({join_names(condition.signature_signals)})"
        yield rule.document.problem(("evidence",), found, "at least one of them")


@_register
def distance_with_size(world: LintContext, rule: Rule) -> Iterator[Problem]:  # noqa: ARG001
    """A threshold in deviations is combined with an absolute one: among equal values a trifle is many deviations."""
    for n, item in _numbered_evidence(rule):
        if not item.against and item.required and all(_is_deviation_only(part) for part in item.when.comparisons):
            found = f"{item.name!r}, which compares nothing but deviations"
            yield rule.document.problem(("evidence", n, "when"), found, "a size too", "Add `and <signal> > ...`.")


def _is_deviation_only(comparison: Expr) -> bool:
    return any(node.op == "call" and node.name in {"peer_z", "baseline_z"} for node in comparison.walk())
