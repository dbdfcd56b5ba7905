"""Sentences about symptoms."""

import re
from datetime import UTC, datetime

from skewscope.engine.model.finding import EVENT, LIMIT, TOTAL, Finding
from skewscope.kb.model import Symptom

NOUN = re.compile(r"\{(\w+)\}")
"""A unit that is a noun, as `{request}`."""
UNKNOWN_TITLE = "{signal} of {entity} is abnormal since {since}: {after} {unit}."
FULL_COUNTS = frozenset(float(2**bits - 1) for bits in (8, 16, 32))
"""Counters of InfiniBand ports have so many bits and stay at their largest value (IBTA, volume 1, PortCounters)."""


def summarise(finding: Finding, symptom: Symptom | None, entity: str) -> str:
    """Returns what a symptom says of an entity in a sentence."""
    if finding.pattern == EVENT and symptom and EVENT not in symptom.roles:
        # The symptom's title is made for numbers; the message says more.
        return f"{finding.message}." if entity in finding.message else f"{entity}: {finding.message}."
    text = _describe_limit(finding, entity) if finding.pattern in (LIMIT, TOTAL) else _fill(finding, symptom, entity)
    text = text.replace(" ,", ",").replace(" .", ".").replace(" :", ":")
    if finding.pattern == EVENT and finding.message:
        # The line names what the entity has no name for: a slot, a device, a rank, the other side.
        text = text.replace(" reported 1 times since ", " reported at ", 1)
        text = f"{text} {'The first line' if finding.value > 1 else 'The line'}: {finding.message}"
    return text if text.startswith(entity) else text[:1].upper() + text[1:]


def _fill(finding: Finding, symptom: Symptom | None, entity: str) -> str:
    template = symptom.title if symptom else UNKNOWN_TITLE
    return template.format(
        entity=entity,
        signal=finding.what.name,
        ratio=_number(finding.ratio) if finding.reference else "many",
        before=_number(finding.reference),
        after=_number(finding.value),
        unit=_spoken_unit(finding.unit),
        since=_clock(finding.since),
    )


def _describe_limit(finding: Finding, entity: str) -> str:
    name, share = finding.what.name, f", {finding.message}" if finding.message else ""
    after, limit, unit = _number(finding.value), _number(finding.reference), _spoken_unit(finding.unit)
    since = _clock(finding.since)
    if finding.pattern == TOTAL:
        after = f"at least {after}" if finding.value in FULL_COUNTS else after
        return f"{name} of {entity} since its counters began: {after} {unit}{share}; how old they are is not known."
    if share:
        return f"{name} of {entity} since {since}: {after} {unit}{share}."
    if finding.direction == "down":
        return f"{name} of {entity} under load is {after} {unit} since {since}; it reaches {limit} {unit}."
    return f"{name} of {entity} is {after} {unit} since {since}, above its limit of {limit} {unit}."


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _spoken_unit(unit: str) -> str:
    """Returns a unit as texts have it: `{request}/s` is `requests/s`."""
    if unit in ("1", "{state}"):
        return ""
    return NOUN.sub(lambda match: f"{match[1].removesuffix('s')}s", unit).replace("Cel", "°C").replace("By", "B")
