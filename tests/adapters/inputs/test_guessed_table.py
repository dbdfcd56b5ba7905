"""Printed tables of unknown tools are read by the names and units of their columns."""

import pytest

from skewscope.adapters.formats.stray_text import clean_text
from skewscope.adapters.inputs.guessed_format import guess_format, render_format
from skewscope.kb.line_reading import LineReader
from skewscope.kb.loader import catalogue

TABLES = {
    "ports, words that stick together": (
        """
Port               Mode Oper(VL bmap)  RxPPP      TxPPP
============================================================
Ethernet1/1        Auto On  (8)        0          12
Ethernet1/2        On   On  (8)        120331     18
""",
        {("port.rx_global_pause", "Ethernet1/2"): 120331, ("port.tx_global_pause", "Ethernet1/1"): 12},
    ),
    "a drawn frame, shares with a sign": (
        """
┏━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┓
┃ Chip   ┃ HBM usage                ┃ Duty cycle ┃
┡━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━┩
│ 0      │ 28.45 GiB / 31.25 GiB    │     97.60% │
│ 1      │ 28.40 GiB / 31.25 GiB    │      0.00% │
└────────┴──────────────────────────┴────────────┘
""",
        {("gpu.util", "0"): 97.6, ("gpu.util", "1"): 0},
    ),
    "separators, units in brackets, dashes for no value": (
        """
Host | Running | Waiting | Note
-----|---------|---------|-----
n0   | 12      | 480     | -
n1   | 3       | 0       | -
""",
        {},
    ),
    "engines": (
        """
Replica    Running requests   Waiting requests
chat-0                   48                212
chat-1                   12                  0
""",
        {("serve.running", "chat-1"): 12, ("serve.waiting", "chat-0"): 212},
    ),
}
NONE = {
    "one row": "Port  RxErrors  TxErrors\nEt1   0         0\n",
    "no place": "Name  Power (W)  Temp (C)\nx     12         40\ny     13         41\n",
    "words that are not known": "Port  RxErrorsOfSorts  TxWishes\nEt1   0   0\nEt2   0   0\n",
    "words in place of numbers": "Port  RxErrors  TxErrors\nEt1   none-yet   x\nEt2   many   x\n",
}


def clean(text):
    return b"".join(clean_text(iter([text.lstrip("\n").encode()]), "table.txt")).decode().splitlines()


def read(text):
    lines = clean(text)
    guess = guess_format(lines)
    if guess is None:
        return None
    reader = LineReader(guess.format, catalogue().signals)
    place = ("device", "gpu", "instance", "node")
    return {
        (one.signal, next(one.labels[label] for label in place if label in one.labels)): pytest.approx(one.value)
        for line in lines
        for found in reader.read(line)
        for one in found.readings
    }


@pytest.mark.parametrize("name", TABLES)
def test_columns_are_taken_by_names_and_units(name):
    text, wanted = TABLES[name]
    found = read(text) or {}
    assert {key: found.get(key) for key in wanted} == wanted
    assert bool(found) == bool(wanted)


@pytest.mark.parametrize("name", NONE)
def test_other_tables_are_left_alone(name):
    assert read(NONE[name]) is None


def test_what_was_guessed_can_be_saved():
    guess = guess_format(clean(TABLES["engines"][0]))
    assert "table:" in render_format(guess)
    assert "Waiting requests = " in guess.what
