"""Policies: symbolic rules over few facts, as written. `engine.policy` checks what the matchers can carry out."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, nearest
from skewscope.kb.yamlfile import Document, kind_of, read
from skewscope.rules.shape import quick, validator

if TYPE_CHECKING:
    from jsonschema import ValidationError

HERE = Path(__file__).parent
SHIPPED = HERE / "policies"
MOST_FILES = 2000
MOST_NUMBER = 1e9

Scalar = str | int | float | bool
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Property:
    """What a fact can be asked for. A `level` is text with an order; a `number` keeps three decimals."""

    type: str
    """text, level, number or count."""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FactType:
    """A kind of fact. Where it has a `topic`, each value of that property is a kind of its own, so it must be named."""

    properties: Mapping[str, Property] = field(default_factory=dict)
    topic: str = ""


KINDS = ("node", "port", "gpu", "rank", "group", "replica", "pool", "link", "peer", "fleet")
YES_NO = Property("text", ("no", "yes"))

FACTS: Mapping[str, FactType] = {
    "diagnosis": FactType(
        {
            "severity": Property("level", ("info", "warning", "critical")),
            "confidence": Property("number"),
            "coverage": Property("number"),
            "scope": Property("text", KINDS),
            "moves": Property("count"),
        },
        topic="condition",
    ),
    "topology": FactType(
        {
            "parallelism": Property("text"),
            "members": Property("count"),
            "nodes": Property("count"),
            "siblings": Property("count"),
            "rails": Property("count"),
            "front_end": YES_NO,
        }
    ),
    "maintenance": FactType(),
    "tried": FactType(topic="mitigation"),
    "budget-spent": FactType(topic="mitigation"),
}
"""The facts the engine knows of; policies may derive more. `moves`: how often a diagnosis went from one member of a
group to another; `siblings`: other replicas in the entity's pools; `rails`: ports into the compute network of the least
connected node that it lies on, 0 where the topology tells of none."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One property's comparison with literals: any of `values` for `is`, one value for every other op."""

    property: str
    op: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A fact looked for, on the policy's one entity. `topics` are the kinds it may be of, () where it has none."""

    fact: str
    joined: bool
    """Whether it says `entity: same`."""
    topics: tuple[str, ...] = ()
    asks: tuple[Ask, ...] = ()


@dataclass(frozen=True)
class Policy:
    """One policy, as its file says it."""

    id: str
    when: tuple[Pattern, ...]
    unless: Pattern | None = None
    mitigation: str = ""
    why: str = ""
    diagnosis: str = ""
    """The condition it derives."""
    fact: str = ""
    """The fact it derives."""
    priority: int = 100
    hash: str = ""
    document: Document = field(default=Document("<policy>", None), repr=False, compare=False)

    def problem(self, path: Place, found: str, expected: str, hint: str = "") -> Problem:
        """A problem in this policy's file."""
        return self.document.problem(path, found, expected, hint)


def load(folder: Path = SHIPPED) -> tuple[tuple[Policy, ...], list[Problem]]:
    """Every policy of a folder, in the order of ids, and what is wrong with the rest."""
    if folder != SHIPPED:
        return _loaded(folder)
    found, problems = _shipped()
    return found, list(problems)


@cache
def _shipped() -> tuple[tuple[Policy, ...], list[Problem]]:
    """Those of the package: who replays several recordings reads them once."""
    return _loaded(SHIPPED)


def _loaded(folder: Path) -> tuple[tuple[Policy, ...], list[Problem]]:
    policies: list[Policy] = []
    problems: list[Problem] = []
    files = sorted(folder.glob("*.yaml"))
    if len(files) > MOST_FILES:
        return (), [Problem(str(folder), 0, "", f"{len(files)} policies", f"at most {MOST_FILES}")]
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
    problems = list(_misshapen(document))
    if problems:
        raise InputError(problems)
    data: dict[str, Any] = document.data
    if not str(data.get("advise", {}).get("why", "")).isprintable():
        hint = "It is shown on terminals."
        problems.append(document.problem(("advise", "why"), "a character that does not print", "one plain line", hint))
    if name and data["id"] != name:
        problems.append(document.problem(("id",), repr(data["id"]), repr(name), "The id is the name of the file."))
    when = tuple(_pattern(document, ("when", n), item, problems) for n, item in enumerate(data["when"]))
    unless = _pattern(document, ("unless",), data["unless"], problems) if "unless" in data else None
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
        hash=hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16],
        document=document,
    )


def _misshapen(document: Document) -> Iterable[Problem]:
    if quick("policy")(document.data):
        return
    for error in validator("policy").iter_errors(document.data):
        path = tuple(error.absolute_path)
        schema: Any = error.schema
        known = dict(schema.get("properties", {})) if isinstance(schema, dict) else {}
        if error.validator == "additionalProperties" and isinstance(error.instance, dict):
            extra = sorted(str(key) for key in set(error.instance) - set(known))
            yield from (document.unknown_key((*path, key), list(known)) for key in extra)
        else:
            yield document.problem(path, *_told(error))


def _told(error: "ValidationError") -> tuple[str, str]:
    """A schema's complaint as (found, expected)."""
    value: Any = error.instance
    want: Any = error.validator_value
    short = repr(value)[:60] if not isinstance(value, dict | list) else kind_of(value)
    told: dict[str, tuple[str, str]] = {
        "type": (kind_of(value), str(want)),
        "const": (short, repr(want)),
        "oneOf": ("neither or both of 'advise' and 'derive'", "exactly one of them"),
        "pattern": (short, "lower-case words joined by hyphens"),
        "anyOf": (short, "a value, a list of values, or comparisons (at_least, at_most, above, below, not)"),
    }
    if error.validator == "required" and isinstance(want, list):
        return "no field " + ", ".join(repr(key) for key in want if key not in value), "it"
    return told.get(str(error.validator), (short, f"{error.validator} {want}"))


def _pattern(document: Document, path: Place, data: dict[str, Any], problems: list[Problem]) -> Pattern:
    """A pattern; a kind of fact that is not in `FACTS` may only be asked for as such."""
    kind = FACTS.get(data["fact"], FactType())
    fields = {key: value for key, value in data.items() if key not in ("fact", "entity")}
    topics: tuple[str, ...] = ()
    if kind.topic:
        topics = _topics(document, (*path, kind.topic), fields.pop(kind.topic, None), problems)
    asks: list[Ask] = []
    for key, value in fields.items():
        if key in kind.properties:
            asks += _asks(document, (*path, key), kind.properties[key], value, problems)
        else:
            known = ["fact", "entity", *([kind.topic] if kind.topic else []), *kind.properties]
            problems.append(document.unknown_key((*path, key), known))
    return Pattern(data["fact"], "entity" in data, topics, tuple(asks))


def _topics(document: Document, path: Place, value: Any, problems: list[Problem]) -> tuple[str, ...]:
    """The constants of a topic, each once."""
    values = value if isinstance(value, list) else [value]
    if value is None or not all(isinstance(v, str) for v in values):
        found = "no field " + repr(path[-1]) if value is None else kind_of(value)
        problems.append(document.problem(path, found, "an id or a list of ids", "A fact is matched by its kind."))
        return ()
    return tuple(dict.fromkeys(values))


def _asks(document: Document, path: Place, prop: Property, value: Any, problems: list[Problem]) -> list[Ask]:
    name = str(path[-1])
    if not isinstance(value, dict):
        values = tuple(value) if isinstance(value, list) else (value,)
        asks = [Ask(name, "is", tuple(dict.fromkeys(values)))]
    else:
        asks = [Ask(name, op, (limit,)) for op, limit in value.items()]
    for ask in asks:
        problems += _unfit(document, path, prop, ask)
    return asks


def _unfit(document: Document, path: Place, prop: Property, ask: Ask) -> Iterable[Problem]:
    """The values that cannot be compared with a property."""
    for value in ask.values:
        if prop.type == "text" and ask.op not in ("is", "not"):
            found, hint = repr(ask.op), "Text has no order."
            yield document.problem(path, found, "a plain value or {not: ...}", hint)
        elif prop.type in ("text", "level"):
            yield from _unfit_text(document, path, prop, value)
        elif isinstance(value, str | bool) or (prop.type == "count" and not isinstance(value, int)):
            yield document.problem(path, repr(value), "a whole number" if prop.type == "count" else "a number")
        elif not abs(value) <= MOST_NUMBER:
            yield document.problem(path, repr(value), f"a number of at most {MOST_NUMBER:g}")


def _unfit_text(document: Document, path: Place, prop: Property, value: Scalar) -> Iterable[Problem]:
    if not isinstance(value, str):
        yield document.problem(path, repr(value), "text", "Quote yes and no." if isinstance(value, bool) else "")
    elif prop.choices and value not in prop.choices:
        yield document.problem(path, repr(value), "one of " + ", ".join(prop.choices), nearest(value, prop.choices))


def check(policies: Iterable[Policy], catalogue: Catalogue) -> list[Problem]:
    """What the policies name that the catalogue does not have."""
    problems: list[Problem] = []
    for policy in policies:
        problems += _unknown_topics(policy, catalogue)
        if policy.mitigation:
            problems += _unfit_mitigation(policy, catalogue)
        if policy.diagnosis and policy.diagnosis not in catalogue.conditions:
            problems.append(_nameless(policy, ("derive", "diagnosis"), policy.diagnosis, "condition", catalogue))
    return problems


def _unknown_topics(policy: Policy, catalogue: Catalogue) -> Iterable[Problem]:
    places: list[tuple[Place, Pattern]] = [(("when", n), p) for n, p in enumerate(policy.when)]
    if policy.unless:
        places.append((("unless",), policy.unless))
    for path, pattern in places:
        kind = FACTS.get(pattern.fact, FactType()).topic
        known = catalogue.mitigations if kind == "mitigation" else catalogue.conditions
        for topic in pattern.topics:
            if topic not in known:
                yield _nameless(policy, (*path, kind), topic, kind, catalogue)


def _unfit_mitigation(policy: Policy, catalogue: Catalogue) -> Iterable[Problem]:
    """The advice must exist, and be listed by the conditions it is given for."""
    path = ("advise", "mitigation")
    if policy.mitigation not in catalogue.mitigations:
        yield _nameless(policy, path, policy.mitigation, "mitigation", catalogue)
        return
    for topic in policy.when[0].topics if policy.when[0].fact == "diagnosis" else ():
        condition = catalogue.conditions.get(topic)
        if condition and policy.mitigation not in condition.mitigations:
            expected = f"one of the mitigations of {topic} ({', '.join(condition.mitigations)})"
            yield policy.problem(path, repr(policy.mitigation), expected, "Add it to the condition if it helps there.")


def _nameless(policy: Policy, path: Place, name: str, kind: str, catalogue: Catalogue) -> Problem:
    known = catalogue.mitigations if kind == "mitigation" else catalogue.conditions
    return policy.problem(path, repr(name), f"the id of a {kind}", nearest(name, known))
