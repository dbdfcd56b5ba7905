"""Sentences about symptoms."""

import re
from datetime import UTC, datetime

from skewscope.engine.model.finding import EVENT, LIMIT, TOTAL, Finding
from skewscope.kb.model import Symptom
from skewscope.kb.quantities import format_number, format_value, is_share

NUMBER_WITH_UNIT = re.compile(r"\{(after|before)\} \{unit\}")
"""A value of a title that is written with its unit; others are bare numbers."""
UNKNOWN_TITLE = "{signal} of {entity} is abnormal since {since}: {after} {unit}."
FULL_COUNTS = frozenset(float(2**bits - 1) for bits in (8, 16, 32))
"""Counters of InfiniBand ports have so many bits and stay at their largest value (IBTA, volume 1, PortCounters)."""


def summarise(finding: Finding, symptom: Symptom | None, entity: str) -> str:
    """Returns what a symptom says of an entity in a sentence."""
    if finding.pattern == EVENT and symptom and EVENT not in symptom.roles:
        # The symptom's title is made for numbers; the message says more.
        return f"{finding.message}." if entity in finding.message else f"{entity}: {finding.message}."
    if finding.reasons:
        return f"{finding.what.name} of {entity} since {_clock(finding.since)}: {finding.reasons}."
    text = _describe_limit(finding, entity) if finding.pattern in (LIMIT, TOTAL) else _fill(finding, symptom, entity)
    text = text.replace(" ,", ",").replace(" .", ".").replace(" :", ":")
    if finding.pattern == EVENT and finding.message:
        # The line names what the entity has no name for: a slot, a device, a rank, the other side.
        text = text.replace(" reported 1 times since ", " reported at ", 1)
        text = f"{text} {'The first line' if finding.value > 1 else 'The line'}: {finding.message}"
    return text if text.startswith(entity) else text[:1].upper() + text[1:]


def _fill(finding: Finding, symptom: Symptom | None, entity: str) -> str:
    template = NUMBER_WITH_UNIT.sub(r"{\1_quantity}", symptom.title if symptom else UNKNOWN_TITLE)
    if finding.reasons:
        # The sum of the bits of a mask is no quantity: their names say what is meant.
        template = template.partition(": ")[0] + ": {signal}: " + finding.reasons + "."
    return template.format(
        entity=entity,
        signal=finding.what.name,
        ratio=format_number(finding.ratio) if finding.reference else "many",
        before=format_number(finding.reference),
        after=format_number(finding.value),
        before_quantity=_quantity(finding, finding.reference),
        after_quantity=_quantity(finding, finding.value),
        since=_clock(finding.since),
        compared=finding.comparison,
    )


def _describe_limit(finding: Finding, entity: str) -> str:
    name, share = finding.what.name, f", {finding.message}" if finding.message else ""
    after, limit = _quantity(finding, finding.value), _quantity(finding, finding.reference)
    since = _clock(finding.since)
    if finding.pattern == TOTAL:
        after = f"at least {after}" if finding.value in FULL_COUNTS else after
        return f"{name} of {entity} since its counters began: {after}{share}; how old they are is not known."
    if share:
        return f"{name} of {entity} since {since}: {after}{share}."
    if finding.direction == "down":
        return f"{name} of {entity} under load is {after} since {since}; it reaches {limit}."
    return f"{name} of {entity} is {after} since {since}, above its limit of {limit}."


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"


def _quantity(finding: Finding, value: float) -> str:
    """Returns a value of a finding with its unit; a state has none."""
    unit = "1" if finding.unit == "{state}" else finding.unit
    return format_value(value, unit, share=is_share(finding.what.id))
