"""Inputs of kind `gpu-topology`: the matrix of how the GPUs of a host are connected, of nvidia-smi and rocm-smi.

GPUs of one host are connected alike: one with fewer links than the others, or a pair without a link where all other
pairs have one, has lost it, or the fabric did not start.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import find_node, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import metric_of
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import NothingKnownError, Problem

EVENT = "gpu-links-missing"
HEADER = re.compile(r"^\s*(?:GPU\d+\s+){2,}|^\s+GPU\d+\s+GPU\d+\s*$")
ROW = re.compile(r"^\s*GPU(?P<gpu>\d{1,3})\s+(?P<cells>\S.*)$")
CELL = re.compile(r"NV(?P<links>\d{1,3})|(?P<fabric>XGMI)|(?P<bus>SYS|NODE|PHB|PXB|PIX|PCIE|SOC)|(?P<self>X|0)")
MOST_PAIRS = 0.75
"""A host in which more than this share of the pairs is connected in one way has a switch, or links between all."""
MIN_GPUS = 3
Links = Mapping[int, Mapping[int, int]]
"""By GPU and other GPU: number of links between them; 0 for none but PCIe."""


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file have a row of a matrix below a header of GPUs."""
    lines = decode_head(head)[:400]
    return any(HEADER.match(a) and _read_row(b) for a, b in pairwise(lines))


def _read_row(line: str) -> tuple[int, list[int | None]] | None:
    """Returns the GPU of a row and its links to each GPU, None for itself; None for other lines."""
    match = ROW.match(line)
    if match is None:
        return None
    links: list[int | None] = []
    for word in match["cells"].split():
        cell = CELL.fullmatch(word)
        if cell is None:
            break
        links.append(None if cell["self"] else int(cell["links"]) if cell["links"] else int(bool(cell["fabric"])))
    return (int(match["gpu"]), links) if None in links else None


def read_links(lines: Iterator[str]) -> Links:
    """Returns the links of the matrix that says the most of them: that of types, not those of weights and hops."""
    best: dict[int, dict[int, int]] = {}
    now: dict[int, dict[int, int]] = {}
    size = 0
    for line in lines:
        if HEADER.match(line):
            size, now = len(re.findall(r"GPU\d+", line)), {}
        elif size and (row := _read_row(line)):
            gpu, links = row
            now[gpu] = {other: links_ for other, links_ in enumerate(links[:size]) if links_ is not None}
            best = max(best, now, key=lambda matrix: sum(sum(own.values()) for own in matrix.values()))
    return best


def find_odd(links: Links) -> Iterator[tuple[int, str]]:
    """Yields the GPUs that have lost links, each with what is seen."""
    most = {gpu: max(own.values(), default=0) for gpu, own in links.items()}
    usual, count = Counter(most.values()).most_common(1)[0]
    odd = [gpu for gpu, own in most.items() if own < usual] if 2 * count > len(most) else []
    for gpu in odd:
        yield gpu, f"GPU {gpu} has at most {most[gpu]} links to another GPU, most GPUs have {usual}"
    pairs = {(a, b): count for a, own in links.items() for b, count in own.items() if a < b and not {a, b} & {*odd}}
    usual, count = Counter(pairs.values()).most_common(1)[0] if pairs else (0, 0)
    if not usual or count <= MOST_PAIRS * len(pairs):
        return
    for (a, b), own in pairs.items():
        if own < usual:
            for gpu in (a, b):
                yield gpu, f"GPU {a} and GPU {b} have {own or 'no'} links between them, other pairs have {usual}"


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns a message for each GPU that has lost links.

    Raises:
        InputError: there are too many lines; NothingKnownError: no GPU has lost links.
    """
    links = read_links(text for _, text in read_lines(file, name))
    node, note = find_node(labels, name)
    collector = SeriesCollector(name, note)
    signal = catalogue().events[EVENT].signal
    for gpu, message in find_odd(links) if len(links) >= MIN_GPUS else ():
        collector.add(metric_of(signal), {"node": node, "gpu": str(gpu), "message": message}, own_time(name), 1.0)
    if not (series := collector.series()):
        found = f"the connections of {len(links)} GPUs, which are alike: too little to judge"
        hint = "`nvidia-smi nvlink -s` says how fast each link is, `nvidia-smi nvlink -e` what errors it counts."
        raise NothingKnownError([Problem(name, 0, "", found, "a GPU with fewer links than the others", hint)])
    return series


READER = artefact_reader(
    "matrix of the connections of GPUs (`nvidia-smi topo -m`, `rocm-smi --showtopo`)",
    read_series,
    recognise,
    placed_by_name=True,
)
