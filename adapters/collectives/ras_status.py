"""The status of NCCL's RAS as JSON, in the lines that its text has: ranks that are missing or out of step."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MIN_APART = 2
"""Operations by which ranks at work differ: they are asked one after another, and some begin the next one meanwhile."""
MAX_RANKS = 100_000
"""Ranks of one answer that are compared."""


def is_ras_status(head: bytes) -> bool:
    """Returns whether the first bytes of a file are of such a status."""
    return head.lstrip()[:1] == b"{" and b'"communicators"' in head and (b'"ras"' in head or b'"nvml_dev"' in head)


def list_ras_lines(text: str) -> Iterator[str]:
    """Yields a line for each rank that is missing, and for each that has launched another number than most.

    Raises:
        ValueError: it is no status.
    """
    try:
        status = json.loads(text)
        for communicator in status["communicators"]:
            for rank in communicator.get("missing_ranks", ()):
                yield f"Process {rank.get('pid', 0)} on node {rank['host']} managing GPU {rank['nvml_dev']}"
            yield from _out_of_step(communicator.get("ranks", ())[:MAX_RANKS])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no status of NCCL's RAS: {error}") from None


def _out_of_step(ranks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counts: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for rank in ranks:
        for operation, count in rank.get("collective_counts", {}).items():
            counts.setdefault(str(operation), []).append((int(count), rank))
    for operation, own in counts.items():
        most, times = Counter(count for count, _ in own).most_common(1)[0]
        for count, rank in own if 2 * times > len(own) else ():
            if abs(count - most) >= MIN_APART:
                place = f"GPU {rank['nvml_dev']} managed by process {rank.get('pid', 0)} on node {rank['host']}"
                launched = f"Rank {int(rank['rank'])} has launched up to operation {count}"
                yield f"{launched} -- {place} ({operation}; most ranks {most})"
