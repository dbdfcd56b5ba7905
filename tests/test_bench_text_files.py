"""A short form of the measurement of long texts: each kind is written, and read to the same series once and again."""

import pytest

from bench.bench_text_files import KINDS, write_text
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

SIZE = 60_000
WITHOUT_NUMBERS = ("nccl", "kernel", "journald")
"""Kinds of which a healthy text says too little to judge."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITHOUT_NUMBERS])
def test_a_text_of_each_kind_is_read(tmp_path, kind):
    path = tmp_path / KINDS[kind][0]
    lines = write_text(path, kind, SIZE)
    assert SIZE <= path.stat().st_size <= 2 * SIZE
    data = load(draft_recording([path]).recording, catalogue(), workers=1)
    assert len(data.samples) > lines / 50


@pytest.mark.parametrize("kind", WITHOUT_NUMBERS)
def test_a_text_without_numbers_is_refused_with_a_reason(tmp_path, kind):
    path = tmp_path / KINDS[kind][0]
    write_text(path, kind, SIZE)
    with pytest.raises(InputError):
        draft_recording([path])
