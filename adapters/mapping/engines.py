"""Tells whether several serving engines report under one replica, in which case none of them is attributed to it.

Signals of which an engine has one series each are watched. Two of their series that differ in what identifies an
engine, and whose samples overlap in time, are of two engines; one that follows another is the same engine restarted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skewscope.engine.ingest.feed import Block, SeriesKey
from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue

WATCHED_SIGNALS = frozenset(("serve.running", "serve.waiting", "serve.kv_usage"))
"""Signals of which each engine, or each of its ranks, has one series."""
LOOSE_LABELS = ("model_name", "service", "container", "job", "exported_instance")
"""Labels that tell engines apart where neither an instance with a port nor a pod does."""
PART_LABELS = frozenset(
    (
        *("engine_type", "engine_index", "dp_rank", "tp_rank", "pp_rank", "cp_rank", "moe_ep_rank", "rank", "model"),
        *("dynamo_component", "dynamo_endpoint", "dynamo_namespace", "request_type", "kv_cache_block_type", "version"),
    )
)
"""Labels by which series of one engine differ."""
MIN_STEPS, MAX_FALLS = 8, 0.25
"""A counter of so many steps falls in no more than this share of them: a restart is one fall."""
FORGET_STEPS = 64
"""Steps of a live counter after which earlier ones count half."""
SEVERAL_ENGINES = "several engines report for its replica"
EQUAL_LABELS = "two engines seem to have equal labels"
"""Why series of engines are not used, for counts of series."""
RELEASE_S = 300.0
"""Seconds of silence after which an engine is gone: as long as Prometheus returns an old sample."""
ONE_ENGINE_KINDS = frozenset(("tensor-parallel", "pipeline-parallel"))
"""Kinds of groups that are one engine; in others each member may be one."""
PORT = re.compile(r":\d{1,5}(/|$)")

Identity = tuple[str, ...]
"""The parts `label=value` of a selector that identify an engine."""


class EnginePlace(NamedTuple):
    """Where one engine has one series: a replica, a watched signal, and the rest of the selector."""

    replica: str
    signal: str
    rest: Identity


class EngineSpan(NamedTuple):
    """First and last sample of an engine at a place, seconds since 1970."""

    first: float
    last: float


SERVER_POD = "model_server_pod"
"""Label of what a picker of endpoints says of a pod that it routes to."""
REPORTER_LABELS = frozenset(("instance", "pod", SERVER_POD))


def subject_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the labels of what a series is about: where a router reports a pod, that pod and not the router."""
    pod = labels.get(SERVER_POD)
    if not pod:
        return labels
    others = {name: value for name, value in labels.items() if name not in REPORTER_LABELS}
    return {**others, "pod": pod, "instance": pod}


def identity_labels(labels: Mapping[str, str]) -> frozenset[str]:
    """Returns the labels of a series that identify its engine: an instance with a port, else a pod, else others."""
    if PORT.search(labels.get("instance", "")):
        return frozenset(("instance",))
    if labels.get("pod"):
        return frozenset(("pod",))
    return frozenset(("instance", *LOOSE_LABELS))


def split_key(key: SeriesKey) -> tuple[EnginePlace, Identity] | None:
    """Returns place and identity of a watched series of an engine; None for others."""
    if key.kind != "replica" or key.signal not in WATCHED_SIGNALS:
        return None
    parts = key.selector.split(",") if key.selector else []
    labels = dict(part.partition("=")[::2] for part in parts if "=" in part)
    names = {"instance", "pod", *LOOSE_LABELS}
    if not labels.get("pod") and not PORT.search(labels.get("instance", "")):
        # Without an address or a pod any other label may be the one that tells engines apart.
        names |= labels.keys() - PART_LABELS
    own = tuple(part for part in parts if part.partition("=")[0] in names and "=" in part)
    return EnginePlace(key.entity, key.signal, tuple(part for part in parts if part not in own)), own


def engine_counters(catalogue: Catalogue) -> frozenset[str]:
    """Returns the counters that engines report of themselves."""
    return frozenset(name for name in engine_signals(catalogue) if catalogue.signals[name].type == "counter")


def engine_signals(catalogue: Catalogue) -> frozenset[str]:
    """Returns the signals that engines report of themselves."""
    return frozenset(signal.id for signal in catalogue.signals.values() if signal.entity == "engine")


@dataclass
class EngineLedger:
    """The engines that report at each place, and the replicas that several of them claim."""

    topology: Topology
    spans: dict[EnginePlace, dict[Identity, EngineSpan]] = field(default_factory=dict)

    def note(self, place: EnginePlace, identity: Identity, first: float, last: float) -> None:
        """Records samples of an engine; times in seconds since 1970."""
        known = self.spans.setdefault(place, {})
        before = known.get(identity, EngineSpan(first, last))
        known[identity] = EngineSpan(min(first, before.first), max(last, before.last))

    def forget_silent_engines(self, now: float) -> None:
        """Removes engines that were silent for a while."""
        for engines in self.spans.values():
            for identity in [one for one, span in engines.items() if span.last < now - RELEASE_S]:
                del engines[identity]

    def claimed_replicas(self) -> dict[str, str]:
        """Returns the replicas that several engines claim, each with a sentence on what would decide."""
        found: dict[str, str] = {}
        for place in sorted(self.spans):
            rivals = self._rivals(place) if place.replica not in found else ()
            if rivals:
                found[place.replica] = _claim_sentence(place.replica, rivals)
        return found

    def _rivals(self, place: EnginePlace) -> tuple[Identity, ...]:
        """Returns engines that report at a place at the same time; () where a group on its nodes may have them."""
        engines = self.spans[place]
        most, is_one = self._expected_engines(place.replica)
        for identity in sorted(engines):
            span = engines[identity]
            others = [
                other
                for other, at in sorted(engines.items())
                if other != identity and at.first < span.last and span.first < at.last
            ]
            near = [other for other in others if is_one and _host_of(other) == _host_of(identity)]
            if near or len(others) >= most:
                return identity, (near or others)[0]
        return ()

    def _expected_engines(self, replica: str) -> tuple[int, bool]:
        """Returns how many engines a replica may have, and whether at most one on each host."""
        group = self.topology.group.get(replica)
        if group is None:
            return 1, True
        if group.kind not in ONE_ENGINE_KINDS:
            return len(group.members), False
        return 1 if group.front_end else len({self.topology.node_of[member] for member in group.members}), True


def find_mixed_counters(keys: Sequence[SeriesKey], block: Block, counters: frozenset[str]) -> dict[str, str]:
    """Returns replicas with a counter of which every other sample is of another engine, each with a sentence.

    Two engines with the same labels are one series for their store: such a counter goes back and forth.

    Args:
        keys: [series] those of the block.
        block: samples in any order.
        counters: ids of the signals that are counters of engines.
    """
    some = [n for n, key in enumerate(keys) if key.kind == "replica" and key.signal in counters]
    if not some:
        return {}
    at = np.flatnonzero(np.isin(block.series, some))
    at = at[np.lexsort((block.time[at], block.series[at]))]
    series, value = block.series[at], block.value[at]
    is_step = series[1:] == series[:-1]
    falls = np.bincount(series[1:][is_step & (value[1:] < value[:-1])], minlength=len(keys))
    steps = np.bincount(series[1:][is_step], minlength=len(keys))
    mixed = np.flatnonzero((steps >= MIN_STEPS) & (falls > MAX_FALLS * steps)).tolist()
    return {keys[n].entity: _mixed_sentence(keys[n].entity) for n in mixed}


def _mixed_sentence(replica: str) -> str:
    return (
        f"a counter of replica {replica} goes back and forth, as if two engines had the same labels, so none is used: "
        "a label `instance` with the port of each decides"
    )


@dataclass
class CounterWatch:
    """Finds live what `find_mixed_counters` finds in files; the newest steps count most."""

    entities: list[str]
    """[counter] replica of each."""
    _last: F64 = field(default_factory=lambda: np.empty(0))
    _steps: F64 = field(default_factory=lambda: np.empty(0))
    _falls: F64 = field(default_factory=lambda: np.empty(0))

    def note(self, counters: Index, values: F64) -> None:
        """Takes in new values.

        Args:
            counters: [value] places in `entities`, each once.
            values: [value] the counters' values; a repeated one is no step, since sources are read more often than
                they change.
        """
        more = len(self.entities) - len(self._last)
        if more:
            self._last = np.append(self._last, np.full(more, np.nan))
            self._steps, self._falls = (np.append(each, np.zeros(more)) for each in (self._steps, self._falls))
        before = self._last[counters]
        self._steps[counters] += np.isfinite(before) & np.isfinite(values) & (values != before)
        self._falls[counters] += values < before
        self._last[counters] = np.where(np.isfinite(values), values, before)
        full = self._steps >= FORGET_STEPS
        self._steps[full] /= 2
        self._falls[full] /= 2

    def mixed_replicas(self) -> dict[str, str]:
        """Returns the replicas with such a counter, each with a sentence on what would decide."""
        mixed = np.flatnonzero((self._steps >= MIN_STEPS) & (self._falls > MAX_FALLS * self._steps)).tolist()
        return {self.entities[n]: _mixed_sentence(self.entities[n]) for n in mixed}


def _host_of(identity: Identity) -> str:
    """Returns the host of an identity's instance; the identity itself where it has none, so that no two are near."""
    given = next((part for part in identity if part.startswith("instance=")), "")
    return given.rpartition("//")[2].removeprefix("instance=").rpartition(":")[0] or ",".join(identity)


def _claim_sentence(replica: str, rivals: Iterable[Identity]) -> str:
    first, second = (dict(part.partition("=")[::2] for part in each) for each in rivals)
    label = next((name for name in sorted({*first, *second}) if first.get(name) != second.get(name)), "instance")
    values = " and ".join(given.get(label, "none")[:80] for given in (first, second))
    return (
        f"two engines report for replica {replica} ({label} {values}), so neither is used: "
        f"`engine: {{{label}: ...}}` of a group in the topology decides"
    )


def mask_other_replicas(keys: Iterable[SeriesKey], claimed: Mapping[str, str], signals: frozenset[str]) -> list[bool]:
    """Returns for each key whether it stays when series of engines of claimed replicas are left out."""
    return [not (key.kind == "replica" and key.entity in claimed and key.signal in signals) for key in keys]
