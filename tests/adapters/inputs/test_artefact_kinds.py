"""What holds for every kind of artefact: it is told from all others, bounded, and damaged files give clear errors."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from skewscope.adapters.inputs.recording import input_readers
from skewscope.kb.exporter_settings import load_settings
from skewscope.kb.problems import InputError
from tests.support.artefacts import ARTEFACTS

DOCS = Path(__file__).resolve().parents[3] / "docs"
NAMES = {"ethtool-statistics": "n0-eth0.txt"}
WITH_EPOCHS = {"influx-lines", "prometheus-json"}
"""Kinds whose times are counts since 1970."""
EVERY = pytest.mark.parametrize("kind", ARTEFACTS)


def read(kind, data, **labels):
    data = data.encode() if isinstance(data, str) else data
    name = NAMES.get(kind, "file.log")
    return input_readers()[kind].read_series(io.BytesIO(data), name, labels)


@EVERY
def test_a_file_is_recognised_as_its_kind_and_as_no_other(kind):
    head = ARTEFACTS[kind].encode()
    found = [k for k, reader in input_readers().items() if reader.recognise(head, "f") and not reader.is_last]
    assert found == [kind]


def test_readers_name_exporters_whose_settings_are_known():
    named = {reader.exporter for reader in input_readers().values()} - {""}
    assert {"vllm", "sglang", "dcgm"} <= named <= {setting.exporter for setting in load_settings()}


@EVERY
def test_a_page_of_each_kind_shows_its_command_and_its_answer(kind):
    page = (DOCS / "artefacts" / f"{kind}.md").read_text()
    assert f"{{kind: {kind}, " in page
    assert "    skewscope diagnose " in page
    assert "diagnos" in page.partition("```\n")[2] or "symptom" in page.partition("```\n")[2]
    assert f"(artefacts/{kind}.md)" in (DOCS / "recordings.md").read_text()


@EVERY
def test_a_file_of_another_kind_is_refused_with_what_is_expected(kind):
    for other, text in ARTEFACTS.items():
        if other == kind:
            continue
        with pytest.raises(InputError, match=r"found .*, expected "):
            read(kind, text)


@EVERY
@pytest.mark.parametrize("data", [b"", b"\n\n", b"\x00" * 100, b"\xff\xfe" * 50, b"x" * 300_000])
def test_an_empty_or_binary_file_is_refused_and_not_recognised(kind, data):
    with pytest.raises(InputError, match=re.escape(NAMES.get(kind, "file.log"))):
        read(kind, data)
    assert not input_readers()[kind].recognise(data, "file.log")


@EVERY
def test_a_file_that_is_cut_anywhere_gives_samples_or_a_clear_error(kind):
    whole = ARTEFACTS[kind].encode()
    for end in range(0, len(whole), max(len(whole) // 60, 1)):
        with contextlib.suppress(InputError):
            assert read(kind, whole[:end])


@EVERY
def test_lines_end_in_any_way_and_may_be_coloured(kind):
    text = ARTEFACTS[kind]
    plain = [(one.metric, one.labels, one.times.tolist(), one.values.tolist()) for one in read(kind, text)]
    other = text.replace("\n", "\r\n") if kind != "infiniband-counters" else text.replace("\n", "\x1b[0m\n")
    assert [(one.metric, one.labels, one.times.tolist(), one.values.tolist()) for one in read(kind, other)] == plain


@pytest.mark.parametrize("kind", sorted(ARTEFACTS.keys() - WITH_EPOCHS))
def test_a_label_that_is_no_offset_from_utc_is_an_error(kind):
    with pytest.raises(InputError, match="utc_offset"):
        read(kind, ARTEFACTS[kind], utc_offset="nine hours")
