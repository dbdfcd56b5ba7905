"""Builds entries from validated documents, and derives the links between them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.model import (
    Catalogue,
    CausalLink,
    Claim,
    Condition,
    DpuCapability,
    Event,
    EventCodes,
    EventSign,
    Format,
    FormatField,
    FormatLine,
    FormatSample,
    Judgement,
    Lesson,
    Lookalike,
    MissingRuleReason,
    Mitigation,
    MitigationCommand,
    Observability,
    Signal,
    SignatureItem,
    Source,
    StartValue,
    Symptom,
    TargetChange,
)
from skewscope.kb.same_as import resolve_same_as
from skewscope.kb.site_files import SiteFiles

EVENT_SYMPTOM = "reported-event"
"""The symptom that an event shows."""
CODE_FIELD = "<code>"
"""What stands for the code in the metrics of an event."""
RawEntry = Mapping[str, Any]
EntryValue = Condition | Signal | Mitigation | Source | Lesson | Symptom | Format | Event


def build_condition(data: RawEntry, file: str) -> Condition:
    """Builds a condition."""
    row = data["paper_row"]
    return Condition(
        **_scalar_fields(
            data,
            "id name group kind sentence what grade maturity withdrawn signature_basis prevalence prevalence_basis",
        ),
        **_list_fields(data, "aliases scope phases parallelism why mitigations notes"),
        signature=_build_all(data.get("signature"), SignatureItem),
        causes=_build_all(data.get("causes"), CausalLink),
        effects=_build_all(data.get("effects"), CausalLink),
        impacts=_build_all(data.get("impacts"), Claim),
        lookalikes=_build_all(data.get("lookalikes"), Lookalike),
        lookalikes_outside=tuple(
            Lookalike(o["name"], o["separate_by"], o.get("basis", "literature"))
            for o in data.get("lookalikes_outside", ())
        ),
        observability=_build_all(
            [{**o, "needs": tuple(o.get("needs", ()))} for o in resolve_same_as(data["observability"])], Observability
        ),
        without_rule=MissingRuleReason(**data["without_rule"]) if "without_rule" in data else None,
        paper_row=row["status"],
        paper_note=row.get("note", ""),
        file=file,
    )


def build_signal(data: RawEntry, file: str) -> Signal:
    """Builds a signal."""
    span = data.get("range")
    return Signal(
        **_scalar_fields(
            data, "id name unit type entity dpu_access fold width_bits saturates min_period window note unused"
        ),
        **_list_fields(data, "vantage unverified"),
        sources=MappingProxyType({name: tuple(names) for name, names in data["sources"].items()}),
        scale=MappingProxyType(dict(data.get("scale", {}))),
        bits=MappingProxyType(dict(data.get("bits", {}))),
        range=(float(span[0]), float(span[1])) if span else None,
        judged=_build_judgement(data["judged"]) if "judged" in data else None,
        file=file,
    )


def _build_judgement(data: RawEntry) -> Judgement:
    return Judgement(
        **_scalar_fields(data, "role bad least floor nominal given part_of least_part reciprocal_of symptom basis"),
        **_scalar_fields(data, "share_of most_share least_load"),
        **_list_fields(data, "against"),
    )


def build_mitigation(data: RawEntry, file: str) -> Mitigation:
    """Builds a mitigation."""
    return Mitigation(
        **_scalar_fields(data, "id name what actor effect cost risk undo verify basis no_command"),
        claims=_build_all(data.get("claims"), Claim),
        changes=_build_all(data.get("changes"), TargetChange),
        commands=tuple(map(_build_command, data.get("commands") or ())),
        dpu=DpuCapability(**data["dpu"]),
        file=file,
    )


def _build_command(data: RawEntry) -> MitigationCommand:
    lists = {"errors": tuple(data.get("errors", ())), "start": _build_all(data.get("start"), StartValue)}
    return MitigationCommand(**{**data, **lists})


def build_source(data: RawEntry, file: str) -> Source:
    """Builds a source."""
    return Source(**_scalar_fields(data, "id title authors year kind seen locator venue note"), file=file)


def build_finding(data: RawEntry, file: str) -> Lesson:
    """Builds a finding."""
    return Lesson(
        **_scalar_fields(data, "id name kind text basis value consequence seen"),
        **_list_fields(data, "sources conditions"),
        file=file,
    )


def build_symptom(data: RawEntry, file: str) -> Symptom:
    """Builds a symptom."""
    return Symptom(
        **_scalar_fields(data, "id name what severity title basis"),
        **_list_fields(data, "roles"),
        instead=MappingProxyType(dict(data.get("instead", {}))),
        file=file,
    )


def build_format(data: RawEntry, file: str) -> Format:
    """Builds a format."""
    return Format(
        **_scalar_fields(data, "id name what tool versions place basis command kind exporter document interval"),
        **_list_fields(data, "others records"),
        lines=tuple(map(_build_line, data["lines"])),
        samples=tuple(FormatSample(sample["lines"], tuple(sample["gives"])) for sample in data["samples"]),
        file=file,
    )


def build_event(data: RawEntry, file: str) -> Event:
    """Builds an event, and those of its codes."""
    event = Event(
        **_scalar_fields(data, "id name what entity severity first basis place symptom called unlisted least general"),
        **_list_fields(data, "patterns samples others code unless despite"),
        fields=_build_fields(data.get("fields")),
        signs=_build_all(data.get("signs"), EventSign),
        codes=tuple(_build_codes(item) for item in data.get("codes", ())),
        metrics={exporter: tuple(names) for exporter, names in data.get("metrics", {}).items()},
        file=file,
    )
    coded = {code: _build_variant(event, code, part) for part in event.codes for code in part.names}
    return replace(event, by_code=MappingProxyType(coded))


def _build_codes(data: RawEntry) -> EventCodes:
    names = MappingProxyType(dict(data["names"]))
    return EventCodes(data["severity"], data["first"], names, _build_all(data.get("signs"), EventSign))


def _build_variant(event: Event, code: str, part: EventCodes) -> Event:
    """Returns the event of one code."""
    slug = re.sub(r"[^a-z0-9]+", "-", code.lower()).strip("-")
    title = f"{event.called} {code}, {part.names[code]}" if event.called else part.names[code]
    return replace(
        event,
        id=f"{event.id}-{slug}",
        name=title,
        severity=part.severity,
        first=part.first,
        signs=part.signs,
        codes=(),
        code=(),
        metrics={of: tuple(name.replace(CODE_FIELD, code) for name in names) for of, names in event.metrics.items()},
    )


def _build_line(item: RawEntry) -> FormatLine:
    lists = {name: tuple(item.get(name, ())) for name in ("table", "unless", "parts")}
    return FormatLine(**{**item, **lists, "fields": _build_fields(item.get("fields"))})


def _build_fields(items: RawEntry | None) -> Mapping[str, FormatField]:
    fields = {name: FormatField(**{**item, "of": tuple(item.get("of", ()))}) for name, item in (items or {}).items()}
    return MappingProxyType(fields)


BUILDERS: Mapping[str, Callable[[RawEntry, str], EntryValue]] = {
    "conditions": build_condition,
    "signals": build_signal,
    "mitigations": build_mitigation,
    "sources": build_source,
    "findings": build_finding,
    "symptoms": build_symptom,
    "formats": build_format,
    "events": build_event,
}


def build_catalogue(
    values: Iterable[tuple[str, EntryValue]], version: str = "", site: SiteFiles | None = None
) -> Catalogue:
    """Builds the linked catalogue from pairs of kind and entry; a later entry stands in place of one with its id."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    for kind, value in values:
        found[kind][value.id] = value
    events = [variant for event in found["events"].values() for variant in event.variants]
    found["signals"] |= {event.signal: _count_of(event) for event in events}
    found["conditions"] = link_conditions(_add_signs(found["conditions"], events))
    return Catalogue(**{kind: MappingProxyType(found[kind]) for kind in KINDS}, version=version, site=site)


def _count_of(event: Event) -> Signal:
    """Returns the signal that counts an event."""
    judged = (
        Judgement(
            role="event",
            bad="begins",
            against=("nominal",),
            nominal=0,
            symptom=event.symptom or EVENT_SYMPTOM,
            severity="critical" if event.severity == "fatal" else "",
            basis=event.basis,
        )
        if event.is_reported
        else Judgement(role="event", bad="none", basis=event.basis)
    )
    return Signal(
        id=event.signal,
        name=event.name,
        unit="{event}",
        type="gauge",
        entity=event.entity,
        vantage=("host",),
        dpu_access="host-only",
        fold="max",
        sources=MappingProxyType(dict(event.metrics)),
        judged=judged,
        file=event.file,
    )


def _add_signs(conditions: Mapping[str, Condition], events: Iterable[Event]) -> dict[str, Condition]:
    """Returns the conditions with the events that are signs of them in their signatures."""
    found = dict(conditions)
    for event in filter(lambda event: event.is_reported, events):
        for sign in event.signs:
            if known := found.get(sign.condition):
                item = SignatureItem(event.signal, "begins", "nominal", sign.shows, event.basis)
                found[sign.condition] = replace(known, signature=(*known.signature, item))
    return found


def _scalar_fields(data: RawEntry, names: str) -> dict[str, Any]:
    return {name: data[name] for name in names.split() if name in data}


def _list_fields(data: RawEntry, names: str) -> dict[str, Any]:
    return {name: tuple(data.get(name, ())) for name in names.split()}


def _build_all(items: Iterable[RawEntry] | None, make: Callable[..., Any]) -> tuple[Any, ...]:
    return tuple(make(**item) for item in items or ())


def link_conditions(conditions: Mapping[str, Condition]) -> dict[str, Condition]:
    """Returns the conditions with every link added at both of its ends.

    A link is written at one end only, so that a new entry is one new file.
    """
    found = {id_: _promote_lookalikes(c, conditions) for id_, c in conditions.items()}
    for c in conditions.values():
        for link in found[c.id].effects:
            _add_link(found, link.condition, "causes", CausalLink(c.id, link.why, link.basis, link.siblings))
        for link in found[c.id].causes:
            _add_link(found, link.condition, "effects", CausalLink(c.id, link.why, link.basis, link.siblings))
        for look in found[c.id].lookalikes:
            _add_link(found, look.condition, "lookalikes", Lookalike(c.id, look.separate_by, look.basis))
    return found


def _promote_lookalikes(c: Condition, known: Mapping[str, Condition]) -> Condition:
    """Moves external look-alikes that have an entry by now to the catalogue's own."""
    inside = tuple(look for look in c.lookalikes_outside if look.condition in known)
    if not inside:
        return c
    outside = tuple(look for look in c.lookalikes_outside if look.condition not in known)
    return replace(c, lookalikes=c.lookalikes + inside, lookalikes_outside=outside)


def _add_link(found: dict[str, Condition], id_: str, field: str, item: CausalLink | Lookalike) -> None:
    """Adds an item to a field of a condition that exists and lacks it."""
    known = found.get(id_)
    if known is None or item.condition == id_:
        return
    items: tuple[CausalLink | Lookalike, ...] = getattr(known, field)
    if all(own.condition != item.condition for own in items):
        change: dict[str, Any] = {field: (*items, item)}
        found[id_] = replace(known, **change)
