"""Queries the catalogue: one entry with its references, entries by field."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from skewscope.kb.basis import cited_sources
from skewscope.kb.builders import EntryValue
from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.model import Catalogue, Claim, Condition, Judgement
from skewscope.kb.problems import InputError, Problem, join_names, suggest_name


def entries(catalogue: Catalogue, kind: str) -> Mapping[str, EntryValue]:
    """Returns all entries of a kind (conditions, signals, symptoms, ...), by id.

    Raises:
        InputError: there is no such kind.
    """
    if kind not in KINDS:
        raise _unknown_name_error("kind", kind, KINDS)
    found: Mapping[str, EntryValue] = getattr(catalogue, kind)
    return found


def select(catalogue: Catalogue, kind: str, where: Mapping[str, str] | None = None) -> tuple[EntryValue, ...]:
    """Returns the entries of a kind whose fields equal or contain the given values, in the order of ids.

    Raises:
        InputError: there is no such kind or field.
    """
    found = entries(catalogue, kind)
    wanted = dict(where or {})
    for value in found.values():
        known = [f.name for f in fields(value)]
        if strange := next((name for name in wanted if name not in known), None):
            raise _unknown_name_error("field", strange, known)
        break
    return tuple(v for v in found.values() if all(_has_value(getattr(v, name), text) for name, text in wanted.items()))


def _has_value(value: object, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_has_value(item, text) for pair in value.items() for item in pair)
    if isinstance(value, tuple):
        return any(_has_value(item, text) for item in value)
    if is_dataclass(value):
        return any(_has_value(getattr(value, f.name), text) for f in fields(value))
    return str(value) == text


def find(catalogue: Catalogue, id_: str, kind: str = "") -> tuple[str, EntryValue]:
    """Returns the kind and the value of an entry; without a kind, of the first kind with the id.

    Raises:
        InputError: nothing has this id; the hint names the nearest that exists.
    """
    kinds = (kind,) if kind else KINDS
    for name in kinds:
        if value := entries(catalogue, name).get(id_):
            return name, value
    known = [known for name in kinds for known in entries(catalogue, name)]
    raise _unknown_name_error("entry", id_, known)


def describe(catalogue: Catalogue, id_: str, kind: str = "") -> dict[str, Any]:
    """Returns an entry for JSON, with `entry`: its kind, and `used_by`: the entries that name it.

    Raises:
        InputError: nothing has this id.
    """
    found, value = find(catalogue, id_, kind)
    return {"entry": found, **to_jsonable(value), "used_by": referencing_entries(catalogue, found, id_)}


def referencing_entries(catalogue: Catalogue, kind: str, id_: str) -> dict[str, list[str]]:
    """Returns by kind the entries that name an entry."""
    return {by: list(ids) for by, ids in reference_index(catalogue).get((kind, id_), {}).items()}


@cache_latest
def reference_index(catalogue: Catalogue) -> Mapping[tuple[str, str], dict[str, tuple[str, ...]]]:
    """Returns by kind and id of an entry the entries that name it, in the order of ids."""
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = defaultdict(dict)
    for by, id_, names in _iter_references(catalogue):
        for kind, named in names.items():
            for other in sorted(named):
                found[kind, other][by] = (*found[kind, other].get(by, ()), id_)
    return dict(found)


def _iter_references(catalogue: Catalogue) -> Iterator[tuple[str, str, dict[str, set[str]]]]:
    """Yields kind and id of each entry with the ids that it names, by kind."""
    for c in catalogue.conditions.values():
        yield "conditions", c.id, _condition_references(c)
    for s in catalogue.signals.values():
        if s.judged:
            yield "signals", s.id, _judgement_references(s.judged)
    for y in catalogue.symptoms.values():
        yield "symptoms", y.id, {"symptoms": set(y.instead.values()), "sources": _collect_sources(y)}
    for m in catalogue.mitigations.values():
        yield "mitigations", m.id, {"sources": _collect_sources(m)}
    for f in catalogue.findings.values():
        yield "findings", f.id, {"conditions": set(f.conditions), "sources": {*f.sources, *_collect_sources(f)}}
    for one in catalogue.formats.values():
        named = {what.signal for read in one.lines for what in read.fields.values()} - {""}
        yield "formats", one.id, {"signals": named, "sources": _collect_sources(one)}
    for event in catalogue.events.values():
        yield "events", event.id, {"conditions": {*event.conditions}, "sources": _collect_sources(event)}


def _judgement_references(judged: Judgement) -> dict[str, set[str]]:
    """Returns by kind the ids that the judgement of a signal names."""
    return {
        "signals": {judged.given, judged.part_of, judged.share_of, judged.reciprocal_of} - {""},
        "symptoms": {judged.symptom} - {""},
        "sources": _collect_sources(judged),
    }


def _condition_references(c: Condition) -> dict[str, set[str]]:
    """Returns by kind the ids that a condition names."""
    needs = {name for o in c.observability for name in o.needs}
    links = {link.condition for link in (*c.causes, *c.effects)}
    others = links | {look.condition for look in c.lookalikes}
    return {
        "conditions": others,
        "signals": {*c.signature_signals, *needs},
        "mitigations": set(c.mitigations),
        "sources": _collect_sources(c),
    }


def _collect_sources(value: object) -> set[str]:
    """Returns the sources of every claim and basis inside a value."""
    if isinstance(value, tuple):
        return set().union(*map(_collect_sources, value))
    if not is_dataclass(value):
        return set()
    found = {value.source} if isinstance(value, Claim) else set()
    for f in fields(value):
        inner = getattr(value, f.name)
        found |= (
            set(cited_sources(inner))
            if f.name in ("basis", "signature_basis", "prevalence_basis")
            else _collect_sources(inner)
        )
    return found


def to_jsonable(value: object) -> Any:
    """Converts a value of the catalogue for JSON, without its file."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_jsonable(getattr(value, f.name)) for f in fields(value) if f.name != "file"}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    return [to_jsonable(item) for item in value] if isinstance(value, tuple | list) else value


def _unknown_name_error(what: str, name: str, known: tuple[str, ...] | list[str]) -> InputError:
    hint = suggest_name(name, known)
    expected = f"one of {join_names(sorted(known), 6)}"
    return InputError([Problem("kb", 0, what, repr(name), expected, hint)])
