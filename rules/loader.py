"""Loading of rules. The problems of all files are collected; a file with a problem gives no rule."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from skewscope.kb.garbage import pause_collection
from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.loader import installed_catalogue
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.kb.site_files import RULES
from skewscope.kb.yamlfile import Document, FieldPath, read
from skewscope.rules import rule_cache
from skewscope.rules.entity_kinds import PEER_CHOICES, PEER_DEFAULTS
from skewscope.rules.expression import Expr, Peers
from skewscope.rules.language import ExpressionContext, compile_expression, compile_let
from skewscope.rules.model import BY_SCORE, EntityFilter, EvidenceItem, Let, Rule, ScoreThreshold, ThresholdBasis
from skewscope.rules.parsing import ExpressionProblem, mentioned_lets, mentioned_signals
from skewscope.rules.schema_validation import validate_document

RULES_FOLDER = Path(__file__).parent
MAX_FILES = 2000
MAX_HOLD = 3600.0
GROUPABLE = ("rank", "node", "gpu")
"""Kinds of entity whose peers may be the members of a kind of group."""


def load(catalogue: Catalogue, folder: Path = RULES_FOLDER) -> tuple[Mapping[str, Rule], list[Problem]]:
    """Load every rule of a folder by id; return the problems of the others too.

    Those of the site, if the catalogue has any, are among the installed ones.
    """
    if folder != RULES_FOLDER:
        return _load_folder(catalogue, folder)
    found, problems = _add_rules_of_site(catalogue, *_parse_builtin(catalogue))
    return found, list(problems)


@cache_latest
def load_builtin(catalogue: Catalogue) -> tuple[Mapping[str, Rule], list[Problem]]:
    """Load the rules to evaluate them, those of the site among them.

    Installed ones have no documents: they are parsed only after a change.
    """
    return _add_rules_of_site(catalogue, *_load_installed(catalogue))


def _add_rules_of_site(
    catalogue: Catalogue, installed: Mapping[str, Rule], problems: list[Problem]
) -> tuple[Mapping[str, Rule], list[Problem]]:
    """Returns the rules with those of the site, which stand in place of installed ones, and all problems."""
    if catalogue.site is None:
        return installed, problems
    own, wrong = load_rules_of_site(catalogue)
    return dict(sorted({**installed, **own}.items())), [*problems, *wrong]


def load_rules_of_site(catalogue: Catalogue) -> tuple[Mapping[str, Rule], list[Problem]]:
    """Returns the rules of the catalogue's site by id, and the problems of the others."""
    rules: dict[str, Rule] = {}
    problems: list[Problem] = []
    for id_, document in catalogue.site.documents(RULES, problems) if catalogue.site else ():
        rule, wrong = parse(document, catalogue, id_)
        problems += wrong
        if rule:
            rules[id_] = rule
    return rules, problems


def _load_installed(catalogue: Catalogue) -> tuple[Mapping[str, Rule], list[Problem]]:
    if not _has_installed_entries(catalogue):
        return _parse_builtin(catalogue)
    with pause_collection():
        known = rule_cache.read(RULES_FOLDER)
    if known is not None:
        return known, []
    state = _digest_or_empty()
    rules, problems = _parse_builtin(catalogue)
    if state and not problems and state == _digest_or_empty():
        rule_cache.write(RULES_FOLDER, state, rules)
    return rules, problems


def _has_installed_entries(catalogue: Catalogue) -> bool:
    """Returns whether all that an installed rule names is as it was installed."""
    base, site = installed_catalogue(), catalogue.site
    if site is None:
        return catalogue is base
    named = (("conditions", base.conditions), ("signals", base.signals), ("sources", base.sources))
    return not any(id_ in known for kind, known in named for id_ in site.ids.get(kind, ()))


def _digest_or_empty() -> str:
    try:
        return rule_cache.digest(RULES_FOLDER)
    except OSError:
        return ""


@cache_latest
def _parse_builtin(catalogue: Catalogue) -> tuple[Mapping[str, Rule], list[Problem]]:
    """Load the installed rules, once for several replays."""
    with pause_collection():
        return _load_folder(catalogue, RULES_FOLDER)


def _load_folder(catalogue: Catalogue, folder: Path) -> tuple[Mapping[str, Rule], list[Problem]]:
    rules: dict[str, Rule] = {}
    problems: list[Problem] = []
    files = sorted(folder.glob("*.yaml"))
    if len(files) > MAX_FILES:
        return {}, [Problem(str(folder), 0, "", f"{len(files)} rules", f"at most {MAX_FILES}")]
    for path in files:
        try:
            rule, found = parse(read(path, f"{folder.name}/{path.name}"), catalogue, path.stem)
        except InputError as error:
            rule, found = None, list(error.problems)
        problems += found
        if rule:
            rules[rule.id] = rule
    return dict(sorted(rules.items())), problems


def load_strict(catalogue: Catalogue, folder: Path = RULES_FOLDER) -> Mapping[str, Rule]:
    """Load every rule of a folder by id.

    Raises:
        InputError: the problems of all files.
    """
    found, problems = load(catalogue, folder)
    if problems:
        raise InputError(problems)
    return found


def parse(document: Document, catalogue: Catalogue, name: str = "") -> tuple[Rule | None, list[Problem]]:
    """Returns the rule in a document and its problems; no rule if there are any. `name` is the required id."""
    problems = list(validate_document(document, "rule"))
    if problems:
        return None, problems
    reader = _Reader(document, catalogue)
    rule = reader.build_rule(name)
    return (None if reader.problems else rule), reader.problems


@dataclass
class _Reader:
    """Reads one document of valid shape."""

    document: Document
    catalogue: Catalogue
    problems: list[Problem] = field(default_factory=list)

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document.data
        return found

    def build_rule(self, name: str) -> Rule:
        data = self.data
        if name and data["id"] != name:
            self.add_problem(("id",), repr(data["id"]), repr(name), "The id is the name of the file.")
        self.check_reference(("condition",), data["condition"], "condition", self.catalogue.conditions)
        setting = ExpressionContext(self.catalogue.signals, data["scope"], self.build_peers(), self.peer_signals())
        lets = self.build_lets(setting)
        setting = replace(setting, lets=lets)
        impact = data.get("impact", {})
        severity = data.get("severity", {})
        rule = Rule(
            id=data["id"],
            title=data["title"],
            description=" ".join(data["description"].split()),
            condition=data["condition"],
            maturity=data["maturity"],
            vantage=data["vantage"],
            scope=data["scope"],
            where=self.build_filter(),
            peers=setting.peers,
            warm_up=self.parse_constant(setting, ("warm_up",), data.get("warm_up", 0), "seconds"),
            applies_when=self.parse_expression(setting, ("applies_when",), data.get("applies_when"), "truth"),
            evidence=tuple(self.build_evidence(setting)),
            fire=self.build_score_threshold(setting, "fire"),
            clear=self.build_score_threshold(setting, "clear"),
            lets=tuple(Let(name, self.let_texts[name], expr) for name, expr in lets.items() if expr),
            impact_metric=impact.get("metric", ""),
            impact=self.parse_expression(setting, ("impact", "change"), impact.get("change"), "share"),
            warning=self.parse_constant(setting, ("severity", "warning"), severity.get("warning", 0.05), "share"),
            critical=self.parse_constant(setting, ("severity", "critical"), severity.get("critical", 0.2), "share"),
            file=self.document.file,
            notes=tuple(data.get("notes", ())),
            document=self.document,
        )
        return replace(rule, hash=decision_hash(rule))

    def add_problem(self, path: FieldPath, found: str, expected: str, hint: str = "") -> None:
        self.problems.append(self.document.problem(path, found, expected, hint))

    def check_reference(self, path: FieldPath, name: str, kind: str, known: Iterable[str]) -> None:
        known = list(known)
        if name not in known:
            self.add_problem(path, f"the unknown {kind} {name!r}", f"the id of a {kind}", suggest_name(name, known))

    def peer_signals(self) -> tuple[str, ...]:
        """Returns the signals that make an entity count as a peer: those of the required items, or else of all."""
        of_lets: dict[str, tuple[str, ...]] = {}
        for name, text in self.let_texts.items():
            of_lets[name] = mentioned_signals(text, of_lets)
        items = [item for item in self.data["evidence"] if item.get("required") is True] or self.data["evidence"]
        return tuple(sorted({name for item in items for name in mentioned_signals(item["when"], of_lets)}))

    @cached_property
    def let_texts(self) -> Mapping[str, str]:
        """Returns definitions of the lets by name, in the file's order, each on one line."""
        return {name: " ".join(text.split()) for name, text in self.data.get("let", {}).items()}

    def build_lets(self, setting: ExpressionContext) -> dict[str, Expr | None]:
        """Build the lets by name; None for a faulty one. Each may use those before it."""
        found: dict[str, Expr | None] = {}
        for name, text in self.let_texts.items():
            found[name], faults = compile_let(name, text, replace(setting, lets=dict(found)))
            self.problems += [self.to_problem(("let", name), fault) for fault in faults]
        return found

    def definitions(self, text: str) -> tuple[tuple[str, str], ...]:
        """Returns name and definition of each let that a text uses, also through other lets, in the file's order."""
        used = set(mentioned_lets(text, self.let_texts))
        for name, definition in reversed(list(self.let_texts.items())):
            if name in used:
                used.update(mentioned_lets(definition, self.let_texts))
        return tuple((name, definition) for name, definition in self.let_texts.items() if name in used)

    def build_filter(self) -> EntityFilter:
        data = self.data.get("where", {})
        if "network" in data and self.data["scope"] != "port":
            self.add_problem(
                ("where", "network"), f"a network for a {self.data['scope']}", "a network only in rules about ports"
            )
        if "group" in data and self.data["scope"] not in {"rank", "group", "replica", "node", "gpu", "port"}:
            found = f"a kind of group for a {self.data['scope']}"
            self.add_problem(("where", "group"), found, "a kind of group only for members of groups")
        for name, what in (("nodes", "nodes"), ("front_end", "the front end")):
            if name in data and self.data["scope"] not in {"rank", "group", "replica"}:
                found = f"{what} of a group for a {self.data['scope']}"
                self.add_problem(("where", name), found, "this field only in rules about ranks, groups and replicas")
        groups, networks = _as_tuple(data.get("group")), _as_tuple(data.get("network"))
        return EntityFilter(groups, networks, data.get("nodes", 0), data.get("front_end", ""))

    def build_peers(self) -> Peers:
        scope, where = self.data["scope"], self.data.get("where", {})
        by = self.data.get("peers", PEER_DEFAULTS[scope])
        choices = PEER_CHOICES[scope]
        if by not in choices and not (by.endswith("-parallel") and scope in GROUPABLE):
            kinds = " or a kind of group" if scope in GROUPABLE else ""
            self.add_problem(("peers",), repr(by), f"for a {scope} {' or '.join(choices)}{kinds}")
        return Peers(scope, by, _as_tuple(where.get("group")), _as_tuple(where.get("network")))

    def build_evidence(self, setting: ExpressionContext) -> Iterator[EvidenceItem]:
        names: set[str] = set()
        for n, item in enumerate(self.data["evidence"]):
            path: FieldPath = ("evidence", n)
            if item["name"] in names:
                self.add_problem((*path, "name"), f"{item['name']!r} for the second time", "a unique name")
            names.add(item["name"])
            if ("for" in item) == ("against" in item):
                found = "both" if "for" in item else "neither"
                self.add_problem(path, f"{found} of 'for' and 'against'", "exactly one of them")
            if item.get("required") and "against" in item:
                self.add_problem(
                    (*path, "required"), "a required item against", "required items only for", "Negate it."
                )
            expr = self.parse_expression(setting, (*path, "when"), item["when"], "truth")
            if expr:
                yield self.build_evidence_item(path, item, expr)

    def build_evidence_item(self, path: FieldPath, item: dict[str, Any], expr: Expr) -> EvidenceItem:
        if "source" in item:
            self.check_reference((*path, "source"), item["source"], "source", self.catalogue.sources)
        for name in ("basis", "source"):
            if name in item and "why" not in item:
                self.add_problem((*path, name), f"{name!r} without 'why'", "the reason for the item's numbers in 'why'")
        text = " ".join(item["when"].split())
        basis = {name: " ".join(item[name].split()) for name in ("why", "basis", "source") if name in item}
        return EvidenceItem(
            name=item["name"],
            weight=float(item.get("for", item.get("against", 0))),
            against="against" in item,
            required=item.get("required") is True,
            required_by_score=item.get("required") == BY_SCORE,
            when=expr,
            text=text,
            threshold=ThresholdBasis(**basis) if "why" in basis else None,
            definitions=self.definitions(text),
        )

    def build_score_threshold(self, setting: ExpressionContext, name: str) -> ScoreThreshold:
        data = self.data[name]
        return ScoreThreshold(
            float(data["score"]), self.parse_constant(setting, (name, "hold"), data["hold"], "seconds")
        )

    def parse_constant(self, setting: ExpressionContext, path: FieldPath, value: Any, wants: str) -> float:
        """Returns a constant in base units; 0 if it is faulty."""
        expr = self.parse_expression(setting, path, str(value), wants)
        if expr is None:
            return 0.0
        most = MAX_HOLD if wants == "seconds" else 1e6
        if expr.op != "number" or not 0 <= expr.value <= most:
            self.add_problem(path, repr(value), f"a constant from 0 to {most:g}")
            return 0.0
        return expr.value

    def parse_expression(
        self, setting: ExpressionContext, path: FieldPath, text: str | None, wants: str
    ) -> Expr | None:
        if text is None:
            return None
        expr, faults = compile_expression(" ".join(text.split()), setting, wants)
        self.problems += [self.to_problem(path, fault) for fault in faults]
        return expr

    def to_problem(self, path: FieldPath, fault: ExpressionProblem) -> Problem:
        return self.document.problem(path, f"{fault.found} (column {fault.column})", fault.expected, fault.hint)


def _as_tuple(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def decision_hash(rule: Rule) -> str:
    """Returns 16 hexadecimal digits of the SHA-256 of what decides a rule's verdicts, with its lets expanded."""
    parts = [
        [rule.id, rule.condition, rule.scope, str(rule.where), str(rule.peers), rule.warm_up, str(rule.applies_when)],
        [[item.weight, item.against, item.required, str(item.when)] for item in rule.evidence],
        [[level.score, level.hold] for level in (rule.fire, rule.clear)],
        [str(rule.impact), rule.warning, rule.critical],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
