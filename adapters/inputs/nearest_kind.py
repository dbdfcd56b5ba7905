"""What a file that cannot be read is most like, by the words of its lines, and what would make one that can be."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.log_lines import decode_head, is_binary
from skewscope.adapters.inputs.in_hand import InHand, list_in_hand
from skewscope.kb.loader import cache_by_catalogue
from skewscope.kb.problems import InputError, Problem

HEAD_BYTES = 1 << 16
MAX_LINES = 400
LEAST_LIKE = 0.6
"""Share of the words that a line of the file and one of a sample have in common, of those of the shorter one, weighted
by how rare they are."""
MIN_WORDS = 3
"""Words that both have: fewer are by chance."""
MAX_SHOWN = 60
WORD = re.compile(r"[A-Za-z][A-Za-z_]{2,}")
EXPECTED = "metrics, a table with a column of times, or a log, an output or a trace of a known tool"
METRICS_COMMAND = "curl -s http://localhost:9400/metrics > page.prom"
METRICS_HINT = (
    f"`{METRICS_COMMAND}` writes what an exporter shows now (at its own address); `skewscope formats list` lists "
    "texts that are read, and docs/in-hand.md all kinds."
)
TABLE_HINT = "Is it a table? Then name its column of times `time`."


@dataclass(frozen=True, slots=True)
class Likeness:
    """A line of a file, and the kind whose sample it is most like."""

    kind: InHand
    number: int
    """Of the line, from 1."""
    line: str
    sample: str
    """The line of the sample."""
    share: float


def explain_refusal(path: Path) -> Problem:
    """Returns why a file cannot be read, and what to do."""
    try:
        with open_stream(path) as stream:
            head = stream.read(HEAD_BYTES)
    except InputError as error:
        return error.problems[0]
    if not head:
        return Problem(str(path), 0, "", "an empty file", EXPECTED, METRICS_HINT)
    lines = decode_head(head)[:MAX_LINES]
    if is_binary(head) or not lines:
        begin = head[:40].decode("utf-8", "replace").split("\n", maxsplit=1)[0]
        found = f"a binary file of no known kind, which begins with {_shown(begin)!r}"
        return Problem(str(path), 0, "", found, "Parquet, pcap, Chakra, a profile or a dump of NCCL")
    if (near := find_nearest(lines)) is not None:
        found = f"text of no known kind, most like {near.kind.name}; its first line that does not fit is {near.line!r}"
        hint = f"`{near.kind.command}` writes a file that is read." if near.kind.command else ""
        return Problem(str(path), near.number, "", found, f"lines such as {near.sample!r}", hint)
    found = f"a file of no known kind, which begins with {_shown(lines[0])!r}"
    hint = TABLE_HINT if path.suffix in (".csv", ".tsv") else METRICS_HINT
    return Problem(str(path), 0, "", found, EXPECTED, hint)


def find_nearest(lines: list[str]) -> Likeness | None:
    """Returns what some lines are most like, with the first line that is so; None where they are like nothing."""
    samples, weights = _samples()
    most = max(weights.values(), default=1.0)
    best: Likeness | None = None
    for number, line in enumerate(lines, 1):
        words = _words(line)
        for kind, text, wanted in samples:
            common = words & wanted
            if len(common) < MIN_WORDS:
                continue
            smaller = min(sum(weights.get(word, most) for word in some) for some in (words, wanted))
            share = sum(weights[word] for word in common) / smaller
            if share >= LEAST_LIKE and (best is None or share > best.share):
                best = Likeness(kind, number, _shown(line), _shown(text), share)
    return best


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in WORD.findall(text))


@cache_by_catalogue
def _samples() -> tuple[list[tuple[InHand, str, frozenset[str]]], dict[str, float]]:
    """Returns the lines of all samples with their words, and the weight of each word: rare ones say more."""
    rows = [
        (one, text, words)
        for one in list_in_hand()
        for text in one.sample.splitlines()
        if len(words := _words(text)) >= MIN_WORDS
    ]
    kinds: Counter[str] = Counter()
    for word, _ in {(word, one.kind) for one, _, words in rows for word in words}:
        kinds[word] += 1
    total = len({one.kind for one, _, _ in rows})
    return rows, {word: math.log(1 + total / count) for word, count in kinds.items()}


def _shown(text: str) -> str:
    shown = "".join(c if c.isprintable() else "." for c in text.strip())
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
