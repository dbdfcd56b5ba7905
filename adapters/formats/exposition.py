"""Writer of samples as OpenMetrics text under the canonical metric names."""

from collections.abc import Iterator

import numpy as np

from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.kb.model import Catalogue, Signal

Labels = list[tuple[str, str]]

ENTITY_LABELS = {"node": ("node",), "replica": ("replica",), "group": ("group",), "pool": ("pool",), "link": ("link",)}
ENTITY_SEPARATORS = {"port": ("/", "node", "port"), "gpu": ("/", "node", "gpu"), "rank": (":", "group", "rank")}
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def format_exposition(block: Block, table: SeriesTable, catalogue: Catalogue) -> Iterator[str]:
    """Yields the lines of an OpenMetrics document, by family, the samples of each series in the order of time.

    Values and times are written so that they parse to the same bits. A gap is written as NaN.
    """
    order = np.lexsort((block.time, block.series))
    series, starts = np.unique(block.series[order], return_index=True)
    pieces = dict(zip(series.tolist(), np.split(order, starts[1:]), strict=len(series) > 0))
    family = ""
    for number in sorted(pieces, key=lambda one: _sort_key(table.keys[one])):
        key, at = table.keys[number], pieces[number]
        signal = catalogue.signals[key.signal]
        if signal.metric != family:
            family = signal.metric
            yield f"# TYPE {family.removesuffix('_total')} {_metric_type(signal)}\n"
        head = _format_series(key, signal)
        for time, value in zip(block.time[at].tolist(), block.value[at].tolist(), strict=True):
            yield f"{head} {_format_number(value)} {time!r}\n"
    yield "# EOF\n"


def _sort_key(key: SeriesKey) -> tuple[str, str, str, str]:
    return key.signal, key.kind, key.entity, key.selector


def _metric_type(signal: Signal) -> str:
    return signal.type if signal.type in ("counter", "gauge", "histogram") else "unknown"


def _format_series(key: SeriesKey, signal: Signal) -> str:
    """Returns name and labels of a series as text."""
    *parts, last = key.selector.split(",")
    suffix, bound = "", ""
    if signal.type == "histogram":
        suffix, _, bound = last.partition(":")
    else:
        parts.append(last)
    name = f"{signal.metric}_{suffix}" if suffix else signal.metric
    labels = (
        _entity_labels(key)
        + [_selector_label(part, key.kind) for part in parts if part]
        + ([("le", bound)] if bound else [])
    )
    if signal.type == "counter" and not name.endswith("_total"):
        name += "_total"
    return name + "{" + ",".join(f'{label}="{value.translate(ESCAPES)}"' for label, value in labels) + "}"


def _entity_labels(key: SeriesKey) -> Labels:
    """Returns the labels that identify an entity."""
    if key.kind == "peer":
        observer, _, other = key.entity.partition(">")
        return [*_split_entity(observer, ENTITY_SEPARATORS["port"]), ("peer", other)]
    if key.kind in ENTITY_SEPARATORS:
        return _split_entity(key.entity, ENTITY_SEPARATORS[key.kind])
    return [(label, key.entity) for label in ENTITY_LABELS.get(key.kind, ())]


def _split_entity(name: str, how: tuple[str, str, str]) -> Labels:
    mark, first, second = how
    before, _, after = name.partition(mark)
    return [(first, before), (second, after)]


def _selector_label(part: str, kind: str) -> tuple[str, str]:
    """Returns the label that a part of a selector was built from."""
    name, mark, value = part.partition("=")
    if mark:
        return name, _unescape(value)
    if part in ("tx", "rx"):
        return "direction", part
    for prefix, label in (("cpu", "cpu"), ("p", "priority")):
        if part.startswith(prefix) and part[len(prefix) :].isdigit():
            return label, part[len(prefix) :]
    return "engine" if kind == "replica" else "group", _unescape(part)


def _unescape(text: str) -> str:
    return text.replace("%2C", ",").replace("%25", "%")


def _format_number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text := repr(value), text)
