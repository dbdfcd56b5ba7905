"""Envoy: weights and health of endpoints, through the file of its endpoint discovery (EDS).

The file is replaced by a rename, which Envoy notices within a second; comments and layout of the file stay. The owner
mark is metadata of the endpoint, which Envoy keeps and does not use. What Envoy does is read from its admin page, not
from the file. Tested with Envoy 1.40.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from skewscope.adapters.config.fields import read_path
from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.answers import parse_count
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, FileCall, HttpCall
from skewscope.adapters.targets.common.marks import (
    OWNER,
    MarkedValue,
    check_action,
    clean_reason,
    compare_mark,
    lower_whole_weight,
)
from skewscope.adapters.targets.common.probe import ProbeSettings, measure_probe
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    HTTP_FIELDS,
    PROBE_FIELDS,
    NamedTarget,
    TargetSettings,
    check_addresses,
    read_base_url,
    read_common,
    read_http_options,
    read_probe,
)
from skewscope.adapters.targets.common.transports import read_file, replace_file, request_ok
from skewscope.adapters.targets.common.yaml_edit import REMOVED, edit_yaml, parse_yaml
from skewscope.engine.actions.change import DEWEIGHT, DRAIN, FOREIGN, Change, ChangeSupport, MemberState, TargetState
from skewscope.engine.actions.comparison import MemberLoad
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

SERVING = ("HEALTHY", "UNKNOWN", "DEGRADED")
"""Values of `eds_health_status` of an endpoint that gets requests (envoy.config.core.v3.HealthStatus)."""
DRAINING = "DRAINING"
MOST_WEIGHT = 2**32 - 1
"""Of an endpoint (UInt32Value)."""
DRAIN_NOTE = "Envoy sends requests to all endpoints when fewer than its panic threshold (50 %) are healthy"


@dataclass(frozen=True, slots=True)
class EnvoySettings:
    """Settings of one cluster of one Envoy."""

    common: TargetSettings
    file: str
    cluster: str
    admin: str
    """Base URL of the admin interface."""
    options: FetchOptions = field(default_factory=FetchOptions)
    probe: ProbeSettings | None = None


def read(fields: FieldReader, at: FieldPath, name: str) -> EnvoySettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(
        at, ("kind", "file", "cluster", "admin", "members"), (*COMMON_FIELDS, *HTTP_FIELDS, *PROBE_FIELDS)
    )
    common = read_common(fields, at, name)
    check_addresses(fields, (*at, "members"), common.members)
    return EnvoySettings(
        common,
        read_path(fields, (*at, "file")),
        fields.required_text((*at, "cluster")),
        read_base_url(fields, (*at, "admin")),
        read_http_options(fields, at, common.timeout),
        read_probe(fields, at),
    )


def build(settings: EnvoySettings) -> "EnvoyTarget":
    """Creates the target."""
    return EnvoyTarget(settings)


@dataclass(frozen=True, slots=True)
class FileEndpoint:
    """One endpoint of the file."""

    address: str
    at: FieldPath
    """Where its mapping stands."""
    values: Mapping[str, Any]

    def find(self, name: str) -> tuple[str, Any]:
        """Returns the name under which a field stands in the file, and its value; None for no value."""
        return find_field(self.values, name)

    @property
    def marks(self) -> dict[str, Any]:
        """Our metadata, by kind of change."""
        metadata = self.find("metadata")[1]
        found = find_field(metadata, "filter_metadata")[1] if isinstance(metadata, dict) else None
        ours = found.get(OWNER) if isinstance(found, dict) else None
        return ours if isinstance(ours, dict) else {}

    def owner(self, kind: str) -> str:
        """Returns the id of the action that made a change of this kind; '' for none."""
        mark = self.marks.get(kind)
        return str(mark.get("action", "")) if isinstance(mark, dict) else ""


@dataclass
class EnvoyTarget(NamedTarget):
    """One cluster of one Envoy."""

    settings: EnvoySettings
    support: Mapping[str, ChangeSupport] = field(
        default_factory=lambda: {DEWEIGHT: ChangeSupport(), DRAIN: ChangeSupport(note=DRAIN_NOTE)}
    )

    async def read_state(self) -> TargetState:
        """Returns the endpoints of the file, with weight and health as Envoy reports them."""
        text = await FILES.run(read_file, self.settings.file)
        return self._parse(text, await self._read_hosts())

    def _parse(self, text: str, hosts: Mapping[str, Mapping[str, Any]]) -> TargetState:
        endpoints = list_endpoints(text, self.settings.file, self.settings.cluster)
        members = {each.address: make_member(each, hosts.get(each.address)) for each in endpoints.values()}
        return TargetState(members, text=text)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the new file, with a lower weight or the health status DRAINING."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: Envoy cannot {change.kind}")
        endpoint, member = self._find(change, state)
        if endpoint.owner(change.kind) == check_action(change):
            return ()
        mark = {"action": change.action, "reason": clean_reason(change)}
        return self._write(state, endpoint, (change.kind, self._wanted(change, member)), {change.kind: mark})

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the file with the former value; only without our mark where somebody else changed the value."""
        if state.member(change.member) is None:
            return ()
        endpoint, member = self._find(change, state)
        if endpoint.owner(change.kind) != change.action:
            return ()
        name = field_of(change.kind)
        ours = member.detail(name) == self._wanted(change, before)
        value = before.detail(name) if ours else member.detail(name)
        return self._write(state, endpoint, (change.kind, value), {change.kind: None})

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the endpoints of the file that the change writes; Envoy has not reported anything of them yet."""
        calls = self.render_change(change, state)
        return self._parse(calls[-1].after, {}) if calls and isinstance(calls[-1], FileCall) else state

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by the mark and the value in the file, and by what Envoy reports."""
        member = state.member(change.member)
        if member is None or change.kind not in self.support:
            return FOREIGN
        name, wanted = field_of(change.kind), self._wanted(change, before)
        reported: bool | None
        if change.kind == DRAIN:
            reported = None if member.serving is None else not member.serving
        else:
            reported = None if member.weight is None else member.weight == float(wanted)
        value = MarkedValue(
            member.detail(f"mark.{change.kind}"), member.detail(name), before.detail(name), wanted, reported
        )
        return compare_mark(value, change.action)

    async def make_call(self, call: Call) -> None:
        """Replaces the file."""
        if not isinstance(call, FileCall) or call.path != self.settings.file:
            raise TargetError(f"{self.name}: a call that is no change of {self.settings.file}")
        await FILES.run(replace_file, call)

    async def read_work(self) -> Mapping[str, float]:
        """Returns the requests sent to each endpoint so far (`rq_total`)."""
        counted = {address: count_requests(host) for address, host in (await self._read_hosts()).items()}
        return {address: counts["rq_total"] for address, counts in counted.items() if "rq_total" in counts}

    async def read_load(self) -> Mapping[str, MemberLoad]:
        """Returns the requests of each endpoint that have ended, and those under way (`rq_total`, `rq_active`)."""
        counted = {address: count_requests(host) for address, host in (await self._read_hosts()).items()}
        return {
            address: MemberLoad(max(counts["rq_total"] - counts["rq_active"], 0.0), counts["rq_active"])
            for address, counts in counted.items()
            if counts.keys() >= {"rq_total", "rq_active"}
        }

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of an endpoint; None without `probe` in the config."""
        if self.settings.probe is None:
            return None
        if member not in self.members.values():
            raise TargetError(f"{self.name}: no member {member!r:.80}")
        return await measure_probe(self.settings.probe, f"http://{member}", FetchOptions())

    def _find(self, change: Change, state: TargetState) -> tuple[FileEndpoint, MemberState]:
        endpoints = list_endpoints(state.text, self.settings.file, self.settings.cluster)
        endpoint, member = endpoints.get(change.member), state.member(change.member)
        if endpoint is None or member is None:
            raise TargetError(f"{self.name}: the cluster {self.settings.cluster} has no endpoint {change.member!r:.80}")
        return endpoint, member

    def _wanted(self, change: Change, member: MemberState) -> str:
        if change.kind == DRAIN:
            return DRAINING
        weight = float(member.detail("load_balancing_weight") or 1)
        return str(lower_whole_weight(member, weight, change.share))

    def _write(
        self, state: TargetState, endpoint: FileEndpoint, to: tuple[str, str], mark: Mapping[str, Any]
    ) -> tuple[Call, ...]:
        """Returns the call that gives an endpoint the value of a kind of change, and its mark; None for no mark."""
        kind, value = to
        name, _ = endpoint.find(field_of(kind))
        wanted: Any = REMOVED if not value else value if kind == DRAIN else int(value)
        marks = {key: each for key, each in {**endpoint.marks, **mark}.items() if each is not None}
        edits = [((*endpoint.at, name), wanted), *mark_edits(endpoint, marks)]
        return (FileCall(self.settings.file, state.text, edit_yaml(state.text, self.settings.file, edits)),)

    async def _read_hosts(self) -> dict[str, Mapping[str, Any]]:
        """Returns the hosts of the cluster by address, as the admin page describes them."""
        call = HttpCall("GET", f"{self.settings.admin}/clusters?format=json")
        answer = await request_ok(call, replace(self.settings.options, timeout=self.settings.common.timeout))
        try:
            clusters = json.loads(answer.body)["cluster_statuses"]
            (ours,) = [one for one in clusters if one["name"] == self.settings.cluster]
            return {format_address(host["address"]): host for host in ours.get("host_statuses", ())}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            what = f"the cluster {self.settings.cluster!r} cannot be read from the answer"
            raise TargetError(f"GET {call.url}: {what} ({type(error).__name__})") from None


def field_of(kind: str) -> str:
    """Returns the field of an endpoint that a kind of change sets."""
    return "health_status" if kind == DRAIN else "load_balancing_weight"


def find_field(values: Any, name: str) -> tuple[str, Any]:
    """Returns a field that stands there in snake case or in camel case, as proto JSON allows."""
    first, *others = name.split("_")
    camel = first + "".join(word.title() for word in others)
    found = camel if camel in values and name not in values else name
    return found, values.get(found)


def format_address(address: Any) -> str:
    """Returns HOST:PORT of an address of Envoy's API; IPv6 in brackets.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, OverflowError: it is none.
    """
    values = find_field(address, "socket_address")[1]
    host, port = str(values["address"]), int(find_field(values, "port_value")[1])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def list_endpoints(text: str, file: str, cluster: str) -> dict[str, FileEndpoint]:
    """Returns the endpoints of a cluster by address, from the text of an EDS file.

    Raises:
        TargetError: the file holds no such cluster, or an endpoint that cannot be read.
    """
    data = parse_yaml(text, file)
    try:
        found = list(_walk_endpoints(data, cluster))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TargetError(f"{file}: cannot be read as endpoints of Envoy ({type(error).__name__}: {error})") from None
    if not found:
        raise TargetError(f"{file}: no endpoint of a cluster {cluster!r:.80}")
    by_address = {each.address: each for each in found}
    if len(by_address) < len(found):
        raise TargetError(f"{file}: an endpoint of the cluster {cluster!r:.80} is listed twice")
    return by_address


def _walk_endpoints(data: Any, cluster: str) -> Iterator[FileEndpoint]:
    for n, resource in enumerate(data["resources"]):
        if find_field(resource, "cluster_name")[1] != cluster:
            continue
        for m, locality in enumerate(resource.get("endpoints") or ()):
            name, endpoints = find_field(locality, "lb_endpoints")
            for k, endpoint in enumerate(endpoints or ()):
                address = format_address(endpoint["endpoint"]["address"])
                yield FileEndpoint(address, ("resources", n, "endpoints", m, name, k), endpoint)


def mark_edits(endpoint: FileEndpoint, marks: Mapping[str, Any]) -> list[tuple[FieldPath, Any]]:
    """Returns the edits that replace our metadata of an endpoint; nothing empty of ours stays."""
    name, metadata = endpoint.find("metadata")
    at = (*endpoint.at, name)
    if not isinstance(metadata, dict):
        return [(at, {"filter_metadata": {OWNER: dict(marks)}})] if marks else []
    key, filters = find_field(metadata, "filter_metadata")
    if not isinstance(filters, dict):
        return [((*at, key), {OWNER: dict(marks)})] if marks else []
    if marks:
        return [((*at, key, OWNER), dict(marks))]
    if len(filters) > 1:
        return [((*at, key, OWNER), REMOVED)]
    return [((*at, key), REMOVED)] if len(metadata) > 1 else [(at, REMOVED)]


def make_member(endpoint: FileEndpoint, host: Mapping[str, Any] | None) -> MemberState:
    """Returns the state of an endpoint: its fields in the file, and what Envoy reports of it.

    Raises:
        TargetError: file or report have a value of another type than Envoy's.
    """
    serving = weight = None
    if host is not None:
        health = host.get("health_status")
        health = health if isinstance(health, dict) else {}
        failed = any(key.startswith("failed_") and value is True for key, value in health.items())
        serving = health.get("eds_health_status", "HEALTHY") in SERVING and not failed
        weight = parse_count(host.get("weight", 1), "weight")
    details = {"health_status": _text(endpoint), "load_balancing_weight": _weight(endpoint)}
    details |= {f"mark.{kind}": endpoint.owner(kind) for kind in (DEWEIGHT, DRAIN)}
    owner = details[f"mark.{DRAIN}"] or details[f"mark.{DEWEIGHT}"]
    return MemberState(endpoint.address, serving, weight, owner, tuple(sorted(details.items())))


def count_requests(host: Mapping[str, Any]) -> dict[str, float]:
    """Returns the counts `rq_total` and `rq_active` of an endpoint of `/clusters`, as far as it has them.

    Raises:
        TargetError: one is no count.
    """
    stats = host.get("stats")
    # Proto JSON writes 64-bit integers as text, and leaves out a zero.
    return {
        str(stat["name"]): parse_count(stat.get("value", 0), str(stat["name"]))
        for stat in (stats if isinstance(stats, list) else ())
        if isinstance(stat, dict) and stat.get("name") in ("rq_total", "rq_active")
    }


def _text(endpoint: FileEndpoint) -> str:
    """Returns the health status in the file; '' for none."""
    value = endpoint.find("health_status")[1]
    if value is not None and not isinstance(value, str):
        raise TargetError(f"{endpoint.address}: health_status: {value!r:.40}, expected a text")
    return value or ""


def _weight(endpoint: FileEndpoint) -> str:
    """Returns the whole weight in the file; '' for none."""
    value = endpoint.find("load_balancing_weight")[1]
    if value is None:
        return ""
    weight = parse_count(value, f"{endpoint.address}: load_balancing_weight")
    if not 1.0 <= weight <= MOST_WEIGHT or weight % 1.0:
        raise TargetError(f"{endpoint.address}: load_balancing_weight: {value!r:.40}, expected a whole number")
    return f"{weight:.0f}"
