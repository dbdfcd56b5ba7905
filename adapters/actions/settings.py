"""Parses the section `actions` of a controller's config, and checks the section `targets` against the topology."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from pathlib import Path

from skewscope.adapters.actions.approval_links import DEFAULT_LIFETIME, LEAST_KEY, LinkSettings
from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.config.secret import read_secret
from skewscope.adapters.targets.common.base import Target
from skewscope.engine.actions.action import Action
from skewscope.engine.actions.change import CHANGE_KINDS
from skewscope.engine.actions.lifecycle import Timing
from skewscope.engine.actions.limits import WEEKDAYS, ActionLimits, Breaker, TimeWindow
from skewscope.engine.actions.places import PLACE_KINDS, PlaceLimit, find_parts
from skewscope.engine.actions.planning import Option
from skewscope.engine.model.incident import SURE, Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

OBSERVE, PROPOSE, ACT = MODES = ("observe", "propose", "act")
"""observe: nothing is planned; propose: plans wait for an approval; act: plans are carried out within the limits."""
MAX_RULES = 1000
DEFAULT_SHADOW_DAYS = 7.0
"""A week: load and maintenance repeat by the week."""
LEAST_CONFIDENCE = 0.5
"""The least confidence that may be declared: an action on less than an even chance helps nobody."""
TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
MODE_FIELDS = ("condition", "rule", "target", "kind")
APPROVAL_FIELDS = ("risk", "target", "kind", "condition")
PLACE_FIELDS = {"at_once": (0, 1000), "per_hour": (0, 10_000), "share": (0.0, 1.0)}
"""Limits of a place, each with its bounds."""
PUBLIC_URL = re.compile(r"(https://[\w.:\[\]-]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)(/[\w./-]*)?")
RISKS = ("low", "medium", "high")
MAX_PERSONS = 10


@dataclass(frozen=True, slots=True)
class ModeRule:
    """The mode of some conditions, rules, targets and kinds of changes; an empty field stands for all."""

    mode: str
    condition: tuple[str, ...] = ()
    rule: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """How many different persons have to approve some changes; an empty field stands for all."""

    persons: int
    risk: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    condition: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActionSettings:
    """The section `actions`."""

    mode: str = OBSERVE
    modes: tuple[ModeRule, ...] = ()
    """The first one that applies decides; `mode` where none does."""
    confidence: float = SURE
    """Least confidence of a diagnosis for which anything is planned."""
    limits: ActionLimits = field(default_factory=ActionLimits)
    timing: Timing = field(default_factory=Timing)
    approvals: tuple[ApprovalRule, ...] = ()
    """Of those that apply the one that asks most persons decides; the policy approves nothing to which one applies."""
    links: LinkSettings | None = None
    """Signed links in notifications of proposals; None for no links."""
    shadow_days: float = DEFAULT_SHADOW_DAYS
    """Days that a shadow run has to cover before a target may act."""
    no_shadow_evidence: str = ""
    """Why targets may act without a shadow run; '' where they may not."""

    def mode_of(self, condition: str, rule: str, target: str, kind: str) -> str:
        """Returns the mode of a change."""
        named = {"condition": condition, "rule": rule, "target": target, "kind": kind}
        for each in self.modes:
            if all(not getattr(each, name) or value in getattr(each, name) for name, value in named.items()):
                return each.mode
        return self.mode

    def persons_for(self, action: Action) -> int:
        """Returns how many persons have to approve an action; 0 where the policy may."""
        change = action.change
        named = {"risk": action.plan.risk, "target": change.target, "kind": change.kind}
        named["condition"] = action.reason.condition
        return max(
            (
                rule.persons
                for rule in self.approvals
                if all(not getattr(rule, name) or value in getattr(rule, name) for name, value in named.items())
            ),
            default=0,
        )

    def mode_of_option(self, option: Option, incident: Incident) -> str:
        """Returns the mode of an option; what a person has to run is never more than proposed."""
        mode = self.mode_of(incident.condition, incident.rule, option.target, option.kind)
        return PROPOSE if option.by_hand and mode == ACT else mode

    @property
    def is_observing(self) -> bool:
        """Whether nothing is ever planned."""
        return self.mode == OBSERVE and all(each.mode == OBSERVE for each in self.modes)

    def admits(self, incident: Incident) -> bool:
        """Returns whether anything may be done for an incident: a sure diagnosis that is a root and fires."""
        return next(self.find_obstacles(incident), None) is None

    def find_obstacles(self, incident: Incident) -> Iterator[str]:
        """Yields why nothing may be done for an incident, one sentence each."""
        if incident.state != "firing":
            yield "the incident does not fire"
        if incident.is_symptom:
            yield "it is a symptom: what causes it is not known"
        if incident.explained_by is not None:
            yield f"another incident explains it: {incident.explained_by.id}"
        if incident.confidence < self.confidence:
            yield f"it is {100 * incident.confidence:.0f} % sure, {100 * self.confidence:.0f} % are needed"


def read_actions(fields: FieldReader, topology: Topology, targets: Iterable[str]) -> ActionSettings:
    """Parses `actions`; problems are added to `fields`. A missing section observes."""
    at: FieldPath = ("actions",)
    if fields.value_at(at) is None:
        return ActionSettings()
    limited = ("limits", "minimum_healthy", "breaker", "windows", "timing")
    optional = ("mode", "modes", "confidence", *limited, "approvals", "links", "shadow_days", "acknowledge", "note")
    if not fields.check_keys(at, (), optional):
        return ActionSettings()
    return ActionSettings(
        fields.text((*at, "mode"), choice=MODES) or OBSERVE,
        tuple(_read_mode_rules(fields, (*at, "modes"), sorted(targets))),
        read_number(fields, (*at, "confidence"), SURE, (LEAST_CONFIDENCE, 1.0)),
        _read_limits(fields, at, topology),
        _read_timing(fields, (*at, "timing")),
        tuple(_read_approvals(fields, (*at, "approvals"), sorted(targets))),
        _read_links(fields, (*at, "links")),
        read_number(fields, (*at, "shadow_days"), DEFAULT_SHADOW_DAYS, (0.01, 366.0)),
        _read_acknowledged(fields, (*at, "acknowledge")),
    )


def _read_approvals(fields: FieldReader, at: FieldPath, targets: list[str]) -> Iterable[ApprovalRule]:
    for item in fields.item_paths(at, MAX_RULES):
        if not fields.check_keys(item, ("persons",), APPROVAL_FIELDS):
            continue
        _check_targets(fields, item, targets)
        choices = {"risk": RISKS, "kind": CHANGE_KINDS}
        values = {name: fields.texts((*item, name), choice=choices.get(name, ())) for name in APPROVAL_FIELDS}
        yield ApprovalRule(int(read_number(fields, (*item, "persons"), 1, (1, MAX_PERSONS))), **values)


def _check_targets(fields: FieldReader, item: FieldPath, targets: list[str]) -> None:
    for name in fields.texts((*item, "target")):
        if name not in targets:
            hint = fields.suggest_name(name, targets)
            fields.add_problem((*item, "target"), f"an unknown target {name!r:.80}", "one of `targets`", hint)


def _read_links(fields: FieldReader, at: FieldPath) -> LinkSettings | None:
    if fields.value_at(at) is None:
        return None
    if not fields.check_keys(at, ("public_url", "key", "recipients"), ("lifetime", "login")):
        return None
    key = read_secret(fields, (*at, "key"), Path(fields.document.file).parent, LEAST_KEY)
    url = fields.required_text((*at, "public_url"))
    if url and not PUBLIC_URL.fullmatch(url):
        hint = "A link over plain http can be read on its way; it is allowed for the local machine only."
        fields.add_problem((*at, "public_url"), f"{url!r:.80}", "an address that begins with https://", hint)
    named = fields.value_at((*at, "recipients"))
    recipients = {str(name): fields.required_text((*at, "recipients", name)) for name in named or ()}
    lifetime = read_number(fields, (*at, "lifetime"), DEFAULT_LIFETIME, (30.0, 86400.0))
    login = read_bool(fields, (*at, "login"))
    return None if key is None else LinkSettings(url.rstrip("/"), key, recipients, lifetime, login)


def _read_acknowledged(fields: FieldReader, at: FieldPath) -> str:
    """Returns the reason for which targets may act without a shadow run; '' for none."""
    if fields.value_at(at) is None:
        return ""
    fields.check_keys(at, ("no_shadow_evidence",))
    return fields.text((*at, "no_shadow_evidence"))


def _read_mode_rules(fields: FieldReader, at: FieldPath, targets: list[str]) -> Iterable[ModeRule]:
    for item in fields.item_paths(at, MAX_RULES):
        if not fields.check_keys(item, ("mode",), MODE_FIELDS):
            continue
        _check_targets(fields, item, targets)
        values = {name: fields.texts((*item, name)) for name in MODE_FIELDS}
        yield ModeRule(fields.text((*item, "mode"), choice=MODES) or OBSERVE, **values)


def _read_limits(fields: FieldReader, at: FieldPath, topology: Topology) -> ActionLimits:
    here, default = (*at, "limits"), ActionLimits()
    if fields.value_at(here) is not None:
        names = ("at_once", "per_hour", "share_of_nodes", "share_of_groups", "share_of_replicas", "cool_down", "places")
        fields.check_keys(here, (), names)
    return ActionLimits(
        int(read_number(fields, (*here, "at_once"), default.at_once, (1, 1000))),
        int(read_number(fields, (*here, "per_hour"), default.per_hour, (1, 10_000))),
        read_number(fields, (*here, "share_of_nodes"), default.share_of_nodes, (0.0, 1.0)),
        read_number(fields, (*here, "share_of_groups"), default.share_of_groups, (0.0, 1.0)),
        read_number(fields, (*here, "share_of_replicas"), default.share_of_replicas, (0.0, 1.0)),
        _read_minimum(fields, (*at, "minimum_healthy"), topology),
        read_number(fields, (*here, "cool_down"), default.cool_down, (0.0, 86400.0)),
        _read_breaker(fields, (*at, "breaker")),
        tuple(_read_windows(fields, (*at, "windows"))),
        tuple(_read_places(fields, (*here, "places"), topology)),
    )


def _read_places(fields: FieldReader, at: FieldPath, topology: Topology) -> Iterable[PlaceLimit]:
    for item in fields.item_paths(at, MAX_RULES):
        if not fields.check_keys(item, (), (*PLACE_KINDS, *PLACE_FIELDS)):
            continue
        named = [(kind, name) for kind in PLACE_KINDS if (name := fields.text((*item, kind)))]
        given = [name for name in PLACE_FIELDS if fields.value_at((*item, name)) is not None]
        if len(named) != 1 or not given:
            expected = "one of pool, rack and team, and any of at_once, per_hour and share"
            fields.add_problem(item, f"{len(named)} places and {len(given)} limits", expected)
            continue
        (place,) = named
        numbers = {name: read_number(fields, (*item, name), 1, PLACE_FIELDS[name]) for name in given}
        counts = [int(numbers[name]) if name in numbers else None for name in ("at_once", "per_hour")]
        limit = PlaceLimit(*place, counts[0], counts[1], numbers.get("share"))
        if topology.nodes and not find_parts(limit, topology):
            fields.add_problem((*item, place[0]), f"an unknown {place[0]} {place[1]!r:.80}", "one of the topology")
        yield limit


def _read_minimum(fields: FieldReader, at: FieldPath, topology: Topology) -> dict[str, int]:
    value = fields.value_at(at)
    if value is None:
        return {}
    pools = {pool.name: pool for pool in topology.pools}
    fields.check_keys(at, (), pools)
    known = [name for name in value if name in pools] if isinstance(value, dict) else []
    return {name: fields.count((*at, name), len(pools[name].replicas)) for name in sorted(known)}


def _read_breaker(fields: FieldReader, at: FieldPath) -> Breaker:
    default = Breaker()
    if fields.value_at(at) is not None:
        fields.check_keys(at, (), ("failures", "within", "pause"))
    return Breaker(
        int(read_number(fields, (*at, "failures"), default.failures, (1, 1000))),
        read_number(fields, (*at, "within"), default.within, (1.0, 7 * 86400.0)),
        read_number(fields, (*at, "pause"), default.pause, (1.0, 7 * 86400.0)),
    )


def _read_windows(fields: FieldReader, at: FieldPath) -> Iterable[TimeWindow]:
    for item in fields.item_paths(at, MAX_RULES):
        if not fields.check_keys(item, ("from", "to"), ("days",)):
            continue
        start, end = (_read_time_of_day(fields, (*item, name)) for name in ("from", "to"))
        days = fields.texts((*item, "days"), choice=WEEKDAYS) or WEEKDAYS
        yield TimeWindow(start, end, days)


def _read_time_of_day(fields: FieldReader, at: FieldPath) -> float:
    text = fields.required_text(at)
    match = TIME_OF_DAY.fullmatch(text)
    if text and match is None:
        fields.add_problem(at, f"{text!r:.40}", "a time of day in UTC such as '22:30'", "Put it in quotes.")
    return 3600.0 * int(match[1]) + 60.0 * int(match[2]) if match else 0.0


def _read_timing(fields: FieldReader, at: FieldPath) -> Timing:
    names = [each.name for each in dataclass_fields(Timing)]
    if fields.value_at(at) is not None:
        fields.check_keys(at, (), names)
    default = Timing()
    return Timing(
        **{name: read_number(fields, (*at, name), getattr(default, name), (0.1, 7 * 86400.0)) for name in names}
    )


def check_members(fields: FieldReader, at: FieldPath, target: Target, topology: Topology) -> None:
    """Reports members that the topology does not have, and pools of which only some replicas are members."""
    known = {*topology.node, *topology.group, *topology.port}
    for entity in target.members:
        if entity not in known:
            expected = "the name of a replica, a node or a port of the topology"
            hint = fields.suggest_name(entity, known)
            fields.add_problem((*at, "members", entity), f"an unknown name {entity!r:.80}", expected, hint)
    for pool in topology.pools:
        missing = [name for name in pool.replicas if name not in target.members]
        if missing and len(missing) < len(pool.replicas):
            found = f"{len(pool.replicas) - len(missing)} of the {len(pool.replicas)} replicas of {pool.name!r}"
            hint = f"Add {', '.join(missing[:5])}: how many replicas are left in use has to be known."
            fields.add_problem((*at, "members"), found, "all of them, or none", hint)
