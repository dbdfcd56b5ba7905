"""Pages of one exporter that were read one after another, whatever their files are called.

A later page of the same target has the same series, and each counter at least as high. How far apart they are is said
by clocks in their names or by when the files were written; else a usual period is taken and said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.log_lines import file_stem
from skewscope.adapters.inputs import prometheus_page
from skewscope.adapters.inputs.counter_dumps import parse_dump_name
from skewscope.adapters.inputs.file_origin import ORIGIN_LABEL
from skewscope.adapters.inputs.recording import Input, Recording, reader_of
from skewscope.kb.problems import InputError

MAX_PAGES = 100
MAX_BYTES = 16 << 20
"""Of a page; larger ones keep the times of their files."""
PERIOD_S = 15.0
"""Seconds between pages of which nothing says how far apart they are: a usual period of scrapes."""
MIN_WRITTEN_S = 1.0
"""Files that were written closer together are copies."""
MIN_COUNTERS = 4
"""Counters that grow, so that two other targets would look like this by chance once in sixteen times..."""
MIN_SHARED = 0.8
"""...and share of the series that both have."""
COUNTER = re.compile(rb"_(?:total|count|sum|bucket)(?:\{|$)")
TYPE = re.compile(rb"# TYPE (\S+) (counter|gauge)\s*$")
CLOCK = re.compile(r"(?<!\d)([01]\d|2[0-3])[-_:.hH]?([0-5]\d)(?:[-_:.mM]?([0-5]\d))?(?!\d)")


@dataclass(frozen=True, slots=True)
class CountedPage:
    """A page with what it counts."""

    source: Input
    written: float
    """Seconds since 1970."""
    series: frozenset[bytes]
    counters: Mapping[bytes, float]


def order_pages(recording: Recording) -> tuple[Recording, str]:
    """Returns the recording with the times of pages that follow each other, and a note of what was assumed."""
    pages = [source for source in recording.inputs if _is_undated(source)]
    if not 1 < len(pages) <= MAX_PAGES:
        return recording, ""
    labels: dict[str, dict[str, str]] = {}
    notes: list[str] = []
    for chain in _chain([page for source in pages if (page := _count_page(source, recording))]):
        times, note = _find_times(chain)
        origin = _common_name(chain)
        for page, time in zip(chain, times, strict=True):
            labels[page.source.path] = {"start": f"{time:.3f}", **({ORIGIN_LABEL: origin} if origin else {})}
        names = ", ".join(page.source.path for page in chain[:3]) + (", ..." if len(chain) > 3 else "")
        notes.append(f"{names}: read as {len(chain)} readings of one target, as no counter falls{note}")
    inputs = (_label(source, labels.get(source.path, {})) for source in recording.inputs)
    return replace(recording, inputs=tuple(inputs)), "; ".join(notes)


def _label(source: Input, labels: Mapping[str, str]) -> Input:
    return replace(source, labels=tuple(sorted({**labels, **dict(source.labels)}.items())))


def _is_undated(source: Input) -> bool:
    given = dict(source.labels).keys() & {"start", ORIGIN_LABEL}
    is_page = reader_of(source) is prometheus_page.READER
    return is_page and not given and parse_dump_name(source.path).time is None


def _count_page(source: Input, recording: Recording) -> CountedPage | None:
    """Returns a page with its counters; None where it cannot be read, which its reader says."""
    path = recording.resolve_path(source.path)
    try:
        with open_stream(path, MAX_BYTES) as stream:
            text = stream.read(MAX_BYTES)
        written = path.stat().st_mtime
    except (InputError, OSError):
        return None
    values, types = dict[bytes, float](), dict[bytes, bytes]()
    for line in text.splitlines():
        if match := TYPE.match(line):
            types[match[1]] = match[2]
        elif line[:1] != b"#":
            key, _, value = line.rstrip().rpartition(b" ")
            try:
                values[key] = float(value)
            except ValueError:
                continue
    counted = {key: value for key, value in values.items() if _is_counter(key, types)}
    return CountedPage(source, written, frozenset(values), counted)


def _is_counter(key: bytes, types: Mapping[bytes, bytes]) -> bool:
    """Returns whether a series counts, by its type, or else by its name."""
    declared = types.get(key.partition(b"{")[0])
    return declared == b"counter" if declared else bool(COUNTER.search(key))


def _chain(pages: Sequence[CountedPage]) -> Iterator[list[CountedPage]]:
    """Yields the pages of each target that has several, in their order."""
    chains: list[list[CountedPage]] = []
    for page in sorted(pages, key=lambda page: (sum(page.counters.values()), page.source.path)):
        before = next((chain for chain in chains if _follows(chain[-1], page)), None)
        if before is None:
            chains.append([page])
        else:
            before.append(page)
    yield from (chain for chain in chains if len(chain) > 1)


def _follows(first: CountedPage, second: CountedPage) -> bool:
    """Returns whether a page may be a later one of the same target."""
    shared = first.counters.keys() & second.counters.keys()
    grown = sum(second.counters[key] > first.counters[key] for key in shared)
    is_alike = len(first.series & second.series) >= MIN_SHARED * max(len(first.series), len(second.series))
    return is_alike and grown >= MIN_COUNTERS and all(second.counters[key] >= first.counters[key] for key in shared)


def _find_times(chain: Sequence[CountedPage]) -> tuple[list[float], str]:
    """Returns the times of pages in seconds since 1970, and what was assumed, to be put after a sentence."""
    written = [page.written for page in chain]
    clocks = [_find_clock(page.source.path) for page in chain]
    last = written[-1]
    if _rises(clocks, MIN_WRITTEN_S):
        return [last - clocks[-1] + clock for clock in clocks], ""
    if _rises(written, MIN_WRITTEN_S):
        return written, ""
    times = [last - PERIOD_S * (len(chain) - 1 - place) for place in range(len(chain))]
    return (
        times,
        f"; nothing says how far apart: {PERIOD_S:g} s are taken, so that rates may be wrong and shares are right",
    )


def _rises(times: Sequence[float], least: float) -> bool:
    return all(after - before >= least for before, after in pairwise(times))


def _find_clock(path: str) -> float:
    """Returns the seconds of the day that a name says last; NaN where it says none."""
    found = list(CLOCK.finditer(file_stem(path)))
    if not found:
        return float("nan")
    hour, minute, second = found[-1].groups(default="0")
    return int(hour) * 3600.0 + int(minute) * 60.0 + int(second)


def _common_name(chain: Sequence[CountedPage]) -> str:
    """Returns the words with which the names of all pages begin, without a clock; '' for none."""
    stems = [file_stem(page.source.path) for page in chain]
    clocks = [list(CLOCK.finditer(stem)) for stem in stems]
    bare = [stem[: found[-1].start()] if found else stem for stem, found in zip(stems, clocks, strict=True)]
    words = zip(*(re.findall(r"[^-_.]+|[-_.]+", name) for name in bare), strict=False)
    return "".join(word[0] for word in takewhile(lambda word: len(set(word)) == 1, words)).rstrip("-_.")
