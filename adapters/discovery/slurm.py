"""Parses Slurm's description of a cluster: `topology.conf`, `scontrol show topology`, `scontrol show nodes`.

All three consist of `Key=Value` lines; unknown keys are ignored.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from skewscope.adapters.discovery.draft import NodeDraft
from skewscope.adapters.formats.log_lines import read_whole_lines
from skewscope.kb.problems import InputError, Problem

MAX_NODES = 100_000
PAIR = re.compile(r"(?P<key>[A-Za-z]\w*)=(?P<value>\S*)")
RANGE = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")
GPU_COUNT = re.compile(r"\bgpu(?::[\w.-]+)?:(?P<count>\d{1,4})\b")
HOST_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])++")
HOST_LIST = re.compile(rf"(?:{HOST_PART.pattern}(?:,{HOST_PART.pattern})*+)?")
BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def parse_nodes(stream: BinaryIO, file: str) -> list[NodeDraft]:
    """Returns the nodes in a text, with the leaf switches that it names.

    Raises:
        InputError: a host list is invalid, or there are too many nodes or lines.
    """
    found: dict[str, NodeDraft] = {}
    for number, line in _parse_records(read_whole_lines(stream, file)):
        try:
            for node in _record_nodes(line):
                before = found.get(node.name, NodeDraft(node.name))
                leaf = before.switch or node.switch
                found[node.name] = NodeDraft(
                    node.name, "", before.gpus or node.gpus, before.addresses or node.addresses, leaf
                )
        except ValueError as error:
            raise InputError([Problem(file, number, "", str(error), "hosts as Slurm lists them: n[0-3,7]")]) from None
        if len(found) > MAX_NODES:
            raise InputError([Problem(file, number, "", f"more than {MAX_NODES} nodes", "fewer")])
    if not found:
        raise InputError([Problem(file, 0, "", "no node", "lines with SwitchName=, BlockName= or NodeName=")])
    return list(found.values())


def _parse_records(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yields fields and first line of each record; indented lines continue the previous one."""
    fields: dict[str, str] = {}
    begun = 0
    for number, line in lines:
        bare = line.partition("#")[0]
        pairs = {match["key"].lower(): match["value"] for match in PAIR.finditer(bare)}
        if pairs and not line[:1].isspace():
            if fields:
                yield begun, fields
            fields, begun = {}, number
        fields |= {key: value for key, value in pairs.items() if key not in fields}
    if fields:
        yield begun, fields


def _record_nodes(fields: Mapping[str, str]) -> Iterator[NodeDraft]:
    switch = fields.get("switchname") or fields.get("blockname") or ""
    # A switch above leaves lists the nodes of all of them.
    leaf = switch and "switches" not in fields and fields.get("level", "0") == "0"
    if leaf:
        for name in expand_hosts(fields.get("nodes", "")):
            yield NodeDraft(name, switch=switch)
    if "nodename" in fields:
        gpus = GPU_COUNT.search(fields.get("gres", ""))
        address = fields.get("nodeaddr", "")
        for name in expand_hosts(fields["nodename"]):
            reported = (address,) if address and address != name else ()
            yield NodeDraft(name, gpus=int(gpus["count"]) if gpus else 0, addresses=reported)


def expand_hosts(text: str) -> list[str]:
    """Expands a host list: `n[0-2,7],login` gives n0, n1, n2, n7 and login.

    Raises:
        ValueError: it is invalid, or there are too many hosts.
    """
    if text.count(",") > MAX_NODES:
        raise ValueError(f"more than {MAX_NODES} hosts")
    if not HOST_LIST.fullmatch(text):
        raise ValueError(f"{text!r:.60}")
    found: list[str] = []
    for part in HOST_PART.findall(text):
        found += _expand_part(part)
        if len(found) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} hosts")
    return found


def _expand_part(part: str) -> list[str]:
    """Yields each combination of the numbers in a part's brackets."""
    names = [""]
    for n, piece in enumerate(BRACKETS.split(part)):
        # The content of brackets is every other piece.
        choices = [number for each in piece.split(",") for number in _expand_range(each, part)] if n % 2 else [piece]
        if len(names) * len(choices) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} hosts")
        names = [name + choice for name in names for choice in choices]
    return names


def _expand_range(text: str, part: str) -> Iterator[str]:
    match = RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{part!r:.60}")
    first, last = int(match["first"]), int(match["last"] or match["first"])
    if last < first or last - first > MAX_NODES:
        raise ValueError(f"{part!r:.60}")
    width = len(match["first"]) if match["first"].startswith("0") else 0
    return (f"{number:0{width}d}" for number in range(first, last + 1))
