"""What expressions remember, taken over by an engine from the one before it: both have the same rules."""

import numpy as np

from skewscope.engine.features.baselines import BaselineStore
from skewscope.engine.features.counter_store import CounterStore, CounterWindows
from skewscope.engine.features.evaluator import Evaluator
from skewscope.engine.features.operators.protocol import Operator
from skewscope.engine.features.window_store import WindowStore
from skewscope.engine.model.transfer import EntityPlaces, Places, copy_fields, copy_items


def transfer_features(now: Evaluator, before: Evaluator, entities: EntityPlaces, series: Places) -> None:
    """Takes over windows, totals of counters, healthy pasts and the memory of operators.

    Args:
        now: an evaluator that has seen no sample yet, and whose series have their places.
        before: the evaluator that goes.
        entities: what the topologies have in common.
        series: the places of the common series.
    """
    copy_fields(now, before, ("_t",))
    _transfer_windows(now._windows, before._windows, entities)
    _transfer_counters(now._counters, before._counters, series)
    _transfer_baselines(now._baselines, before._baselines, entities)
    for expr, new, old in zip(now.expressions, now._operators, before._operators, strict=True):
        if new.is_stateful:
            kind = expr.args[0].kind
            _transfer_memory(new, old, now.entities.count(kind), entities.of_kind(kind))


def _transfer_windows(now: WindowStore, before: WindowStore, entities: EntityPlaces) -> None:
    before.advance()
    for key, buffer in now.buffers.items():
        buffer.slot = max(buffer.slot, before.buffers[key].slot)
    copy_fields(now, before, ("_origin",))
    now._regroup()
    for group in now._groups:
        group.window.ring.origin = now._origin
    for key, buffer in now.buffers.items():
        old, places = before.buffers[key], entities.of_kind(buffer.kind)
        if buffer.columns.stop and old.columns.stop:
            at = old.columns.start + places.before
            buffer.window.copy_from(buffer.columns.start + places.now, old.window, at)
    copy_fields(now, before, ("_t", "_steps"))


def _transfer_baselines(now: BaselineStore, before: BaselineStore, entities: EntityPlaces) -> None:
    for key, past in now.slices.items():
        old, places = before.slices[key], entities.of_kind(past.kind)
        if past.columns.stop and old.columns.stop:
            at = old.columns.start + places.before
            past.baseline.copy_from(past.columns.start + places.now, old.baseline, at)


def _transfer_memory(now: Operator, before: Operator, size: int, places: Places) -> None:
    """Takes over the arrays of an operator; `size` is the number of entities that there are."""
    for name in now.memory:
        old = getattr(before, name)
        if len(old):
            fill = np.nan if old.dtype.kind == "f" else False
            setattr(now, name, np.full(size, fill, old.dtype))
            copy_items(now, before, (name,), places)


# --- counters


def _transfer_counters(now: CounterStore, before: CounterStore, series: Places) -> None:
    for key, windows in now._windows.items():
        _transfer_lanes(windows, before._windows[key], series)


def _transfer_lanes(now: CounterWindows, before: CounterWindows, series: Places) -> None:
    found = series.locate(before.series)
    lanes = np.flatnonzero(found >= 0)
    if not len(lanes):
        return
    now.series = found[lanes]
    now.history = before.history.select(lanes)
    now.learn_series()
    # A series of another place than before has a lane without a past.
    now.history.grow(len(now.series))
