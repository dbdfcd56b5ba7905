"""Hosts by the names of folders: where files of one name lie in several folders, such as one for each host.

A folder such as `host=a` names a label. Others stand for hosts only where the names of files do not tell them apart:
`h0/nvidia-smi.csv` and `h1/nvidia-smi.csv`. Folders that are named after times stand for none.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from skewscope.adapters.discovery.draft import GUESS, Assumption
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.file_origin import ORIGIN_LABEL
from skewscope.adapters.inputs.recording import Input, Recording, reader_of
from skewscope.engine.model.topology_file import LABEL_NAME, NODE_WITHOUT
from skewscope.kb.problems import InputError, join_names

READER_LABELS = frozenset(("query", "utc_offset", "written", "start", "period", "year", ORIGIN_LABEL))
"""Labels of inputs that tell a reader something else than where its samples are from."""
TIME_KEYS = frozenset(("date", "dt", "ds", "day", "month", "year", "hour", "minute", "time", "week", "ts"))
TIME_NAME = re.compile(r"20\d\d(?:[-_.]?\d\d){0,2}(?:[-_.T ]?\d\d(?:[-_.:]?\d\d){0,2}Z?)?|1\d{9}(?:\d{3})?")
YEAR, PART_OF_DATE = re.compile(r"20\d\d"), re.compile(r"\d\d")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
MAX_NAMED = 3
HEAD_BYTES = 1 << 16
PROMPT_HOST = re.compile(
    rb"^(?:\([\w .-]{1,60}\) ){0,2}\[?[\w.-]{1,60}@([A-Za-z][\w.-]{0,60})"
    rb"(?:[: ][^\n$#%>\"=]{0,120})?[$#%>][ \t]+([^\n]+)",
    re.MULTILINE,
)
"""A prompt of a shell with its host, and what was typed at it."""
STATED_HOST = re.compile(rb"^(?:Running on machine: |[ \t]*host[ \t]+: )([A-Za-z][\w.-]{0,60})[ \t]*\r?$", re.MULTILINE)
"""A line with a host, as logs of glog begin and reports of torchrun have it."""
ELSEWHERE = re.compile(rb"(?:sudo )?(?:ssh|kubectl|oc|helm|curl|wget|scp|cat|less|grep|tail|head|zcat|docker logs)\b")
"""Commands whose output need not be of the host at which they were typed."""
MAX_NAME = 100
"""Characters of a host that is named after folders."""


def label_folders(recording: Recording) -> tuple[Recording, list[Assumption]]:
    """Returns the recording with what the names of its folders say of each input, and what was assumed."""
    inputs = [_add_pairs(source, recording.path) for source in recording.inputs]
    pairs = zip(recording.inputs, inputs, strict=True)
    values: dict[str, set[str]] = defaultdict(set)
    for old, new in pairs:
        for label, value in set(new.labels) - set(old.labels):
            values[label].add(value)
    told = [f"the label `{label}` ({join_names(sorted(some), MAX_NAMED)})" for label, some in sorted(values.items())]
    assumptions = [Assumption(each, "the names of folders", GUESS) for each in told]
    return replace(recording, inputs=tuple(_add_prompts(_add_origins(inputs), recording))), assumptions


def distinguish_folders(folders: Sequence[str]) -> dict[str, str]:
    """Returns a host for each of several folders by the parts of their names that differ; none where only times do.

    Args:
        folders: paths with slashes, relative to one folder.
    """
    parts = {folder: PurePosixPath(folder).parts for folder in folders}
    depth = max(map(len, parts.values()), default=0)
    places = [place for place in range(depth) if len({own[place : place + 1] for own in parts.values()}) > 1]
    found: dict[str, str] = {}
    for folder, own in parts.items():
        telling = [text for place in places for text in own[place : place + 1] if not _is_time(text, own)]
        host = "-".join(text.partition("=")[2] or text for text in telling)
        found[folder] = "".join(c if c not in NODE_WITHOUT and c.isprintable() else "-" for c in host)[:MAX_NAME]
    return {folder: host for folder, host in found.items() if host}


def distinguish_runs(pairs: Sequence[tuple[str, str]], paths: Sequence[str]) -> dict[str, str]:
    """Returns a name for the run of each path, by those parts that differ between files of the same rank.

    Args:
        pairs: paths of files, or of folders of them, that have the same ranks.
        paths: those and all others of such files, with slashes.
    """
    places: set[int] = set()
    for pair in pairs:
        one, other = map(_name_parts, pair)
        places |= {n for n in range(max(len(one), len(other))) if one[n : n + 1] != other[n : n + 1]}
    found: dict[str, str] = {}
    for path in paths:
        parts = _name_parts(path)
        name = "-".join(dict.fromkeys(part for place in sorted(places) for part in parts[place : place + 1]))
        found[path] = "".join(c if c not in NODE_WITHOUT and c.isprintable() else "-" for c in name)[:MAX_NAME]
    return {path: name for path, name in found.items() if name}


def _name_parts(path: str) -> tuple[str, ...]:
    """Returns the parts of a path without the endings of a file's name."""
    *folders, last = PurePosixPath(path).parts or ("",)
    return (*folders, last.partition(".")[0]) if last else ()


def _add_pairs(source: Input, top: Path) -> Input:
    """Returns an input with the labels of the folders `label=value` that it lies in."""
    own = dict(source.labels)
    for part in (top / source.path).resolve().parent.parts:
        label, mark, value = part.partition("=")
        is_label = bool(mark and value and value != NO_VALUE and LABEL_NAME.fullmatch(label))
        if is_label and label not in READER_LABELS | TIME_KEYS:
            own.setdefault(label, unquote(value))
    return replace(source, labels=tuple(sorted(own.items())))


def _add_origins(inputs: Sequence[Input]) -> list[Input]:
    """Returns the inputs, those in folders that stand for hosts with the label of their host."""
    by_name: dict[tuple[str, str], set[str]] = defaultdict(set)
    for source in inputs:
        reader = reader_of(source)
        if reader.placed_by_name:
            host = reader.host_in_name(source.path)
            by_name[source.kind, host].add(_folder(source))
    shared = [folders for folders in by_name.values() if len(folders) > 1]
    hosts = distinguish_folders(sorted(set().union(*shared)))
    return [
        replace(source, labels=tuple(sorted([*source.labels, (ORIGIN_LABEL, hosts[_folder(source)])])))
        if _folder(source) in hosts and not reader_of(source).runs_apart
        else source
        for source in inputs
    ]


def _add_prompts(inputs: Sequence[Input], recording: Recording) -> Iterator[Input]:
    """Yields the inputs, those that are pasted from the shell of one host with the label of it."""
    for source in inputs:
        path = recording.resolve_path(source.path)
        is_placed = dict(source.labels).keys() & {ORIGIN_LABEL, "node", "host"}
        host = find_stated_host(path) if reader_of(source).placed_by_name and not is_placed and path.is_file() else ""
        yield replace(source, labels=tuple(sorted([*source.labels, (ORIGIN_LABEL, host)]))) if host else source


def find_stated_host(path: Path) -> str:
    """Returns the host that a text says it is from, by prompts of its shell; '' where they name none, or several."""
    try:
        with open_stream(path, keep_prompts=True) as stream:
            head = stream.read(HEAD_BYTES)
    except InputError:
        return ""
    prompts = PROMPT_HOST.findall(head)
    is_elsewhere = any(ELSEWHERE.match(typed) for _, typed in prompts)
    hosts = {*STATED_HOST.findall(head), *(host for host, _ in prompts if not is_elsewhere)}
    return hosts.pop().decode() if len(hosts) == 1 else ""


def _folder(source: Input) -> str:
    return str(PurePosixPath(source.path).parent)


def _is_time(part: str, beside: Sequence[str]) -> bool:
    """Returns whether the name of a folder is a time, or a part of one, as in `2026/11/22`."""
    label, mark, _ = part.partition("=")
    if mark:
        return label.lower() in TIME_KEYS
    return bool(TIME_NAME.fullmatch(part) or (PART_OF_DATE.fullmatch(part) and any(map(YEAR.fullmatch, beside))))
