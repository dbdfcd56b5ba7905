"""Readers of the campaign: each raises an InputError for an input that it cannot read, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import zstandard

from skewscope.adapters.controller import config
from skewscope.adapters.formats.row_protocol import BadRowsError, decode
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.rules import loader

Reader = Callable[[bytes, Path], None]


@dataclass(frozen=True)
class Sample:
    """An undamaged input, and what reads it."""

    kind: str
    content: bytes
    read: Reader


def read_file(name: str) -> Reader:
    """Returns a reader of files: it recognises the kind, infers a topology and reads all samples."""

    def read(content: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(content)
        try:
            load(draft_recording([path]).recording, catalogue(), workers=1)
        finally:
            path.unlink()

    return read


def read_capture(name: str) -> Reader:
    """Returns a reader of captures, which say nothing of where they were taken."""

    def read(content: bytes, folder: Path) -> None:
        (folder / "topology.yaml").write_text(
            "version: 1\nnodes: [{name: n0, ports: [{name: eth0, network: east-west}]}]\n"
        )
        path = folder / name
        path.write_bytes(content)
        try:
            load(draft_recording([path], folder / "topology.yaml").recording, catalogue(), workers=1)
        finally:
            path.unlink()

    return read


def read_config(content: bytes, folder: Path) -> None:
    (folder / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}]\n")
    (folder / "skewscope.yaml").write_bytes(content)
    config.read(folder / "skewscope.yaml")


def read_rule(content: bytes, folder: Path) -> None:
    own = folder / "rules"
    own.mkdir(exist_ok=True)
    (own / "a-rule.yaml").write_bytes(content)
    loader.load(catalogue(), own)


def read_text(parse: Callable[[str, str], object]) -> Reader:
    return lambda content, _folder: void(parse(content.decode(errors="replace"), "file"))


def read_json(parse: Callable[[object], object]) -> Reader:
    def read(content: bytes, _folder: Path) -> None:
        try:
            parse(json.loads(content))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError([]) from error

    return read


def read_rows(content: bytes, _folder: Path) -> None:
    packed = zstandard.ZstdCompressor(level=1).compress(content)
    try:
        list(decode(packed))
    except BadRowsError as error:
        raise InputError([]) from error


def void(_value: object) -> None:
    pass
