"""Tables of samples as text whose bytes are wrong."""

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

HEAD = b"time,signal,value,node\n"
ROW = b"1795341600,host.cpu_util,0.1,h1\n"


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([b"1795341600,host.cpu_util,0.1,h\xac\n"], 2),
        ([ROW, b"1795341600,host.cpu_util,0.1,h\xac,one too many\n"], 3),
        ([ROW] * 200_000 + [b"1795341600,host.cpu_util,0.1,h\xe2\x28\xa1\n"], 200_002),
        ([ROW, b"1795341600,host.cpu_util,0.1,h\xe2\x82"], 3),
    ],
    ids=["a cell", "a row with another error", "a later block", "the end"],
)
def test_bytes_that_are_no_text_are_reported_with_their_line(tmp_path, capfd, rows, line):
    (tmp_path / "a.csv").write_bytes(HEAD + b"".join(rows))
    with pytest.raises(InputError, match=rf"a\.csv:{line}: found bytes that are not UTF-8"):
        draft_recording([tmp_path / "a.csv"])
    assert capfd.readouterr() == ("", "")


def test_text_of_any_language_is_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(HEAD + ROW.replace(b"h1", "Knoten-ü€😀".encode()) * 3)
    draft = draft_recording([tmp_path / "a.csv"])
    assert [node.name for node in draft.recording.topology.nodes] == ["Knoten-ü€😀"]
    assert {*load(draft.recording, catalogue(), workers=1).block.value} == {0.1}


@pytest.mark.parametrize(
    "head",
    [
        "time,signal,v,node",
        "ts,value,v,node",
        "Time,signal,value,time",
        "time,Signal,value,signal",
        "time,signal,Value,value",
    ],
)
def test_a_label_with_the_name_of_another_column_is_an_error_of_the_header(tmp_path, head):
    (tmp_path / "a.csv").write_text(f"{head}\n1795341600,host.cpu_util,0.1,1795341600\n")
    with pytest.raises(InputError, match=r"a\.csv:1: found the columns"):
        draft_recording([tmp_path / "a.csv"])
