"""Statistics of samples that fall into ticks, all ticks at once."""

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.feed import F64

I64 = NDArray[np.int64]


def quantiles(group: I64, values: F64, shares: tuple[float, ...], groups: int) -> F64:
    """[shares, groups] quantiles of `values` by group, interpolated; NaN where a group is empty."""
    out = np.full((len(shares), groups), np.nan)
    if not len(values):
        return out
    order = np.lexsort((values, group))
    ordered = values[order]
    count = np.bincount(group, minlength=groups)
    first = np.concatenate(([0], np.cumsum(count)[:-1]))
    some = count > 0
    for row, share in zip(out, shares, strict=True):
        at = share * (count[some] - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, count[some] - 1)
        below, above = ordered[first[some] + low], ordered[first[some] + high]
        row[some] = below + (above - below) * (at - low)
    return out


def means(group: I64, values: F64, groups: int) -> F64:
    """[groups] mean of `values` by group; NaN where a group is empty."""
    count = np.bincount(group, minlength=groups)
    total = np.bincount(group, weights=values, minlength=groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / count)


def deviations(group: I64, values: F64, groups: int) -> F64:
    """[groups] standard deviation of `values` by group; NaN where a group has fewer than two."""
    mean = means(group, values, groups)
    spread = means(group, (values - mean[group]) ** 2, groups) if len(values) else np.full(groups, np.nan)
    spread[np.bincount(group, minlength=groups) < 2] = np.nan
    return np.asarray(np.sqrt(spread))


def ratio(part: F64, whole: F64, least: float = 1.0) -> F64:
    """part/whole; NaN where the whole is under `least`: a share of next to nothing says nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole >= least, part / whole, np.nan))


def trailing_sums(counts: F64, width: int) -> F64:
    """Sums over the last `width` columns, along the last axis; shorter at the start."""
    total = np.cumsum(counts, axis=-1)
    shifted = np.zeros_like(total)
    shifted[..., width:] = total[..., :-width]
    return np.asarray(total - shifted)
