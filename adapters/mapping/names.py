"""Maps a metric's name and labels to series of the catalogue on entities of the topology.

Unmapped metrics are counted with the reason, for reports. Exporters differ in names, units and labels; this module
hides the differences.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from skewscope.adapters.formats.openmetrics import SeriesTarget
from skewscope.adapters.formats.openmetrics_grammar import Labels
from skewscope.adapters.mapping.engines import identity_labels, subject_labels
from skewscope.adapters.mapping.entities import (
    DEVICE_LABELS,
    GPU_LABELS,
    NODE_LABELS,
    UUID_LABELS,
    EntityResolver,
    LabelReader,
    UnmappedError,
)
from skewscope.adapters.mapping.name_mapping import NameMapping, TranslatedSeries, mapping_of_site
from skewscope.adapters.mapping.scales import implied_scale
from skewscope.engine.ingest.feed import SeriesKey, SeriesTable
from skewscope.engine.model.topology import Topology
from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.model import EVENT_PREFIX, Catalogue, Signal
from skewscope.kb.problems import suggest_name

# Exporters whose names in the catalogue are metric names. The others are tools and kernel interfaces.
PAGE_EXPORTERS = frozenset(
    (
        *(
            "amd_dme",
            "cumulus_otlp",
            "dcgm",
            "dts_ethtool",
            "dts_sysfs",
            "dynamo",
            "gie",
            "kernel_log",
            "kserve",
            "llamacpp",
            "llm_d",
            "lmdeploy",
        ),
        *("efa_exporter", "gaudi_exporter", "kube_state_metrics", "prometheus"),
        *("nccl_inspector", "node_exporter", "node_exporter_ib", "node_problem_detector", "nvidia_smi_exporter"),
        *("omnistat", "sglang", "skewscope_agent", "telegraf", "tgi", "tpu_device_plugin", "triton", "trtllm_serve"),
        "vllm",
    )
)
BY_WORKLOAD = frozenset(("amd_dme", "dcgm", "gaudi_exporter", "kube_state_metrics", "prometheus"))
"""Exporters that see an engine from outside: its pod or its address names it."""
# A name that several signals claim serves them all; a signal that several names deliver is taken from the name of
# the lowest rank. What was counted from packets ranks before any name.
PACKET_RANK, CANONICAL_RANK = -1, 0

NAME_PATTERN = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>[^{}]*)\})?(?:\[(?P<part>bucket|sum|count|plus)\])?"
)
"""A metric, perhaps with labels, and perhaps the part of a histogram that it is by another name, or that it adds to the
names before."""
PLACEHOLDER = re.compile(r"<([PN])>")
PLACEHOLDER_VALUES = {"P": range(8), "N": range(256)}
HISTOGRAM_PARTS = ("bucket", "sum", "count")
MAX_UNMAPPED = 10_000
MAX_GPUS = 1024
"""Limit on the GPUs that one page identifies by UUID."""

WORKLOAD_LABELS = ("pod", "namespace", "container")
"""Labels of a scrape target, and of the pod that a series of an exporter is about."""

# Labels of the scrape target, or redundant ones; they do not distinguish series.
ORIGIN_LABELS = frozenset(
    (
        *("job", *NODE_LABELS[:-1], "node", "endpoint", "namespace", "pod", "container", "service", "cluster"),
        # Whose GPU it is at present; the series of a GPU goes on with the next pod.
        *(f"exported_{label}" for label in WORKLOAD_LABELS),
        *("prometheus", "UUID", "uuid", "GPU_UUID", "pci_bus_id", "pciBusId", "modelName", "model_name"),
        *(
            "serial",
            "serial_number",
            "SERIAL_NUMBER",
            "card_model",
            "card_series",
            "card_vendor",
            "pstate",
            "compute_mode",
        ),
        *("driver_version", "deployment_mode", *DEVICE_LABELS, *GPU_LABELS),
    )
)
SCRAPE_LABELS = frozenset(("job", "node", "endpoint", "prometheus", "instance", *NODE_LABELS))
"""Those of the scrape target alone."""
DIRECTIONS = {"tx": "tx", "rx": "rx", "transmit": "tx", "receive": "rx", "out": "tx", "in": "rx"}


class MetricMapping(NamedTuple):
    """A metric name that delivers a signal."""

    signal: str
    entity_word: str
    """The catalogue's word for the measured object."""
    rank: int
    """Rank among the names that deliver this signal: the lowest that is present counts."""
    scale: float
    exporter: str
    token: str = ""
    """What the name itself says of the selector: a priority, a lane."""
    part: str = ""
    """bucket, sum or count of a histogram."""
    matchers: tuple[tuple[str, str], ...] = ()
    """Labels that the series must have."""

    @property
    def is_from_outside(self) -> bool:
        """Whether it is about an engine and another exporter delivers it, which names its pod or address."""
        return self.entity_word == "engine" and self.exporter in BY_WORKLOAD


class MappedSeries(NamedTuple):
    """One series of the catalogue, and how the numbers of its source become its own."""

    key: SeriesKey
    rank: int
    scale: float
    has_blanks: bool


@dataclass(frozen=True, slots=True, order=True)
class UnmappedMetric:
    """Number of unmapped series of one metric, with the reason."""

    metric: str
    reason: str
    count: int
    """Number of series."""


@dataclass
class SeriesRegistry(SeriesTable):
    """Series table with the rank of each series' metric name; a series may occur with several ranks."""

    ranks: list[int] = field(default_factory=list)
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    """Warnings about the input."""
    _rank_numbers: dict[tuple[SeriesKey, int, Hashable], int] = field(default_factory=dict)

    def number(self, key: SeriesKey) -> int:
        """Returns the number of a series that was reduced from packets."""
        return self.register(key, PACKET_RANK)

    def register(self, key: SeriesKey, rank: int, seen: Hashable = None) -> int:
        """Returns the number of a series with a rank, and with what else tells its numbers apart."""
        found = self._rank_numbers.get((key, rank, seen))
        if found is None:
            found = self._rank_numbers[key, rank, seen] = len(self.keys)
            self.keys.append(key)
            self.ranks.append(rank)
        return found

    def ignore(self, metric: str, reason: str) -> None:
        """Counts an unmapped series."""
        known = (metric, reason) in self.unmapped or len(self.unmapped) < MAX_UNMAPPED
        self.unmapped[(metric, reason) if known else ("...", "further metrics")] += 1


AdmitSeries = Callable[[SeriesKey, Mapping[str, str]], bool]
"""Returns whether a series with these labels may be delivered."""
SeriesWitness = Callable[[str, Mapping[str, str], Mapping[str, str], frozenset[str]], Hashable]
"""Returns what a series says of who there is, by its metric, its own labels, those of its target, and the catalogue's
words for what it measures; None where it says nothing."""
UP_METRIC = "up"
"""What a Prometheus server and a scraping source say of each target: that it is listed, and whether it answers."""
HELPER_METRICS = ("node_uname_info", "kube_pod_info")
"""Metrics that deliver no signal but tie names of hosts and pods together."""
UNPLACED = SeriesKey("", "", "", "")
"""The key of series without a place, which are delivered for what they say of who there is."""


class MetricResolver:
    """Resolves metric names of one catalogue for one topology.

    Names of a mapping file come first, then those of the mapping of a site.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        topology: Topology,
        mapping: NameMapping | None = None,
        witness: SeriesWitness | None = None,
    ) -> None:
        self._mappings = build_index(catalogue)
        self._name_mapping = (mapping or NameMapping()).extend(mapping_of_site(catalogue))
        self._witness = witness
        self._entity_resolver = EntityResolver(topology)
        self._signal_ids = tuple(catalogue.signals)
        self._histograms = frozenset(s.id for s in catalogue.signals.values() if s.type == "histogram")

    @property
    def metrics(self) -> Collection[str]:
        """All metric names that deliver a signal."""
        return self._mappings.keys()

    @property
    def witness_metrics(self) -> tuple[str, ...]:
        """Metrics that are wanted for what their labels say of who there is."""
        return (UP_METRIC, *HELPER_METRICS) if self._witness is not None else ()

    def origins(self, metric: str) -> tuple[MetricMapping, ...]:
        """Returns the signals that a name of the catalogue delivers."""
        return self._mappings.get(metric, ())

    def find_signals(self, metric: str) -> frozenset[str]:
        """Returns the signals that a name of the mapping file or of the catalogue, or a signal's id, may deliver."""
        origins = self.origins(metric) or self.origins(self.metric_name(metric, {}))
        return self._name_mapping.find_signals(metric) | frozenset(origin.signal for origin in origins)

    def is_mapped(self, metric: str) -> bool:
        """Returns whether the mapping file has a metric's name; its labels decide."""
        return self._name_mapping.may_map(metric)

    @property
    def read_labels(self) -> frozenset[str]:
        """The labels that rules of the mapping file read."""
        return self._name_mapping.label_names

    def translate(self, metric: str, labels: Mapping[str, str]) -> TranslatedSeries:
        """Returns a series under the names that the mapping file gives it, unchanged where it gives none."""
        return self._name_mapping.translate(metric, labels) or TranslatedSeries(metric, subject_labels(labels))

    def find_node(self, host: str) -> str:
        """Returns the node of a host name or address; '' for none."""
        try:
            return self._entity_resolver.node(LabelReader({"host": host})).name
        except UnmappedError:
            return ""

    def resolve(self, metric: str, labels: Mapping[str, str], static: Mapping[str, str]) -> list[MappedSeries]:
        """Returns the series that a metric with its labels maps to; `static` labels of the input take precedence.

        Raises:
            UnmappedError: there is none; the text says why.
        """
        if found := self._name_mapping.translate(metric, {**labels, **static}):
            own = {label: value for label, value in found.labels.items() if label not in static}
            scaled = [origin._replace(scale=found.scale) for origin in self.origins(found.metric)]
            return self._map_all(scaled, own, found.labels)
        origins = self._mappings.get(metric, ())
        if not origins:
            raise UnmappedError("no signal of the catalogue has this name")
        every = subject_labels({**labels, **static})
        labels = subject_labels(labels)
        fitting = [o for o in origins if all(every.get(label) == value for label, value in o.matchers)]
        if not fitting:
            raise UnmappedError("no signal of the catalogue has these labels")
        return self._map_all(fitting, labels, every)

    def _map_all(
        self, origins: Sequence[MetricMapping], labels: Mapping[str, str], every: Mapping[str, str]
    ) -> list[MappedSeries]:
        found = [self._map_series(origin, labels, every) for origin in origins if not origin.is_from_outside]
        outside = [origin for origin in origins if origin.is_from_outside]
        try:
            return found + [self._map_from_outside(origin, labels, every) for origin in outside]
        except UnmappedError:
            if found:
                return found  # a GPU need not be used by an engine
            raise

    def _map_from_outside(
        self, origin: MetricMapping, labels: Mapping[str, str], every: Mapping[str, str]
    ) -> MappedSeries:
        """Returns the series of an engine that another exporter names by its pod or address."""
        name = self._entity_resolver.workload(every)
        gpu = next((every[label] for label in (*GPU_LABELS, *UUID_LABELS) if every.get(label)), "")
        used = {"exported_pod", "exported_container", "exported_namespace", *(label for label, _ in origin.matchers)}
        own = {label: value for label, value in labels.items() if label not in used}
        selector = f"gpu{gpu.removeprefix('gpu')}" if gpu else build_selector(origin, "replica", own, every)
        return MappedSeries(SeriesKey(origin.signal, "replica", name, selector), origin.rank, origin.scale, False)

    def _map_series(self, origin: MetricMapping, labels: Mapping[str, str], every: Mapping[str, str]) -> MappedSeries:
        kind, name, used = self._entity_resolver.resolve(origin.entity_word, every)
        scale = 1.0 if origin.part in ("bucket", "count") else origin.scale
        if not origin.signal.startswith(EVENT_PREFIX):
            # What an event says may come as several series at once, as that a node is not ready, and that it is silent.
            used = used | {label for label, _ in origin.matchers}
        if kind == "replica":
            # Several engines may run on one node: their address, pod or model distinguishes them.
            identifying = {label: every.get(label, "") for label in identity_labels(every)}
            labels = {label: value for label, value in {**labels, **identifying}.items() if value}
            used = used - identifying.keys()
        own = {label: value for label, value in labels.items() if label not in used}
        key = SeriesKey(origin.signal, kind, name, build_selector(origin, kind, own, every))
        return MappedSeries(key, origin.rank, scale, origin.exporter == "dcgm")

    def target_lookup(
        self,
        static: Mapping[str, str],
        registry: SeriesRegistry,
        *,
        yielding: bool = False,
        admit: "AdmitSeries | None" = None,
    ) -> Callable[[str, Labels], list[SeriesTarget]]:
        """Returns a function from a metric name and labels to targets in `registry`; unmapped series have none.

        Args:
            static: labels of all series of the input.
            registry: assigns numbers to series.
            yielding: whether the labels of a series take precedence over `static`.
            admit: decides whether a series may be delivered; None: all may.
        """
        cards: dict[str, str] = {}

        def targets(metric: str, labels: Labels) -> list[SeriesTarget]:
            own = dict(labels)
            given = {name: value for name, value in static.items() if name not in own} if yielding else static
            _resolve_gpu_uuid(own, cards)
            _keep_workload(own, given)
            seen = self._see(metric, own, given)
            try:
                mapped = self.resolve(metric, own, given)
            except UnmappedError as reason:
                # What is said from outside of pods that are no engines lacks nothing.
                if not metric.endswith("_created") and not self._is_from_outside(metric):
                    registry.ignore(metric, str(reason))
                return [] if seen is None else [SeriesTarget(registry.register(UNPLACED, CANONICAL_RANK, seen))]
            if admit is not None:
                every = {**own, **given}
                mapped = [m for m in mapped if admit(m.key, every)]
            return [SeriesTarget(registry.register(m.key, m.rank, seen), m.scale, m.has_blanks) for m in mapped]

        return targets

    def _is_from_outside(self, metric: str) -> bool:
        origins = self.origins(metric)
        return bool(origins) and all(origin.is_from_outside for origin in origins)

    def _see(self, metric: str, own: Mapping[str, str], given: Mapping[str, str]) -> Hashable:
        if self._witness is None:
            return None
        words = frozenset(origin.entity_word for origin in self.origins(metric) if not origin.is_from_outside)
        return self._witness(metric, own, given, words)

    def metric_name(self, signal: str, labels: Mapping[str, str]) -> str:
        """Returns the metric name of a signal in a table: a signal id maps to its canonical name."""
        if "." not in signal or self._name_mapping.translate(signal, labels):
            return signal
        bucket = signal in self._histograms and "le" in labels
        name = "skewscope_" + signal.replace(".", "_") + ("_bucket" if bucket else "")
        return name if name in self._mappings else signal

    def suggest(self, signal: str) -> str:
        """Returns a hint with the closest signal id."""
        return suggest_name(signal, self._signal_ids)


def _resolve_gpu_uuid(labels: dict[str, str], cards: dict[str, str]) -> None:
    """Adds the index of a GPU that is named by UUID only, once a series with both was seen."""
    uuid = next((labels[name] for name in UUID_LABELS if labels.get(name)), "")
    if not uuid or any(name in labels for name in GPU_LABELS):
        return
    if number := labels.get("index"):
        if len(cards) < MAX_GPUS:
            cards[uuid] = number
    elif uuid in cards:
        labels["gpu"] = cards[uuid]


def _keep_workload(labels: dict[str, str], given: Mapping[str, str]) -> None:
    """Renames the labels of a pod that a series is about where the target has its own, as a Prometheus server does."""
    for label in WORKLOAD_LABELS:
        if label in given and label in labels:
            labels[f"exported_{label}"] = labels.pop(label)


def build_selector(origin: MetricMapping, kind: str, own: Mapping[str, str], every: Mapping[str, str]) -> str:
    """Returns the selector of a series: parts joined by commas, a histogram's part last."""
    rest = dict(own)
    direction = DIRECTIONS.get(rest.get("direction", ""), "")
    parts = [origin.token]
    if direction:
        rest.pop("direction")
        parts.append(direction)
    for label, start in (("priority", "p"), ("prio", "p"), ("group", ""), ("engine", ""), ("cpu", "cpu")):
        if value := rest.pop(label, ""):
            parts.append(_escape(value if value.startswith(start) else start + value))
    bound = rest.pop("le", "")
    # Of a number that is known by its name only, any label may tell its series apart.
    ignored = SCRAPE_LABELS if "metric" in rest else ORIGIN_LABELS | {"instance"}
    ignored -= identity_labels(every) if kind == "replica" else frozenset()
    parts += [
        _escape(f"{label}={value}")
        for label, value in sorted(rest.items())
        if label not in ignored and not label.startswith("DCGM_FI_")
    ]
    parts.append(_histogram_selector(origin, bound or every.get("le", "")))
    return ",".join(filter(None, parts))


def _histogram_selector(origin: MetricMapping, bound: str) -> str:
    if origin.part != "bucket":
        return origin.part
    try:
        limit = float(bound) * origin.scale
    except ValueError:
        raise UnmappedError("its label le is no number") from None
    if math.isnan(limit):
        raise UnmappedError("its label le is no number")
    return "bucket:+Inf" if limit == math.inf else f"bucket:{limit:.12g}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace(",", "%2C")


@cache_latest
def build_index(catalogue: Catalogue) -> Mapping[str, tuple[MetricMapping, ...]]:
    """Returns all metric names of the catalogue with the signals that they deliver."""
    exact: dict[str, list[MetricMapping]] = {}
    loose: dict[str, list[MetricMapping]] = {}
    for signal in sorted(catalogue.signals.values(), key=lambda signal: signal.id):
        for name, origin in _signal_mappings(signal):
            exact.setdefault(name, []).append(origin)
            # OpenMetrics appends _total to counters; exporters do not always.
            if signal.type == "counter":
                other = name.removesuffix("_total") if name.endswith("_total") else name + "_total"
                loose.setdefault(other, []).append(origin)
            # Others than node_exporter leave the keys of ethtool as they are.
            if name.startswith("node_ethtool_"):
                plain = name.replace("_received", "_rx").replace("_transmitted", "_tx")
                loose.setdefault(plain, []).append(origin)
    return {name: tuple(origins) for name, origins in {**loose, **exact}.items()}


def signals_from_outside(catalogue: Catalogue) -> frozenset[str]:
    """Returns the signals of engines that only other exporters deliver."""
    return frozenset(
        signal.id
        for signal in catalogue.signals.values()
        if signal.entity == "engine" and signal.sources and signal.sources.keys() <= BY_WORKLOAD
    )


def _signal_mappings(signal: Signal) -> Iterator[tuple[str, MetricMapping]]:
    """Yields the metric names of one signal, the canonical one first."""
    seen = {signal.metric}
    yield from _expand_histogram(
        signal.metric, MetricMapping(signal.id, signal.entity, CANONICAL_RANK, 1.0, "skewscope_agent"), signal
    )
    rank = CANONICAL_RANK
    for exporter, names in signal.sources.items():
        for raw in names:
            # Whoever reports an event: none of them stands for the others. Parts of a histogram with names of their own
            # are one histogram.
            rank += not (signal.id.startswith(EVENT_PREFIX) or str(raw).endswith(("[count]", "[plus]")))
            written = (
                ethtool_metric(str(raw)) if exporter == "ethtool" else str(raw) if exporter in PAGE_EXPORTERS else ""
            )
            if written in seen:
                continue
            seen.add(written)
            for name, token in expand_placeholder(written, signal):
                yield from _name_mappings(name, token, rank, exporter, signal)


def _name_mappings(
    name: str, token: str, rank: int, exporter: str, signal: Signal
) -> Iterator[tuple[str, MetricMapping]]:
    match = NAME_PATTERN.fullmatch(name)
    if match is None:
        # A remark, not a metric name.
        return
    where = tuple(_parse_matcher(text) for text in (match["labels"] or "").split(",") if text)
    scale = signal.scale.get(exporter, implied_scale(match["name"], signal.unit))
    origin = MetricMapping(signal.id, signal.entity, rank, scale, exporter, token, "", where)
    if match["part"] == "plus":
        yield match["name"], origin._replace(token=match["name"].rpartition(":")[2])
        return
    if part := match["part"]:
        yield match["name"], origin._replace(part=part, scale=scale if part == "sum" else 1.0)
        return
    yield from _expand_histogram(match["name"], origin, signal)


def _parse_matcher(text: str) -> tuple[str, str]:
    label, _, value = text.partition("=")
    return label.strip(), value.strip().strip('"')


def _expand_histogram(name: str, origin: MetricMapping, signal: Signal) -> Iterator[tuple[str, MetricMapping]]:
    """Yields the parts of a histogram; its bare name is another metric (a mean, a sum in other units)."""
    if signal.type != "histogram":
        yield name, origin
        return
    for part in HISTOGRAM_PARTS:
        yield f"{name}_{part}", origin._replace(part=part)


def expand_placeholder(name: str, signal: Signal) -> Iterator[tuple[str, str]]:
    """Yields a name per value of its placeholder, with the part of the selector that it stands for."""
    match = PLACEHOLDER.search(name)
    if match is None:
        yield name, ""
        return
    start = "p" if match[1] == "P" else "" if signal.entity == "port" else signal.entity
    for value in PLACEHOLDER_VALUES[match[1]]:
        yield name[: match.start()] + str(value) + name[match.end() :], f"{start}{value}"


def ethtool_metric(key: str) -> str:
    """Returns the metric name that node_exporter derives from a key of ethtool."""
    words = {"rx": "received", "tx": "transmitted"}
    return "node_ethtool_" + "_".join(words.get(word, word) for word in key.split("_"))
