"""Recorded telemetry that a backtest reads: recordings, tables and dumps, or a span of a Prometheus server."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.adapters.discovery.prometheus import ServerSpan
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.prometheus_download import download
from skewscope.adapters.inputs.recording import (
    RECORDING_FILE,
    Recording,
    RecordingData,
    clip_recording,
    load,
    open_recording,
)
from skewscope.adapters.runtime.pace import choose_tick
from skewscope.engine.engine import TICK_S
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem

SCHEMES = ("http://", "https://")
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class TelemetrySpan:
    """Which part of the telemetry is wanted, and how it is read."""

    begin: float | None = None
    end: float | None = None
    """Seconds since 1970; None for that of the data."""
    topology: Path | None = None
    """File of the topology of what is no recording; None infers one."""
    token_file: Path | None = None
    """File with a bearer token for a server."""


@dataclass(frozen=True)
class NamedRecording:
    """A recording with the name by which results refer to it."""

    name: str
    recording: Recording


def open_telemetry(where: str, span: TelemetrySpan, scratch: Path, progress: Progress) -> NamedRecording:
    """Opens what a text names; the data of files is not read yet, that of a server is downloaded to `scratch`.

    Raises:
        InputError: it cannot be read.
    """
    if where.startswith(SCHEMES):
        return NamedRecording(where, _download(where, span, scratch, progress))
    path = Path(where)
    if path.name == RECORDING_FILE or (path / RECORDING_FILE).is_file():
        found = open_recording(path)
    else:
        found = draft_recording([path], span.topology, None, progress, os.cpu_count() or 1).recording
    name = (path.parent if path.name == RECORDING_FILE else path).resolve().name
    return NamedRecording(name, clip_recording(found, span.begin, span.end))


def _download(url: str, span: TelemetrySpan, scratch: Path, progress: Progress) -> Recording:
    if span.begin is None or span.end is None:
        hint = "For example --since 2026-11-21T00:00:00Z --until 2026-11-22T00:00:00Z."
        raise InputError([Problem(url, 0, "", "a server without a span", "--since and --until", hint)])
    found = download(ServerSpan(url, span.begin, span.end, span.token_file, None), scratch, None, progress)
    return draft_recording([found.path], span.topology).recording


def load_telemetry(recording: Recording, progress: Progress, workers: int | None) -> tuple[RecordingData, Recording]:
    """Reads all samples of a recording; returns them, and the recording with the length of its ticks.

    Raises:
        InputError: all problems of its inputs.
    """
    loaded = load(recording, catalogue(), progress, workers)
    tick = recording.tick or choose_tick(loaded.samples.tick_numbers(TICK_S), loaded.table)
    return loaded, replace(recording, tick=tick)
