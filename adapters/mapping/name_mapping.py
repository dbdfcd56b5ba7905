"""A mapping file: names and labels of any telemetry to signals of the catalogue and labels that name entities.

A series is translated before the catalogue's own names are looked up. Patterns hold placeholders: `{node}` stands for
any text and becomes the label `node`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from skewscope.adapters.mapping.scales import UNITS
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader, is_finite_number
from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.model import Catalogue, Signal
from skewscope.kb.problems import InputError, suggest_name
from skewscope.kb.site_files import MAPPING_FILE
from skewscope.kb.yamlfile import FieldPath

MAX_RULES = 10_000
MAX_PATTERN = 500
ENTITY_FIELDS = (
    *("node", "gpu", "uuid", "port", "device", "group", "rank", "member", "replica", "pool", "peer", "link"),
    *("instance", "pod", "model_name", "engine", "priority", "direction", "cpu", "le", "metric"),
)
"""Labels that placeholders may fill: they name the entity, a part of it, or what a number of `other.*` is called."""
PARTS = ("_bucket", "_sum", "_count")
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class MappingRule:
    """One entry of a mapping file."""

    pattern: str
    """Regular expression of the metric's name."""
    label_patterns: tuple[tuple[str, str], ...]
    """Label and regular expression of its value."""
    signal: str
    metric: str
    """Canonical metric of the signal."""
    scale: float
    is_histogram: bool
    entity: tuple[tuple[str, str], ...] = ()
    """Fixed labels."""


@dataclass(frozen=True)
class TranslatedSeries:
    """Metric and labels of a series under the names that Skewscope knows."""

    metric: str
    labels: Mapping[str, str]
    scale: float = 1.0
    """Factor from its values to the signal's unit."""


@dataclass(frozen=True)
class NameMapping:
    """The rules of a mapping file; the first that fits counts."""

    rules: tuple[MappingRule, ...] = ()
    text: str = ""
    """The file's text, to be copied into a saved recording."""

    @cached_property
    def _compiled(self) -> list[tuple[re.Pattern[str], list[tuple[str, re.Pattern[str]]], MappingRule]]:
        return [
            (re.compile(rule.pattern), [(label, re.compile(text)) for label, text in rule.label_patterns], rule)
            for rule in self.rules
        ]

    def extend(self, other: "NameMapping") -> "NameMapping":
        """Returns these rules and then those of another mapping; the text stays the same."""
        return replace(self, rules=(*self.rules, *other.rules)) if other.rules else self

    def may_map(self, metric: str) -> bool:
        """Returns whether a rule has this metric's name; its labels decide."""
        return any(
            name.fullmatch(metric.removesuffix(part))
            for name, _, rule in self._compiled
            for part in (PARTS if rule.is_histogram else ("",))
        )

    def find_signals(self, metric: str) -> frozenset[str]:
        """Returns the signals of the rules that have this metric's name, whatever its labels are."""
        return frozenset(rule.signal for name, _, rule in self._compiled if name.fullmatch(metric))

    @cached_property
    def label_names(self) -> frozenset[str]:
        """The labels that rules read."""
        return frozenset(label for rule in self.rules for label, _ in rule.label_patterns)

    def translate(self, metric: str, labels: Mapping[str, str]) -> TranslatedSeries | None:
        """Returns a series as its rule maps it; None where no rule fits."""
        for name, wanted, rule in self._compiled:
            part = next((end for end in PARTS if rule.is_histogram and metric.endswith(end)), "")
            match = name.fullmatch(metric.removesuffix(part) if part else metric)
            if match is None:
                continue
            found = [match, *(pattern.fullmatch(labels.get(label, "")) for label, pattern in wanted)]
            if all(found):
                return _translated(rule, part, labels, [one for one in found if one])
        return None


def _translated(
    rule: MappingRule, part: str, labels: Mapping[str, str], found: list[re.Match[str]]
) -> TranslatedSeries:
    """Returns a series with the labels of its placeholders; labels that a rule reads are used up."""
    used = {label for label, _ in rule.label_patterns}
    own = {label: value for label, value in labels.items() if label not in used}
    for match in found:
        own.update({name: value for name, value in match.groupdict().items() if value})
    own.update(rule.entity)
    return TranslatedSeries(rule.metric + part, own, rule.scale)


def read_mapping(path: Path, catalogue: Catalogue) -> NameMapping:
    """Reads a mapping file.

    Raises:
        InputError: all problems of the file, with their lines.
    """
    return parse_mapping(yamlfile.read_text(path, str(path)), str(path), catalogue)


@cache_latest
def mapping_of_site(catalogue: Catalogue) -> NameMapping:
    """Returns the mapping file of the catalogue's site; no rules where there is none.

    Raises:
        InputError: all problems of the file, with their lines.
    """
    site = catalogue.site
    if site is None or MAPPING_FILE not in site.texts:
        return NameMapping()
    return parse_mapping(site.texts[MAPPING_FILE], site.display_path(MAPPING_FILE), catalogue)


def parse_mapping(text: str, file: str, catalogue: Catalogue) -> NameMapping:
    """Parses the text of a mapping file; see `read_mapping`."""
    fields = FieldReader(yamlfile.parse(text, file))
    if fields.check_keys((), ("version", "metrics"), ("note",)):
        fields.check_version()
    rules = [_parse_rule(fields, path, catalogue) for path in fields.item_paths(("metrics",), MAX_RULES)]
    if fields.problems:
        raise InputError(set(fields.problems))
    return NameMapping(tuple(rule for rule in rules if rule), text)


def _parse_rule(fields: FieldReader, at: FieldPath, catalogue: Catalogue) -> MappingRule | None:
    if not fields.check_keys(at, ("metric", "signal"), ("labels", "unit", "scale", "entity", "note")):
        return None
    pattern = _parse_pattern(fields, (*at, "metric"))
    labels = fields.value_at((*at, "labels")) or {}
    if not isinstance(labels, dict):
        fields.add_problem((*at, "labels"), yamlfile.type_label(labels), "a mapping of label names to patterns")
        labels = {}
    wanted = tuple((name, _parse_pattern(fields, (*at, "labels", name))) for name in labels)
    id_ = fields.text((*at, "signal"))
    signal = catalogue.signals.get(id_)
    if signal is None:
        if id_:
            hint = suggest_name(id_, catalogue.signals) or "`skewscope kb list signals` lists them."
            fields.add_problem((*at, "signal"), f"{id_!r}", "a signal of the catalogue", hint)
        return None
    scale = _parse_scale(fields, at, signal)
    is_histogram = signal.type == "histogram"
    return MappingRule(pattern, wanted, id_, signal.metric, scale, is_histogram, _parse_entity(fields, at))


def _parse_pattern(fields: FieldReader, at: FieldPath) -> str:
    """Returns the regular expression of a text with placeholders."""
    value = fields.value_at(at)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else fields.required_text(at)
    if len(text) > MAX_PATTERN:
        fields.add_problem(at, f"{len(text)} characters", f"at most {MAX_PATTERN}")
        return ""
    names = PLACEHOLDER.findall(text)
    for name in names:
        if name not in ENTITY_FIELDS:
            expected = f"one of {', '.join(ENTITY_FIELDS)}"
            fields.add_problem(at, f"the placeholder {{{name}}}", expected, suggest_name(name, ENTITY_FIELDS))
    if len(set(names)) < len(names) or "}{" in text:
        fields.add_problem(at, f"{text!r}", "each placeholder once, with text between two of them")
        return ""
    pieces = PLACEHOLDER.split(text)
    return "".join(f"(?P<{piece}>.+?)" if n % 2 else re.escape(piece) for n, piece in enumerate(pieces))


def _parse_scale(fields: FieldReader, at: FieldPath, signal: Signal) -> float:
    """Returns the factor from the values to the signal's unit: that of `unit`, times `scale`."""
    scale = 1.0
    if (given := fields.value_at((*at, "scale"))) is not None:
        if is_finite_number(given) and given:
            scale = float(given)
        else:
            fields.add_problem((*at, "scale"), f"{given!r:.40}", "a number other than 0")
    unit = fields.text((*at, "unit"))
    if not unit or unit == signal.unit:
        return scale
    own, wanted = UNITS.get(unit), UNITS.get(signal.unit)
    if own is None or wanted is None or own[0] != wanted[0]:
        fit = [name for name, (base, _) in UNITS.items() if wanted and base == wanted[0]] or [signal.unit or "no unit"]
        hint = "Give `scale`, the factor from your values to that unit, instead."
        fields.add_problem((*at, "unit"), f"{unit!r} for {signal.id}", f"one of {', '.join(fit)}", hint)
        return scale
    return scale * own[1] / wanted[1]


def _parse_entity(fields: FieldReader, at: FieldPath) -> tuple[tuple[str, str], ...]:
    value = fields.value_at((*at, "entity"))
    if value is None or not fields.check_keys((*at, "entity"), (), ENTITY_FIELDS):
        return ()
    pairs = []
    for name in value:
        given = value[name]
        whole = isinstance(given, int) and not isinstance(given, bool)
        pairs.append((name, str(given) if whole else fields.required_text((*at, "entity", name))))
    return tuple(pairs)
