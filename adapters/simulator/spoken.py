"""Series as real exporters write them: how recordings are read, turned round.

Names, units and labels that tell series apart are the catalogue's; here stands only how each exporter spells whom it
tells of. A series is written so where a reader finds that series again and no other, under its canonical name else.
"""

from collections.abc import Callable, Iterable, Mapping
from uuid import NAMESPACE_DNS, uuid5

from skewscope.adapters.entities import Nowhere
from skewscope.adapters.names import Names, Origin, index
from skewscope.adapters.simulator.exporters import OTHERWISE, SPEAKERS, source_of
from skewscope.adapters.simulator.output import Spelled, labels_of
from skewscope.engine.feed import SeriesKey
from skewscope.engine.topology import Topology
from skewscope.kb.model import Catalogue, Signal

GPU_MODEL = "NVIDIA H100 80GB HBM3"
SERVED = "meta-llama/Llama-3.1-70B-Instruct"

Labels = dict[str, str]
Offer = tuple[str, Origin]
"""A metric's name, and what it delivers."""


def spoken(keys: Iterable[SeriesKey], catalogue: Catalogue, topology: Topology) -> list[Spelled]:
    """Each series as its exporter writes it, or under its canonical name."""
    return list(map(Speaker(catalogue, topology).spelled, keys))


class Speaker:
    """Writes the series of one topology in the names of the exporters that would deliver them."""

    def __init__(self, catalogue: Catalogue, topology: Topology) -> None:
        self._names = Names(catalogue, topology)
        self._topology = topology
        self._offers = offers(catalogue)

    def spelled(self, key: SeriesKey) -> Spelled:
        """A series as its exporter writes it, or canonical where none writes just that."""
        *others, last = key.selector.split(",")
        part, _, bound = last.partition(":")
        if part not in {"bucket", "sum", "count"}:
            others, part, bound = [*others, last], "", ""
        for name, origin in self._offers.get((key.signal, part), ()):
            if found := self._tried(key, name, origin, _words(others, bound, origin)):
                return found
        return Spelled(labels_of(key))

    def _tried(self, key: SeriesKey, name: str, origin: Origin, words: Labels | None) -> Spelled | None:
        """The series under a name, None where a reader would make something else of it."""
        whom = SPELLINGS[origin.exporter](self._topology, key)
        if words is None or not whom:
            return None
        labels = {**whom, **dict(origin.where), **words}
        try:
            read = self._names.resolve(name, labels, {})
        except Nowhere:
            return None
        same = len(read) == 1 and read[0].key == key
        return Spelled({"signal": name, **labels}, read[0].scale, origin.exporter) if same else None


def offers(catalogue: Catalogue) -> dict[tuple[str, str], list[Offer]]:
    """The names that the simulated exporters have for each signal and part of a histogram, the preferred one first."""
    found: dict[tuple[str, str], list[Offer]] = {}
    for name, origins in index(catalogue).items():
        for origin in origins:
            signal = catalogue.signals[origin.signal]
            if origin.exporter in _speakers(signal) and origin.rank and _as_written(name, origin, signal):
                found.setdefault((signal.id, origin.part), []).append((name, origin))
    for key, some in found.items():
        turn = _speakers(catalogue.signals[key[0]])
        some.sort(key=lambda one: (turn.index(one[1].exporter), one[1].rank, one[0]))
    return found


def _speakers(signal: Signal) -> tuple[str, ...]:
    return () if signal.id in OTHERWISE else SPEAKERS.get(source_of(signal.id), ())


def _as_written(name: str, origin: Origin, signal: Signal) -> bool:
    """Whether a name is the exporter's own: the reader also takes a counter with or without `_total` behind it."""
    raw = [str(raw) for names in signal.sources.values() for raw in names][origin.rank - 1]
    own = raw.partition("{")[0].endswith("_total")
    return signal.type != "counter" or name.endswith("_total") == own


def _words(selector: list[str], bound: str, origin: Origin) -> Labels | None:
    """The labels that a selector came from, without what the name says itself; None where it says something else."""
    rest = [word for word in selector if word]
    if origin.token:
        if origin.token not in rest:
            return None
        rest.remove(origin.token)
    if rest:
        return None
    return {"le": bound if bound == "+Inf" else repr(float(bound) / origin.scale)} if bound else {}


# --- whom an exporter tells of


def _host(topology: Topology, key: SeriesKey) -> str:
    """The node from which an entity's exporter is read."""
    if key.kind == "port":
        return topology.port[key.entity].node
    if key.kind in {"gpu", "node"}:
        return key.entity.rpartition("/gpu")[0] or key.entity
    if key.kind == "rank":
        return topology.node_of[key.entity.partition(":")[2]]
    return topology.group[key.entity].front_end if key.kind == "replica" else ""


def _device(topology: Topology, key: SeriesKey, place: int) -> str:
    """The RDMA device (0) or the interface (1) of a port; of a node, those of its first port."""
    port = topology.port[key.entity] if key.kind == "port" else topology.node[key.entity].ports[0]
    return port.devices[place]


def _at(number: int) -> Callable[[Topology, SeriesKey], Labels]:
    """The address that a scrape adds, of a node and of what its exporter listens on."""
    return lambda topology, key: {"instance": f"{_host(topology, key)}:{number}"}


def _on(label: str, place: int, number: int) -> Callable[[Topology, SeriesKey], Labels]:
    """A device of a node, under the label that the exporter has for it."""

    def labels(topology: Topology, key: SeriesKey) -> Labels:
        return {label: _device(topology, key, place), **_at(number)(topology, key)}

    return labels


def _interface(topology: Topology, key: SeriesKey) -> Labels:
    """What node_exporter tells of ports is of an interface, of nodes of no device."""
    return _on("device", 1, 9100)(topology, key) if key.kind == "port" else _at(9100)(topology, key)


def _infiniband(topology: Topology, key: SeriesKey) -> Labels:
    return {**_on("device", 0, 9100)(topology, key), "port": "1"}


def _gpu(topology: Topology, key: SeriesKey) -> Labels:
    number = key.entity.rpartition("/gpu")[2]
    return {
        "gpu": number,
        "UUID": f"GPU-{uuid5(NAMESPACE_DNS, key.entity)}",
        "device": f"nvidia{number}",
        "modelName": GPU_MODEL,
        "Hostname": _host(topology, key),
        **_at(9400)(topology, key),
    }


def _engine(topology: Topology, key: SeriesKey) -> Labels:
    """An engine names its model; the node of its pod is added by the scrape. With `engine` it were another series."""
    return {"model_name": SERVED, "node": _host(topology, key)}


def _member(topology: Topology, key: SeriesKey) -> Labels:
    return {"hostname": _host(topology, key)}


def _pool(_topology: Topology, key: SeriesKey) -> Labels:
    return {"name": key.entity}


SPELLINGS: Mapping[str, Callable[[Topology, SeriesKey], Labels]] = {
    "dcgm": _gpu,
    "dts_ethtool": _on("device_name", 1, 9100),
    "dts_sysfs": _on("device_name", 0, 9100),
    "ethtool": _on("device", 1, 9100),
    "gie": _pool,
    "nccl_inspector": _member,
    "node_exporter": _interface,
    "node_exporter_ib": _infiniband,
    "vllm": _engine,
}
"""Who an entity is, in the labels of each exporter: its own, and those that a scrape adds."""
