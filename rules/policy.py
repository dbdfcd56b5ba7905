"""Policies as written: symbolic rules over few facts. `engine.advice.policy` checks what the matchers support."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.kb.site_files import POLICIES
from skewscope.kb.yamlfile import Document, read, type_label
from skewscope.rules.schema_validation import fast_check, validator

if TYPE_CHECKING:
    from jsonschema import ValidationError

PACKAGE_FOLDER = Path(__file__).parent
POLICIES_FOLDER = PACKAGE_FOLDER / "policies"
MAX_FILES = 2000
MAX_NUMBER = 1e9

Scalar = str | int | float | bool
FieldPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FactProperty:
    """A property of a kind of fact. A `level` is text with an order; a `number` keeps three decimals."""

    type: str
    """text, level, number or count."""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FactType:
    """A kind of fact. With a `topic`, each value of that property is a kind of its own, so patterns must name it."""

    properties: Mapping[str, FactProperty] = field(default_factory=dict)
    topic: str = ""


WORK_KINDS = ("inference", "training")
"""What an entity may work on; a policy is for one of them, or for `both`."""
ENTITY_KINDS = ("node", "port", "gpu", "rank", "group", "replica", "pool", "link", "peer", "fleet")
YES_NO = FactProperty("text", ("no", "yes"))

FACTS: Mapping[str, FactType] = {
    "diagnosis": FactType(
        {
            "severity": FactProperty("level", ("info", "warning", "critical")),
            "confidence": FactProperty("number"),
            "coverage": FactProperty("number"),
            "scope": FactProperty("text", ENTITY_KINDS),
            "moves": FactProperty("count"),
            "error": FactProperty("count"),
        },
        topic="condition",
    ),
    "topology": FactType(
        {
            "parallelism": FactProperty("text"),
            "members": FactProperty("count"),
            "nodes": FactProperty("count"),
            "siblings": FactProperty("count"),
            "rails": FactProperty("count"),
            "front_end": YES_NO,
        }
    ),
    "maintenance": FactType(),
    "tried": FactType(topic="mitigation"),
    "budget-spent": FactType(topic="mitigation"),
}
"""The facts the engine knows of; policies may derive more. `moves`: how often a diagnosis went from one member of a
group to another; `error`: the driver error of a GPU (Xid) that it was decided by, 0 for none; `siblings`: other
replicas in the entity's pools; `rails`: ports into the compute network of the least connected node that it lies on, 0
where the topology tells of none."""


@dataclass(frozen=True, slots=True)
class PropertyComparison:
    """One property's comparison with literals: any of `values` for `is`, one value for every other op."""

    property: str
    op: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class FactPattern:
    """A required fact on the one entity of the policy. `topics` are the kinds it may be of, () if it has none."""

    fact: str
    same_entity: bool
    """Whether the pattern has `entity: same`."""
    topics: tuple[str, ...] = ()
    comparisons: tuple[PropertyComparison, ...] = ()


@dataclass(frozen=True)
class Policy:
    """One policy as written in its file."""

    id: str
    when: tuple[FactPattern, ...]
    unless: FactPattern | None = None
    mitigation: str = ""
    why: str = ""
    diagnosis: str = ""
    """The condition it derives."""
    fact: str = ""
    """The fact it derives."""
    priority: int = 100
    work: str = ""
    """inference, training or both; '' if it does not say."""
    hash: str = ""
    document: Document = field(default=Document("<policy>", None), repr=False, compare=False)

    def problem(self, path: FieldPath, found: str, expected: str, hint: str = "") -> Problem:
        """Returns a problem at a place of this policy's file."""
        return self.document.problem(path, found, expected, hint)


def load(folder: Path = POLICIES_FOLDER) -> tuple[tuple[Policy, ...], list[Problem]]:
    """Load every policy of a folder, in the order of ids; return the problems of the others too."""
    if folder != POLICIES_FOLDER:
        return _load_folder(folder)
    found, problems = _load_builtin()
    return found, list(problems)


def load_in_use(catalogue: Catalogue) -> tuple[tuple[Policy, ...], list[Problem]]:
    """Load the installed policies and those of the catalogue's site, which stand in place of those with their ids."""
    installed, problems = load()
    own = list(_parse_each(catalogue.site.documents(POLICIES, problems), problems)) if catalogue.site else []
    problems += check_references(own, catalogue)
    merged = {policy.id: policy for policy in (*installed, *own)}
    return tuple(merged[id_] for id_ in sorted(merged)), problems


def _parse_each(documents: Iterable[tuple[str, Document]], problems: list[Problem]) -> Iterator[Policy]:
    """Yields the policies in documents by the ids that they must have; adds the problems of the others."""
    for id_, document in documents:
        try:
            yield parse(document, id_)
        except InputError as error:
            problems += error.problems


@cache
def _load_builtin() -> tuple[tuple[Policy, ...], list[Problem]]:
    """Load the installed policies, once for several replays."""
    return _load_folder(POLICIES_FOLDER)


def _load_folder(folder: Path) -> tuple[tuple[Policy, ...], list[Problem]]:
    policies: list[Policy] = []
    problems: list[Problem] = []
    files = sorted(folder.glob("*.yaml"))
    if len(files) > MAX_FILES:
        return (), [Problem(str(folder), 0, "", f"{len(files)} policies", f"at most {MAX_FILES}")]
    for path in files:
        try:
            policies.append(parse(read(path, f"{folder.name}/{path.name}"), path.stem))
        except InputError as error:
            problems += error.problems
    return tuple(sorted(policies, key=lambda p: p.id)), problems


def parse(document: Document, name: str = "") -> Policy:
    """The policy in a document; `name` is what its id must be.

    Raises:
        InputError: the document is no policy.
    """
    problems = list(_validate_document(document))
    if problems:
        raise InputError(problems)
    data: dict[str, Any] = document.data
    if not str(data.get("advise", {}).get("why", "")).isprintable():
        hint = "It is shown on terminals."
        problems.append(document.problem(("advise", "why"), "a character that does not print", "one plain line", hint))
    if name and data["id"] != name:
        problems.append(document.problem(("id",), repr(data["id"]), repr(name), "The id is the name of the file."))
    when = tuple(_parse_pattern(document, ("when", n), item, problems) for n, item in enumerate(data["when"]))
    unless = _parse_pattern(document, ("unless",), data["unless"], problems) if "unless" in data else None
    if problems:
        raise InputError(problems)
    advise, derive = data.get("advise", {}), data.get("derive", {})
    return Policy(
        id=data["id"],
        when=when,
        unless=unless,
        mitigation=advise.get("mitigation", ""),
        why=advise.get("why", ""),
        diagnosis=derive.get("diagnosis", ""),
        fact=derive.get("fact", ""),
        priority=data.get("priority", 100),
        work=data.get("work", ""),
        hash=hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16],
        document=document,
    )


def _validate_document(document: Document) -> Iterable[Problem]:
    if fast_check("policy")(document.data):
        return
    for error in validator("policy").iter_errors(document.data):
        path = tuple(error.absolute_path)
        schema: Any = error.schema
        known = dict(schema.get("properties", {})) if isinstance(schema, dict) else {}
        if error.validator == "additionalProperties" and isinstance(error.instance, dict):
            extra = sorted(str(key) for key in set(error.instance) - set(known))
            yield from (document.unknown_key((*path, key), list(known)) for key in extra)
        else:
            yield document.problem(path, *_found_and_expected(error))


def _found_and_expected(error: "ValidationError") -> tuple[str, str]:
    """Returns an error of the schema as (found, expected)."""
    value: Any = error.instance
    want: Any = error.validator_value
    short = repr(value)[:60] if not isinstance(value, dict | list) else type_label(value)
    told: dict[str, tuple[str, str]] = {
        "type": (type_label(value), str(want)),
        "const": (short, repr(want)),
        "oneOf": ("neither or both of 'advise' and 'derive'", "exactly one of them"),
        "pattern": (short, "lower-case words joined by hyphens"),
        "anyOf": (short, "a value, a list of values, or comparisons (at_least, at_most, above, below, not)"),
    }
    if error.validator == "required" and isinstance(want, list):
        return "no field " + ", ".join(repr(key) for key in want if key not in value), "it"
    return told.get(str(error.validator), (short, f"{error.validator} {want}"))


def _parse_pattern(document: Document, path: FieldPath, data: dict[str, Any], problems: list[Problem]) -> FactPattern:
    """Build a pattern; one of a kind that is not in `FACTS` has no properties."""
    kind = FACTS.get(data["fact"], FactType())
    fields = {key: value for key, value in data.items() if key not in ("fact", "entity")}
    topics: tuple[str, ...] = ()
    if kind.topic:
        topics = _parse_topics(document, (*path, kind.topic), fields.pop(kind.topic, None), problems)
    asks: list[PropertyComparison] = []
    for key, value in fields.items():
        if key in kind.properties:
            asks += _parse_comparisons(document, (*path, key), kind.properties[key], value, problems)
        else:
            known = ["fact", "entity", *([kind.topic] if kind.topic else []), *kind.properties]
            problems.append(document.unknown_key((*path, key), known))
    return FactPattern(data["fact"], "entity" in data, topics, tuple(asks))


def _parse_topics(document: Document, path: FieldPath, value: Any, problems: list[Problem]) -> tuple[str, ...]:
    """Returns the constants of a topic, each once."""
    values = value if isinstance(value, list) else [value]
    if value is None or not all(isinstance(v, str) for v in values):
        found = "no field " + repr(path[-1]) if value is None else type_label(value)
        problems.append(document.problem(path, found, "an id or a list of ids", "A fact is matched by its kind."))
        return ()
    return tuple(dict.fromkeys(values))


def _parse_comparisons(
    document: Document, path: FieldPath, prop: FactProperty, value: Any, problems: list[Problem]
) -> list[PropertyComparison]:
    name = str(path[-1])
    if not isinstance(value, dict):
        values = tuple(value) if isinstance(value, list) else (value,)
        asks = [PropertyComparison(name, "is", tuple(dict.fromkeys(values)))]
    else:
        asks = [PropertyComparison(name, op, (limit,)) for op, limit in value.items()]
    for ask in asks:
        problems += _check_comparison(document, path, prop, ask)
    return asks


def _check_comparison(
    document: Document, path: FieldPath, prop: FactProperty, ask: PropertyComparison
) -> Iterable[Problem]:
    """Yield the values that cannot be compared with a property."""
    for value in ask.values:
        if prop.type == "text" and ask.op not in ("is", "not"):
            found, hint = repr(ask.op), "Text has no order."
            yield document.problem(path, found, "a plain value or {not: ...}", hint)
        elif prop.type in ("text", "level"):
            yield from _check_text_value(document, path, prop, value)
        elif isinstance(value, str | bool) or (prop.type == "count" and not isinstance(value, int)):
            yield document.problem(path, repr(value), "a whole number" if prop.type == "count" else "a number")
        elif not abs(value) <= MAX_NUMBER:
            yield document.problem(path, repr(value), f"a number of at most {MAX_NUMBER:g}")


def _check_text_value(document: Document, path: FieldPath, prop: FactProperty, value: Scalar) -> Iterable[Problem]:
    if not isinstance(value, str):
        yield document.problem(path, repr(value), "text", "Quote yes and no." if isinstance(value, bool) else "")
    elif prop.choices and value not in prop.choices:
        yield document.problem(
            path, repr(value), "one of " + ", ".join(prop.choices), suggest_name(value, prop.choices)
        )


def check_references(policies: Iterable[Policy], catalogue: Catalogue) -> list[Problem]:
    """Returns problems for ids in policies that the catalogue does not have."""
    problems: list[Problem] = []
    for policy in policies:
        problems += _check_topics(policy, catalogue)
        if policy.mitigation:
            problems += _check_mitigation(policy, catalogue)
        if policy.diagnosis and policy.diagnosis not in catalogue.conditions:
            problems.append(_unknown_id(policy, ("derive", "diagnosis"), policy.diagnosis, "condition", catalogue))
    return problems


def _check_topics(policy: Policy, catalogue: Catalogue) -> Iterable[Problem]:
    places: list[tuple[FieldPath, FactPattern]] = [(("when", n), p) for n, p in enumerate(policy.when)]
    if policy.unless:
        places.append((("unless",), policy.unless))
    for path, pattern in places:
        kind = FACTS.get(pattern.fact, FactType()).topic
        known = catalogue.mitigations if kind == "mitigation" else catalogue.conditions
        for topic in pattern.topics:
            if topic not in known:
                yield _unknown_id(policy, (*path, kind), topic, kind, catalogue)


def _check_mitigation(policy: Policy, catalogue: Catalogue) -> Iterable[Problem]:
    """Check that the mitigation exists and that the diagnosed conditions list it."""
    path = ("advise", "mitigation")
    if policy.mitigation not in catalogue.mitigations:
        yield _unknown_id(policy, path, policy.mitigation, "mitigation", catalogue)
        return
    for topic in policy.when[0].topics if policy.when[0].fact == "diagnosis" else ():
        condition = catalogue.conditions.get(topic)
        if condition and policy.mitigation not in condition.mitigations:
            expected = f"one of the mitigations of {topic} ({', '.join(condition.mitigations)})"
            yield policy.problem(path, repr(policy.mitigation), expected, "Add it to the condition if it helps there.")


def _unknown_id(policy: Policy, path: FieldPath, name: str, kind: str, catalogue: Catalogue) -> Problem:
    known = catalogue.mitigations if kind == "mitigation" else catalogue.conditions
    return policy.problem(path, repr(name), f"the id of a {kind}", suggest_name(name, known))
