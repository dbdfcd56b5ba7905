"""The rules that a backtest tries: an installed rule by its id, a file, or a folder of rules."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.kb import yamlfile
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.kb.yamlfile import Document
from skewscope.rules.loader import load_builtin, load_strict, parse
from skewscope.rules.model import Rule
from skewscope.rules.policy import Policy, load_in_use
from skewscope.rules.policy import load as load_policies

POLICIES = "policies"


@dataclass(frozen=True)
class RuleSet:
    """One version of the rules, as a worker needs it: without the documents that the rules were read from."""

    name: str
    """How it was named."""
    rules: tuple[Rule, ...]
    """In the order of ids."""
    policies: tuple[Policy, ...]
    symptoms: bool
    """Whether what is abnormal without a rule is told as well."""
    tried: tuple[str, ...]
    """Ids of the rules that were asked for; those of a folder are all."""

    @property
    def conditions(self) -> frozenset[str]:
        """Ids of the conditions that the rules that were asked for can tell."""
        return frozenset(rule.condition for rule in self.rules if rule.id in self.tried)


def load_rule_set(where: str, known: Catalogue, *, with_others: bool = False, symptoms: bool | None = None) -> RuleSet:
    """Loads the rules that a text names.

    Args:
        where: the path of a rule file or of a folder of rules, or the id of an installed rule.
        known: the catalogue that they refer to.
        with_others: judge a single rule among the installed ones, of which it replaces the one of its id.
        symptoms: whether to tell what is abnormal without a rule; None: not beside a single rule.

    Raises:
        InputError: all problems of the rules.
    """
    path = Path(where)
    installed, problems = load_builtin(known)
    if problems:
        raise InputError(problems)
    policies = _load_policies(path / POLICIES if (path / POLICIES).is_dir() else None, known)
    if path.is_dir():
        rules = load_strict(known, path)
        if not rules:
            raise InputError([Problem(where, 0, "", "no rule", "a folder with rules, a .yaml file each")])
        return _build_rule_set(where, rules, policies, True if symptoms is None else symptoms, tuple(rules))
    rule = _load_rule(where, path, known, installed)
    rules = {**installed, rule.id: rule} if with_others else {rule.id: rule}
    return _build_rule_set(where, rules, policies, with_others if symptoms is None else symptoms, (rule.id,))


def _load_rule(where: str, path: Path, known: Catalogue, installed: Mapping[str, Rule]) -> Rule:
    if path.is_file():
        rule, problems = parse(yamlfile.read(path, where), known)
        if rule is None or problems:
            raise InputError(problems)
        return rule
    if where not in installed:
        hint = suggest_name(where, installed)
        raise InputError(
            [Problem(repr(where), 0, "", "no rule", "a file or folder of rules, or the id of a rule", hint)]
        )
    return installed[where]


def _load_policies(folder: Path | None, known: Catalogue) -> tuple[Policy, ...]:
    policies, problems = load_policies(folder) if folder else load_in_use(known)
    if problems:
        raise InputError(problems)
    return tuple(policies)


def _build_rule_set(
    name: str, rules: Mapping[str, Rule], policies: tuple[Policy, ...], symptoms: bool, tried: tuple[str, ...]
) -> RuleSet:
    bare = tuple(replace(rules[id_], document=Document(rules[id_].file, None)) for id_ in sorted(rules))
    return RuleSet(name, bare, policies, symptoms, tried)
