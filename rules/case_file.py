"""Cases: telemetry written for one rule, and the verdicts expected of it. `schema/cases.md` describes the format."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from skewscope.kb.model import Catalogue, Signal
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.kb.units import is_unit, parse_unit
from skewscope.kb.yamlfile import Document, FieldPath, read
from skewscope.rules.entity_kinds import GROUP_KINDS, NETWORKS, kind_of
from skewscope.rules.expression import Expr, Peers
from skewscope.rules.language import ExpressionContext, compile_expression
from skewscope.rules.parsing import ExpressionProblem
from skewscope.rules.schema_validation import validate_document
from skewscope.rules.units import NUMBER, SECOND, product

CASES_FOLDER = Path(__file__).parent / "cases"
TICK, LASTS = 1.0, 30.0
MAX_TICKS = 20_000


@dataclass(frozen=True, slots=True)
class ValueSegment:
    """A value over an interval, in the signal's base unit; for a counter, per second."""

    value: float = 0.0
    to_value: float | None = None
    missing: bool = False
    begin: float = 0.0
    end: float = float("inf")
    noise: float = 0.0
    every: float = 0.0
    restart: float | None = None


@dataclass(frozen=True, slots=True)
class SignalInput:
    """Values of one signal on the entities that match the pattern `entity`; later inputs override earlier ones."""

    signal: str
    subscripts: tuple[str, ...]
    entity: str
    segments: tuple[ValueSegment, ...]


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """Which entity fires, when, and with what severity."""

    at: str
    by: float
    after: float = 0.0
    clears_by: float | None = None
    severity: str = ""


@dataclass(frozen=True, slots=True)
class CaseTopology:
    """A short topology: groups as (name, kind, nodes, GPUs of a member), further nodes, GPUs of a node, pools, jobs."""

    groups: tuple[tuple[str, str, int, int], ...] = ()
    nodes: int = 0
    gpus: int = 0
    pools: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    jobs: tuple[str, ...] = ()
    """Training jobs: groups without a front end, and in no pool unless given."""
    rails: int = 1
    """East-west ports of a node."""


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One case. If `unknown` is not None no entity fires, and those listed there (or all) are unknown at the end."""

    name: str
    kind: str
    topology: CaseTopology
    tick: float
    duration: float
    inputs: tuple[SignalInput, ...]
    expected: tuple[ExpectedAlert, ...] = ()
    unknown: tuple[str, ...] | None = None
    lookalike: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The cases of one rule."""

    rule: str
    cases: tuple[RuleCase, ...]
    file: str
    document: Document = field(default=Document("<cases>", None), repr=False, compare=False)
    cannot_tell: Mapping[str, str] = field(default_factory=dict)
    """Look-alikes for which the rule would fire too: the reason by condition."""


def load(
    catalogue: Catalogue, folder: Path = CASES_FOLDER, of: Collection[str] = ()
) -> tuple[Mapping[str, CaseFile], list[Problem]]:
    """Load every file of cases, or those of some rules, by the rule's id; return the problems of the others too."""
    found: dict[str, CaseFile] = {}
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.yaml")):
        if of and path.stem not in of:
            continue
        try:
            cases, faults = parse(read(path, f"{folder.parent.name}/{folder.name}/{path.name}"), catalogue, path.stem)
        except InputError as error:
            cases, faults = None, list(error.problems)
        problems += faults
        if cases:
            found[cases.rule] = cases
    return found, problems


def parse(document: Document, catalogue: Catalogue, name: str = "") -> tuple[CaseFile | None, list[Problem]]:
    """Returns the cases in a document and its problems; None instead of cases if there are any."""
    problems = list(validate_document(document, "cases"))
    if problems:
        return None, problems
    reader = _Reader(document, catalogue)
    cases = reader.build_case_file(name)
    return (None if reader.problems else cases), reader.problems


_SIGNAL_PATTERN = re.compile(r"([a-z0-9_.]+)(?:\[([^\]]{0,80})\])?")
_GROUP_PATTERN = re.compile(r"(\S+) (\d+)(?:x(\d+))?")


@dataclass
class _Reader:
    """Reads one document of valid shape."""

    document: Document
    catalogue: Catalogue
    problems: list[Problem] = field(default_factory=list)
    parsed_constants: dict[str, tuple[Expr | None, tuple[ExpressionProblem, ...]]] = field(default_factory=dict)
    """By text: a file repeats the same few texts hundreds of times."""

    def build_case_file(self, name: str) -> CaseFile:
        data = self.document.data
        if name and data["rule"] != name:
            self.add_problem(("rule",), repr(data["rule"]), repr(name), "The rule is the name of the file.")
        names = [case["name"] for case in data["cases"]]
        for n, case in enumerate(names):
            if case in names[:n]:
                self.add_problem(("cases", n, "name"), f"{case!r} for the second time", "a name of its own")
        shared = tuple(self.build_inputs(("given",), data.get("given", {})))
        cases = tuple(self.build_case(("cases", n), case, data, shared) for n, case in enumerate(data["cases"]))
        return CaseFile(data["rule"], cases, self.document.file, self.document, data.get("cannot_tell", {}))

    def add_problem(self, path: FieldPath, found: str, expected: str, hint: str = "") -> None:
        self.problems.append(self.document.problem(path, found, expected, hint))

    def build_case(
        self, path: FieldPath, data: dict[str, Any], whole: dict[str, Any], shared: tuple[SignalInput, ...]
    ) -> RuleCase:
        if (data["kind"] == "look-alike") != ("like" in data):
            self.add_problem(
                path, "no 'like'" if "like" not in data else "'like'", "it for look-alikes, and for no others"
            )
        top = path if "topology" in data else ()
        tick = self.parse_duration(path, data, whole, "tick", TICK)
        lasts = self.parse_duration(path, data, whole, "lasts", LASTS)
        if not 0 < tick <= lasts <= tick * MAX_TICKS:
            self.add_problem(path, f"{lasts:g} s of {tick:g} s ticks", f"at least one tick and at most {MAX_TICKS}")
        expect = data["expect"]
        return RuleCase(
            name=data["name"],
            kind=data["kind"],
            topology=self.build_topology((*top, "topology"), (data if top else whole).get("topology", {})),
            tick=tick or TICK,
            duration=lasts,
            inputs=(*shared, *self.build_inputs((*path, "given"), data.get("given", {}))),
            expected=tuple(self.build_expected_alerts((*path, "expect"), expect)) if isinstance(expect, list) else (),
            unknown=None if isinstance(expect, list) else () if expect == "unknown" else tuple(expect["unknown"]),
            lookalike=data.get("like", ""),
            line=self.document.line(*path),
        )

    def parse_duration(
        self, path: FieldPath, data: dict[str, Any], whole: dict[str, Any], name: str, otherwise: float
    ) -> float:
        found = data if name in data else whole
        where = (*path, name) if name in data else (name,)
        return self.parse_constant(where, found[name], SECOND) if name in found else otherwise

    def build_expected_alerts(self, path: FieldPath, data: list[dict[str, Any]]) -> Iterator[ExpectedAlert]:
        for n, item in enumerate(data):
            times = {
                key: self.parse_constant((*path, n, key), item[key], SECOND)
                for key in ("by", "after", "clears_by")
                if key in item
            }
            yield ExpectedAlert(at=item["at"], severity=item.get("severity", ""), **times)

    def build_topology(self, path: FieldPath, data: dict[str, Any]) -> CaseTopology:
        groups = []
        for name, text in data.get("groups", {}).items():
            match = _GROUP_PATTERN.fullmatch(text)
            assert match  # the schema says so
            groups.append((name, match[1], int(match[2]), int(match[3] or 0)))
            if match[1] not in GROUP_KINDS:
                hint = suggest_name(match[1], GROUP_KINDS)
                self.add_problem((*path, "groups", name), repr(match[1]), f"one of {', '.join(GROUP_KINDS)}", hint)
            if not 1 <= int(match[2]) <= 1000:
                self.add_problem((*path, "groups", name), f"{match[2]} nodes", "1 to 1000")
        pools, jobs = data.get("pools"), data.get("jobs", ())
        for n, job in enumerate(jobs):
            if job not in data.get("groups", {}):
                self.add_problem((*path, "jobs", n), f"the unknown group {job!r}", "one of the groups")
        for pool, replicas in (pools or {}).items():
            for n, replica in enumerate(replicas):
                if replica not in data.get("groups", {}):
                    self.add_problem((*path, "pools", pool, n), f"the unknown group {replica!r}", "one of the groups")
        named = None if pools is None else tuple((pool, tuple(replicas)) for pool, replicas in pools.items())
        nodes, gpus, rails = data.get("nodes", 0), data.get("gpus", 0), data.get("rails", 1)
        return CaseTopology(tuple(groups), nodes, gpus, named, tuple(jobs), rails)

    def build_inputs(self, path: FieldPath, data: dict[str, Any]) -> Iterator[SignalInput]:
        for text, by_entity in data.items():
            match = _SIGNAL_PATTERN.fullmatch(text)
            signal = self.catalogue.signals.get(match[1]) if match else None
            if match is None or signal is None or not kind_of(signal.entity) or not is_unit(signal.unit):
                hint = suggest_name(match[1] if match else text, self.catalogue.signals)
                self.add_problem((*path, text), f"an unknown signal {text!r}", "a signal's id", hint)
                continue
            words = tuple(word.strip() for word in (match[2] or "").split(",") if word.strip())
            for entity, pieces in by_entity.items():
                where = (*path, text, entity)
                yield SignalInput(signal.id, words, entity, tuple(self.build_segments(where, pieces, signal)))

    def build_segments(self, path: FieldPath, data: Any, signal: Signal) -> Iterator[ValueSegment]:
        for n, item in enumerate(data if isinstance(data, list) else [data]):
            where = (*path, n) if isinstance(data, list) else path
            yield self.build_segment(where, item if isinstance(item, dict) else _expand_shorthand(item), signal)

    def build_segment(self, path: FieldPath, data: dict[str, Any], signal: Signal) -> ValueSegment:
        if ("value" in data) == bool(data.get("missing")):
            self.add_problem(path, "both" if "value" in data else "neither", "either a value or `missing: true`")
        known = parse_unit(signal.unit).dimension
        dim = product(known, SECOND, -1) if signal.type == "counter" else known
        dims = {"value": dim, "to_value": dim, "noise": NUMBER}
        read = {
            _SEGMENT_FIELDS.get(key, key): self.parse_constant((*path, key), data[key], dims.get(key, SECOND))
            for key in ("value", "to_value", "noise", "from", "to", "every", "restart")
            if key in data
        }
        return ValueSegment(missing=bool(data.get("missing")), **read)

    @cached_property
    def context(self) -> ExpressionContext:
        return ExpressionContext(self.catalogue.signals, "fleet", Peers("fleet", "all"))

    def parse_constant(self, path: FieldPath, value: Any, dim: Any) -> float:
        """Returns a constant of a dimension, in base units; 0 if it is faulty."""
        text = str(value)
        if text not in self.parsed_constants:
            self.parsed_constants[text] = compile_expression(text, self.context, "number")
        expr, faults = self.parsed_constants[text]
        for fault in faults:
            self.add_problem(path, f"{fault.found} (column {fault.column})", fault.expected, fault.hint)
        if expr is None:
            return 0.0
        if expr.op != "number" or (expr.dimension != dim and expr.value != 0):
            self.add_problem(path, repr(value), "a constant in the unit of what it is given for")
            return 0.0
        return expr.value


_SEGMENT_FIELDS = {"from": "begin", "to": "end"}


def _expand_shorthand(item: Any) -> dict[str, Any]:
    return {"missing": True} if item == "missing" else {"value": item}


def network_of(words: tuple[str, ...]) -> str:
    """Returns the network that subscripts name, or ''."""
    return next((word.replace("_", "-") for word in words if word.replace("_", "-") in NETWORKS), "")
