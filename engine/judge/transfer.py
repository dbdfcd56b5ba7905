"""Which entities of a rule fire, and for how long its evidence has held: taken over from the judge before it."""

from typing import Any

import numpy as np

from skewscope.engine.model.arrays import Index
from skewscope.engine.model.transfer import Places, copy_fields, copy_items, match_places
from skewscope.engine.model.verdict import EvidenceSupport, HoldTimer

ARRAYS = ("firing", "since", "suspicious", "_reported_since")


def end_tick(before: Any) -> None:
    """Makes a `RuleDetector` learn from its last tick, as it else does when the next one comes."""
    before._pass_idle_time()
    before._learn()


def transfer_judges(now: Any, before: Any) -> None:
    """Takes over the state of all judges of a `RuleDetector`, which has the same rules.

    The type is not imported: its module is one of those that import the most.
    """
    copy_fields(now, before, ("_t", "_idle_until"))
    known: dict[tuple[int, int], Places] = {}
    for new, old in zip(now._judges, before._judges, strict=True):
        # Rules of one scope share their lists of names.
        key = id(old.names), id(new.names)
        if key not in known:
            known[key] = match_places(old.names, new.names)
        transfer_judge(new, old, known[key])


def transfer_judge(now: Any, before: Any, places: Places) -> None:
    """Takes over the state of one judge, by the places of its entities."""
    copy_items(now, before, ARRAYS, places)
    copy_fields(now, before, ("_t", "_latest_report", "is_known"))
    now._all_reported = before._all_reported and not np.isnan(now._reported_since).any()
    for name in ("_hold_timer", "_clear_timer"):
        _transfer_timer(getattr(now, name), getattr(before, name), places)
    _transfer_support(now._support, before._support, places)


def _transfer_timer(now: HoldTimer, before: HoldTimer, places: Places) -> None:
    copy_items(now, before, ("duration", "started", "_marked"), places)
    found: Index = places.locate(before._indices)
    kept = found >= 0
    order = np.argsort(found[kept])
    now._indices, now._before = found[kept][order], before._before[kept][order]


def _transfer_support(now: EvidenceSupport, before: EvidenceSupport, places: Places) -> None:
    if before._initially_unknown.shape[1]:
        now._initially_unknown = np.zeros((len(before._initially_unknown), now.size), bool)
        copy_items(now, before, ("_initially_unknown",), places)
