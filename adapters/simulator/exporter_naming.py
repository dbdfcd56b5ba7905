"""Names series as real exporters write them: the inverse of reading recordings.

Names, units and selector labels come from the catalogue; this module defines how each exporter labels entities. An
exporter name is used if a reader maps it to that series only; otherwise the canonical name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

from skewscope.adapters.mapping.engines import identity_labels
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import MetricMapping, MetricResolver, build_index
from skewscope.adapters.simulator.exporters import EXPORTERS, SIGNALS_WITHOUT_EXPORTER, source_of
from skewscope.adapters.simulator.recording_writer import ExportedSeries, canonical_labels
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Topology
from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.model import Catalogue, Signal

GPU_MODEL = "NVIDIA H100 80GB HBM3"
SERVED_MODEL = "meta-llama/Llama-3.1-70B-Instruct"

Labels = dict[str, str]
NamedOrigin = tuple[str, MetricMapping]
"""A metric's name, and what it delivers."""


def name_series(keys: Iterable[SeriesKey], catalogue: Catalogue, topology: Topology) -> list[ExportedSeries]:
    """Returns each series under its exporter's name, or under its canonical name."""
    return list(map(ExporterNaming(catalogue, topology).name_one, keys))


class ExporterNaming:
    """Names the series of one topology as its exporters would."""

    def __init__(self, catalogue: Catalogue, topology: Topology) -> None:
        self._names = MetricResolver(catalogue, topology)
        self._topology = topology
        self._exporter_names = exporter_names(catalogue)

    def name_one(self, key: SeriesKey) -> ExportedSeries:
        """Returns a series under an exporter's name, or the canonical one if no exporter writes exactly this series."""
        *others, last = key.selector.split(",")
        part, _, bound = last.partition(":")
        if part not in {"bucket", "sum", "count"}:
            others, part, bound = [*others, last], "", ""
        for name, origin in self._exporter_names.get((key.signal, part), ()):
            if found := self._try_name(key, name, origin, _selector_labels(others, bound, origin)):
                return found
        return ExportedSeries(canonical_labels(key))

    def _try_name(
        self, key: SeriesKey, name: str, origin: MetricMapping, words: Labels | None
    ) -> ExportedSeries | None:
        """Returns the series under a name; None if a reader would map it to something else."""
        whom = ENTITY_LABELS[origin.exporter](self._topology, key)
        if words is None or not whom:
            return None
        labels = {**whom, **dict(origin.matchers), **words}
        try:
            read = self._names.resolve(name, labels, {})
        except UnmappedError:
            return None
        same = len(read) == 1 and _drop_identity(read[0].key, labels) == key
        return ExportedSeries({"signal": name, **labels}, read[0].scale, origin.exporter) if same else None


def _drop_identity(key: SeriesKey, labels: Labels) -> SeriesKey:
    """Returns a series of an engine without the labels that tell it from other engines."""
    own = {f"{label}={labels[label]}" for label in identity_labels(labels) if label in labels}
    parts = (part for part in key.selector.split(",") if key.kind != "replica" or part not in own)
    return replace(key, selector=",".join(parts))


@cache_latest
def exporter_names(catalogue: Catalogue) -> dict[tuple[str, str], list[NamedOrigin]]:
    """Returns the names that the simulated exporters use for each signal and histogram part, preferred first."""
    found: dict[tuple[str, str], list[NamedOrigin]] = {}
    for name, origins in build_index(catalogue).items():
        for origin in origins:
            signal = catalogue.signals[origin.signal]
            if origin.exporter in _exporters_of(signal) and origin.rank and _is_exporter_spelling(name, origin, signal):
                found.setdefault((signal.id, origin.part), []).append((name, origin))
    for key, some in found.items():
        turn = _exporters_of(catalogue.signals[key[0]])
        some.sort(key=lambda one: (turn.index(one[1].exporter), one[1].rank, one[0]))
    return found


def _exporters_of(signal: Signal) -> tuple[str, ...]:
    return () if signal.id in SIGNALS_WITHOUT_EXPORTER else EXPORTERS.get(source_of(signal.id), ())


def _is_exporter_spelling(name: str, origin: MetricMapping, signal: Signal) -> bool:
    """Returns whether a name is the exporter's own: the reader accepts counters with and without `_total`."""
    raw = [str(raw) for names in signal.sources.values() for raw in names][origin.rank - 1]
    own = raw.partition("{")[0].endswith("_total")
    return signal.type != "counter" or name.endswith("_total") == own


def _selector_labels(selector: list[str], bound: str, origin: MetricMapping) -> Labels | None:
    """Returns the labels of a selector, without those implied by the name; None on a contradiction."""
    rest = [word for word in selector if word]
    if origin.token:
        if origin.token not in rest:
            return None
        rest.remove(origin.token)
    if rest:
        return None
    return {"le": bound if bound == "+Inf" else repr(float(bound) / origin.scale)} if bound else {}


# --- entity labels


def _exporter_node(topology: Topology, key: SeriesKey) -> str:
    """Returns the node on which an entity's exporter runs."""
    if key.kind == "port":
        return topology.port[key.entity].node
    if key.kind in {"gpu", "node"}:
        return key.entity.rpartition("/gpu")[0] or key.entity
    if key.kind == "rank":
        return topology.node_of[key.entity.partition(":")[2]]
    return topology.group[key.entity].front_end if key.kind == "replica" else ""


def _port_device(topology: Topology, key: SeriesKey, place: int) -> str:
    """Returns the RDMA device (0) or the interface (1) of a port; of a node, those of its first port."""
    port = topology.port[key.entity] if key.kind == "port" else topology.node[key.entity].ports[0]
    return port.devices[place]


def _instance_labels(number: int) -> Callable[[Topology, SeriesKey], Labels]:
    """Returns a function for the instance label: address of the node and port of its exporter."""
    return lambda topology, key: {"instance": f"{_exporter_node(topology, key)}:{number}"}


def _device_labels(label: str, place: int, number: int) -> Callable[[Topology, SeriesKey], Labels]:
    """Returns a function for a device of a node, under the exporter's label."""

    def labels(topology: Topology, key: SeriesKey) -> Labels:
        return {label: _port_device(topology, key, place), **_instance_labels(number)(topology, key)}

    return labels


def _interface_labels(topology: Topology, key: SeriesKey) -> Labels:
    """Returns labels of node_exporter: an interface for a port, no device for a node."""
    return (
        _device_labels("device", 1, 9100)(topology, key)
        if key.kind == "port"
        else _instance_labels(9100)(topology, key)
    )


def _infiniband_labels(topology: Topology, key: SeriesKey) -> Labels:
    return {**_device_labels("device", 0, 9100)(topology, key), "port": "1"}


def _gpu_labels(topology: Topology, key: SeriesKey) -> Labels:
    number = key.entity.rpartition("/gpu")[2]
    return {
        "gpu": number,
        "UUID": f"GPU-{uuid5(NAMESPACE_DNS, key.entity)}",
        "device": f"nvidia{number}",
        "modelName": GPU_MODEL,
        "Hostname": _exporter_node(topology, key),
        **_instance_labels(9400)(topology, key),
    }


def _engine_labels(topology: Topology, key: SeriesKey) -> Labels:
    """Returns labels of an engine: its model, its address, and its node. `engine` would make it another series."""
    return {"model_name": SERVED_MODEL, "node": _exporter_node(topology, key), **_instance_labels(8000)(topology, key)}


def _member_labels(topology: Topology, key: SeriesKey) -> Labels:
    return {"hostname": _exporter_node(topology, key)}


def _pool_labels(_topology: Topology, key: SeriesKey) -> Labels:
    return {"name": key.entity}


ENTITY_LABELS: Mapping[str, Callable[[Topology, SeriesKey], Labels]] = {
    "dcgm": _gpu_labels,
    "dts_ethtool": _device_labels("device_name", 1, 9100),
    "dts_sysfs": _device_labels("device_name", 0, 9100),
    "ethtool": _device_labels("device", 1, 9100),
    "gie": _pool_labels,
    "nccl_inspector": _member_labels,
    "node_exporter": _interface_labels,
    "node_exporter_ib": _infiniband_labels,
    "vllm": _engine_labels,
}
"""Labels of an entity for each exporter: its own, and those that a scrape adds."""
