"""Writes a recording under pseudonyms: the same samples, replayed to the same incidents, without an original name.

Samples are written as series of the catalogue on entities, so that names and labels of the origin are not needed: what
is not mapped, addresses, devices, UUIDs and labels of engines are left out. Pseudonyms are numbers in the order of the
original names, so the same data always get the same ones, and every order of names stays. Times and values stay.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.inputs.draft_recording import DraftRecording, check_new_folder, write_description
from skewscope.adapters.inputs.recording import Recording, load, open_recording
from skewscope.adapters.runtime.pace import choose_tick
from skewscope.engine.engine import TICK_S
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.kb.loader import catalogue

SAMPLES_FILE = "samples.parquet"
TABLE_SERIES = 50_000
"""Series of one table of the file."""
PLAIN_TOKEN = re.compile(r"|tx|rx|sum|count|bucket:.*|(?:p|cpu|lane|queue|prio)?\d{1,6}")
"""Parts of a selector that hold no name."""


@dataclass
class Pseudonyms:
    """New names of everything in a topology, and of texts in selectors."""

    topology: Topology
    texts: Mapping[str, str] = field(default_factory=dict)
    """By the original value of a selector's label."""

    def __post_init__(self) -> None:
        nodes, groups = self.topology.nodes, self.topology.groups
        self.nodes = _number_names("node", (node.name for node in nodes))
        self.racks = _number_names("rack", (node.rack for node in nodes if node.rack))
        self.ports = _number_names("port", (port.name for port in self.topology.port.values()))
        self.switches = _number_names("switch", (p.switch for p in self.topology.port.values() if p.switch))
        self.groups = _number_names("group", (group.name for group in groups))
        self.pools = _number_names("pool", (pool.name for pool in self.topology.pools))
        self._by_kind: dict[str, Callable[[str], str]] = {
            "node": lambda name: self.nodes.get(name, "unknown"),
            "port": self.port,
            "gpu": self.member,
            "rank": self._rank,
            "group": lambda name: self.groups.get(name, "unknown"),
            "replica": lambda name: self.groups.get(name, "unknown"),
            "pool": lambda name: self.pools.get(name, "unknown"),
            "peer": lambda name: ">".join(self._end(end) for end in name.split(">")),
            "link": self._link,
        }
        pairs = (sorted((port.id, port.peer)) for port in self.topology.port.values() if port.peer)
        self._links = {"--".join(pair): pair for pair in pairs}

    def port(self, name: str) -> str:
        """Returns the new name of `node/port`."""
        port = self.topology.port.get(name)
        return f"{self.nodes[port.node]}/{self.ports[port.name]}" if port else "unknown"

    def member(self, name: str) -> str:
        """Returns the new name of a node or `node/gpuN`."""
        if name in self.nodes:
            return self.nodes[name]
        node, slash, gpu = name.rpartition("/")
        return f"{self.nodes.get(node, 'unknown')}{slash}{gpu}" if re.fullmatch(r"gpu\d+", gpu) else "unknown"

    def _rank(self, name: str) -> str:
        group, _, member = name.partition(":")
        return f"{self.groups.get(group, 'unknown')}:{self.member(member)}"

    def _link(self, name: str) -> str:
        """Returns the new name of a link, or of the port that stands for one."""
        pair = self._links.get(name)
        return "--".join(sorted(map(self.port, pair))) if pair else self.port(name)

    def _end(self, name: str) -> str:
        return self.port(name) if name in self.topology.port else self.member(name)

    def series_key(self, key: SeriesKey) -> SeriesKey:
        """Returns the key of a series under the new names."""
        rename = self._by_kind.get(key.kind)
        entity = rename(key.entity) if rename else key.entity
        parts = (self._part(part) for part in key.selector.split(","))
        return SeriesKey(key.signal, key.kind, entity, ",".join(parts))

    def _part(self, part: str) -> str:
        """Returns a part of a selector: a label with its value, or a bare text, such as the name of a group."""
        label, mark, value = part.partition("=")
        if mark:
            return f"{label}={self._text(value)}"
        return part if PLAIN_TOKEN.fullmatch(part) and part not in self.groups else self._text(part)

    def _text(self, value: str) -> str:
        """Returns the new name of an entity, or the pseudonym of another text."""
        for names in (self.groups, self.nodes, self.pools):
            if value in names:
                return names[value]
        return self.port(value) if value in self.topology.port else self.texts.get(value, "text")

    def renamed_topology(self) -> Topology:
        """Returns the topology under the new names, without addresses, devices and labels of engines."""
        return Topology(
            tuple(self._node(node) for node in self.topology.nodes),
            tuple(self._group(group) for group in self.topology.groups),
            tuple(
                Pool(self.pools[pool.name], tuple(self.groups[name] for name in pool.replicas))
                for pool in self.topology.pools
            ),
        )

    def _node(self, node: Node) -> Node:
        name = self.nodes[node.name]
        ports = tuple(
            Port(
                name,
                self.ports[port.name],
                port.network,
                port.speed,
                switch=self.switches.get(port.switch, ""),
                peer=self.port(port.peer) if port.peer else "",
            )
            for port in node.ports
        )
        return Node(name, self.racks.get(node.rack, ""), node.gpus, node.sees, ports, node.fleet)

    def _group(self, group: Group) -> Group:
        members = tuple(map(self.member, group.members))
        return Group(self.groups[group.name], group.kind, members, self.nodes.get(group.front_end, ""))


def redact_recording(draft: DraftRecording, folder: Path) -> DraftRecording:
    """Writes a recording under pseudonyms to a new folder and returns it.

    Raises:
        InputError: the folder exists, or the recording cannot be read.
    """
    check_new_folder(folder)
    loaded = load(draft.recording, catalogue(), None, None)
    topology = draft.recording.topology
    names = Pseudonyms(topology, _selector_texts(loaded.table))
    renamed = SeriesTable()
    for key in loaded.table.keys:
        renamed.number(names.series_key(key))
    folder.mkdir(parents=True, exist_ok=True)
    _write_samples(loaded.block, renamed.keys, folder / SAMPLES_FILE)
    text = format_topology(names.renamed_topology())
    given = draft.recording
    tick = given.tick or choose_tick(loaded.samples.tick_numbers(TICK_S), loaded.table)
    bare = Recording(folder, Topology(), (), given.start, given.end, tick=tick)
    write_description(folder, text, [{"kind": "parquet", "path": SAMPLES_FILE}], bare)
    return DraftRecording(open_recording(folder), text, ())


def _number_names(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Returns a pseudonym for each name: its number in their order, with leading zeros."""
    found = sorted(set(names))
    digits = len(str(len(found)))
    return {name: f"{kind}-{number:0{digits}d}" for number, name in enumerate(found, 1)}


def _selector_texts(table: SeriesTable) -> dict[str, str]:
    """Returns a pseudonym for each text in the selectors of series."""
    parts = {part for key in table.keys for part in key.selector.split(",")}
    return _number_names("text", (part.partition("=")[2] or part for part in parts if not PLAIN_TOKEN.fullmatch(part)))


def _write_samples(block: Block, keys: list[SeriesKey], path: Path) -> None:
    """Writes samples in the layout of a controller's files: a row for each time, with its series and values."""
    import pyarrow as pa  # noqa: PLC0415 - needed for tables only
    import pyarrow.parquet as pq  # noqa: PLC0415

    series, tables = block.series % TABLE_SERIES, block.series // TABLE_SERIES
    new = np.ones(len(block), bool)
    new[1:] = (np.diff(block.time) != 0) | (np.diff(tables) != 0)
    starts = np.flatnonzero(new)
    first_time = float(block.time[0]) if len(block) else 0.0
    announced = [keys[n : n + TABLE_SERIES] for n in range(0, len(keys), TABLE_SERIES)]
    schema = _schema(pa)
    head = {
        "time": [first_time] * len(announced),
        "table": list(range(len(announced))),
        "first": [0] * len(announced),
        "series": [_series_text(some) for some in announced],
        "numbers": [None] * len(announced),
        "values": [None] * len(announced),
    }
    offsets = pa.array(np.append(starts, len(block)).astype(np.int32))
    nothing: list[Any] = [None] * len(starts)
    body = {
        "time": block.time[starts],
        "table": tables[starts].astype(np.int32),
        "first": nothing,
        "series": nothing,
        "numbers": pa.ListArray.from_arrays(offsets, pa.array(series.astype(np.int32))),
        "values": pa.ListArray.from_arrays(offsets, pa.array(block.value)),
    }
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        writer.write_table(pa.table(head, schema=schema))
        if len(starts):
            writer.write_table(pa.table(body, schema=schema))


def _series_text(keys: list[SeriesKey]) -> str:
    return json.dumps([[key.signal, key.kind, key.entity, key.selector, 0] for key in keys])


def _schema(pa: Any) -> Any:
    """Returns the schema of such a file."""
    lists = [("numbers", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
    return pa.schema(
        [("time", pa.float64()), ("table", pa.int32()), ("first", pa.int32()), ("series", pa.string()), *lists]
    )
