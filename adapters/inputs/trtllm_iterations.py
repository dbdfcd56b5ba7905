"""Series of TensorRT-LLM out of what it says of each iteration."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan, nan

from skewscope.adapters.inputs.file_origin import find_server, join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector

TIMELESS = "its iterations have no times: they begin at 0 s and grow by the time of each"


@dataclass(frozen=True, slots=True)
class Iteration:
    """What one iteration of an engine did; NaN where nothing says it."""

    time: float
    """Seconds since 1970."""
    duration: float
    """Seconds."""
    prompt_tokens: float = nan
    decoding: float = nan
    """Requests that got a token, or the tokens that they got."""
    running: float = nan
    """Requests in the batch."""
    waiting: float = nan
    kv_usage: float = nan
    """Share of the blocks in use."""
    rank: str = ""
    """The data-parallel rank; '' where the engine has no other."""
    counts_tokens: bool = True
    """Whether `decoding` are tokens."""


def collect_iterations(found: Iterable[Iteration], name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of an engine, or of each of its ranks; the iterations of one second are one sample.

    Args:
        found: iterations in their order.
        name: the file, for messages.
        labels: labels that are given to the whole file.
    """
    found = list(found)
    is_timeless = all(isnan(each.time) for each in found)
    server, unnamed = find_server(labels, name)
    collector = SeriesCollector(name, join_notes(TIMELESS if is_timeless else "", unnamed))
    groups: dict[tuple[str, float], list[Iteration]] = defaultdict(list)
    passed: dict[str, float] = defaultdict(float)
    for each in found:
        passed[each.rank] += each.duration if each.duration > 0 else 0.0
        time = passed[each.rank] if is_timeless else each.time
        if not isnan(time):
            groups[each.rank, float(int(time))].append(each)
    for (rank, time), some in groups.items():
        for metric, value in _summarise(some):
            if not isnan(value):
                collector.add(metric, {**server, "dp_rank": rank}, time, value)
    return collector.series()


def _summarise(some: list[Iteration]) -> Iterator[tuple[str, float]]:
    """Yields metric and value of some iterations of one engine; NaN for what they do not say."""
    newest = some[-1]
    yield "trtllm_num_requests_running", newest.running
    yield "trtllm_num_requests_waiting", newest.waiting
    yield "trtllm_kv_cache_utilization", newest.kv_usage
    timed = [each for each in some if each.duration > 0]
    pure = [each.duration for each in timed if each.decoding > 0 and each.prompt_tokens == 0]
    mixed = [each.duration for each in timed if each.decoding > 0 and each.prompt_tokens > 0]
    yield "skewscope_serve_decode_step_time", _ratio(sum(pure), len(pure))
    yield "skewscope_serve_prompt_step_time", _ratio(sum(mixed), len(mixed))
    yield "skewscope_serve_prompt_step_share", _ratio(sum(mixed), sum(pure) + sum(mixed))
    total = sum(each.duration for each in timed)
    yield "skewscope_serve_prompt_throughput", _ratio(sum(each.prompt_tokens for each in timed), total)
    if newest.counts_tokens:
        yield "skewscope_serve_gen_throughput", _ratio(sum(each.decoding for each in timed), total)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else nan
