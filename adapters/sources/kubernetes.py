"""Sources of kind `kubernetes`: nodes and the pods that use GPUs, by watches at an API server.

What is there is delivered as kube-state-metrics names it, so that the same signals, events and sightings follow from
both: which pod is on which node, conditions of nodes, crash loops. A watch is asked for one period at a time.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from skewscope.adapters.config.fields import read_number, read_path
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.discovery.kubernetes import GPU_RESOURCES
from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.runtime.blocking_calls import FILES, WORK
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch, redact_message
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, HttpResponse, exchange
from skewscope.adapters.sources.common.object_mirror import GONE, ObjectMirror, RawObject, list_dicts, member
from skewscope.adapters.sources.common.request_settings import REQUEST_FIELDS
from skewscope.adapters.sources.common.scrape_settings import parse_fetch_options
from skewscope.adapters.sources.common.senders import build_lookup, read_reports_for
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.adapters.sources.common.targets import Labels, TargetDiscovery, target_url
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SERVER = "https://kubernetes.default.svc"
"""Where a pod finds its API server."""
PAGE_SIZE = 500
MAX_PAGES = 2000
MAX_TOKEN = 1 << 16
MIG_RESOURCES = "nvidia.com/mig-"
UNHEALTHY_EVENT = "skewscope_event_kubernetes_gpus_unhealthy"
UNHEALTHY_TEXT = "fewer GPUs are allocatable than the node has"
OVER = ("Succeeded", "Failed")
"""Phases of pods that use nothing any more."""
Series = tuple[str, Labels, float]
"""Name, labels and value."""


@dataclass(frozen=True, slots=True)
class KubernetesWatchSettings:
    """One API server."""

    name: str
    url: str
    fetch_options: FetchOptions
    period: float
    token_file: str = ""
    """File of the token, read at each call: tokens of service accounts are replaced while a program runs."""
    reports_for: tuple[str, ...] = (FLEET,)


def read(fields: FieldReader, at: FieldPath, name: str) -> KubernetesWatchSettings:
    """Parses the settings of one source; problems are added to `fields`. Without `url` it is the pod's own server."""
    optional = ("name", "url", "token_file", "period", "timeout", "most_mib", "reports_for", "note", *REQUEST_FIELDS)
    fields.check_keys(at, ("kind",), optional)
    period = read_number(fields, (*at, "period"), 5.0, (1.0, 300.0))
    options, token = parse_fetch_options(fields, at, period), read_path(fields, (*at, "token_file"))
    given = fields.text((*at, "url"))
    url = target_url(given, TargetDiscovery(path="")) if given else SERVER
    if given and not url:
        found = f"{redact_message(given)!r:.80}"
        fields.add_problem((*at, "url"), found, "an address that begins with http:// or https://")
    if not given:
        token = token or f"{ACCOUNT}/token"
        options = options if options.ca_file else replace(options, ca_file=f"{ACCOUNT}/ca.crt")
    reports_for = read_reports_for(fields, (*at, "reports_for"), (FLEET,))
    return KubernetesWatchSettings(name, url.rstrip("/"), options, period, token, reports_for)


def build(settings: KubernetesWatchSettings, context: SourceContext) -> "KubernetesSource":
    """Creates the source."""
    return KubernetesSource(settings, context)


@dataclass
class KubernetesSource:
    """Watches the nodes and pods of one API server."""

    settings: KubernetesWatchSettings
    context: SourceContext
    mapper: SeriesMapper = field(init=False)
    nodes: ObjectMirror[tuple[Series, ...]] = field(init=False)
    pods: ObjectMirror[tuple[Series, ...]] = field(init=False)
    _version: int = 0
    """That of the topology for which series are mapped."""

    def __post_init__(self) -> None:
        self.nodes = ObjectMirror("/api/v1/nodes", lambda item: tuple(describe_node(item)))
        self.pods = ObjectMirror("/api/v1/pods", lambda item: tuple(describe_pod(item)))
        self._map_anew()

    def _map_anew(self) -> None:
        self._version = self.context.version
        senders = build_lookup(self.name, self.context.topology, self.settings.reports_for, {}, collects=True)
        self.mapper = SeriesMapper(self.context.names, {}, senders=senders)

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    @property
    def period(self) -> float:
        """Seconds between two batches."""
        return self.settings.period

    async def run(self, sink: BatchSink) -> None:
        """Watches until cancelled, or until a call fails."""
        sink.follow(self.mapper.registry)
        while True:
            begun = self.context.clock.uptime()
            for mirror in (self.nodes, self.pods):
                await self._follow(mirror)
            if self._version != self.context.version:
                self._map_anew()
                sink.follow(self.mapper.registry)
            if batch := await WORK.run(self._build_batch, self.context.clock.now()):
                sink.put(batch)
            refused = self.nodes.refused + self.pods.refused
            sink.trouble = f"{refused} objects too many" if refused else self.mapper.trouble
            await self.context.clock.sleep(self.settings.period - (self.context.clock.uptime() - begun))

    async def _follow(self, mirror: ObjectMirror[tuple[Series, ...]]) -> None:
        """Brings a mirror up to date: by the list, or by what has changed since its version."""
        if mirror.version:
            watched = {"watch": "1", "resourceVersion": mirror.version, "allowWatchBookmarks": "true"}
            answer = await self._call(mirror.path, {**watched, "timeoutSeconds": str(self._watch_s)})
            if answer.status != GONE:
                await WORK.run(mirror.take_events, self._body_of(mirror.path, answer))
        if not mirror.version or answer.status == GONE:
            mirror.list_anew()
            await self._list(mirror)

    async def _list(self, mirror: ObjectMirror[tuple[Series, ...]]) -> None:
        more = ""
        for _ in range(MAX_PAGES):
            asked = {"limit": str(PAGE_SIZE), **({"continue": more} if more else {})}
            answer = await self._call(mirror.path, asked)
            more = await WORK.run(mirror.take_page, self._body_of(mirror.path, answer))
            if not more:
                return
        raise FetchError(f"{mirror.path}: more than {MAX_PAGES} pages")

    @property
    def _watch_s(self) -> int:
        """Seconds of one watch: both collections are watched in a period."""
        return max(math.floor(self.settings.period / 2), 1)

    async def _call(self, path: str, asked: Mapping[str, str]) -> HttpResponse:
        options = replace(self.settings.fetch_options, timeout=self.settings.fetch_options.timeout + self._watch_s)
        if self.settings.token_file:
            options = replace(options, bearer=Secret(await FILES.run(_read_token, self.settings.token_file)))
        return await exchange(f"{self.settings.url}{path}?{urlencode(asked)}", options)

    def _body_of(self, path: str, answer: HttpResponse) -> bytes:
        if answer.status == 200:
            return answer.body
        hint = ": its account needs the verbs list and watch of nodes and pods" if answer.status in (401, 403) else ""
        raise FetchError(f"{path}: the answer {answer.status}{hint}")

    def _build_batch(self, now: float) -> SourceBatch | None:
        """Returns what is there."""
        rows = SourceBatchBuilder()
        for mirror in (self.nodes, self.pods):
            for series in mirror.kept.values():
                for metric, labels, value in series:
                    rows.add(self.mapper.map_series(metric, labels), now, value)
        return rows.build(self.mapper.registry)


def _read_token(path: str) -> str:
    with Path(path).open(encoding="utf-8") as file:
        return file.read(MAX_TOKEN).strip()


def describe_node(item: RawObject) -> Iterator[Series]:
    """Yields the series of a node: its address, whether each condition is true, false or unknown, and lost GPUs."""
    name = str(member(item, "metadata", "name") or "")
    for address in list_dicts(member(item, "status", "addresses")):
        if address.get("type") == "InternalIP":
            yield "node_uname_info", (("instance", str(address.get("address"))), ("nodename", name)), 1.0
    for condition in list_dicts(member(item, "status", "conditions")):
        for status in ("true", "false", "unknown"):
            labels = (("condition", str(condition.get("type"))), ("node", name), ("status", status))
            value = float(str(condition.get("status")).lower() == status)
            yield "kube_node_status_condition", labels, value

    if has := _count_gpus(member(item, "status", "capacity")):
        lost = max(has - _count_gpus(member(item, "status", "allocatable")), 0)
        yield UNHEALTHY_EVENT, (("message", UNHEALTHY_TEXT), ("node", name)), float(lost)


def _count_gpus(resources: Any) -> int:
    """Returns how many GPUs, and parts of them, a node has or can allocate."""
    counts = resources.items() if isinstance(resources, dict) else ()
    return sum(int(str(count)) for name, count in counts if _is_gpu(name) and str(count).isdecimal())


def describe_pod(item: RawObject) -> Iterator[Series]:
    """Yields the series of a pod that is on a node and uses GPUs: where it is, and how its containers fare."""
    about, spec, status = item.get("metadata"), item.get("spec"), item.get("status")
    node = str(member(spec, "nodeName") or "")
    if not node or member(status, "phase") in OVER or not _uses_gpus(spec):
        return
    pod = (("namespace", str(member(about, "namespace") or "")), ("pod", str(member(about, "name") or "")))
    addresses = {"host_ip": member(status, "hostIP"), "pod_ip": member(status, "podIP")}
    given = [(label, str(value)) for label, value in addresses.items() if value]
    yield "kube_pod_info", tuple(sorted((*pod, *given, ("node", node)))), 1.0
    for container in list_dicts(member(status, "containerStatuses")):
        labels = tuple(sorted((*pod, ("container", str(container.get("name"))))))
        count = container.get("restartCount")
        if isinstance(count, int):
            yield "kube_pod_container_status_restarts_total", labels, float(count)
        waits = member(container, "state", "waiting", "reason") == "CrashLoopBackOff"
        reason = tuple(sorted((*labels, ("reason", "CrashLoopBackOff"))))
        yield "kube_pod_container_status_waiting_reason", reason, float(waits)


def _uses_gpus(spec: Any) -> bool:
    """Returns whether a pod asks for GPUs, parts of them, or claims of devices."""
    if member(spec, "resourceClaims"):
        return True
    limits = (member(container, "resources", "limits") for container in list_dicts(member(spec, "containers")))
    names = {name for some in limits if isinstance(some, dict) for name in some}
    return any(map(_is_gpu, names))


def _is_gpu(resource: str) -> bool:
    """Returns whether a resource is a GPU or a part of one."""
    return resource in GPU_RESOURCES or resource.startswith(MIG_RESOURCES)
