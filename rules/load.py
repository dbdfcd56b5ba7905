"""Rules from their files. All faults of all files are collected; a file with any gives no rule."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skewscope.kb.latest import of_latest
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, nearest
from skewscope.kb.yamlfile import Document, Path_, read
from skewscope.rules.expr import Expr, Peers
from skewscope.rules.kinds import PEER_CHOICES, PEER_DEFAULTS
from skewscope.rules.language import Setting, compiled
from skewscope.rules.model import Evidence, Level, Rule, Threshold, Where
from skewscope.rules.parsing import Fault, mentioned
from skewscope.rules.shape import misshapen

HERE = Path(__file__).parent
MOST_FILES = 2000
LONGEST_HOLD = 3600.0
GROUPABLE = ("rank", "node", "gpu")
"""Kinds whose peers may be the members of a kind of group."""


def load(catalogue: Catalogue, folder: Path = HERE) -> tuple[Mapping[str, Rule], list[Problem]]:
    """Every rule of a folder by id, and what is wrong with the others."""
    if folder != HERE:
        return _loaded(catalogue, folder)
    found, problems = _shipped(catalogue)
    return found, list(problems)


@of_latest
def _shipped(catalogue: Catalogue) -> tuple[Mapping[str, Rule], list[Problem]]:
    """Those of the package: who replays several recordings reads them once."""
    return _loaded(catalogue, HERE)


def _loaded(catalogue: Catalogue, folder: Path) -> tuple[Mapping[str, Rule], list[Problem]]:
    rules: dict[str, Rule] = {}
    problems: list[Problem] = []
    files = sorted(folder.glob("*.yaml"))
    if len(files) > MOST_FILES:
        return {}, [Problem(str(folder), 0, "", f"{len(files)} rules", f"at most {MOST_FILES}")]
    for path in files:
        try:
            rule, found = parse(read(path, f"{folder.name}/{path.name}"), catalogue, path.stem)
        except InputError as error:
            rule, found = None, list(error.problems)
        problems += found
        if rule:
            rules[rule.id] = rule
    return dict(sorted(rules.items())), problems


def rules(catalogue: Catalogue, folder: Path = HERE) -> Mapping[str, Rule]:
    """Every rule of a folder by id.

    Raises:
        InputError: all that is wrong with any of them.
    """
    found, problems = load(catalogue, folder)
    if problems:
        raise InputError(problems)
    return found


def parse(document: Document, catalogue: Catalogue, name: str = "") -> tuple[Rule | None, list[Problem]]:
    """The rule in a document, and what is wrong with it; None if anything is. `name` is what its id must be."""
    problems = list(misshapen(document, "rule"))
    if problems:
        return None, problems
    reader = _Reader(document, catalogue)
    rule = reader.rule(name)
    return (None if reader.problems else rule), reader.problems


@dataclass
class _Reader:
    """One document of the right shape, being read."""

    document: Document
    catalogue: Catalogue
    problems: list[Problem] = field(default_factory=list)

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document.data
        return found

    def rule(self, name: str) -> Rule:
        data = self.data
        if name and data["id"] != name:
            self.fault(("id",), repr(data["id"]), repr(name), "The id is the name of the file.")
        self.link(("condition",), data["condition"], "condition", self.catalogue.conditions)
        setting = Setting(self.catalogue.signals, data["scope"], self.peers(), self.watched())
        impact = data.get("impact", {})
        severity = data.get("severity", {})
        return Rule(
            id=data["id"],
            condition=data["condition"],
            maturity=data["maturity"],
            vantage=data["vantage"],
            scope=data["scope"],
            where=self.where(),
            peers=setting.peers,
            warm_up=self.constant(setting, ("warm_up",), data.get("warm_up", 0), "seconds"),
            applies_when=self.expression(setting, ("applies_when",), data.get("applies_when"), "truth"),
            evidence=tuple(self.items(setting)),
            fire=self.level(setting, "fire"),
            clear=self.level(setting, "clear"),
            impact_metric=impact.get("metric", ""),
            impact=self.expression(setting, ("impact", "change"), impact.get("change"), "share"),
            warning=self.constant(setting, ("severity", "warning"), severity.get("warning", 0.05), "share"),
            critical=self.constant(setting, ("severity", "critical"), severity.get("critical", 0.2), "share"),
            hash=content_hash(data),
            file=self.document.file,
            notes=tuple(data.get("notes", ())),
            document=self.document,
        )

    def fault(self, path: Path_, found: str, expected: str, hint: str = "") -> None:
        self.problems.append(self.document.problem(path, found, expected, hint))

    def link(self, path: Path_, name: str, kind: str, known: Iterable[str]) -> None:
        known = list(known)
        if name not in known:
            self.fault(path, f"the unknown {kind} {name!r}", f"the id of a {kind}", nearest(name, known))

    def watched(self) -> tuple[str, ...]:
        """Signals whose reporting makes an entity count as a peer: those of the required items, or of all."""
        items = [item for item in self.data["evidence"] if item.get("required")] or self.data["evidence"]
        return tuple(sorted({name for item in items for name in mentioned(item["when"])}))

    def where(self) -> Where:
        data = self.data.get("where", {})
        if "network" in data and self.data["scope"] != "port":
            self.fault(("where", "network"), f"a network for a {self.data['scope']}", "it only where ports are judged")
        if "group" in data and self.data["scope"] not in {"rank", "group", "replica", "node", "gpu", "port"}:
            found = f"a kind of group for a {self.data['scope']}"
            self.fault(("where", "group"), found, "it only for what is in groups")
        for name, what in (("nodes", "nodes"), ("front_end", "the front end")):
            if name in data and self.data["scope"] not in {"rank", "group", "replica"}:
                found = f"{what} of a group for a {self.data['scope']}"
                self.fault(("where", name), found, "it only for ranks and groups")
        groups, networks = _listed(data.get("group")), _listed(data.get("network"))
        return Where(groups, networks, data.get("nodes", 0), data.get("front_end", ""))

    def peers(self) -> Peers:
        scope, where = self.data["scope"], self.data.get("where", {})
        by = self.data.get("peers", PEER_DEFAULTS[scope])
        choices = PEER_CHOICES[scope]
        if by not in choices and not (by.endswith("-parallel") and scope in GROUPABLE):
            kinds = " or a kind of group" if scope in GROUPABLE else ""
            self.fault(("peers",), repr(by), f"for a {scope} {' or '.join(choices)}{kinds}")
        return Peers(scope, by, _listed(where.get("group")), _listed(where.get("network")))

    def items(self, setting: Setting) -> Iterator[Evidence]:
        names: set[str] = set()
        for n, item in enumerate(self.data["evidence"]):
            path: Path_ = ("evidence", n)
            if item["name"] in names:
                self.fault((*path, "name"), f"{item['name']!r} for the second time", "a name of its own")
            names.add(item["name"])
            if ("for" in item) == ("against" in item):
                found = "both" if "for" in item else "neither"
                self.fault(path, f"{found} of 'for' and 'against'", "exactly one of them")
            if item.get("required") and "against" in item:
                self.fault((*path, "required"), "a required item against", "required items only for", "Negate it.")
            expr = self.expression(setting, (*path, "when"), item["when"], "truth")
            if expr:
                yield self.item(path, item, expr)

    def item(self, path: Path_, item: dict[str, Any], expr: Expr) -> Evidence:
        threshold = item.get("threshold")
        if threshold and "source" in threshold:
            self.link((*path, "threshold", "source"), threshold["source"], "source", self.catalogue.sources)
        return Evidence(
            name=item["name"],
            weight=float(item.get("for", item.get("against", 0))),
            against="against" in item,
            required=item.get("required", False),
            when=expr,
            text=" ".join(item["when"].split()),
            threshold=Threshold(**threshold) if threshold else None,
        )

    def level(self, setting: Setting, name: str) -> Level:
        data = self.data[name]
        return Level(float(data["score"]), self.constant(setting, (name, "hold"), data["hold"], "seconds"))

    def constant(self, setting: Setting, path: Path_, value: Any, wants: str) -> float:
        """A number with its unit that is the same for all entities; 0 where it is faulty."""
        expr = self.expression(setting, path, str(value), wants)
        if expr is None:
            return 0.0
        most = LONGEST_HOLD if wants == "seconds" else 1e6
        if expr.op != "number" or not 0 <= expr.value <= most:
            self.fault(path, repr(value), f"a constant from 0 to {most:g}")
            return 0.0
        return expr.value

    def expression(self, setting: Setting, path: Path_, text: str | None, wants: str) -> Expr | None:
        if text is None:
            return None
        expr, faults = compiled(" ".join(text.split()), setting, wants)
        self.problems += [self.problem(path, fault) for fault in faults]
        return expr

    def problem(self, path: Path_, fault: Fault) -> Problem:
        return self.document.problem(path, f"{fault.found} (column {fault.column})", fault.expected, fault.hint)


def _listed(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def content_hash(data: Any) -> str:
    """The first 16 digits of the SHA-256 of what a file says, however it is laid out."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]
