"""Entries as values, from documents whose shape was checked; and what follows from them by itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from skewscope.kb.kinds import KINDS
from skewscope.kb.model import (
    Catalogue,
    Claim,
    Condition,
    Finding,
    Link,
    Lookalike,
    Mitigation,
    NoRule,
    Observability,
    Reach,
    Signal,
    Source,
)

Data = Mapping[str, Any]
Value = Condition | Signal | Mitigation | Source | Finding


def condition(data: Data, file: str) -> Condition:
    """A condition."""
    row = data["paper_row"]
    return Condition(
        **_plain(data, "id name group kind what grade maturity withdrawn signature_basis"),
        **_lists(data, "aliases scope phases parallelism why signature mitigations notes"),
        causes=_each(data.get("causes"), Link),
        effects=_each(data.get("effects"), Link),
        impacts=_each(data.get("impacts"), Claim),
        lookalikes=_each(data.get("lookalikes"), Lookalike),
        lookalikes_outside=tuple(
            Lookalike(o["name"], o["separate_by"], o.get("basis", "literature"))
            for o in data.get("lookalikes_outside", ())
        ),
        observability=_each([{**o, "needs": tuple(o.get("needs", ()))} for o in data["observability"]], Observability),
        without_rule=NoRule(**data["without_rule"]) if "without_rule" in data else None,
        paper_row=row["status"],
        paper_note=row.get("note", ""),
        file=file,
    )


def signal(data: Data, file: str) -> Signal:
    """A signal."""
    span = data.get("range")
    return Signal(
        **_plain(data, "id name unit type entity dpu_access fold width_bits saturates min_period window note unused"),
        **_lists(data, "vantage unverified"),
        sources=MappingProxyType({name: tuple(names) for name, names in data["sources"].items()}),
        scale=MappingProxyType(dict(data.get("scale", {}))),
        bits=MappingProxyType(dict(data.get("bits", {}))),
        range=(float(span[0]), float(span[1])) if span else None,
        file=file,
    )


def mitigation(data: Data, file: str) -> Mitigation:
    """A mitigation."""
    return Mitigation(
        **_plain(data, "id name what actor effect cost risk undo verify basis"),
        **_lists(data, "adapters"),
        claims=_each(data.get("claims"), Claim),
        dpu=Reach(**data["dpu"]),
        file=file,
    )


def source(data: Data, file: str) -> Source:
    """A source."""
    return Source(**_plain(data, "id title authors year kind seen locator venue note"), file=file)


def finding(data: Data, file: str) -> Finding:
    """A finding."""
    return Finding(
        **_plain(data, "id name kind text basis value consequence seen"),
        **_lists(data, "sources conditions"),
        file=file,
    )


BUILDERS: Mapping[str, Callable[[Data, str], Value]] = {
    "conditions": condition,
    "signals": signal,
    "mitigations": mitigation,
    "sources": source,
    "findings": finding,
}


def assembled(values: Iterable[tuple[str, Value]], version: str = "") -> Catalogue:
    """The catalogue of some entries, told with their kinds; linked."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    for kind, value in values:
        found[kind][value.id] = value
    found["conditions"] = linked(found["conditions"])
    return Catalogue(**{kind: MappingProxyType(found[kind]) for kind in KINDS}, version=version)


def _plain(data: Data, names: str) -> dict[str, Any]:
    return {name: data[name] for name in names.split() if name in data}


def _lists(data: Data, names: str) -> dict[str, Any]:
    return {name: tuple(data.get(name, ())) for name in names.split()}


def _each(items: Iterable[Data] | None, make: Callable[..., Any]) -> tuple[Any, ...]:
    return tuple(make(**item) for item in items or ())


def linked(conditions: Mapping[str, Condition]) -> dict[str, Condition]:
    """The same conditions, where each knows what any other says of the two.

    A link is written at one end only, so that a new entry is one new file; here both ends learn of it.
    """
    found = {id_: _promoted(c, conditions) for id_, c in conditions.items()}
    for c in conditions.values():
        for link in found[c.id].effects:
            _learn(found, link.condition, "causes", Link(c.id, link.why, link.basis, link.siblings))
        for link in found[c.id].causes:
            _learn(found, link.condition, "effects", Link(c.id, link.why, link.basis, link.siblings))
        for look in found[c.id].lookalikes:
            _learn(found, look.condition, "lookalikes", Lookalike(c.id, look.separate_by, look.basis))
    return found


def _promoted(c: Condition, known: Mapping[str, Condition]) -> Condition:
    """A look-alike from outside that the catalogue holds by now is one like the others."""
    inside = tuple(look for look in c.lookalikes_outside if look.condition in known)
    if not inside:
        return c
    outside = tuple(look for look in c.lookalikes_outside if look.condition not in known)
    return replace(c, lookalikes=c.lookalikes + inside, lookalikes_outside=outside)


def _learn(found: dict[str, Condition], id_: str, field: str, item: Link | Lookalike) -> None:
    """Adds an item to a field of a condition, where there is such a condition and it does not know yet."""
    known = found.get(id_)
    if known is None or item.condition == id_:
        return
    items: tuple[Link | Lookalike, ...] = getattr(known, field)
    if all(own.condition != item.condition for own in items):
        change: dict[str, Any] = {field: (*items, item)}
        found[id_] = replace(known, **change)
